"""Checks of installed packages, and the replacement of damaged ones."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import ToolchainError
from cuwheel.build.environments.installed import check_records, damaged_projects

_RECORD = "nvcc-13.dist-info/RECORD"


def record_hash(algorithm: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).decode()
    return f"{algorithm}={digest.rstrip('=')}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of a wheel, as an installer writes them."""
    rows = [f"{_RECORD},,"]
    for name in ("bin/nvcc", "bin/a, b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
        rows.append(f'"{name}",{record_hash("sha256", name.encode())},{len(name)}')
    (tmp_path / _RECORD).parent.mkdir()
    (tmp_path / _RECORD).write_text("\n".join(rows))
    return tmp_path


def test_takes_files_as_their_wheels_say(folder: Path) -> None:
    check_records(folder, "pypi.lock")


@pytest.mark.parametrize("name", ["bin/nvcc", "bin/a, b"])
def test_names_files_that_are_not_as_their_wheels_say(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"damaged")

    with pytest.raises(ToolchainError) as caught:
        check_records(folder, "pypi.lock")

    assert caught.value.what.startswith("1 files of pypi.lock")
    assert caught.value.why.endswith(f"damaged: {name}")


@pytest.mark.parametrize("algorithm", ["sha384", "sha512", "blake2b"])
def test_takes_the_hash_that_a_row_names(folder: Path, algorithm: str) -> None:
    """The specification allows what is stronger than SHA-256."""
    record = folder / _RECORD
    (folder / "strong").write_bytes(b"strong")
    record.write_text(f"{record.read_text()}\nstrong,{record_hash(algorithm, b'strong')},6")

    check_records(folder, "pypi.lock")

    (folder / "strong").write_bytes(b"damaged")
    with pytest.raises(ToolchainError, match="strong"):
        check_records(folder, "pypi.lock")


def _add_weak_hash(folder: Path) -> None:
    record = folder / _RECORD
    (folder / "weak").write_bytes(b"weak")
    record.write_text(f"{record.read_text()}\nweak,{record_hash('md5', b'weak')},4")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_add_weak_hash, "weak"),
        (lambda folder: (folder / "bin/nvcc").unlink(), "bin/nvcc"),
        (lambda folder: (folder / "evil.pth").write_text("import os"), r"evil\.pth"),
        (lambda folder: (folder / _RECORD).write_bytes(b""), _RECORD),
        (lambda folder: (folder / _RECORD).write_bytes(bytes(80)), _RECORD),
        (lambda folder: (folder / _RECORD).write_bytes(b"bin/nvcc,\0,\n"), _RECORD),
        (lambda folder: (folder / _RECORD).write_bytes(b"\xff\xfe"), _RECORD),
    ],
)
def test_names_what_no_record_vouches_for(
    damage: Callable[[Path], object], named: str, folder: Path
) -> None:
    damage(folder)

    with pytest.raises(ToolchainError, match=named):
        check_records(folder, "pypi.lock")


def test_takes_a_file_of_two_wheels_as_either_says(folder: Path) -> None:
    """The last that was installed has replaced the other's."""
    record = folder / "other-1.dist-info" / "RECORD"
    record.parent.mkdir()
    rows = f"bin/nvcc,{record_hash('sha256', b'of another')},10\nother-1.dist-info/RECORD,,\n"
    record.write_text(rows)
    check_records(folder, "pypi.lock")
    (folder / "bin/nvcc").write_bytes(b"of another")
    check_records(folder, "pypi.lock")
    assert damaged_projects(folder) == ()

    (folder / "bin/a, b").write_bytes(b"damaged")
    assert damaged_projects(folder) == ("nvcc",)

    (folder / "evil.pth").write_bytes(b"import os")
    assert damaged_projects(folder) == ("nvcc", "other")
