"""The session `cache`, on a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document
from tests.support.factories import heard, make_workspace
from tests.support.golden import Golden

_OLD = (1_000_000.0, 1_000_000.0)
_FOLDERS = ("toolchains/cuda130-pypi-000000000001", "environments/tiny-000000000001", "uv/archive")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_bytes(b"x" * (1 << 20))
        os.utime(folder / name, _OLD)
    monkeypatch.setenv("CUWHEEL_CACHE", str(folder))
    monkeypatch.setenv("COLUMNS", "80")
    return folder


def test_shows_what_is_there(
    cache: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("cache", [], Console())

    golden.check("cache/contents.txt", capsys.readouterr().out, {cache: "CACHE"})


@pytest.mark.parametrize(
    ("name", "limit", "kept"),
    [
        ("old", "--unused-for 30", ["uv/archive"]),
        ("dry-run", "--unused-for 30 --dry-run", [*_FOLDERS]),
        ("all", "--size 0M", []),
    ],
)
def test_removes_what_is_over_the_limit(
    name: str, limit: str, kept: list[str], cache: Path, golden: Golden
) -> None:
    workspace = make_workspace(cache.parent)

    run_command("cache", ["--prune", *limit.split()], workspace.console)

    assert [name for name in _FOLDERS if (cache / name).exists()] == kept
    golden.check(f"cache/prune-{name}.txt", heard(workspace), {cache: "CACHE"})


def test_returns_contents_as_data(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("cache", ["--json"], Console())

    data = read_document(capsys.readouterr().out, "cache")
    assert data["folder"] == str(cache)
    [entry] = data["kinds"]["environments"]["entries"]
    assert (entry["name"], entry["used"]) == ("tiny-000000000001", "1970-01-12")


@pytest.mark.parametrize(("option", "state"), [("--dry-run", "would be removed"), ("", "removed")])
def test_returns_as_data_what_is_removed(
    option: str, state: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--prune", "--unused-for", "30", "--json", *filter(None, [option])]

    run_command("cache", words, Console())

    data = read_document(capsys.readouterr().out, "cache-prune")
    gone = {
        "kind": "environments",
        "name": "tiny-000000000001",
        "size": 1 << 20,
        "used": "1970-01-12",
    }
    assert gone in data["entries"]
    assert (data["state"], data["in_use"], data["size_before"]) == (state, [], 3 << 20)
    assert data["size"] == (3 << 20 if option else 1 << 20)
    assert (cache / "environments" / "tiny-000000000001").exists() == bool(option)
