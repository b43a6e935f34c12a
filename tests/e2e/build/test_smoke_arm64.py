"""Wheels for arm64 whose import QEMU proves, in a Debian for arm64, with CUDA's real libraries."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import SmokeError
from cuwheel.base.system.compilers import find_host_compilers
from cuwheel.build.pipeline.stages.smoke import smoke
from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.toolchains.cross import emulation
from cuwheel.build.workspace.job import Job, TargetRoot
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.smoke_tests import (
    MODULE,
    SOURCE,
    lock_text,
    save_wheel,
    target_of,
    workspace_of,
)
from tests.support.factories import compile_library, heard, make_job
from tests.support.packages.foreign_platform import compile_arm64, debian_root
from tests.support.requirements import require

pytestmark = pytest.mark.e2e

TAG = "py3-none-linux_aarch64"
REQUIRED = "nvidia-cuda-runtime>=13.0,<14"
_RPATH = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib"
_DRIVER = """
int cuInit(unsigned flags);
int version(void) { return cuInit(0); }
"""
_LOOK = """
import pathlib, platform, socket
MACHINE = platform.machine()
HOME = sorted(path.name for path in pathlib.Path("/").iterdir())
try:
    socket.create_connection(("1.1.1.1", 53), timeout=1)
    NETWORK = "yes"
except OSError:
    NETWORK = "no"
"""


@pytest.fixture(scope="module")
def root(shared_cache: Path) -> TargetRoot:
    require("qemu", "that wheels for arm64 can be imported")
    return debian_root(shared_cache)


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    return workspace_of(tmp_path, shared_cache)


def job_of(
    workspace: Workspace,
    folder: Path,
    root: TargetRoot | None,
    cache: Path,
    *,
    sandbox: str = "auto",
    **wanted: Any,
) -> Job:
    """A job for arm64 whose compilers are the cross compiler."""
    target = dataclasses.replace(target_of(folder, lock_text(cache), **wanted), platform=AARCH64)
    job = make_job(target, workspace, sandbox=sandbox)
    compilers = find_host_compilers({}, AARCH64.triplet)
    machine = dataclasses.replace(job.machine, target_root=root, compilers=compilers)
    return dataclasses.replace(job, machine=machine)


def compile_tiny(folder: Path, *words: str | Path, code: str = SOURCE, soname: str = "") -> Path:
    """A library for arm64 that needs another one, of which the linker sees a stand-in."""
    name = soname or "libcudart.so.13"
    functions = (
        "int cudaRuntimeGetVersion(int *v) { return 0; } int cuInit(unsigned f) { return 0; }"
    )
    other = compile_arm64(folder / "beside" / name, f"-Wl,-soname,{name}", code=functions)
    return compile_arm64(folder / "libtiny.so", other, *words, code=code)


@pytest.mark.parametrize("sandbox", ["bubblewrap", "unshare", "none"])
def test_takes_cuda_from_the_required_wheel(
    tmp_path: Path, workspace: Workspace, root: TargetRoot, shared_cache: Path, sandbox: str
) -> None:
    if sandbox != "none":
        require({"bubblewrap": "bwrap", "unshare": "sandbox"}[sandbox], "emulation in a sandbox")
    library = compile_tiny(tmp_path, _RPATH)
    save_wheel(workspace, MODULE, library, requires=(REQUIRED,), tag=TAG)
    call = {"call": "tiny_cuda.version()", "expect": "13000"}

    passed = smoke(job_of(workspace, tmp_path, root, shared_cache, sandbox=sandbox, **call))

    [(soname, file, supplier, requester)] = passed.loaded
    assert (soname, file) == ("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13")
    assert supplier == "nvidia-cuda-runtime 13.0.96"
    assert requester == "tiny_cuda/libtiny.so"
    assert passed.emulator.startswith("qemu-aarch64 ")
    assert "not on a aarch64 one" in heard(workspace)


def test_shows_the_root_and_no_network(
    tmp_path: Path, workspace: Workspace, root: TargetRoot, shared_cache: Path
) -> None:
    require("sandbox", "that an emulated program sees nothing of this machine")
    (tmp_path / "secret").mkdir()
    save_wheel(workspace, _LOOK, tag=TAG)
    call = "(tiny_cuda.MACHINE, tiny_cuda.NETWORK, 'home' in tiny_cuda.HOME)"
    wanted = {"call": call, "expect": "('aarch64', 'no', False)"}

    passed = smoke(job_of(workspace, tmp_path, root, shared_cache, **wanted))

    assert passed.imported == ("tiny_cuda",)


def test_refuses_wheel_whose_library_leads_nowhere(
    tmp_path: Path, workspace: Workspace, root: TargetRoot, shared_cache: Path
) -> None:
    library = compile_tiny(tmp_path)
    save_wheel(workspace, MODULE, library, requires=(REQUIRED,), tag=TAG)

    with pytest.raises(SmokeError) as caught:
        smoke(job_of(workspace, tmp_path, root, shared_cache))

    assert "libcudart.so.13: cannot open shared object file" in caught.value.why


def test_refuses_library_for_this_machine(
    tmp_path: Path, workspace: Workspace, root: TargetRoot, shared_cache: Path
) -> None:
    source = tmp_path / "own.c"
    source.write_text("int version(void) { return 13000; }\n")
    library = compile_library(tmp_path / "libtiny.so", "gcc", "-fPIC", source)
    save_wheel(workspace, MODULE, library, tag=TAG)

    with pytest.raises(SmokeError) as caught:
        smoke(job_of(workspace, tmp_path, root, shared_cache))

    assert "libtiny.so" in caught.value.why


def test_puts_a_stub_of_that_machine_in_the_drivers_place(
    tmp_path: Path, workspace: Workspace, root: TargetRoot, shared_cache: Path
) -> None:
    library = compile_tiny(tmp_path, code=_DRIVER, soname="libcuda.so.1")
    save_wheel(workspace, MODULE, library, tag=TAG)
    call = {"call": "tiny_cuda.version()", "expect": "34"}

    passed = smoke(job_of(workspace, tmp_path, root, shared_cache, **call))

    assert passed.has_driver_stub


def test_names_a_crash(
    tmp_path: Path, workspace: Workspace, root: TargetRoot, shared_cache: Path
) -> None:
    save_wheel(workspace, "import ctypes; ctypes.string_at(0)", tag=TAG)

    with pytest.raises(SmokeError, match="the interpreter died") as caught:
        smoke(job_of(workspace, tmp_path, root, shared_cache))

    assert "SIGSEGV" in caught.value.why


def test_says_that_nothing_was_tried_without_an_emulator(
    tmp_path: Path,
    workspace: Workspace,
    root: TargetRoot,
    shared_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = save_wheel(workspace, MODULE, tag=TAG)
    monkeypatch.setattr(emulation, "SYSTEM_PATH", str(tmp_path))

    passed = smoke(job_of(workspace, tmp_path, root, shared_cache))

    assert (passed.imported, passed.emulator) == ((), "")
    assert passed.sha256 == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (
        "a static qemu-aarch64, which runs programs for aarch64, isn't installed" in passed.skipped
    )
    assert "apt-get install qemu-user-static" in " ".join(heard(workspace).split())


def test_says_that_nothing_was_tried_without_a_root(
    tmp_path: Path, workspace: Workspace, shared_cache: Path
) -> None:
    save_wheel(workspace, MODULE, tag=TAG)

    passed = smoke(job_of(workspace, tmp_path, None, shared_cache))

    assert "no root folder of a Linux system for aarch64" in passed.skipped
    assert "--target-root" in " ".join(heard(workspace).split())
