"""Files that a package may put in the place of its own."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import IrregularFileError, of_system_error
from cuwheel.base.system.regular_files import (
    is_regular,
    open_file,
    open_regular,
    open_within,
    parse_json,
    read_bytes,
    read_end,
    read_module,
    read_regular,
    read_text,
    read_toml,
)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


_TRAPS: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "folder": os.mkdir,
    "socket": bind,
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("make", _TRAPS.values(), ids=_TRAPS)
def test_opens_nothing_but_files(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "x"
    make(path)

    assert not is_regular(path)
    with pytest.raises(OSError):  # noqa: PT011 - which, depends on what is there
        open_regular(path)


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "nothing"])
def test_waits_for_no_file_of_the_command_line(tmp_path: Path, kind: str) -> None:
    _TRAPS[kind](tmp_path / "x")
    (tmp_path / "link").symlink_to("x")

    for name in ("x", "link"):
        with pytest.raises(OSError):  # noqa: PT011 - as above
            open_file(tmp_path / name)


def test_device_is_no_file() -> None:
    for open_it in (open_file, open_regular):
        with pytest.raises(IrregularFileError):
            open_it(Path("/dev/zero"))


def test_follows_link_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")

    with open_file(tmp_path / "link") as stream:
        assert stream.read() == b"text"


def test_link_in_folder_from_outside_stays_there(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    for path in (folder / "file", outside):
        path.write_text("text")
    (folder / "inside").symlink_to("file")
    (folder / "out").symlink_to(outside)
    (folder / "zero").symlink_to("/dev/zero")

    with open_within(folder / "inside", folder) as stream:
        assert stream.read() == b"text"
    for name in ("out", "zero"):
        with pytest.raises(IrregularFileError):
            open_within(folder / name, folder)


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 200_000, '{"a":' * 200_000, "NaN", "[-Infinity]"),
        *('{"a": "\\ud800"}', b"\xff", "", "9" * 9999),
    ],
    ids=["lists", "objects", "nan", "infinity", "surrogate", "bytes", "empty", "number"],
)
def test_invalid_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own
        parse_json(text)


def test_json_of_ours_may_hold_names_that_are_no_text() -> None:
    assert parse_json('["\\udcff", NaN]', is_own=True)[0] == "\udcff"
    assert parse_json(b'\xef\xbb\xbf{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_reads_no_more_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(5 << 20))

    assert len(read_regular(path, limit=5 << 20)) == 5 << 20
    with pytest.raises(OSError, match="more than 4 MiB"):
        read_regular(path, limit=(5 << 20) - 1)


def test_reads_file_that_states_no_size() -> None:
    assert read_regular(Path("/proc/self/maps"), limit=1 << 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"a\r\n\xc3\xa4\n")
    return file


def test_refuses_larger_file(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate((1 << 20) + 10)

    for read in (read_text, read_bytes):
        with pytest.raises(OSError, match="more than 1 MiB") as caught:
            read(path, limit=1 << 20)
        assert of_system_error(caught.value).what == f"{path} is too large"
        assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    ("limit", "end"), [(100, "one\ntwo\nthree"), (8, "three"), (5, "three"), (3, "ree")]
)
def test_reads_the_last_lines_of_a_log(tmp_path: Path, limit: int, end: str) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthree")

    assert read_end(log, limit=limit) == end


_DEEP = 100_000


@pytest.mark.parametrize("text", [b"a = ", b"a = " + b"[" * _DEEP, b"\xff"])
def test_refuses_invalid_toml(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.toml").write_bytes(text)

    with pytest.raises(ValueError, match=r"."):
        read_toml(tmp_path / "a.toml")


# Python 3.10 ends the process at a chain of names, which can't be prevented.
_CHAIN = [b"a" + b".a" * _DEEP] if sys.version_info >= (3, 11) else []


@pytest.mark.parametrize("text", [b"if", b"-" * _DEEP + b"1", b"(" * _DEEP, b"a\0", *_CHAIN])
def test_refuses_invalid_module(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.py").write_bytes(text)

    with pytest.raises(ValueError, match=r"."):
        read_module(tmp_path / "a.py")
