"""Whole builds of the tiny packages with the real nvcc, and what happens when they go wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import FileAccessError, SmokeError, UsageError
from cuwheel.base.paths import ROOT, script
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.base.system.parallel import Stop
from cuwheel.build.pipeline.pipeline import load_stage, prepare_stage
from cuwheel.build.pipeline.run_state import save_stage, start_run
from cuwheel.build.workspace.failure_record import read_failure, write_failure
from cuwheel.build.workspace.records import STAGES, SmokeResult, SourceTree
from tests.support.engine import PACKAGES, Engine, finish
from tests.support.factories import heard, make_job, make_target, make_workspace
from tests.support.requirements import require
from tests.support.toolchains.small_toolchain import copy_project

# Stages by how often a kill in them is tried; the others: at night.
_KILLED = {"build": [pytest.mark.e2e]}


_MARK = r"\.source\.h[0-9a-f]{12}"  # of a source given with --source


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            *("tiny-skbuild", r"py3-none-manylinux_2_\d+_x86_64\.whl"), marks=pytest.mark.e2e
        ),
        ("tiny-capi", r"cp3\d+-cp3\d+-manylinux_2_\d+_x86_64\.whl"),
    ],
)
def test_names_wheel_by_target(name: str, expected: str, built: Callable[[str], Engine]) -> None:
    [wheel] = built(name).wheels()

    project = name.replace("-", "_")
    assert re.fullmatch(rf"{project}-1\.0\.0\+cu130{_MARK}-{expected}", wheel.name)


@pytest.mark.usefixtures("whole_cuda_home")
def test_builds_what_links_other_libraries(engine: Engine) -> None:
    """tiny-rdc links cuBLAS, which only the whole toolchain has."""
    done = dataclasses.replace(engine, project=ROOT / "tests" / "project").build("tiny-rdc")

    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    assert wheel.name.startswith("tiny_rdc-1.0.0+cu130.source.h")


@pytest.mark.e2e
def test_folder_of_wheels_may_hold_a_compile_cache(engine: Engine) -> None:
    done = engine.build("tiny-capi", CUWHEEL_COMPILE_CACHE=str(engine.dist / "compiles"))

    assert done.status == 0, done.output
    assert len(engine.wheels()) == 1


def test_every_stage_is_a_module_of_its_own() -> None:
    modules = {path.stem for path in script("build/pipeline/stages").glob("*.py")} - {"__init__"}

    assert set(STAGES) == modules
    assert [load_stage(name).__name__ for name in STAGES] == list(STAGES)


def test_smoke_environment_is_made_before_the_wheel(built: Callable[[str], Engine]) -> None:
    [log] = built("tiny-capi").work.rglob("smoke.log")

    assert log.read_text().count("Creating virtual environment") == 1
    assert len(re.findall("^Resolved ", log.read_text(), re.MULTILINE)) == 2


def test_failed_preparation_is_silent(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)

    prepare_stage("smoke", make_job(make_target(), workspace), Stop())

    assert heard(workspace) == ""


@pytest.mark.e2e
def test_writes_provenance_of_the_wheel(built: Callable[[str], Engine]) -> None:
    engine = built("tiny-skbuild")
    [wheel] = engine.wheels()
    script = engine.project / "recipes" / "smoke" / "tiny_skbuild.py"

    statement = json.loads((engine.dist / f"{wheel.name}.provenance.json").read_text())

    materials = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    digests = {part["name"]: part.get("digest", {}).get("sha256") for part in materials}
    assert statement["subject"][0]["digest"]["sha256"] == sha256_of_file(wheel)
    assert digests["smoke tiny_skbuild.py"] == sha256_of_file(script)


def times_of(folder: Path) -> dict[Path, int]:
    """When each file was written; but locks, which some releases of filelock write to."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path: path.stat().st_mtime_ns for path in files}


def test_does_no_work_when_nothing_has_changed(copied: Callable[[str], Engine]) -> None:
    """But the wheel has not failed, and what killed runs of any target left is removed."""
    engine = copied("tiny-capi")
    before = times_of(engine.dist)
    for folder in (engine.dist, engine.dist / ".cuwheel"):
        (folder / ".other-1.0-py3-none-any.whl.abc.cuwheel-part").touch()
    [record] = (path for path in engine.dist.glob(".cuwheel/tiny*.json"))
    write_failure(SmokeError("it failed"), engine.dist, record.stem)

    done = engine.build("tiny-capi")

    [wheel] = engine.wheels()
    shown = [line.split()[0] for line in done.output.splitlines()[-3:]]
    assert "up to date" in done.output
    assert (shown, done.output.count(str(wheel))) == (["wheel", "sha256", "next"], 2)
    assert times_of(engine.dist) == before
    assert read_failure(engine.dist, record.stem) is None


@pytest.mark.e2e
def test_failure_before_the_first_compile_keeps_earlier_logs(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "broken.tar.gz").write_bytes(b"no archive")
    assert engine.build("tiny-skbuild", "--until", "source").status == 0
    [work] = (path for path in engine.work.iterdir() if path.is_dir())
    (work / "logs").mkdir()
    (work / "logs" / "events.jsonl").write_text("of the last build")

    done = engine.build("tiny-skbuild", "--source", str(tmp_path / "broken.tar.gz"))

    assert done.status not in {0, 2}
    assert (work / "logs" / "events.jsonl").read_text() == "of the last build"


def test_stage_whose_output_is_gone_runs_again(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    tree = SourceTree(path=tmp_path / "gone", origin="", sha256="", epoch=0, pinned=True)
    job, key = make_job(make_target(), workspace), {"target": "t"}
    start_run(job, key)
    save_stage("source", dataclasses.replace(tree, path=tmp_path), workspace, key)
    save_stage("patch", tree, workspace, key)
    save_stage("smoke", SmokeResult(sha256="", imported=(), libraries=()), workspace, key)

    start_run(job, key)

    assert [name for name in STAGES if workspace.has(name)] == ["source"]


@pytest.mark.parametrize(
    "lost",
    [
        *(pytest.param(lost, marks=pytest.mark.e2e) for lost in ("wheel", "tampered")),
        *(pytest.param(lost, marks=pytest.mark.nightly) for lost in ("provenance", "index")),
    ],
)
def test_restores_what_is_gone_from_dist(lost: str, copied: Callable[[str], Engine]) -> None:
    engine = copied("tiny-capi")
    [wheel] = engine.wheels()
    digest = sha256_of_file(wheel)
    provenance = engine.dist / f"{wheel.name}.provenance.json"
    if lost == "tampered":
        wheel.write_bytes(b"evil")
    else:
        gone = {"wheel": wheel, "provenance": provenance, "index": engine.dist / "simple"}[lost]
        remove_tree(gone)

    done = engine.build("tiny-capi")

    assert done.status == 0, done.output
    state = (sha256_of_file(wheel), provenance.is_file(), (engine.dist / "simple").is_dir())
    assert state == (digest, True, True)


@pytest.mark.e2e
def test_stages_can_be_run_one_by_one(engine: Engine) -> None:
    done = [engine.build("tiny-capi", "--stage", stage) for stage in STAGES]

    assert [outcome.status for outcome in done] == [0] * len(STAGES), done
    assert len(engine.wheels()) == 1
    assert "is up to date" in engine.build("tiny-capi").output


@pytest.mark.nightly
def test_wheel_of_stages_with_other_settings_is_made_again(engine: Engine) -> None:
    """Published stage by stage, for another arch than the next build wants."""
    first = [engine.build("tiny-capi", "--arch", "80", "--stage", stage) for stage in STAGES[:6]]
    rest = [engine.build("tiny-capi", "--arch", "80", "--stage", stage) for stage in STAGES[6:-1]]
    assert {outcome.status for outcome in (*first, *rest)} == {0}

    done = engine.build("tiny-capi", "--stage", "index")

    assert "the next build makes the wheel again" in done.output
    records = {path.name for path in engine.dist.glob(".cuwheel/*.json")}
    assert records == {"wheels.json"}  # what the index read, and of no target


@pytest.mark.e2e
def test_changed_smoke_test_repeats_no_earlier_stage(engine: Engine, tmp_path: Path) -> None:
    """After a run that it stopped, after one that was finished, and after itself."""
    project = shutil.copytree(engine.project, tmp_path / "project")
    changed = dataclasses.replace(engine, project=project)
    script = project / "recipes" / "smoke" / "tiny_skbuild.py"
    sound = script.read_text()
    script.write_text("assert False\n")
    stopped = changed.build("tiny-skbuild")
    script.write_text(sound)
    resumed = changed.build("tiny-skbuild")
    [wheel] = changed.wheels()
    digest = sha256_of_file(wheel)
    script.write_text("assert False, 'again'\n")
    refused = changed.build("tiny-skbuild")
    script.write_text(f"{sound}assert tiny_skbuild.__version__\n")

    done = changed.build("tiny-skbuild")

    assert (stopped.status, refused.status) == (SmokeError.exit_code, SmokeError.exit_code)
    assert (resumed.status, done.status) == (0, 0), resumed.output + done.output
    assert "build: kept from the interrupted run" in resumed.output
    assert "testing the wheel again, because smoke tiny_skbuild.py: " in done.output
    assert not re.search(r"(?m)^(source|build|repair|audit)\b", refused.output + done.output)
    assert sha256_of_file(wheel) == digest
    statement = (changed.dist / f"{wheel.name}.provenance.json").read_text()
    assert sha256_of_file(script) in statement
    assert "is up to date" in changed.build("tiny-skbuild").output


def test_stage_without_its_input_names_what_to_run(engine: Engine) -> None:
    done = engine.build("tiny-capi", "--stage", "repair")

    assert done.status == UsageError.exit_code
    assert "--keep-work" in done.output


@pytest.mark.e2e
def test_single_stage_of_other_source_is_not_taken_up(engine: Engine, tmp_path: Path) -> None:
    """An interrupted run of one source, then a stage by hand on another, then the first again."""
    other = tmp_path / "tiny_capi"
    shutil.copytree(PACKAGES / "tiny_capi", other)
    module = next(other.rglob("__init__.py"))
    module.write_text(module.read_text() + "\nOTHER = True\n")
    with engine.start("tiny-capi") as child:
        _read_until(child, "build ")
        child.kill()
        finish(child)
    engine.build("tiny-capi", "--source", str(other), "--stage", "source")

    done = engine.build("tiny-capi")

    assert done.status == 0, done.output
    with zipfile.ZipFile(engine.wheels()[0]) as archive:
        assert b"OTHER" not in archive.read("tiny_capi/__init__.py")


def test_explains_what_has_changed(copied: Callable[[str], Engine], tmp_path: Path) -> None:
    engine = copied("tiny-capi")
    source = shutil.copytree(PACKAGES / "tiny_capi", tmp_path / "tiny_capi")
    (source / "setup.py").write_text("raise SystemExit\n")

    done = engine.build("tiny-capi", "--source", str(source), "--dry-run", "--arch", "80")

    assert "archs: 90 -> 80" in done.output
    assert f"source: {source} instead of {PACKAGES / 'tiny_capi'}; 1 file changed: setup.py" in (
        done.output
    )


@pytest.mark.e2e
def test_builds_the_same_bytes_offline(built: Callable[[str], Engine], engine: Engine) -> None:
    """In a network namespace of its own there is nothing to reach, loopback included."""
    require("namespaces", "that a filled cache is enough for a build without a network")
    [usual] = built("tiny-capi").wheels()
    apart = dataclasses.replace(engine, within=("unshare", "--user", "--map-root-user", "--net"))

    done = apart.build("tiny-capi", "--offline", "--jobs", "1")

    assert done.status == 0, done.output
    [wheel] = engine.wheels()
    assert sha256_of_file(wheel) == sha256_of_file(usual)


@pytest.mark.parametrize("option", ["--work", "--dist"])
@pytest.mark.parametrize("place", ["/proc/x", "/dev/null/x"])
def test_refuses_folder_that_can_not_be_written_before_anything_else(
    engine: Engine, place: str, option: str
) -> None:
    done = engine.build("tiny-skbuild", option, place)

    assert done.status == FileAccessError.exit_code
    assert "can't be written" in done.output
    assert not list(engine.work.glob("*/*"))


@pytest.mark.e2e
def test_leaves_foreign_work_folder_and_dist_as_they_are(engine: Engine, tmp_path: Path) -> None:
    work = tmp_path / "mine" / "tiny-skbuild-130-cp{}{}".format(*sys.version_info)
    simple = tmp_path / "wheels" / "simple"
    for folder in (work, simple):
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")

    statuses = [
        engine.build("tiny-skbuild", "--work", str(work.parent)).status,
        engine.build("tiny-skbuild", "--dist", str(simple.parent)).status,
    ]

    assert statuses == [UsageError.exit_code] * 2
    assert [[path.name for path in folder.iterdir()] for folder in (work, simple)] == [
        ["notes.txt"]
    ] * 2


@pytest.mark.e2e
def test_keeps_work_and_shows_log_when_build_fails(engine: Engine, tmp_path: Path) -> None:
    source = tmp_path / "tiny_capi"
    shutil.copytree(PACKAGES / "tiny_capi", source)
    kernel = next(source.rglob("*.cu"))
    kernel.write_text(kernel.read_text() + "\nthis is no C++;\n")

    done = engine.build("tiny-capi", "--source", str(source))

    lines = done.output.splitlines()
    place = f"src/{kernel.name}:{len(kernel.read_text().splitlines())}: error: "
    [lead] = [number for number, line in enumerate(lines) if line.startswith(place)]
    assert done.status == 61
    assert [line.split()[0] for line in lines[lead + 1 : lead + 4]] == [
        *("command", "error:", "because")
    ]
    assert kernel.name in lines[lead + 1]
    assert "this is no C++" in done.output
    assert list(engine.work.rglob("build.log"))


def test_shows_each_stage_once_and_times_at_the_end(engine: Engine) -> None:
    done = engine.build("tiny-capi", "--until", "preflight")

    *lines, last = map(str.rstrip, done.output.splitlines())
    assert [line for line in lines if line in STAGES] == [*STAGES[:5]]
    assert last.startswith("  done in ")


@pytest.mark.nightly
def test_interrupt_at_any_moment_of_a_stage_s_beginning(engine: Engine) -> None:
    """It ends every process; during an import, too: another thread would wait for its lock."""
    for delay in range(12):
        with engine.start("tiny-skbuild", "--no-cache") as child:
            _read_until(child, "build ")
            time.sleep(delay / 30)
            family = psutil.Process(child.pid).children(recursive=True)
            os.killpg(child.pid, signal.SIGINT)

            assert finish(child).status == 130
        assert psutil.wait_procs(family, timeout=20)[1] == []


@pytest.mark.e2e
def test_takes_up_rebuild_that_was_interrupted(engine: Engine) -> None:
    assert engine.build("tiny-skbuild").status == 0
    with engine.start("tiny-skbuild", "--no-cache") as child:
        _read_until(child, "build ")
        os.killpg(child.pid, signal.SIGINT)
        finish(child)

    done = engine.build("tiny-skbuild")

    assert done.status == 0, done.output
    assert "building, because an earlier run was not finished" in done.output
    assert engine.build("tiny-skbuild", "--stage", "smoke").status == 0


_KILL = """
import os, sys
from cuwheel import __main__
from cuwheel.build.pipeline import run_state
tree = run_state.remove_tree
def remove_and_die(path):
    tree(path)
    if path.name == "tmp":
        os.kill(os.getpid(), 9)
run_state.remove_tree = remove_and_die
sys.exit(__main__.main(sys.argv[3:]))
"""


@pytest.mark.e2e
def test_tidies_up_after_kill_while_tidying(engine: Engine, tmp_path: Path) -> None:
    killed = tmp_path / "python"
    killed.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{_KILL}' \"$@\"\n")
    killed.chmod(0o755)
    done = dataclasses.replace(engine, python=killed).build("tiny-capi")
    assert (done.status, len(engine.wheels())) == (-signal.SIGKILL, 1)

    again = engine.build("tiny-capi")

    assert "up to date" in again.output
    [work] = [path for path in engine.work.iterdir() if path.is_dir()]
    names = sorted(path.name for path in work.iterdir())
    assert names == [".cuwheel-folder.json", "logs", "run.json", "stages"]


@pytest.mark.parametrize(
    "stage",
    [pytest.param(name, marks=_KILLED.get(name, [pytest.mark.nightly])) for name in STAGES],
)
def test_runs_cleanly_after_kill_in_stage(
    stage: str, engine: Engine, built: Callable[[str], Engine], tmp_path: Path, shared_cache: Path
) -> None:
    [expected] = built("tiny-capi").wheels()
    # Later stages only read the cache, so only these two have to fill one of their own.
    fills_cache = stage in {"toolchain", "environment"}
    cache = _cache_with_downloads(tmp_path, shared_cache) if fills_cache else shared_cache
    fresh = dataclasses.replace(engine, cache=cache)
    with fresh.start("tiny-capi") as child:
        _read_until(child, stage)
        family = psutil.Process(child.pid).children(recursive=True)
        child.kill()
        finish(child)
    assert psutil.wait_procs(family, timeout=10)[1] == []

    done = fresh.build("tiny-capi")

    assert done.status == 0, done.output
    assert sha256_of_file(fresh.wheels()[0]) == sha256_of_file(expected)
    # What other tests make in the shared cache meanwhile is theirs.
    assert [path for path in _half_made(fresh) if fills_cache or cache not in path.parents] == []


@pytest.mark.e2e
def test_full_disk_is_named_and_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    """A tmpfs of 3 MiB takes the source and not the build; the recipe's own guess is reduced."""
    require("namespaces", "the error of a build on a full disk")
    project = copy_project(tmp_path / "project")
    recipe = project / "recipes" / "tiny_skbuild.py"
    recipe.write_text(recipe.read_text().replace("disk=256 * MIB", "disk=1 * MIB"))
    small = tmp_path / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size=3m tmpfs {small} && exec "$@"'
    unshare = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")
    full = dataclasses.replace(engine, within=unshare, work=small, project=project)

    done = full.build("tiny-skbuild")

    assert f"no space left on the disk of {small}" in done.output
    assert engine.wheels() == []


def _cache_with_downloads(tmp_path: Path, shared_cache: Path) -> Path:
    """Return a cache with nothing but downloads: a test makes everything again."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("uv", "downloads"):
        (cache / name).symlink_to(shared_cache / name)
    return cache


def _read_until(child: subprocess.Popen[str], stage: str) -> None:
    """Wait until a stage begins."""
    assert child.stdout is not None
    deadline = time.monotonic() + 300
    lines = []
    for line in child.stdout:
        lines.append(line)
        if line.startswith(stage.strip()) or time.monotonic() > deadline:
            return
    pytest.fail(f"{stage} never began: {''.join(lines)}")


def _half_made(engine: Engine) -> list[Path]:
    """Return temporary files of a killed run that the next one should have removed."""
    folders = (engine.cache / "toolchains", engine.dist, engine.work)
    kept = {".cuwheel", MARKER}
    hidden = [path for folder in folders for path in folder.glob(".*") if path.name not in kept]
    return [path for path in hidden if path.is_dir() or path.suffix not in {".lock", ""}]
