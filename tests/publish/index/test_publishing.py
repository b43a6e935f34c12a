from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import WheelIndexError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.wheelhouse import entries
from cuwheel.build.wheelhouse.entries import read_entries
from cuwheel.publish.index import publishing
from cuwheel.publish.index.publishing import merged, publish
from tests.support.packages.toy_wheel import add_wheel


def test_nothing_is_published_where_one_wheel_has_changed(tmp_path: Path) -> None:
    dist, files = tmp_path / "dist", tmp_path / "files"
    _, second = (add_wheel(dist, version) for version in ("1.0", "2.0"))
    wheels = merged({dist: read_entries(dist, {})})
    second.write_bytes(b"other")
    files.mkdir()

    with pytest.raises(WheelIndexError, match="changed while it was being published"):
        publish(wheels, files, {})

    assert list(files.iterdir()) == []


@pytest.mark.parametrize("small", [0, entries.SMALL], ids=["read in pieces", "read at once"])
def test_metadata_comes_from_the_wheel_without_a_file(
    small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "SMALL", small)
    monkeypatch.setattr(entries, "SMALL", small)
    dist, files = tmp_path / "dist", tmp_path / "files"
    bare, other = (add_wheel(dist, version) for version in ("1.0", "2.0"))
    other.with_name(f"{other.name}.metadata").write_bytes(b"of another wheel")
    files.mkdir()

    listed = read_entries(dist, {}, tmp_path / "known.json", writes=False)
    publish(merged({dist: listed}), files, {})

    assert [entry.sha256 for entry in listed] == [sha256_of_file(wheel) for wheel in (bare, other)]
    for entry in listed:
        assert sha256_of_file(files / entry.name) == entry.sha256
        assert sha256_of_file(files / f"{entry.name}.metadata") == entry.metadata_sha256
