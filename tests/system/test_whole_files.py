from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import of_system_error
from cuwheel.system.whole_files import read_bytes, read_end, read_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(b"a\r\n\xc3\xa4\n")
    return made


def test_reads_what_is_no_larger_than_its_limit(path: Path) -> None:
    assert read_text(path, limit=4) == "a\nä\n"
    assert read_bytes(path, limit=6) == b"a\r\n\xc3\xa4\n"


def test_refuses_what_is_larger_in_words(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate((1 << 20) + 10)

    for read in (read_text, read_bytes):
        with pytest.raises(OSError, match="more than 1 MiB") as caught:
            read(path, limit=1 << 20)
        said = of_system_error(caught.value)
        assert said.what == f"{path} is too large"
        assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    ("limit", "end"), [(100, "one\ntwo\nthree"), (8, "three"), (5, "three"), (3, "ree")]
)
def test_reads_the_last_lines_of_a_log(tmp_path: Path, limit: int, end: str) -> None:
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthree")

    assert read_end(log, limit=limit) == end
