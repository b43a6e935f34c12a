"""How two archives are told apart: times, modes, order, packing."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from zlib_ng import zlib_ng

from cuwheel.verify.compare.wheel import compare
from tests.support.compared import INFO, only_difference, rewritten

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_names_times(wheel: Path, tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.date_time = (2026, 11, 21, 12, 0, 2)

    difference = only_difference(compare(wheel, rewritten(wheel, tmp_path / "b", change)))

    assert difference.causes == ("member-times",)
    assert (difference.a, difference.b) == ("1980-01-01 00:00:00", "2026-11-21 12:00:02")


def test_names_modes(wheel: Path, tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.external_attr = 0o600 << 16

    difference = only_difference(compare(wheel, rewritten(wheel, tmp_path / "b", change)))

    assert difference.causes == ("member-modes",)
    assert (difference.a, difference.b) == ("?rw-r--r--", "?rw-------")


def test_names_order(wheel: Path, tmp_path: Path) -> None:
    other = rewritten(wheel, tmp_path / "b", order=lambda entries: entries[::-1])

    difference = only_difference(compare(wheel, other))

    assert difference.causes == ("member-order",)
    assert (difference.a, difference.b) == ("pkg/data.txt", f"{INFO}/RECORD")


def test_names_comment(wheel: Path, tmp_path: Path) -> None:
    difference = only_difference(
        compare(wheel, rewritten(wheel, tmp_path / "b", comment=b"by hand"))
    )

    assert (difference.fact, difference.b) == ("the archive's comment differs", "by hand")
    assert difference.causes == ()


def test_names_level_of_compression(wheel: Path, tmp_path: Path) -> None:
    difference = only_difference(compare(wheel, rewritten(wheel, tmp_path / "b", level=1)))

    assert difference.causes == ("deflate-level",)
    assert difference.a.startswith("level 6")
    assert difference.b.startswith("level 1")


def test_names_other_zlib(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zipfile.zlib", zlib_ng)
    other = rewritten(wheel, tmp_path / "b")

    difference = only_difference(compare(wheel, other))

    assert difference.causes == ("deflate",)
    assert difference.b == "unknown level or zlib"


def test_tells_stored_from_deflated(wheel: Path, tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.compress_type = zipfile.ZIP_STORED

    difference = only_difference(compare(wheel, rewritten(wheel, tmp_path / "b", change)))

    assert (difference.a, difference.b) == ("deflated", "stored")
