from __future__ import annotations

import io
from pathlib import Path

import pytest

from cuwheel.check.explain.log_text import LINES_OF_MESSAGE, blocks, is_text, undecorated


def text_of(log: bytes) -> bytes:
    return b"".join(block.text[: block.fresh] for block in blocks(io.BytesIO(log)))


def test_yields_every_line_once() -> None:
    log = b"".join(b"line %d\n" % number for number in range(1_000_000))

    assert text_of(log) == log


def test_numbers_first_line_of_block() -> None:
    log = b"".join(b"line %d\n" % number for number in range(1, 1_000_000))

    lines = [(block.number, block.text.split(b"\n")[0]) for block in blocks(io.BytesIO(log))]

    assert len(lines) > 2
    assert all(text == b"line %d" % number for number, text in lines)


def test_has_lines_after_fresh_ones() -> None:
    log = b"".join(b"line %d\n" % number for number in range(1_000_000))

    first, *_ = blocks(io.BytesIO(log))

    assert first.text[first.fresh :].count(b"\n") == LINES_OF_MESSAGE - 1


GCC_JSON = b"""g++
[{"kind": "error", "children": [{"kind": "note", \
"locations": [{"caret": {"line": 2, "file": "a.h", "column": 1}}], "message": "b"}],\
"locations": [{"caret": {"line": 3, "file": "a.cpp", "column": 4}}], "message": "c"}]
"""


@pytest.mark.parametrize("log", [b"", b"one", b"one\n", b"one\ntwo", b"1\n2\n3\n4"])
def test_reads_short_logs(log: bytes) -> None:
    assert text_of(log) == log


def test_cuts_endless_line() -> None:
    largest = max(len(block.text) for block in blocks(io.BytesIO(b"x" * 10_000_000)))

    assert largest < 8_000_000
    assert text_of(b"x" * 10_000_000).count(b"x") == 10_000_000


@pytest.mark.parametrize(
    ("log", "plain"),
    [
        (b"\x1b[01m\x1b[Ka.c:1:\x1b[m \x1b[01;31m\x1b[Kerror: \x1b[mx", b"a.c:1: error: x"),
        (b"\x1b]8;;https://gcc.gnu.org\x07-Wall\x1b]8;;\x07", b"-Wall"),
        (b"one\r\ntwo\r\n", b"one\ntwo\n"),
        ("\ufefferror".encode(), b"error"),
        ("error: größer\n".encode("utf-16"), "error: größer\n".encode()),
        ("error\n".encode("utf-16-le"), b"error\n"),
        (b"\0\0one\n\0two\0", b"one\ntwo"),
        (b"one\rtwo\rthree", b"one\ntwo\nthree"),
        (b'{"log": "one\\n", "stream": "stderr"}\n{"log": "two\\n"}\n', b"one\ntwo\n"),
        (b"initializati" + b" " * 90 + b"on", b"initialization"),  # of a terminal's screen
        (b"step" + b" " * 90 + b"0.1 s", b"step" + b" " * 90 + b"0.1 s"),
        (b'"one"\n"two"\n', b"one\ntwo\n"),
        (b'"one\\ntwo"', b"one\ntwo"),
        (GCC_JSON, b"g++\na.cpp:3:4: error: c\na.h:2:1: note: b\n"),
        (b'[{"kind": "error", "locations": []}]', b'[{"kind": "error", "locations": []}]'),
        (b'{"name": "x"}\n[no json\n', b'{"name": "x"}\n[no json\n'),
    ],
)  # fmt: skip
def test_removes_control_sequences(log: bytes, plain: bytes) -> None:
    assert text_of(log) == plain


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-22T05:00:00.1234567Z ",
        "#12 345.6 ",
        "[12:34:56] ",
        "1.181   ",
        "service-1  | ",
        "[rank6]: ",
        "(EngineCore pid=123) ",
        "##[error]",
        "2026-11-22T05:00:00.1234567Z #12 345.6 ",
        "E       ",
    ],
)
def test_removes_prefixes_of_runners(prefix: str) -> None:
    assert undecorated(f"{prefix}nvcc fatal   : no") == "nvcc fatal   : no"


@pytest.mark.parametrize(
    "line", ["nvcc fatal : no", "Error: 12.50 of 3", "[12/13] c++ -c a.cpp", ""]
)
def test_leaves_output_of_tools(line: str) -> None:
    assert undecorated(line) == line


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_encoded_text_is_text(encoding: str) -> None:
    assert is_text("error: größer\n".encode(encoding) * 20)


@pytest.mark.parametrize("program", ["/proc/self/exe", "/bin/sh"])
def test_program_is_no_text(program: str) -> None:
    assert not is_text(Path(program).read_bytes()[:4096])


def test_text_with_zero_bytes_is_text() -> None:
    assert is_text(b"\0" * 100 + b"g++ -c a.cpp\nerror\n")
