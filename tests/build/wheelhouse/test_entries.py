from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cuwheel.base.formats.wheel.publication import statement_of
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.wheelhouse import entries
from cuwheel.build.wheelhouse.entries import read_entries
from tests.support.packages.toy_wheel import add_wheel

STATEMENT = {
    "predicate": {
        "buildDefinition": {
            "externalParameters": {"toolkit": "13.0", "framework": "torch==2.11.0"}
        },
        "runDetails": {"metadata": {"finishedOn": "2026-11-01T10:20:30.5+02:00"}},
    }
}


@pytest.mark.parametrize("is_stated", [False, True])
def test_reads_what_installers_need(is_stated: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """Date and toolkit from the statement; the framework as the wheel itself requires it."""
    requires = "torch>=2.10 ; platform_system == 'Linux'"
    wheel = add_wheel(tmp_path / "dist", requires_python=">=3.10", requires=requires)
    os.utime(wheel, (0, 1_700_000_000))
    if is_stated:
        statement_of(wheel).write_text(json.dumps(STATEMENT))

    (entry,) = read_entries(tmp_path / "dist", {})

    assert (entry.sha256, entry.size) == (sha256_of_file(wheel), wheel.stat().st_size)
    assert entry.uploaded == ("2026-11-01T08:20:30Z" if is_stated else "2023-11-14T22:13:20Z")
    assert (entry.requires_python, entry.framework) == (">=3.10", "torch>=2.10")
    assert entry.toolkit == ("13.0" if is_stated else "")
    metadata = wheel.with_name(f"{wheel.name}.metadata")
    assert entry.metadata_sha256 == sha256_of_file(metadata)
    assert not entry.has_libraries


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 100_000, '{"predicate": 1}', '{"predicate": {"runDetails": {}}}']
)
def test_takes_a_malformed_statement_for_none(text: str, tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist")
    statement_of(wheel).write_text(text)

    (entry,) = read_entries(tmp_path / "dist", {})

    assert not entry.has_statement
    assert entry.toolkit == ""


def test_reads_no_wheel_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_wheel(tmp_path / "dist")
    before = read_entries(tmp_path / "dist", {})
    monkeypatch.setattr(entries, "open_wheel", None)

    assert read_entries(tmp_path / "dist", {}) == before


@pytest.mark.parametrize("changed", ["wheel", "metadata", "statement"])
def test_reads_again_what_has_changed(changed: str, tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist")
    (before,) = read_entries(tmp_path / "dist", {})
    metadata = wheel.with_name(f"{wheel.name}.metadata")
    if changed == "wheel":
        add_wheel(tmp_path / "dist", content="x = 1")
    elif changed == "metadata":
        metadata.write_text("evil")
    else:
        statement_of(wheel).write_text(json.dumps(STATEMENT))

    (after,) = read_entries(tmp_path / "dist", {})

    assert (after != before) is (changed != "metadata")
    assert after.sha256 == sha256_of_file(wheel)
    assert after.metadata_sha256 == sha256_of_file(metadata)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1, "wheels": {"a": 1}}', "\x00"])
def test_takes_a_malformed_memory_for_none(text: str, tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    before = read_entries(tmp_path / "dist", {})
    (tmp_path / "dist" / ".cuwheel" / "wheels.json").write_text(text)

    assert read_entries(tmp_path / "dist", {}) == before


_MARKED = "1.0+cu130.source.h0123456789ab"


def test_withdraws_wheel_of_given_source_next_to_the_recipes_own(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist", _MARKED)
    add_wheel(tmp_path / "dist", "1.0+cu130")
    add_wheel(tmp_path / "dist", "2.0+cu130.source.h0123456789ab")  # alone of its version

    listed = read_entries(tmp_path / "dist", {})

    assert {str(each.version): each.yanked is None for each in listed} == {
        _MARKED: False,
        "1.0+cu130": True,
        "2.0+cu130.source.h0123456789ab": True,
    }


@pytest.mark.parametrize("newest", ["0123456789ab", "f123456789ab"])
def test_offers_newest_of_wheels_of_given_sources(newest: str, tmp_path: Path) -> None:
    for digest in ("0123456789ab", "f123456789ab"):
        wheel = add_wheel(tmp_path / "dist", f"1.0+cu130.source.h{digest}")
        os.utime(wheel, (0, 1_700_000_000 + (digest == newest)))

    offered = [
        each.version.local for each in read_entries(tmp_path / "dist", {}) if not each.yanked
    ]

    assert offered == [f"cu130.source.h{newest}"]
