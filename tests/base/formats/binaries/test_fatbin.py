from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.archs import DeviceCode, sort_archs
from cuwheel.base.formats.binaries.elf import Section, read_elf
from cuwheel.base.formats.binaries.fatbin import (
    LOADED_SECTION,
    RELOCATABLE_SECTION,
    Fatbin,
    FatbinFinder,
    FatbinFormatError,
    code_of,
    code_of_cubin,
    code_of_ptx,
    fatbins_of,
    hop_fatbins,
)
from cuwheel.base.formats.binaries.windows import Windows
from tests.support.factories import compile_cuda, compile_file, compile_library

_TILE_IR = 128
_SM_100 = "-gencode=arch=compute_100,code=sm_100"
_CODE = "__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "twice.cu"
    path.write_text(_CODE)
    return path


def _find(content: bytes, step: int = 1 << 20) -> tuple[Fatbin, ...]:
    """Find the fat binaries of a file that comes in pieces of `step` bytes."""
    finder, windows = FatbinFinder(len(content)), Windows()
    for place in range(0, len(content), step):
        for window in windows.feed(content[place : place + step]):
            finder.search(window)
    finder.search(windows.finish())
    return finder.found


def _read(library: Path, name: str = LOADED_SECTION) -> DeviceCode | None:
    content = library.read_bytes()
    section = read_elf(io.BytesIO(content)).section(name)
    if section is None:
        return None
    code = code_of(fatbins_of(section, _find(content)))
    if name == LOADED_SECTION:
        assert code_of(hop_fatbins(io.BytesIO(content), section)) == code
    return code


def _section(content: bytes, name: str = LOADED_SECTION) -> Section:
    return Section(name=name, offset=0, size=len(content))


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


@pytest.mark.e2e
def test_separates_loaded_from_relocatable_code(
    tmp_path: Path, cuda_home: Path, source: Path
) -> None:
    flags = ("-rdc=true", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
    library = compile_cuda(tmp_path / "lib.so", cuda_home, source, *flags)

    assert _read(library) == DeviceCode(sass=("90",))
    assert _read(library, RELOCATABLE_SECTION) == DeviceCode(sass=("90",), ptx=("90",))


def test_reads_code_for_link_at_run_time(tmp_path: Path, cuda_home: Path, source: Path) -> None:
    flags = ("-c", "-rdc=true", "-gencode=arch=compute_90,code=lto_90")
    library = _nvcc(tmp_path / "twice.o", cuda_home, source, *flags)

    code = _read(library, RELOCATABLE_SECTION)

    assert code is not None
    assert code.lto == ("90",)


def test_finds_code_in_any_section(tmp_path: Path, cuda_home: Path, source: Path) -> None:
    fatbin = _nvcc(tmp_path / "twice.fatbin", cuda_home, source, "-fatbin", "-arch=sm_90")
    text = tmp_path / "data.s"
    text.write_text(f'.data\n.balign 16\n.incbin "{fatbin}"\n.byte 7\n')
    library = compile_library(tmp_path / "lib.so", "gcc", text)

    assert _read(library, ".data") == DeviceCode(sass=("90",), ptx=("90",))


@pytest.mark.parametrize(("arch", "expected"), [("75", "75"), ("90a", "90"), ("120", "120")])
def test_reads_arch_of_bare_cubin(
    tmp_path: Path, cuda_home: Path, source: Path, arch: str, expected: str
) -> None:
    cubin = _nvcc(tmp_path / "twice.cubin", cuda_home, source, "-cubin", f"-arch=sm_{arch}")

    with cubin.open("rb") as stream:
        elf = read_elf(stream)

    assert elf.is_cubin
    assert code_of_cubin(elf.abi, elf.flags) == DeviceCode(sass=(expected,))


@pytest.mark.parametrize("arch", ["80", "90a", "100f"])
def test_reads_arch_of_ptx(tmp_path: Path, cuda_home: Path, source: Path, arch: str) -> None:
    ptx = _nvcc(tmp_path / "twice.ptx", cuda_home, source, "-ptx", f"-arch=sm_{arch}")

    assert code_of_ptx(ptx.read_bytes()) == DeviceCode(ptx=(arch,))


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (".nv_fatbin", b"", bytes(8)),
        (".nv_fatbin", struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0), b""),  # an empty container
        (".data", b"something else", b"and more"),
    ],
)
def test_finds_containers_among_other_content(name: str, before: bytes, after: bytes) -> None:
    content = before + _container("80") + bytes(24) + _container("90") + after

    assert code_of(fatbins_of(_section(content, name), _find(content))).sass == ("80", "90")


@pytest.mark.parametrize("step", [1, 7, 4096, 9000, 20_000])
def test_finds_all_wherever_pieces_meet(step: int) -> None:
    archs = [str(number) for number in range(50, 121)]
    content = b"text" + b"".join(_container(arch, size=900) + bytes(300) for arch in archs)

    assert [code_of([fatbin]).sass[0] for fatbin in _find(content, step)] == archs


def test_passes_code_that_writes_fat_binaries() -> None:
    start = _container("80")[:8]
    content = b"\x48\xb8" + start + b"\x48\x89\x07\xc3" * 4 + _container("90")

    assert code_of(_find(content)).sass == ("90",)


def test_refuses_other_content() -> None:
    first = _container("80")
    for rest in (b"something else, and long enough", b"something else" + _container("90")):
        with pytest.raises(FatbinFormatError, match=r"no fat binary at byte 120 of \.nv_fatbin"):
            fatbins_of(_section(first + rest), _find(first + rest))


@pytest.mark.parametrize("size", [10, 30, 100, None])
def test_refuses_truncated_content(size: int | None) -> None:
    without_size = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64) + bytes(64)
    content = _container("80")[:size] if size else without_size

    with pytest.raises(FatbinFormatError, match="at byte 0"):
        fatbins_of(_section(content), _find(content))


def test_reads_fat_binary_of_tiles_behind_another() -> None:
    """As nvcc 13.5 puts them, one behind the other."""
    content = _container("90") + _container("100", kind=_TILE_IR)

    fatbins = _find(content)

    assert len(fatbins) == 2
    assert code_of(fatbins) == DeviceCode(sass=("90",), tile=("100",))


def test_sorts_archs_by_age() -> None:
    assert sort_archs(["100", "90a", "80", "90", "90"]) == ("80", "90", "90a", "100")


def _nvcc(output: Path, home: Path, source: Path, *flags: str) -> Path:
    return compile_file(output, home / "bin" / "nvcc", "-ccbin=g++", *flags, source)


def _container(arch: str, size: int = 40, kind: int = 2) -> bytes:
    """Return a fat binary with one element, of machine code, laid out as by nvcc 13.0."""
    element = struct.pack("<HHIQ12xI8xQ16x", kind, 0x101, 64, size, int(arch), 0x11) + bytes(size)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(element)) + element


@pytest.mark.parametrize("size", [4, 20, 200])
def test_refuses_to_hop_through_something_else(size: int) -> None:
    content = bytes(range(1, 201))[:size]

    with pytest.raises(FatbinFormatError):
        hop_fatbins(io.BytesIO(content), _section(content))
