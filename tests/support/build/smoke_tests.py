"""Wheels, and the workspace that the stage smoke finds when it tries them."""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import CuwheelError, SmokeError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.environments.uv import resolve
from cuwheel.build.pipeline.stages.smoke import smoke
from cuwheel.build.recipe.recipe import Framework, Smoke
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.records import Environment, RepairedWheel
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from tests.support.factories import (
    compile_library,
    make_job,
    make_target,
    make_workspace,
    write_wheel,
)
from tests.support.requirements import require

SOURCE = """
int cudaRuntimeGetVersion(int *version);
int version(void) { int found = 0; cudaRuntimeGetVersion(&found); return found; }
"""
MODULE = """
import ctypes, pathlib
version = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libtiny.so"))).version
"""
RUNTIME = "nvidia-cuda-runtime==13.0.96"  # a wheel of 2 MB, of the toolkit that the tests use


@functools.cache
def lock_text(cache: Path, other: str = "iniconfig==2.0.0") -> str:
    """A lock of the CUDA runtime's wheel and of one that only builds would need."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "tiny_cuda.in")
        requirements.write_text(f"{RUNTIME}\n{other}\n")
        return resolve(
            requirements,
            make_workspace(Path(folder), cache=cache),
            python="3.10",
            uploaded_before="2026-11-01T00:00:00Z",
        )


def workspace_of(folder: Path, cache: Path) -> Workspace:
    """One whose build environment has this Python."""
    workspace = make_workspace(folder, cache=cache)
    environment = Environment(
        python=Path(sys.executable),
        site_packages=folder,
        fingerprint="",
        base_python=Path(sys.executable),
        base_version="",
    )
    workspace.save("environment", environment)
    return workspace


def target_of(
    root: Path,
    lock: str,
    libraries: LibraryPerCuda | None = None,
    framework: Framework | None = None,
    **wanted: Any,
) -> Target:
    """A target whose recipe imports `tiny_cuda`, and does what `wanted` says."""
    declared = Smoke(imports=("tiny_cuda",), **wanted)
    target = make_target(root=root, smoke=declared, library_per_cuda=libraries, framework=framework)
    target.lock.parent.mkdir(parents=True, exist_ok=True)
    target.lock.write_text(lock)
    return target


def save_wheel(
    workspace: Workspace,
    module: str,
    *libraries: Path,
    requires: tuple[str, ...] = (),
    external: tuple[str, ...] = (),
    tag: str = "py3-none-linux_x86_64",
) -> Path:
    """Leave in the work folder what the repair leaves."""
    files: dict[str, bytes | Path] = {"tiny_cuda/__init__.py": module.encode()}
    files |= {f"tiny_cuda/{path.name}": path for path in libraries}
    folder = workspace.folder("repaired")
    wheel = write_wheel(folder, files, tag=tag, requires=requires)
    repaired = RepairedWheel(
        path=wheel,
        sha256=sha256_of_file(wheel),
        size=wheel.stat().st_size,
        platform_tag=tag.rpartition("-")[2],
        external=external,
        requires=requires,
        tools=(),
    )
    workspace.save("repair", repaired)
    return wheel


def compile_tiny(folder: Path, cuda_home: Path, rpath: str) -> Path:
    """A library that calls the CUDA runtime, found by this rpath."""
    source = folder / "tiny.c"
    source.write_text(SOURCE)
    search = (f"-L{cuda_home / 'lib64'}", "-l:libcudart.so.13", f"-Wl,-rpath,{rpath}")
    return compile_library(folder / "libtiny.so", "gcc", "-fPIC", source, *search)


def compile_needing(path: Path, soname: str) -> Path:
    """A library that needs another, which is nowhere but beside the linker."""
    source = path.with_suffix(".c")
    source.write_text("int any;\n")
    other = compile_library(path.parent / "beside" / soname, "gcc", source, f"-Wl,-soname,{soname}")
    return compile_library(path, "gcc", "-fPIC", source, "-Wl,--no-as-needed", other)


def refusal(
    target: Target,
    workspace: Workspace,
    error: type[CuwheelError] = SmokeError,
    sandbox: str = "auto",
) -> CuwheelError:
    """Return the error with which the stage refuses the wheel."""
    options: dict[str, Any] = {} if sandbox == "auto" else {"sandbox": sandbox}
    with pytest.raises(error) as caught:
        smoke(make_job(target, workspace, **options))
    return caught.value


def needs_no_driver() -> None:
    """Skip where NVIDIA's driver is: nothing stands in for it there."""
    require("driverless", "what the smoke test does where there is no driver")
