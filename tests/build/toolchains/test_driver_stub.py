"""The stub for linkers and loaders without NVIDIA's driver."""

from __future__ import annotations

import dataclasses
import io
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.formats.binaries.elf import Elf, read_elf
from cuwheel.base.formats.wheel.metadata import is_library
from cuwheel.base.system.process import run
from cuwheel.build.toolchains.driver_stub import compile_driver_stub, driver_stub_of
from tests.support.build.smoke_tests import needs_no_driver
from tests.support.engine import PACKAGES, Engine
from tests.support.factories import compile_library, make_job, make_target, make_workspace

_GCC = Path("/usr/bin/gcc")
_STUB_LIBRARY = "34"  # CUDA_ERROR_STUB_LIBRARY


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stubs") / "libcuda.so"
    file.write_bytes(compile_driver_stub("13.0", _GCC))
    return file


def _elf_of(file: Path) -> Elf:
    return read_elf(io.BytesIO(file.read_bytes()))


def test_calls_itself_as_the_driver_does_and_needs_nothing(stub: Path) -> None:
    assert _elf_of(stub).soname == "libcuda.so.1"
    assert _elf_of(stub).needed == ()


def test_returns_stub_error(stub: Path) -> None:
    # In a process of its own: what is loaded here would pass for the driver in other tests.
    call = f"import ctypes; stub = ctypes.CDLL({str(stub)!r})"
    show = "print(stub.cuInit(0), stub.cuMemcpyHtoDAsync_v2_ptsz(0, 0, 0, 0))"

    codes = run([sys.executable, "-I", "-c", f"{call}; {show}"], env={}).output.split()

    assert codes == [_STUB_LIBRARY, _STUB_LIBRARY]


def test_linked_library_needs_the_driver(stub: Path, tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text("int cuInit(unsigned); int f(void) { return cuInit(0); }\n")
    options = (f"-L{stub.parent}", "-lcuda", "-Wl,-z,defs")

    library = compile_library(tmp_path / "libf.so", "gcc", "-fPIC", source, *options)

    assert "libcuda.so.1" in _elf_of(library).needed


def test_has_no_function_that_is_newer(stub: Path, tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text("int cuGraphGetId(void); int f(void) { return cuGraphGetId(); }\n")
    options = (f"-L{stub.parent}", "-lcuda", "-Wl,-z,defs")

    with pytest.raises(CommandFailedError, match="gcc"):
        compile_library(tmp_path / "libf.so", "gcc", "-fPIC", source, *options)


def test_is_the_same_each_time(stub: Path) -> None:
    assert compile_driver_stub("13.0", _GCC) == stub.read_bytes()


@pytest.mark.parametrize("is_read", [True, False])  # not where a lock has the compiler
def test_needs_no_more_than_some_compiler(tmp_path: Path, *, is_read: bool) -> None:
    job = make_job(make_target(), make_workspace(tmp_path))
    compilers = job.machine.compilers if is_read else ()
    machine = dataclasses.replace(job.machine, compilers=compilers)

    assert driver_stub_of(dataclasses.replace(job, machine=machine))


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.e2e
def test_package_that_links_the_driver_needs_one_word(engine: Engine, tmp_path: Path) -> None:
    """From CMake's own target to a wheel that was loaded, on a machine without driver."""
    tree = shutil.copytree(PACKAGES / "tiny_skbuild", tmp_path / "tiny_skbuild")
    project = shutil.copytree(engine.project, tmp_path / "project")
    other = dataclasses.replace(engine, project=project)
    _edit(tree / "CMakeLists.txt", "CUDA::cudart)", "CUDA::cudart CUDA::cuda_driver)")
    _edit(
        tree / "src" / "scale.cu",
        'extern "C" {\n',
        '#include <cuda.h>\nextern "C" {\nint tiny_driver() { return cuInit(0); }\n',
    )

    refused = other.build("tiny-skbuild", "--source", str(tree))
    _edit(project / "recipes" / "tiny_skbuild.py", 'Link("cudart")', 'Link("cudart", "driver")')
    stages = [
        other.build("tiny-skbuild", "--source", str(tree), "--stage", name)
        for name in ("repair", "audit", "smoke")
    ]

    assert 'write link=Link("cudart", "driver")' in refused.output
    assert [done.status for done in stages] == [0, 0, 0], stages
    [wheel] = other.work.rglob("repaired/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [library] = [name for name in archive.namelist() if is_library(name)]
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = archive.read(name).decode()
        elf = read_elf(io.BytesIO(archive.read(library)))
    assert {"libcuda.so.1", "libcudart.so.13"} <= set(elf.needed)
    assert metadata.count("Requires-Dist") == 1
    needs_no_driver()
    assert "this machine has no NVIDIA driver: a stub was used" in stages[-1].output
