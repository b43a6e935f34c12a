"""Bytes of which nothing more is known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from cuwheel.verify.compare.wheel import compare
from tests.support.compared import by_member
from tests.support.factories import compile_library, write_wheel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b"\xff\0\0\0\1", b"\xff\0\1\0\0"),
        (b"\xffone text\0another\0", b"\xffanother\0one text\0"),
        (b"\xff/a/x.cu\0\1\0\0\0", b"\xff/b/x.cu\0\0\0\1\0"),
    ],
    ids=["zeros", "order", "number"],
)
def test_tells_data_that_differs_in_place_alone(tmp_path: Path, a: bytes, b: bytes) -> None:
    wheels = [
        write_wheel(tmp_path / name, {"pkg/x.bin": data})
        for name, data in zip("ab", (a, b), strict=True)
    ]

    found = [one for one in compare(*wheels).differences if one.location.member == "pkg/x.bin"]

    assert found[-1].fact.endswith("bytes differ")
    assert found[-1].causes == ()


@pytest.mark.parametrize("name", ["pkg/data.bin", "pkg/lib.so"])
def test_takes_long_run_of_letters_in_stride(tmp_path: Path, name: str) -> None:
    """What a tool embeds has no zero behind it, and may be megabytes long."""
    wheels = []
    for letter in "ab":
        content: Path | bytes = letter.encode() * 30_000 + b"\xff"
        if name.endswith(".so"):
            source = tmp_path / "run.s"
            source.write_text(f'.section .rodata\n.fill 30000, 1, 65\n.ascii "\\377{letter}"\n')
            content = compile_library(tmp_path / f"{letter}.so", "gcc", source)
        wheels.append(write_wheel(tmp_path / letter, {name: content}))
    started = time.process_time()

    found = by_member(compare(*wheels))

    assert name in found
    assert time.process_time() - started < 5
