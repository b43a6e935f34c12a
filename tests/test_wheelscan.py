from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.wheelscan import Leak, WheelScan, scan_wheel
from tests.factories import compile_library, write_wheel

if TYPE_CHECKING:
    from pathlib import Path

_PRIVATE = "/private/work"
_MIB = 1 << 20


def _scan(tmp_path: Path, content: bytes, name: str = "pkg/data.bin") -> WheelScan:
    wheel = write_wheel(tmp_path / "wheel", {name: content})
    return scan_wheel(wheel, private_paths=(_PRIVATE, f"{_PRIVATE}/src", "/"), scratch=tmp_path)


def _library(folder: Path, text: str) -> bytes:
    source = folder / "text.c"
    source.write_text(f'const char *text(void) {{ return "{text}"; }}\n')
    return compile_library(folder / "text.so", "gcc", "-fPIC", source).read_bytes()


def test_finds_private_path_in_any_file(tmp_path: Path) -> None:
    content = b"\0\1/private/work/src/a.cpp\0 and /private/work\0"

    leaks = _scan(tmp_path, content).leaks

    assert leaks == (Leak(name="pkg/data.bin", text="/private/work/src/a.cpp", count=2),)


@pytest.mark.parametrize("before", [_MIB - 20, _MIB - 1, _MIB, 2 * _MIB - 4096, 2 * _MIB - 5])
def test_finds_path_wherever_pieces_meet(tmp_path: Path, before: int) -> None:
    content = b"." * before + b"/private/work/a.cpp" + b"." * (3 * _MIB - before)

    leaks = _scan(tmp_path, content).leaks

    assert [leak.count for leak in leaks] == [1]


def test_lets_longer_name_pass(tmp_path: Path) -> None:
    assert _scan(tmp_path, b"/private/workshop/a.cpp").leaks == ()


@pytest.mark.parametrize(
    "path", ["/home/someone/src/kernel.cu", "/root/a/b.cpp", "/tmp/build-x1/include/c.h"]
)
def test_finds_source_of_any_home_in_library(tmp_path: Path, path: str) -> None:
    leaks = _scan(tmp_path, _library(tmp_path, path), "pkg/text.so").leaks

    assert leaks == (Leak(name="pkg/text.so", text=path, count=1),)


@pytest.mark.parametrize(
    "text",
    ["/root/.cache/pkg", "/tmp/pkg.lock", "/src/home/me/a.cpp", "https://host/home/me/a.c"],
)
def test_lets_other_path_in_library_pass(tmp_path: Path, text: str) -> None:
    assert _scan(tmp_path, _library(tmp_path, text), "pkg/text.so").leaks == ()


def test_lets_path_of_some_home_in_text_pass(tmp_path: Path) -> None:
    assert _scan(tmp_path, b"edit /home/user/project/main.cpp", "pkg/README.md").leaks == ()


def test_tells_damaged_library(tmp_path: Path) -> None:
    scan = _scan(tmp_path, _library(tmp_path, "")[:200], "pkg/text.so")

    assert [library.damage.partition(":")[0] for library in scan.libraries] == [
        "not a sound ELF file"
    ]


def test_takes_path_that_is_no_text(tmp_path: Path) -> None:
    odd = os.fsdecode(b"/private/\xff/work")
    wheel = write_wheel(tmp_path / "wheel", {"pkg/data.bin": b"\0/private/\xff/work/a.cpp\0"})

    leaks = scan_wheel(wheel, private_paths=(odd,), scratch=tmp_path).leaks

    assert [leak.count for leak in leaks] == [1]
