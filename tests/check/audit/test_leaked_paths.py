"""Paths of a build machine in wheels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.check.audit.leaked_paths import Leak
from cuwheel.check.audit.scan import scan_wheel
from tests.support.check.scans import MIB, library_with, scan_file
from tests.support.factories import write_wheel


def test_finds_private_path_in_any_file(tmp_path: Path) -> None:
    content = b"\0\1/private/work/src/a.cpp\0 and /private/work\0"

    leaks = scan_file(tmp_path, content).leaks

    path = "/private/work/src/a.cpp"
    assert leaks == (Leak(name="pkg/data.bin", text=path, count=2),)


@pytest.mark.parametrize("before", [MIB - 20, MIB - 1, MIB, 2 * MIB - 4096, 2 * MIB - 5])
def test_finds_path_wherever_pieces_meet(tmp_path: Path, before: int) -> None:
    content = b"." * before + b"/private/work/a.cpp" + b"." * (3 * MIB - before)

    leaks = scan_file(tmp_path, content).leaks

    assert [leak.count for leak in leaks] == [1]


def test_longer_name_passes(tmp_path: Path) -> None:
    assert scan_file(tmp_path, b"/private/workshop/a.cpp").leaks == ()


@pytest.mark.parametrize(
    "path",
    [
        "/home/someone/src/kernel.cu",
        "/root/a/b.cpp",
        "/tmp/build-x1/include/c.h",
        "/home/jenkins/agent/workspace/a.cpp",
        "/__w/project/project/csrc/a.cu",
        "/project/include/a.h",
    ],
)
def test_finds_source_of_build_machine_in_library(tmp_path: Path, path: str) -> None:
    leaks = scan_file(tmp_path, library_with(tmp_path, path), "pkg/text.so").leaks

    assert leaks == (Leak(name="pkg/text.so", text=path, count=1),)


@pytest.mark.parametrize(
    "text",
    [
        "/root/.cache/pkg",
        "/tmp/pkg.lock",
        "/tmp/jit_XXXXXX.cpp",  # a program's own file
        "/tmp/%s/kernel.cu",
        "/src/home/me/a.cpp",
        "../home/me/a.cpp",
        "https://host/home/me/a.c",
        "/usr/include/c++/12/bits/stl_vector.h",
    ],
)
def test_other_path_in_library_passes(tmp_path: Path, text: str) -> None:
    assert scan_file(tmp_path, library_with(tmp_path, text), "pkg/text.so").leaks == ()


def test_path_of_any_home_in_text_passes(tmp_path: Path) -> None:
    assert scan_file(tmp_path, b"edit /home/user/project/main.cpp", "pkg/README.md").leaks == ()


def test_finds_path_that_is_not_utf8(tmp_path: Path) -> None:
    odd = os.fsdecode(b"/private/\xff/work")
    wheel = write_wheel(tmp_path / "wheel", {"pkg/data.bin": b"\0/private/\xff/work/a.cpp\0"})

    leaks = scan_wheel(wheel, private_paths=(odd,)).leaks

    assert [leak.count for leak in leaks] == [1]
