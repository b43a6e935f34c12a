from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.index import entries
from cuwheel.index.entries import read_entries
from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.publication import statement_of
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path

STATEMENT = {
    "predicate": {
        "buildDefinition": {
            "externalParameters": {"toolkit": "13.0", "framework": "torch==2.11.0"}
        },
        "runDetails": {"metadata": {"finishedOn": "2026-11-01T10:20:30.5+02:00"}},
    }
}


def test_says_what_installers_need(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist", requires_python=">=3.10")
    os.utime(wheel, (0, 1_700_000_000))

    (entry,) = read_entries(tmp_path / "dist", {})

    assert (entry.sha256, entry.size) == (sha256_of_file(wheel), wheel.stat().st_size)
    assert (entry.uploaded, entry.requires_python) == ("2023-11-14T22:13:20Z", ">=3.10")
    beside = wheel.with_name(f"{wheel.name}.metadata")
    assert entry.metadata_sha256 == sha256_of_file(beside)


def test_takes_date_and_toolkit_from_the_statement(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist")
    statement_of(wheel).write_text(json.dumps(STATEMENT))

    (entry,) = read_entries(tmp_path / "dist", {})

    assert entry.uploaded == "2026-11-01T08:20:30Z"
    assert (entry.toolkit, entry.framework) == ("13.0", "torch==2.11.0")


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


def test_names_the_framework_as_the_wheel_requires_it(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist", requires="torch>=2.10 ; platform_system == 'Linux'")
    statement_of(wheel).write_text(json.dumps(STATEMENT))

    (entry,) = read_entries(tmp_path / "dist", {})

    assert entry.framework == "torch>=2.10"


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1, "wheels": {"a": 1}}', "\x00"])
def test_takes_a_malformed_memory_for_none(text: str, tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    before = read_entries(tmp_path / "dist", {})
    (tmp_path / "dist" / ".cuwheel" / "wheels.json").write_text(text)

    assert read_entries(tmp_path / "dist", {}) == before
