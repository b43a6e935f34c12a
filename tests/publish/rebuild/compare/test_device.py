"""Fat binaries that no tool would write, or that were damaged since; sound ones need nvcc."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import zstandard

from cuwheel.publish.rebuild.compare.differences import DifferenceData
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import compile_library, write_wheel

_MEMBER = "pkg/k.fatbin"
_LTO = 8


def _fatbin(*elements: bytes) -> bytes:
    content = b"".join(elements)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def _compare(folder: Path, a: bytes | Path, b: bytes | Path) -> list[DifferenceData]:
    wheels = [
        write_wheel(folder / name, {_MEMBER: content}) for name, content in (("a", a), ("b", b))
    ]
    return [
        difference for difference in compare(*wheels).differences if difference.member == _MEMBER
    ]


def test_reads_header_that_is_shorter_than_known_ones(tmp_path: Path) -> None:
    def element(code: bytes) -> bytes:
        return struct.pack("<HHIQ12xI8xQ", 2, 0x101, 48, len(code), 90, 0) + code

    (difference,) = _compare(
        tmp_path,
        _fatbin(element(b"a" * 8), element(b"c")),
        _fatbin(element(b"b" * 8), element(b"c")),
    )

    assert difference.code == "SASS sm_90"
    assert difference.fact.startswith("the code differs, and can't be read")


def test_takes_no_code_that_was_cut_for_equal(tmp_path: Path) -> None:
    lines = [f".global .u32 v{zlib.crc32(bytes([number]))};\n" for number in range(250)]
    whole = zstandard.ZstdCompressor().compress("".join(lines * 8).encode())

    def element(size: int) -> bytes:
        packed = whole[:size]
        unpacked = len("".join(lines * 8))
        fields = (1, 0x101, 64, size, size, 0, 9, 0, 90, 0, 0, 1 << 15, 0, unpacked)
        return struct.pack("<HHIQIIHHIIIQQQ", *fields) + packed

    (difference,) = _compare(tmp_path, _fatbin(element(1000)), _fatbin(element(1003)))

    assert difference.fact == "PTX compute_90 can't be unpacked: it is truncated"
    assert difference.causes == ()


def _lto(arch: int, code: bytes) -> bytes:
    """An element of an unknown form."""
    return struct.pack("<HHIQ12xI8xQ16x", _LTO, 0x101, 64, len(code), arch, 0) + code


def _library(folder: Path, sections: dict[str, bytes], text: str = "") -> Path:
    """A library with these sections, and a text at the end of the last."""
    folder.mkdir()
    lines = []
    for name, content in sections.items():
        file = folder / name
        file.write_bytes(content)
        lines.append(f'.section {name},"a"\n.balign 16\n.incbin "{file}"\n')
    (folder / "code.s").write_text("".join(lines) + f'.asciz "{text}"\n' * bool(text))
    return compile_library(folder / "lib.so", "gcc", "-Wl,--build-id=none", folder / "code.s")


def test_names_section_of_what_only_the_second_has(tmp_path: Path) -> None:
    one, other = _fatbin(_lto(90, b"one.")), _fatbin(_lto(80, b"two."))
    a = _library(tmp_path / "1", {"__nv_relfatbin": one, ".nv_fatbin": one})
    b = _library(tmp_path / "2", {"__nv_relfatbin": one, ".nv_fatbin": one + other + other})

    result = [one for one in _compare(tmp_path, a, b) if not one.is_consequence]

    assert [(one.section, one.fatbin) for one in result] == [
        (".nv_fatbin", 3),
        (".nv_fatbin", 4),
    ]
    assert {one.causes for one in result} == {("archs",)}


def test_compares_what_lies_next_to_device_code_in_its_section(tmp_path: Path) -> None:
    a = _library(tmp_path / "1", {".rodata": _fatbin(_lto(90, b"one."))}, text="the first text")
    b = _library(tmp_path / "2", {".rodata": _fatbin(_lto(90, b"two."))}, text="a second text")

    result = [one for one in _compare(tmp_path, a, b) if not one.is_consequence]

    assert [(one.section, one.a, one.b) for one in result] == [
        (".rodata", "", ""),
        (".rodata", "the first text", "a second text"),
    ]
