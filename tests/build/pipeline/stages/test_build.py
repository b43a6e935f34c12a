"""The package's own build: its environment, and its output."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import SandboxError
from cuwheel.base.system.compilers import read_compiler
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.output.github import GITHUB_VARIABLE, SUMMARY_VARIABLE
from cuwheel.build.compile.events import read_events
from tests.support.engine import PACKAGES, Engine
from tests.support.machines.github_runner import obeyed
from tests.support.requirements import require


@pytest.fixture
def package(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes a tiny package with lines at the start of its setup.py."""

    def make(lines: str) -> Path:
        tree = tmp_path / "tiny_capi"
        shutil.copytree(PACKAGES / "tiny_capi", tree)
        setup = tree / "setup.py"
        setup.write_text(lines + setup.read_text())
        return tree

    return make


@pytest.mark.e2e
def test_explains_its_log_when_it_fails(package: Callable[[str], Path], engine: Engine) -> None:
    tree = package("import torch\n")

    done = engine.build("tiny-capi", "--source", str(tree))

    assert done.status == 61
    assert "ModuleNotFoundError: No module named 'torch'" in done.output
    assert "TROUBLESHOOTING.md#isolated-build-no-torch" in done.output


@pytest.mark.e2e
def test_annotates_failure_for_github(
    package: Callable[[str], Path], engine: Engine, tmp_path: Path
) -> None:
    """It takes no command from the package: its output is in the group of the stage."""
    tree = package("print('::error file=x::mine'); print('##[add-mask]error')\n")
    kernel = next(tree.rglob("*.cu"))
    kernel.write_text(f"{kernel.read_text()}\nthis is no C++;\n")
    summary = tmp_path / "summary.md"
    variables = {GITHUB_VARIABLE: "true", SUMMARY_VARIABLE: str(summary)}

    done = engine.build("tiny-capi", "--source", str(tree), **variables)

    commands = obeyed(done.output)
    at = f"file={kernel},line={len(kernel.read_text().splitlines())}"
    assert [command for command in commands if command.startswith("::group::")][
        -1
    ] == "::group::build"
    assert commands[-2] == "::endgroup::"
    assert commands[-1].startswith(f"::error {at}::")
    assert [command for command in commands if "mine" in command or "add-mask" in command] == []
    group, _, rest = done.output.partition("::group::build\n")[2].partition("::endgroup::")
    assert "\n::error file=x::mine\n" in group
    assert "::error" in rest
    assert kernel.name in summary.read_text()


@pytest.mark.e2e
def test_explains_with_facts_that_the_log_lacks(
    package: Callable[[str], Path], engine: Engine
) -> None:
    gcc = read_compiler(Path(shutil.which("g++") or ""))
    tree = package("import sys\nsys.exit('error: identifier \"_Float32\" is undefined')\n")

    done = engine.build("tiny-capi", "--source", str(tree), "--host-compiler", "system")

    assert gcc is not None
    assert f"headers of GCC {gcc.major} use features that" in " ".join(done.output.split())
    assert "CUDA 13.0 supports GCC up to 15" in " ".join(done.output.split())


@pytest.mark.e2e
def test_warns_once_of_a_compile_cache_that_goes_bad(
    package: Callable[[str], Path], engine: Engine, tmp_path: Path
) -> None:
    tree = package(
        "import os, shutil\n"
        "cache = os.environ.get('SCCACHE_DIR') or os.environ['CCACHE_DIR']\n"
        "shutil.rmtree(cache, ignore_errors=True)\n"
        "open(cache, 'w').close()\n"
    )
    cache = str(tmp_path / "compiles")

    done = engine.build("tiny-capi", "--source", str(tree), CUWHEEL_COMPILE_CACHE=cache)

    assert done.status == 0, done.output
    assert " ".join(done.output.split()).count("warning the compile cache failed") == 1


@pytest.mark.e2e
def test_a_package_reaches_no_compile_of_another(engine: Engine, tmp_path: Path) -> None:
    """A build that overwrites all objects that it sees reaches none of another build."""
    own = {"CUWHEEL_COMPILE_CACHE": str(tmp_path / "compiles")}
    assert engine.build("tiny-capi", **own).status == 0
    [wheel] = engine.wheels()
    first = sha256_of_file(wheel)
    kept = [path for path in (tmp_path / "compiles").rglob("*") if path.is_file()]
    hostile = tmp_path / "hostile"
    shutil.copytree(PACKAGES / "tiny_skbuild", hostile)
    (hostile / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(hostile NONE)\n"
        "file(GLOB_RECURSE seen /cuwheel/compiles/*)\nlist(LENGTH seen count)\n"
        "foreach(path ${seen})\n  file(WRITE ${path} poison)\nendforeach()\n"
        'message(FATAL_ERROR "${count} files of others")\n'
    )
    poisoner = dataclasses.replace(engine, dist=tmp_path / "dist-2", work=tmp_path / "work-2")

    poisoning = poisoner.build("tiny-skbuild", "--source", str(hostile), **own)

    assert "0 files of others" in poisoning.output, poisoning.output
    assert all(b"poison" not in path.read_bytes() for path in kept if path.exists())
    shutil.rmtree(engine.work)
    again = engine.build("tiny-capi", "--replace", **own)
    assert again.status == 0, again.output
    assert sha256_of_file(wheel) == first


@pytest.mark.e2e
def test_takes_all_from_direct_mode_the_second_time(engine: Engine, tmp_path: Path) -> None:
    own = {"CUWHEEL_COMPILE_CACHE": str(tmp_path / "compiles")}
    assert engine.build("tiny-capi", **own).status == 0
    [wheel] = engine.wheels()
    first = sha256_of_file(wheel)
    for folder in (engine.work, wheel.parent):
        shutil.rmtree(folder)

    done = engine.build("tiny-capi", **own)

    assert done.status == 0, done.output
    assert "did nothing" not in done.output
    assert sha256_of_file(wheel) == first
    [log] = engine.work.rglob("events.jsonl")
    compiles = read_events(log).compiles
    caches = {item.cached for item in compiles if item.file.startswith("/cuwheel/source/")}
    assert caches == {"direct mode"}


@pytest.mark.e2e
def test_warns_of_a_compile_cache_that_never_runs(engine: Engine, tmp_path: Path) -> None:
    """Such as a ccache without its libraries in the sandbox."""
    ccache = tmp_path / "ccache"
    ccache.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "ccache version 4.14.2" && exit\n'
        "echo libhere.so: cannot open shared object file >&2\nexit 127\n"
    )
    ccache.chmod(0o755)

    done = engine.build("tiny-capi", CUWHEEL_CCACHE=str(ccache))

    assert done.status == 0, done.output
    assert "ccache did nothing in this build" in " ".join(done.output.split())
    [log] = engine.work.glob("*/logs/build.log")
    assert "libhere.so: cannot open" in log.read_text()


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["tiny-capi", "tiny-skbuild"])
def test_every_compile_passes_the_launcher(name: str, built: Callable[[str], Engine]) -> None:
    """setuptools, a setup.py that calls nvcc itself, and CMake each have their own way to it."""
    [log] = built(name).work.glob("*/events/events.jsonl")
    events = read_events(log)

    sources = {item.file for item in events.compiles if item.file.startswith("/cuwheel/source/")}
    tools = {tool.name for tool in events.tools if tool.compile}

    root = PACKAGES / name.replace("-", "_")
    files = [path for ending in ("cu", "c", "cpp") for path in root.rglob(f"*.{ending}")]
    assert files
    assert sources == {f"/cuwheel/source/{path.relative_to(root)}" for path in files}
    assert tools - {"gcc", "g++"} <= {"cicc", "cudafe++", "ptxas"}


@pytest.mark.e2e
def test_wheel_is_the_same_without_a_sandbox(
    engine: Engine, built: Callable[[str], Engine]
) -> None:
    require("sandbox", "that the sandbox changes no byte of a wheel")
    done = engine.build("tiny-capi", "--sandbox", "none", "--no-cache")
    assert done.status == 0, done.output

    alone, inside = engine.wheels()[0], built("tiny-capi").wheels()[0]

    assert sha256_of_file(alone) == sha256_of_file(inside)


_NO_NAMESPACES = """
for kind in user mnt; do echo 0 > /proc/sys/user/max_${kind}_namespaces; done
exec "$@"
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "unshare"])
def test_sandbox_that_does_not_work_is_an_error(kind: str, engine: Engine) -> None:
    require("namespaces", "the error of a build without the sandbox that it requires")
    refusing = dataclasses.replace(
        engine, within=("unshare", "--user", "--map-root-user", "sh", "-ec", _NO_NAMESPACES, "sh")
    )

    done = refusing.build("tiny-capi", "--sandbox", kind)

    assert done.status == SandboxError.exit_code
    assert f"this machine doesn't allow a sandbox with {kind}" in done.output
