"""Variables, startup files, metadata and rights: each cause found, and its opposite left alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path

import pytest

from cuwheel.check.diagnose.verdict import Diagnosis
from tests.support.check.environments import Env, anchors, look_into, verdict_on

_DAMAGED = "diagnose-damaged-installation"
_SHADOWED = "diagnose-shadowed-module"
_USES_RANDOM = "import random\nrandom.Random\n"


def install_ext(env: Env, source: str = "", **wheel: object) -> None:
    library = env.extension("", "libcuda.so.1")
    files: dict[str, bytes | Path] = {"ext/__init__.py": source.encode(), "ext/libext.so": library}
    env.install("ext", files, **wheel)


def faults(env: Env, **variables: str) -> list[Diagnosis]:
    report = look_into(env, recipes=(), **variables)
    return [verdict for verdict in report.verdicts if verdict.level in {"warning", "broken"}]


def test_names_variable_that_stops_an_import(env: Env) -> None:
    install_ext(env, "import os\nif 'NUMBA_ODD' in os.environ: raise ValueError('odd')\n")

    [verdict] = faults(env, NUMBA_ODD="1", CUDA_HOME="")

    assert verdict.cause == "ValueError: odd; without NUMBA_ODD=1 it can be imported"
    assert verdict.command == "unset NUMBA_ODD"
    assert faults(env) == []


def test_blames_no_variable_for_another_failure(env: Env) -> None:
    install_ext(env, "raise ValueError('odd')\n")

    [verdict] = faults(env, LD_LIBRARY_PATH="/nowhere")

    assert (verdict.cause, verdict.command) == ("ValueError: odd", "")


def test_names_variable_with_which_python_does_not_start(env: Env) -> None:
    verdict = verdict_on(look_into(env, PYTHONHOME="/nowhere"), "diagnose-variable")

    assert "doesn't start with PYTHONHOME=/nowhere" in verdict.what
    assert verdict.command == "unset PYTHONHOME"


def test_examines_the_rest_without_variable_that_stops_all_programs(env: Env) -> None:
    hook = env.compile("libhook.so", "void gone(); void *use = (void *)gone;")

    found = faults(env, LD_PRELOAD=str(hook))

    assert [verdict.what for verdict in found] == [f"no program runs with LD_PRELOAD={hook}"]
    assert found[0].command == "unset LD_PRELOAD"


def test_names_library_to_preload_that_is_missing(env: Env) -> None:
    real = str(env.compile("libreal.so", ""))

    verdict = verdict_on(look_into(env, LD_PRELOAD=f"{real} /no/lib.so"), "diagnose-variable")

    assert verdict.what == "LD_PRELOAD names /no/lib.so, which isn't there"
    assert verdict.command == f"export LD_PRELOAD={real}"
    assert "diagnose-variable" not in anchors(look_into(env, LD_PRELOAD=real))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sitecustomize.py", "import os\nos._exit(3)\n"),
        ("bad.pth", "import os; os._exit(3)\n"),
    ],
)
def test_names_startup_file_that_ends_python(env: Env, name: str, content: str) -> None:
    (env.site / name).write_text(content)

    verdict = verdict_on(look_into(env), "diagnose-startup-file")

    assert str(env.site / name) in verdict.what
    assert "status 3" in verdict.cause


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "/dev/zero"])
def test_names_startup_file_without_end_at_once(kind: str, env: Env) -> None:
    file = env.site / "z.pth"
    target = env.folder / "fifo"
    os.mkfifo(file if kind == "fifo" else target)
    if kind != "fifo":
        file.symlink_to(kind if kind.startswith("/") else target)
    started = time.monotonic()

    verdict = verdict_on(look_into(env), "diagnose-startup-file")

    assert time.monotonic() - started < 12, "no trial has waited for its time limit"
    assert str(file) in verdict.what
    assert verdict.command == f"rm {file}"


def test_takes_no_harmless_file_for_an_endless_one(env: Env, tmp_path: Path) -> None:
    (env.site / "none.pth").symlink_to(os.devnull)
    (env.site / "gone.pth").symlink_to(tmp_path / "gone")
    (env.site / "folder.pth").mkdir()
    home = tmp_path / "home"  # of no environment
    site = home / ".local/lib" / env.site.parent.name / "site-packages"
    site.mkdir(parents=True)
    os.mkfifo(site / "z.pth")

    report = look_into(env, HOME=str(home))

    assert "diagnose-startup-file" not in anchors(report)


def test_names_users_startup_file_without_end(env: Env, tmp_path: Path) -> None:
    settings = env.python.parents[1] / "pyvenv.cfg"
    settings.write_text(settings.read_text().replace("= false", "= true"))
    site = tmp_path / "lib" / env.site.parent.name / "site-packages"
    site.mkdir(parents=True)
    os.mkfifo(site / "z.pth")

    verdict = verdict_on(look_into(env, PYTHONUSERBASE=str(tmp_path)), "diagnose-startup-file")

    assert str(site / "z.pth") in verdict.what


def test_names_users_file_that_hides_a_module_of_python(env: Env) -> None:
    install_ext(env, _USES_RANDOM)
    (env.folder / "random.py").write_text("x = 1\n")
    (env.folder / "antigravity.py").write_text("x = 1\n")  # nothing imports that module

    verdict = verdict_on(look_into(env), _SHADOWED)

    assert verdict.what.startswith(f"{env.folder / 'random.py'} hides Python's own module random")


def test_names_archive_that_hides_a_package(env: Env) -> None:
    install_ext(env)
    archive = env.folder / "tools.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("ext/__init__.py", "")

    verdict = verdict_on(look_into(env, PYTHONPATH=str(archive)), _SHADOWED)

    assert verdict.what == f"{archive / 'ext' / '__init__.py'} hides ext 1.2.3"
    assert verdict.command == "unset PYTHONPATH"


def test_names_file_that_puts_another_copy_first(env: Env) -> None:
    env.install("dep", {"dep/__init__.py": b""})
    install_ext(env, "import dep\n", requires=("dep",))
    other = env.folder / "other"
    shutil.copytree(env.site, other)
    (env.site / "team.pth").write_text(f"import sys; sys.path.insert(0, {str(other)!r})\n")

    fixes = {verdict.fix for verdict in faults(env) if verdict.what == "dep is installed twice"}

    assert fixes == {f"remove the line with {other} from {env.site / 'team.pth'}"}


def test_accepts_second_copy_that_comes_after(env: Env) -> None:
    env.install("dep", {"dep/__init__.py": b""})
    install_ext(env, "import dep\n", requires=("dep",))
    shutil.copytree(env.site / "dep", env.folder / "other" / "dep")
    shutil.copytree(env.site / "dep-1.2.3.dist-info", env.folder / "other" / "dep-1.2.3.dist-info")
    (env.site / "team.pth").write_text(f"{env.folder / 'other'}\n")

    assert faults(env) == []


def test_removes_metadata_that_the_files_contradict(env: Env) -> None:
    install_ext(env)
    stale = env.site / "ext-0.9.dist-info"
    shutil.copytree(env.site / "ext-1.2.3.dist-info", stale)
    (stale / "METADATA").write_text("Metadata-Version: 2.4\nName: ext\nVersion: 0.9\n")
    (stale / "RECORD").write_text("ext/__init__.py,,99\n")

    verdict = verdict_on(look_into(env), _DAMAGED)

    assert "1.2.3 and 0.9" in verdict.what
    env.shell(verdict.command)
    assert faults(env) == []


def test_restores_unreadable_metadata(env: Env) -> None:
    install_ext(env)
    env.offer("ext", {"ext/__init__.py": b""})
    (env.site / "ext-1.2.3.dist-info" / "METADATA").unlink()

    verdict = verdict_on(look_into(env), _DAMAGED)

    env.shell(verdict.command)
    assert faults(env) == []


@pytest.mark.parametrize(("installer", "count"), [("uv", 1), ("conda", 0), ("debian", 0)])
def test_names_lost_record_but_none_that_never_was(env: Env, installer: str, count: int) -> None:
    install_ext(env)
    metadata = env.site / "ext-1.2.3.dist-info"
    (metadata / "INSTALLER").write_text(installer)
    (metadata / "RECORD").unlink()
    (metadata / "top_level.txt").write_text("ext\n")

    assert ["no RECORD" in verdict.what for verdict in faults(env)] == [True] * count


@pytest.mark.parametrize("is_there", [True, False])
def test_names_lost_folder_of_editable_project(env: Env, *, is_there: bool) -> None:
    install_ext(env)
    folder = env.folder / "project"
    if is_there:
        folder.mkdir()
    origin = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    (env.site / "ext-1.2.3.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    found = faults(env)

    assert [verdict.cause for verdict in found] == (
        [] if is_there else [f"it is editable, and {folder} doesn't exist"]
    )
    assert not any(verdict.command for verdict in found)


def test_names_interpreter_without_execute_permission(env: Env) -> None:
    for path in env.python.parent.glob("python*"):
        path.unlink()
        shutil.copy(os.path.realpath(sys.executable), path)
        path.chmod(0o644)

    verdict = verdict_on(look_into(env), "python-not-found")

    assert "can't be executed" in verdict.cause
    assert verdict.fix.startswith("chmod +x ")


def test_writes_into_no_other_python_without_configuration(env: Env) -> None:
    install_ext(env)
    (env.folder / "venv" / "pyvenv.cfg").unlink()

    report = look_into(env, "ext")

    verdict = verdict_on(report, "python-not-found")
    assert "isn't an environment any more" in verdict.what
    assert {one.command for one in report.verdicts} == {""}


@pytest.mark.parametrize(("copies_own", "count"), [(False, 1), (True, 0)])
def test_names_packages_of_another_release(env: Env, count: int, *, copies_own: bool) -> None:
    install_ext(env)
    old = env.site.parents[1] / "python3.99" / "site-packages"
    shutil.copytree(env.site, old)
    if not copies_own:
        for path in env.site.glob("ext*"):
            shutil.rmtree(path)

    found = [verdict for verdict in faults(env) if "doesn't see" in verdict.what]

    assert len(found) == count


def test_goes_on_past_links_in_a_circle(env: Env) -> None:
    install_ext(env)
    library = env.site / "ext" / "libext.so"
    library.unlink()
    library.symlink_to(library.name)

    verdict = verdict_on(look_into(env), _DAMAGED)

    assert "Too many levels of symbolic links" in verdict.cause


def test_names_wheel_for_another_machine(env: Env) -> None:
    env.install("dep", {"dep/__init__.py": b""}, tag="cp311-cp311-manylinux_2_28_riscv64")
    install_ext(env, requires=("dep",))

    verdict = verdict_on(look_into(env), _DAMAGED)

    assert verdict.what.startswith("dep 1.2.3 is built for another machine")
    assert verdict.command.endswith(" --force-reinstall --no-deps dep==1.2.3")


@pytest.mark.parametrize(
    ("limit", "origin", "end"),
    [
        ("numpy>=1.22", {}, "'numpy<2'"),
        ("numpy>=2", {}, "'dep>1.2.3'"),
        ("numpy>=1.22", {"url": "file:///own", "dir_info": {}}, ""),
    ],
)
def test_fixes_extension_for_numpy_1(
    env: Env, limit: str, origin: dict[str, object], end: str
) -> None:
    """By the last NumPy 1 if all take it, else by a newer release, and never a user's project."""
    env.install("numpy", {"numpy/__init__.py": b""}, version="2.0.2")
    old = {"dep/__init__.py": b"", "dep/part.so": b"numpy.core._multiarray_umath"}
    env.install("dep", old, requires=("numpy",))
    (env.site / "dep-1.2.3.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    install_ext(env, requires=("dep", limit))

    verdict = verdict_on(look_into(env), "numpy-abi-mismatch")

    assert verdict.what == "dep 1.2.3 is built for NumPy 1, and 2.0.2 is installed"
    assert verdict.command.partition(" install --python ")[2].partition(" ")[2] == end


def test_takes_metadata_that_list_themselves(env: Env) -> None:
    """A copy lists the files of the folder that it was made from."""
    install_ext(env)
    shutil.copytree(env.site / "ext-1.2.3.dist-info", env.site / "ext-0.9.dist-info")
    metadata = env.site / "ext-0.9.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.4\nName: ext\nVersion: 0.9\n")

    verdict = verdict_on(look_into(env), _DAMAGED)

    assert verdict.command == f"rm -r {metadata.parent}"
