"""What is checked of installed packages, and what happens where one is damaged."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import DamagedPackagesError
from cuwheel.pypi.installed import check_records

if TYPE_CHECKING:
    from pathlib import Path

_RECORD = "nvcc-13.dist-info/RECORD"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What an installer makes of a wheel with two files."""
    rows = [f"{_RECORD},,"]
    for name in ("bin/nvcc", "bin/a, b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
        digest = base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()).decode()
        rows.append(f'"{name}",sha256={digest.rstrip("=")},{len(name)}')
    (tmp_path / _RECORD).parent.mkdir()
    (tmp_path / _RECORD).write_text("\n".join(rows))
    return tmp_path


def test_takes_files_as_their_wheels_say(folder: Path) -> None:
    check_records(folder, "pypi.lock")


@pytest.mark.parametrize("name", ["bin/nvcc", "bin/a, b"])
def test_names_files_that_are_not_as_their_wheels_say(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"damaged")

    with pytest.raises(DamagedPackagesError) as caught:
        check_records(folder, "pypi.lock")

    assert caught.value.what.startswith("1 files of pypi.lock")
    assert caught.value.why.endswith(f"damaged: {name}")


def test_names_file_that_is_missing(folder: Path) -> None:
    (folder / "bin/nvcc").unlink()

    with pytest.raises(DamagedPackagesError, match="bin/nvcc"):
        check_records(folder, "pypi.lock")


@pytest.mark.parametrize("content", [b"", b"\0" * 80, b"bin/nvcc,\0,\n", b"\xff\xfe"])
def test_names_record_that_is_no_table(folder: Path, content: bytes) -> None:
    (folder / _RECORD).write_bytes(content)

    with pytest.raises(DamagedPackagesError, match=_RECORD):
        check_records(folder, "pypi.lock")


def test_names_file_that_is_in_no_record(folder: Path) -> None:
    (folder / "evil.pth").write_text("import os")

    with pytest.raises(DamagedPackagesError, match=r"evil\.pth"):
        check_records(folder, "pypi.lock")
