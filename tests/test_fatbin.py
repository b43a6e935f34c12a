from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest

from cuwheel.elf import read_elf
from cuwheel.fatbin import (
    LOADED_SECTION,
    RELOCATABLE_SECTION,
    DeviceCode,
    FatbinFormatError,
    read_device_code,
    sort_archs,
)
from tests.factories import compile_cuda

if TYPE_CHECKING:
    from pathlib import Path

_SM_100 = "-gencode=arch=compute_100,code=sm_100"
_CODE = "__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "twice.cu"
    path.write_text(_CODE)
    return path


def _read(library: Path, name: str = LOADED_SECTION) -> DeviceCode | None:
    with library.open("rb") as stream:
        section = read_elf(stream).section(name)
        return read_device_code(stream, section.offset, section.size) if section else None


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("-gencode=arch=compute_90,code=sm_90", DeviceCode(sass=("90",))),
        (
            f"--compress-mode=size {_SM_100} -gencode=arch=compute_80,code=[sm_80,compute_80]",
            DeviceCode(sass=("80", "100"), ptx=("80",)),
        ),
        (
            "--compress-mode=none -gencode=arch=compute_90a,code=[sm_90a,compute_90a]",
            DeviceCode(sass=("90a",), ptx=("90a",)),
        ),
        (
            "-gencode=arch=compute_100f,code=[sm_100f,compute_100f]",
            DeviceCode(sass=("100f",), ptx=("100f",)),
        ),
        ("-gencode=arch=compute_90,code=compute_90", DeviceCode(ptx=("90",))),
    ],
    ids=["one", "compressed", "arch-specific", "family", "ptx-only"],
)
def test_reads_archs(
    tmp_path: Path, cuda_home: Path, source: Path, flags: str, expected: DeviceCode
) -> None:
    library = compile_cuda(tmp_path / "lib.so", cuda_home, source, *flags.split())

    assert _read(library) == expected


def test_tells_loaded_from_relocatable_code(tmp_path: Path, cuda_home: Path, source: Path) -> None:
    flags = ("-rdc=true", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
    library = compile_cuda(tmp_path / "lib.so", cuda_home, source, *flags)

    assert _read(library) == DeviceCode(sass=("90",))
    assert _read(library, RELOCATABLE_SECTION) == DeviceCode(sass=("90",), ptx=("90",))


def test_skips_padding_between_containers() -> None:
    content = _container("80") + bytes(24) + _container("90") + bytes(8)

    assert read_device_code(io.BytesIO(content), 0, len(content)).sass == ("80", "90")


def test_refuses_other_content() -> None:
    content = _container("80") + b"something else, and long enough"

    with pytest.raises(FatbinFormatError, match=r"no fat binary at byte \d+"):
        read_device_code(io.BytesIO(content), 0, len(content))


@pytest.mark.parametrize("kept", [10, 30, 100])
def test_refuses_truncated_content(kept: int) -> None:
    content = _container("80")[:kept]

    with pytest.raises(FatbinFormatError):
        read_device_code(io.BytesIO(content), 0, len(content))


def test_refuses_element_without_size() -> None:
    content = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64) + bytes(64)

    with pytest.raises(FatbinFormatError, match="impossible size"):
        read_device_code(io.BytesIO(content), 0, len(content))


def test_sorts_archs_by_age() -> None:
    assert sort_archs(["100", "90a", "80", "90", "90"]) == ("80", "90", "90a", "100")


def _container(arch: str) -> bytes:
    """A fat binary with one element of machine code, laid out as nvcc 13.0 does it."""
    element = struct.pack("<HHIQ12xI8xQ16x", 2, 0x101, 64, 40, int(arch), 0x11) + bytes(40)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(element)) + element
