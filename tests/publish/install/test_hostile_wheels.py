"""Wheels, requirements and settings that mean harm, brought to a real environment."""

from __future__ import annotations

import functools
import io
import json
import multiprocessing
import os
import shlex
import shutil
import signal
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import CuwheelError, InstallError, PolicyError, SmokeError
from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.check.pick.machine import read_here
from cuwheel.publish.install import transaction
from tests.support.factories import write_wheel
from tests.support.publish.installations import (
    GOOD,
    Installing,
    offer,
    plant,
    site_of,
    versions,
    wheel_site,
)
from tests.support.publish.statements import make_keys, signed, write_policy
from tests.support.servers.http import Site, serving

KILLER = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"


def whole_state(environment: Path) -> dict[str, bytes | str]:
    """All that an environment has but byte code and uv's lock."""
    return {
        str(path.relative_to(environment)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else ""
        for path in environment.rglob("*")
        if "__pycache__" not in path.parts and path.name != ".lock"
    }


def sdist(path: Path, marker: Path) -> Path:
    """A source with a setup.py that leaves a mark."""
    script = f"open({str(marker)!r}, 'w').close()\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("x-1.0/setup.py")
        entry.size = len(script)
        archive.addfile(entry, io.BytesIO(script))
    return path


def test_failure_leaves_other_packages_as_they_were(installing: Installing) -> None:
    plant(installing.environment, "packaging", {"packaging/__init__.py": b"VERSION = 1\n"})
    files: dict[str, bytes | Path] = {
        "toy.py": b"",
        "packaging/__init__.py": b"raise SystemExit\n",
        "toy-1.0+cu130.data/data/pyvenv.cfg": b"home = /nowhere\n",
    }
    write_wheel(installing.dist, files, name="toy", version="1.0+cu130", tag="py3-none-any")
    before = whole_state(installing.environment)

    with pytest.raises(InstallError, match="without changing other files"):
        installing.run()

    assert whole_state(installing.environment) == before


def test_requirement_may_not_overwrite_either(installing: Installing) -> None:
    plant(installing.environment, "packaging", {"packaging/__init__.py": b"VERSION = 1\n"})
    files: dict[str, bytes | Path] = {"packaging/__init__.py": b"raise SystemExit\n"}
    write_wheel(installing.folder / "links", files, name="other", version="1.0", tag="py3-none-any")
    offer(installing.dist, requires=("other==1.0",))
    before = whole_state(installing.environment)

    with pytest.raises(InstallError, match="without changing other files"):
        installing.run()

    assert whole_state(installing.environment) == before


@pytest.mark.e2e
def test_shares_namespace_and_leaves_it_when_one_goes(installing: Installing) -> None:
    plant(installing.environment, "other", {"nvidia/__init__.py": b""})
    toy: dict[str, bytes | Path] = {"toy.py": GOOD.format(version="1").encode()}
    shared: dict[str, bytes | Path] = {**toy, "nvidia/__init__.py": b"", "nvidia/toy.py": b""}
    for version, files in (("1.0+cu130", shared), ("2.0+cu130", toy)):
        write_wheel(installing.dist, files, name="toy", version=version, tag="py3-none-any")
        installing.run()

    assert (site_of(installing.environment) / "nvidia" / "__init__.py").read_bytes() == b""
    assert not (site_of(installing.environment) / "nvidia" / "toy.py").exists()


def test_puts_back_what_the_package_itself_changed(installing: Installing) -> None:
    site = site_of(installing.environment)
    (site / "own.pth").write_text("# a person's\n")
    code = f"open({str(site / 'evil.pth')!r}, 'w').close()\nopen({str(site / 'own.pth')!r}, 'w')\n"
    before = whole_state(installing.environment)
    offer(installing.dist, content=f"{code}raise ImportError('broken')\n")

    with pytest.raises(SmokeError, match="doesn't work"):
        installing.run(sandbox="none")

    assert whole_state(installing.environment) == before


def test_package_changes_no_files_while_it_is_tried(installing: Installing) -> None:
    plant(installing.environment, "packaging", {"packaging/__init__.py": b"VERSION = 1\n"})
    site = site_of(installing.environment)
    victims = (site / "packaging" / "__init__.py", site / "evil.pth", installing.folder / "home")
    lines = (f"    try: open({str(path)!r}, 'w').close()" for path in victims)
    attack = "\n".join(f"{line}\n    except OSError: pass" for line in lines)
    offer(installing.dist, content=f"{GOOD}if True:\n{attack}\n")
    before = whole_state(installing.environment)

    installing.run()

    after = whole_state(installing.environment)
    assert {name: after.get(name) for name in before} == before
    assert not any(path.exists() for path in victims[1:])


def test_admits_what_could_not_be_put_back(installing: Installing) -> None:
    plant(installing.environment, "packaging", {"packaging/__init__.py": b"VERSION = 1\n"})
    victim = site_of(installing.environment) / "packaging" / "__init__.py"
    offer(installing.dist, content=f"open({str(victim)!r}, 'w').close()\nraise ImportError\n")

    with pytest.raises(InstallError, match="could not be restored completely") as caught:
        installing.run(sandbox="none")

    assert str(victim) in caught.value.why


def test_leaves_no_journal_where_it_could_not_begin(installing: Installing) -> None:
    environment = read_here(
        str(installing.environment), installing.environ(), Path("/")
    ).environment
    pipe = site_of(installing.environment) / "pipe"
    os.mkfifo(pipe)

    with (
        pytest.raises(shutil.SpecialFileError),
        transaction.changing(environment, planned=[pipe], replaced=()),
    ):
        pass

    assert not environment.journal.exists()


def kill_in_the_middle(installing: Installing) -> None:
    """Let a wheel kill the process that tries it."""
    offer(installing.dist, "2.0+cu130", KILLER)
    run = functools.partial(installing.run, sandbox="none")
    killed = multiprocessing.get_context("fork").Process(target=run)
    killed.start()
    killed.join()
    assert killed.exitcode == -9
    assert versions(installing.environment) == ["2.0+cu130"]


def undo(installing: Installing) -> None:
    """Begin an installation for which there is no wheel."""
    with pytest.raises(CuwheelError):
        installing.run(addresses=((installing.folder / "links").as_uri(),))


@pytest.mark.parametrize("had", [True, False])
def test_next_run_undoes_one_that_was_killed(had: bool, installing: Installing) -> None:  # noqa: FBT001
    if had:
        offer(installing.dist, "1.0+cu130")
        installing.run()
    before = whole_state(installing.environment)
    kill_in_the_middle(installing)

    undo(installing)

    assert whole_state(installing.environment) == before


def _run_until_written(installing: Installing) -> None:
    """Die as soon as uv has written one of the package's files."""
    site = site_of(installing.environment)

    def kill() -> None:
        while not any(site.glob("toy_data/2*")):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    installing.run()


@pytest.mark.e2e
def test_undoes_a_run_that_was_killed_while_uv_wrote(installing: Installing) -> None:
    data: dict[str, bytes | Path]
    for version in ("1", "2"):
        data = {f"toy_data/{version}{number}": b"x" for number in range(300)}
        code = GOOD.format(version=version).encode()
        write_wheel(
            installing.dist,
            {"toy.py": code, **data},
            name="toy",
            version=f"{version}.0+cu130",
            tag="py3-none-any",
        )
        if version == "1":
            installing.run()
    before = whole_state(installing.environment)
    killed = multiprocessing.get_context("fork").Process(
        target=_run_until_written, args=(installing,)
    )
    killed.start()
    killed.join()
    assert killed.exitcode == -9
    assert whole_state(installing.environment) != before

    undo(installing)

    assert whole_state(installing.environment) == before


def test_undoes_a_killed_run_of_a_package_imported_later(
    installing: Installing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import adds `__pycache__` to the package's folder, and changes its time."""
    monkeypatch.setattr(transaction, "_LONGEST", 0.0)
    before = whole_state(installing.environment)
    kill_in_the_middle(installing)
    journal = installing.environment / ".cuwheel-install" / "journal.json"
    later = max(
        path.lstat().st_ctime for path in installing.environment.rglob("*") if path.is_file()
    )
    os.utime(journal, (later, later))
    dist_info = site_of(installing.environment) / "toy-2.0+cu130.dist-info"
    (dist_info / "__pycache__").mkdir()
    (dist_info / ".tmpOT1gbl").touch()  # of a uv that was killed while it wrote a file

    undo(installing)

    assert whole_state(installing.environment) == before


def test_reports_show_that_an_installation_was_interrupted(installing: Installing) -> None:
    kill_in_the_middle(installing)

    here = read_here(str(installing.environment), installing.environ(), installing.folder)

    assert here.installer.obstacle is not None
    assert f"install -- TARGET --python {installing.environment}" in here.installer.obstacle.fix
    assert here.installer.install("other") == ""


@pytest.mark.parametrize("name", ["new", "saved"])
def test_follows_no_journal_that_leads_elsewhere(name: str, installing: Installing) -> None:
    precious = installing.folder / "precious"
    precious.write_text("mine")
    folder = installing.environment / ".cuwheel-install"
    folder.mkdir()
    (folder / "evil").write_text("evil")
    forged: dict[str, Any] = {"new": [str(precious)], "saved": {}}
    if name == "saved":
        forged = {"new": [], "saved": {str(precious): str(folder / "evil")}}
    (folder / "journal.json").write_text(json.dumps(forged))
    offer(installing.dist)

    with pytest.raises(InstallError, match="no record of an installation") as caught:
        installing.run()

    assert precious.read_text() == "mine"
    command = caught.value.fix.split("`")[1]
    subprocess.run(shlex.split(command), check=True)
    installing.run()


def test_dry_run_names_what_would_be_refused(installing: Installing) -> None:
    files: dict[str, bytes | Path] = {"toy.py": b"", "toy.pth": b"import toy\n"}
    write_wheel(installing.dist, files, name="toy", version="1.0+cu130", tag="py3-none-any")

    with pytest.raises(InstallError, match=r"can't be installed") as caught:
        installing.run(is_dry=True)

    assert "toy.pth" in caught.value.why
    offer(installing.dist, "2.0+cu130", requires=("nowhere",))
    with pytest.raises(InstallError, match="nothing can be installed"):
        installing.run(is_dry=True)


@pytest.mark.parametrize("form", ["file", "git", "http"])
@pytest.mark.parametrize("is_deep", [False, True])
def test_follows_no_direct_reference(is_deep: bool, form: str, installing: Installing) -> None:  # noqa: FBT001
    marker = installing.folder / "ran"
    source = sdist(installing.folder / "x-1.0.tar.gz", marker)
    with serving(Site(files={"/x-1.0.tar.gz": source.read_bytes()})) as site:
        urls = {
            "file": source.as_uri(),
            "git": f"git+{source.parent.as_uri()}",
            "http": site.url("/x-1.0.tar.gz"),
        }
        direct = f"x @ {urls[form]}"
        if is_deep:
            links = installing.folder / "links"
            offer(links, "1.0", name="other", requires=(direct,), stated=None)
        offer(installing.dist, requires=("other==1.0" if is_deep else direct,))
        before = whole_state(installing.environment)

        with pytest.raises(InstallError):
            installing.run()

        assert site.asked == []
    assert not marker.exists()
    assert whole_state(installing.environment) == before


def test_policy_covers_what_a_wheel_requires(installing: Installing) -> None:
    keys = make_keys(installing.folder / "keys", "alice")
    policy = write_policy(installing.folder / "rebuilders.txt", 1, keys)
    needed = offer(installing.folder / "links", "1.0", name="other", stated=None)
    wheel = offer(installing.dist, requires=("other==1.0",))
    statement = signed(wheel, keys["alice"])
    (installing.dist / statement.name).write_bytes(statement.content)
    before = whole_state(installing.environment)

    with pytest.raises(PolicyError, match="other"):
        installing.run(policy=policy)

    assert whole_state(installing.environment) == before
    statement = signed(needed, keys["alice"])
    (installing.folder / "links" / statement.name).write_bytes(statement.content)
    installing.run(policy=policy)
    assert versions(installing.environment, "other") == ["1.0"]


@pytest.mark.e2e
def test_installs_again_what_was_edited(installing: Installing) -> None:
    offer(installing.dist)
    installing.run()
    module = site_of(installing.environment) / "toy.py"
    module.write_text(f"{module.read_text()}# edited\n")

    assert not installing.run().was_there

    assert "edited" not in module.read_text()


@pytest.mark.e2e
def test_takes_no_wheel_for_installed_by_its_record(installing: Installing) -> None:
    good = offer(installing.dist)
    installing.run()
    other = installing.folder / "other"
    evil = offer(other, content=f"{GOOD}SIGN = 'evil'\n")
    with zipfile.ZipFile(good) as archive:
        record = archive.read("toy-1.0+cu130.dist-info/RECORD")
    with zipfile.ZipFile(evil) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(evil, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, record if name.endswith("RECORD") else content)
    statement_of(evil).unlink()

    try:
        done = installing.run(addresses=(other.as_uri(),))
    except InstallError:
        return
    assert not done.was_there


def test_callers_settings_change_nothing(installing: Installing, tmp_path: Path) -> None:
    offer(installing.folder / "links", "1.0", name="other", stated=None)
    offer(installing.dist, requires=("other==1.0",))
    elsewhere = tmp_path / "elsewhere"
    config = tmp_path / ".config"
    (config / "uv").mkdir(parents=True)
    (config / "uv" / "uv.toml").write_text(
        f'no-build = false\n[pip]\ntarget = "{elsewhere}"\nno-deps = true\n'
        f'find-links = ["../../links"]\n'
    )
    (config / "pip").mkdir()
    (config / "pip" / "pip.conf").write_text(f"[install]\ntarget = {elsewhere}\nuser = true\n")
    hostile = dict.fromkeys(
        f"{tool}_{name}"
        for tool in ("PIP", "UV")
        for name in ("TARGET", "PREFIX", "ROOT", "CONSTRAINT", "REQUIRE_HASHES", "PYTHON")
    )
    hostile = dict.fromkeys(hostile, str(elsewhere))
    switches = ("PIP_DRY_RUN", "PIP_USER", "PIP_NO_DEPS", "PIP_REQUIRE_VIRTUALENV", "UV_OFFLINE")
    places = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
    environ: dict[str, Any] = {
        **installing.environ(),
        **hostile,
        **dict.fromkeys(switches, "1"),
        **dict.fromkeys(places, str(elsewhere)),
    }
    for name in ("UV_NO_CONFIG", "UV_FIND_LINKS", "PIP_FIND_LINKS", "PIP_CONFIG_FILE"):
        environ.pop(name)

    installing.run(environ=environ)

    assert versions(installing.environment) == ["1.0+cu130"]
    assert versions(installing.environment, "other") == ["1.0"]
    assert not elsewhere.exists()


def test_passes_on_an_index_of_pips_with_its_password(installing: Installing) -> None:
    other = offer(installing.folder / "far", "1.0", name="other", stated=None)
    offer(installing.dist, requires=("other==1.0",))
    site = wheel_site(other, project="other")
    site.password = "Basic bWU6c2VjcmV0"
    environ = {name: value for name, value in installing.environ().items() if "INDEX" not in name}
    with serving(site):
        environ["PIP_INDEX_URL"] = site.url("/simple/", "me:secret@")

        installing.run(environ=environ)

    assert versions(installing.environment, "other") == ["1.0"]


def test_takes_no_file_of_this_machine_from_a_server(installing: Installing) -> None:
    other = offer(installing.folder / "far", "1.0", name="other", stated=None)
    offer(installing.dist, requires=("other==1.0",))
    page = f'<a href="{other.as_uri()}">{other.name}</a>'.encode()
    with serving(Site(files={"/simple/other/": page})) as site:
        environ = {**installing.environ(), "UV_INDEX_URL": site.url("/simple/")}

        with pytest.raises(InstallError):
            installing.run(environ=environ)

    assert versions(installing.environment, "other") == []


def test_leaves_no_temporary_folder_after_a_failure(
    installing: Installing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    offer(installing.dist, content="raise ImportError('broken')\n")

    with pytest.raises(SmokeError) as caught:
        installing.run()

    assert list(temporary.iterdir()) == []
    [log] = (tmp_path / "cache" / "logs").glob("install-*/smoke.log")
    assert str(log.parent) in caught.value.fix
