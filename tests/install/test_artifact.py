"""Zips of a workflow's artifacts."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UnsafeArchiveError
from cuwheel.install.artifact import unpack_artifact

if TYPE_CHECKING:
    from pathlib import Path

WHEEL = "toy-1.0-py3-none-any.whl"


def pack(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def unpack(artifact: Path) -> list[str]:
    folder = artifact.parent / "out"
    folder.mkdir()
    return sorted(
        str(path.relative_to(folder)) for path in unpack_artifact(artifact, folder).rglob("*")
    )


def test_takes_wheels_and_statements_out_of_any_folder(tmp_path: Path) -> None:
    names = (f"a/b/{WHEEL}", f"../../{WHEEL}.provenance.json", "build.log", "simple/index.html")

    assert unpack(pack(tmp_path / "a.zip", *names)) == [WHEEL, f"{WHEEL}.provenance.json"]
    assert not (tmp_path.parent / f"{WHEEL}.provenance.json").exists()


def test_refuses_two_files_of_one_name(tmp_path: Path) -> None:
    with pytest.raises(UnsafeArchiveError) as caught:
        unpack(pack(tmp_path / "a.zip", f"a/{WHEEL}", f"b/{WHEEL}"))

    assert "the same name" in caught.value.why


def test_refuses_too_many_files(tmp_path: Path) -> None:
    names = [f"toy-1.{number}-py3-none-any.whl" for number in range(1001)]

    with pytest.raises(UnsafeArchiveError, match="artifact"):
        unpack(pack(tmp_path / "a.zip", *names))


def test_refuses_what_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"nothing")

    with pytest.raises(UnsafeArchiveError, match="artifact"):
        unpack(tmp_path / "a.zip")
