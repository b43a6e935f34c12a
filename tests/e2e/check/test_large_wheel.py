"""A wheel as large as those of CUDA's largest libraries: written and audited in bounded memory."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.process import run
from tests.support.factories import compile_cuda, write_wheel

pytestmark = pytest.mark.nightly

_COPIES = 130
_HUGE = (4 << 30) + 5
_LIMIT = 128  # MiB of memory, for a member ten times as large
_PEAK = """
import re
from pathlib import Path
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(f"peak {int(peak) >> 10}")
"""
_PACK = """
import sys
from pathlib import Path
from cuwheel.base.formats.wheel.archive import pack
pack(Path(sys.argv[1]), Path(sys.argv[2]), epoch=0)
"""
_NORMALISE = """
import sys
from pathlib import Path
from cuwheel.base.formats.wheel.archive import normalise
normalise(Path(sys.argv[1]), Path(sys.argv[2]), epoch=0)
"""
_SCAN = """
import sys
from pathlib import Path
from cuwheel.check.audit.scan import scan_wheel
scan = scan_wheel(Path(sys.argv[1]), private_paths=("/private/work",))
print(scan.archive_faults)
for library in scan.libraries: print(library.damage, library.elf.needed, library.device_code)
"""


@pytest.fixture(scope="module")
def folder(module_path: Path, cuda_home: Path) -> Path:
    """A wheel's content, with a library of more than 1 GiB: code of a real program, repeated."""
    code, folder = module_path / "code", module_path / "content"
    code.write_bytes((cuda_home / "bin" / "ptxas").read_bytes()[: 10 << 20])
    repeated = "\n".join(f'.incbin "{code}"' for _ in range(_COPIES))
    code.with_suffix(".s").write_text(f'.section .rodata, "a"\n{repeated}\n')
    source, compiled = module_path / "twice.cu", code.with_suffix(".o")
    source.write_text("__global__ void twice(float *p) { *p *= 2; }\n")
    run(["as", code.with_suffix(".s"), "-o", compiled], env={"PATH": os.environ["PATH"]})
    flags = ("-arch=sm_90", "-Xlinker", str(compiled))
    compile_cuda(folder / "pkg" / "large.so", cuda_home, source, *flags)
    compiled.unlink()
    with zipfile.ZipFile(write_wheel(module_path / "small", {})) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def packed(folder: Path, module_path: Path) -> tuple[Path, int]:
    """The wheel, and how many MiB of memory it took to write it."""
    path = module_path / "tiny_cuda-1.2.3-cp311-cp311-linux_x86_64.whl"
    _, peak = in_child(_PACK, folder, path)
    (folder / "pkg" / "large.so").unlink()
    return path, peak


def in_child(code: str, *arguments: Path) -> tuple[list[str], int]:
    """What a Python of its own printed, and its peak of memory in MiB."""
    command: list[str | Path] = [sys.executable, "-c", code + _PEAK, *arguments]
    lines = run(command, env={"PYTHONPATH": str(ROOT)}).output.splitlines()
    found = re.fullmatch(r"peak (\d+)", lines[-1])
    assert found
    return lines[:-1], int(found[1])


def test_writes_large_wheel_in_bounded_memory(packed: tuple[Path, int]) -> None:
    assert packed[1] < _LIMIT


def test_reads_large_wheel_in_bounded_memory(packed: tuple[Path, int]) -> None:
    (faults, *libraries), peak = in_child(_SCAN, packed[0])

    assert faults == "()"
    assert [line for line in libraries if "sass=('90',)" in line] == libraries
    assert peak < _LIMIT


@pytest.fixture(scope="module")
def huge(module_path: Path) -> tuple[Path, int]:
    """A wheel with a member of more than 4 GiB, zeros, which take no disk; the memory it took."""
    content = module_path / "huge"
    with zipfile.ZipFile(write_wheel(module_path / "small", {})) as archive:
        archive.extractall(content)
    with (content / "zeros.bin").open("wb") as stream:
        stream.truncate(_HUGE)
    path = module_path / "huge.whl"
    _, peak = in_child(_PACK, content, path)
    return path, peak


def test_writes_member_of_more_than_4_gib(huge: tuple[Path, int]) -> None:
    path, peak = huge

    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("zeros.bin").file_size == _HUGE
        assert archive.testzip() is None
    assert peak < _LIMIT


def test_normalises_member_of_more_than_4_gib(huge: tuple[Path, int], tmp_path: Path) -> None:
    path, _ = huge

    _, peak = in_child(_NORMALISE, path, tmp_path / "again.whl")

    assert sha256_of_file(tmp_path / "again.whl") == sha256_of_file(path)
    assert peak < _LIMIT
