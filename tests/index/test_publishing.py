from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import WheelIndexError
from cuwheel.index import entries, publishing
from cuwheel.index.entries import read_entries
from cuwheel.index.publishing import merged, publish
from cuwheel.system.files import sha256_of_file
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path


def test_parts_hold_every_wheel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_PART_WHEELS", 2)
    dist, files = tmp_path / "dist", tmp_path / "files"
    wheels = [add_wheel(dist, f"{number}.0") for number in range(5)]
    files.mkdir()

    publish(merged({dist: read_entries(dist, {})}), files, {})

    names = {f"{wheel.name}{suffix}" for wheel in wheels for suffix in ("", ".metadata")}
    assert {path.name for path in files.iterdir()} == names


def test_what_was_published_before_a_failure_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_PART_WHEELS", 1)
    dist, files = tmp_path / "dist", tmp_path / "files"
    first, second = (add_wheel(dist, version) for version in ("1.0", "2.0"))
    found = merged({dist: read_entries(dist, {})})
    second.write_bytes(b"other")
    files.mkdir()

    with pytest.raises(WheelIndexError, match="changed while it was being published"):
        publish(found, files, {})

    assert (files / first.name).read_bytes() == first.read_bytes()
    assert (files / first.name).stat().st_mtime_ns == first.stat().st_mtime_ns
    assert {path.name for path in files.iterdir()} == {first.name, f"{first.name}.metadata"}


@pytest.mark.parametrize("small", [0, entries.SMALL], ids=["read in pieces", "read at once"])
def test_metadata_comes_from_the_wheel_where_none_lies_beside_it(
    small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "SMALL", small)
    monkeypatch.setattr(entries, "SMALL", small)
    dist, files = tmp_path / "dist", tmp_path / "files"
    bare, other = (add_wheel(dist, version) for version in ("1.0", "2.0"))
    other.with_name(f"{other.name}.metadata").write_bytes(b"of another wheel")
    files.mkdir()

    found = read_entries(dist, {}, tmp_path / "known.json", writes=False)
    publish(merged({dist: found}), files, {})

    assert [one.sha256 for one in found] == [sha256_of_file(one) for one in (bare, other)]
    for entry in found:
        assert sha256_of_file(files / entry.name) == entry.sha256
        assert sha256_of_file(files / f"{entry.name}.metadata") == entry.metadata_sha256
