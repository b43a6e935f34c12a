from __future__ import annotations

import base64
import io
import os
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, LockError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.environments.uv import forget, install, make_environment, resolve
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import make_workspace, noise, write_wheel
from tests.support.requirements import require
from tests.support.secrets import arguments_with
from tests.support.servers.http import Site, serving, slow_server
from tests.support.servers.mirrors import mirror_wheels


def add_wheel(dist: Path, name: str, *requires: str, python: str = "") -> Path:
    # Requires-Python is a header line like any other.
    lines = (*requires, *([f"{name}\nRequires-Python: {python}"] if python else []))
    files = {f"{name}.py": b""}
    return write_wheel(dist, files, name=name, version="1.0", tag="py3-none-any", requires=lines)


def pin(*wheels: Path) -> str:
    """Lines of a lock for these wheels."""
    names = (wheel.name.split("-")[0] for wheel in wheels)
    pairs = zip(names, wheels, strict=True)
    return "".join(f"{name}==1.0 --hash=sha256:{sha256_of_file(path)}\n" for name, path in pairs)


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of our own, which takes the place of the configured one; with one wheel, `toy`."""
    folder = tmp_path / "index"
    add_wheel(folder, "toy")
    monkeypatch.setenv("UV_DEFAULT_INDEX", write_index(folder).as_uri())
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


UNKNOWN = f"toy==1.0 --hash=sha256:{'0' * 64}\n"  # a lock of no file that exists


def make_venv(workspace: Workspace, name: str = "env", base: Path = Path(sys.executable)) -> Path:
    """Make an environment, and return its Python."""
    folder = workspace.work / name
    make_environment(folder, base, workspace, log=workspace.log("test"))
    return folder / "bin" / "python"


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An environment that locks are installed into."""

    workspace: Workspace
    python: Path

    def put(self, text: str, *, only: str = "", offline: bool = False, fix: str = "") -> None:
        """Install a lock with this text, or what is `only` required."""
        folder = self.workspace.folder("locks")
        (folder / "test.lock").write_text(text)
        (folder / "only.txt").write_text(only)
        install(
            self.python,
            folder / "test.lock",
            self.workspace,
            offline=offline,
            log=self.workspace.log("test"),
            only=folder / "only.txt" if only else None,
            unlocked_fix=fix,
        )

    def installed(self) -> set[str]:
        packages = self.python.parent.parent.glob("lib/python*/site-packages/*.dist-info")
        return {path.name.split("-")[0] for path in packages}


@pytest.fixture
def env(workspace: Workspace) -> Environment:
    return Environment(workspace=workspace, python=make_venv(workspace))


def test_makes_environment_without_pip(env: Environment) -> None:
    answer = process.run([env.python, "-I", "-m", "pip"], env={}, check=False)

    assert "No module named pip" in answer.output


def test_names_python_that_is_missing(workspace: Workspace) -> None:
    with pytest.raises(InstallError) as caught:
        make_venv(workspace, base=Path("/no/python"))

    assert "/no/python" in caught.value.why
    assert "--python" in caught.value.fix


def test_installs_locked_wheel(env: Environment, dist: Path) -> None:
    env.put(pin(*dist.glob("*.whl")))

    assert env.installed() == {"toy"}


@pytest.mark.e2e
def test_ends_uv_where_the_index_sends_a_byte_now_and_then(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_SLOW_NETWORK", "0.02")
    with slow_server(0.05) as address:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
        with pytest.raises(InstallError) as caught:
            env.put(UNKNOWN)

    assert caught.value.why == "uv was terminated: less than 368640 bytes came in 2 seconds"
    assert "CUWHEEL_SLOW_NETWORK=4" in caught.value.fix


def test_refuses_file_with_another_hash(env: Environment, dist: Path) -> None:
    assert dist.is_dir()

    with pytest.raises(InstallError) as caught:
        env.put(UNKNOWN)

    assert "Hash mismatch for `toy==1.0`" in caught.value.why
    assert "differs from the locked one: find out why" in caught.value.fix


def test_refuses_lock_without_hashes(env: Environment, dist: Path) -> None:
    assert dist.is_dir()

    with pytest.raises(LockError, match=r"test\.lock is not a valid lock") as caught:
        env.put("toy==1.0\n")

    assert "nox -s lock" in caught.value.fix


def test_keeps_hashes_whatever_the_caller_has_set(
    env: Environment, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dist.is_dir()
    monkeypatch.setenv("UV_NO_VERIFY_HASHES", "1")

    with pytest.raises(InstallError, match="could not be installed"):
        env.put(UNKNOWN)


def test_ignores_settings_of_the_folder_it_runs_in(
    env: Environment, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dist / "uv.toml").write_text("this is no TOML")
    monkeypatch.chdir(dist)

    env.put(pin(*dist.glob("*.whl")))

    assert env.installed() == {"toy"}


def test_installs_only_what_is_required(env: Environment, dist: Path) -> None:
    wheels = [add_wheel(dist, "wanted", "needed"), add_wheel(dist, "needed"), *dist.glob("toy*whl")]
    write_index(dist)

    env.put(pin(*wheels), only=pin(wheels[0]))

    assert env.installed() == {"wanted", "needed"}


def test_checks_the_hash_of_what_is_required(env: Environment, dist: Path) -> None:
    wanted = add_wheel(dist, "wanted", "toy")
    write_index(dist)

    with pytest.raises(InstallError, match="could not be installed") as caught:
        env.put(UNKNOWN, only=pin(wanted))

    assert "Hash mismatch for `toy==1.0`" in caught.value.why


def test_shows_the_callers_fix_for_what_is_not_locked(env: Environment, dist: Path) -> None:
    wanted = add_wheel(dist, "wanted", "toy")
    write_index(dist)

    with pytest.raises(InstallError) as caught:
        env.put(pin(wanted), fix="add it here")

    assert "`toy`" in caught.value.why
    assert caught.value.fix.startswith("add it here")


def test_reports_that_the_cache_is_empty(env: Environment) -> None:
    with pytest.raises(InstallError) as caught:
        env.put(UNKNOWN, offline=True)

    assert "without --offline" in caught.value.fix


def test_installs_from_the_cache(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    text = resolve_line(env.workspace, "six", "2026-01-01T00:00:00Z")
    env.put(text)
    other = replace(env, python=make_venv(env.workspace, "other"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    other.put(text, offline=True)

    assert other.installed() == {"six"}


def resolve_line(workspace: Workspace, line: str, before: str = "2024-01-01T00:00:00Z") -> str:
    source = workspace.folder("locks") / "small.in"
    source.write_text(f"{line}\n")
    return resolve(source, workspace, python="3.10", uploaded_before=before)


def test_names_index_that_is_out_of_reach(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    with pytest.raises(InstallError) as caught:
        env.put(UNKNOWN)

    assert "http://127.0.0.1:9/simple/toy/" in caught.value.why
    assert "UV_DEFAULT_INDEX" in caught.value.fix


def test_reports_that_this_python_is_too_old(env: Environment, dist: Path) -> None:
    wheel = add_wheel(dist, "modern", python=">=3.99")
    write_index(dist)

    with pytest.raises(InstallError) as caught:
        env.put(pin(wheel))

    assert "does not satisfy Python>=3.99" in caught.value.why
    assert "--python" in caught.value.fix


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with one wheel, `toy`, while the configured index is out of reach."""
    folder = tmp_path / "mirror"
    add_wheel(tmp_path / "wheels", "toy")
    mirror_wheels(tmp_path / "wheels", folder)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_INDEX", "http://127.0.0.1:9/more")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("CUWHEEL_MIRROR", folder.as_uri())
    return folder


@pytest.mark.parametrize("offline", [True, False])
def test_installs_from_mirror(env: Environment, mirror: Path, *, offline: bool) -> None:
    env.put(pin(*mirror.glob("downloads/*/*.whl")), offline=offline)

    assert env.installed() == {"toy"}


def test_password_of_mirror_is_in_no_arguments_and_no_log(
    env: Environment, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(files=mirror_files(mirror, "/a,b"))
    site.password = "Basic " + base64.b64encode(b"me:geheim").decode()

    with serving(site), arguments_with("geheim") as seen:
        monkeypatch.setenv("CUWHEEL_MIRROR", site.url("/a,b", login="me:geheim@"))
        env.put(pin(*mirror.glob("downloads/*/*.whl")))

    assert env.installed() == {"toy"}
    assert seen == set()
    assert "geheim" not in env.workspace.log("test").read_text()


def test_installs_from_served_mirror(
    env: Environment, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Site(files=mirror_files(mirror, ""))) as site:
        monkeypatch.setenv("CUWHEEL_MIRROR", site.url(""))
        env.put(pin(*mirror.glob("downloads/*/*.whl")))

    assert env.installed() == {"toy"}


def mirror_files(mirror: Path, prefix: str) -> dict[str, bytes]:
    files = [path for path in mirror.rglob("*") if path.is_file()]
    return {f"{prefix}/{path.relative_to(mirror)}": path.read_bytes() for path in files}


def test_reports_that_mirror_lacks_package(env: Environment, mirror: Path) -> None:
    assert mirror.is_dir()

    with pytest.raises(InstallError) as caught:
        env.put(f"other==1.0 --hash=sha256:{'0' * 64}\n", offline=True)

    assert "nox -s mirror" in caught.value.fix


@pytest.fixture
def sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source distribution with a setup.py that writes a file `ran`."""
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "links"))
    (tmp_path / "links").mkdir()
    path = tmp_path / "links" / "crude-1.0.tar.gz"
    script = f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom setuptools import setup\nsetup()\n"
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("crude-1.0/setup.py")
        entry.size = len(script)
        archive.addfile(entry, io.BytesIO(script.encode()))
    return path


def test_never_runs_a_source_distribution(env: Environment, dist: Path, sdist: Path) -> None:
    assert dist.is_dir()

    with pytest.raises(InstallError, match="could not be installed"):
        env.put(pin(sdist))

    assert not (sdist.parent.parent / "ran").exists()


def test_installs_into_a_folder(workspace: Workspace, dist: Path, tmp_path: Path) -> None:
    lock, log = workspace.folder("locks") / "test.lock", workspace.log("test")
    lock.write_text(pin(*dist.glob("*.whl")))

    install(Path(sys.executable), lock, workspace, offline=False, log=log, into=tmp_path / "home")

    assert {path.name for path in (tmp_path / "home").iterdir()} == {"toy.py", "toy-1.0.dist-info"}


def test_forgets_what_is_in_the_cache(env: Environment, dist: Path) -> None:
    env.put(pin(*dist.glob("*.whl")))
    cached = list(env.workspace.cache.rglob("toy.py"))

    forget(["toy"], env.workspace)

    assert cached
    assert not list(env.workspace.cache.rglob("toy.py"))


_INSTALL = """
import pathlib, sys
from cuwheel.base import caller, errors
from cuwheel.build.environments import uv
from cuwheel.base.system import console
from cuwheel.build.workspace import workspace
home, lock, cache, log = map(pathlib.Path, sys.argv[1:])
own = caller.read_caller()
folders = {'cache': cache, 'work': home, 'dist': home}
place = workspace.Workspace(**folders, console=console.Console(), caller=own)
try:
    uv.install(pathlib.Path(sys.executable), lock, place, offline=False, log=log, into=home)
except errors.DiskFullError as error:
    print(error.what)
"""


def test_names_disk_that_is_full(workspace: Workspace, dist: Path, tmp_path: Path) -> None:
    require("namespaces", "the error of an installation on a full disk")
    files = {f"big/{number}.py": noise(1 << 16, number) for number in range(4)}
    big = write_wheel(dist, files, name="big", version="1.0", tag="py3-none-any")
    write_index(dist)
    lock, small = workspace.folder("locks") / "test.lock", tmp_path / "small"
    lock.write_text(pin(big))
    small.mkdir()

    script = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    spaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(small)]
    arguments = [
        str(path) for path in (small / "home", lock, workspace.cache, workspace.log("test"))
    ]
    done = process.run(
        [*spaces, sys.executable, "-c", _INSTALL, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.status == 0, done.output
    assert done.output.startswith(f"no space left on the disk of {small}")


def test_resolves_with_hashes_and_cooldown(workspace: Workspace) -> None:
    # 2.0.0 came out on 2023-01-07 and was the newest for two years.
    text = resolve_line(workspace, "iniconfig")

    assert text.startswith("iniconfig==2.0.0 \\\n    --hash=sha256:")


def test_names_neither_index_nor_path_in_a_lock(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = workspace.folder("locks") / "uv.toml"
    settings.write_text("[pip]\nemit-index-url = true\nemit-find-links = true\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings))

    assert "/" not in resolve_line(workspace, "iniconfig")


def test_reports_what_cannot_be_resolved(workspace: Workspace) -> None:
    with pytest.raises(InstallError, match=r"small\.in could not be resolved") as caught:
        resolve_line(workspace, "iniconfig>99")

    assert "iniconfig>99" in caught.value.why


def test_reports_that_uv_is_missing(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InstallError, match="uv is missing") as caught:
        forget(["toy"], workspace)

    assert "by nox" in caught.value.fix
