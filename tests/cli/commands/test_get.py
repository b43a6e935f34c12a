"""The session `get`: what it refuses before anything changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, UsageError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.check.stacks import WheelIndex
from tests.support.documents import read_document
from tests.support.servers.http import Site, serving

PYTHON = f"cp3{sys.version_info.minor}"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WheelIndex]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    with serving(Site()) as site:
        index = WheelIndex(folder=tmp_path / "wheels", site=site)
        index.add_torch("2.12.0", "2.11.0", pythons=(PYTHON,))
        index.add("fast", "1.0+cu130torch2.11", python=PYTHON)
        index.add_sdist("sourced", "3.0")
        index.add_sdist("flash-attn", "2.8.3")
        yield index


def get(index: WheelIndex, folder: Path, *words: str) -> int:
    here = ("--index", index.url, "--python", sys.executable, "--to", str(folder / "env"))
    dist = ("--dist", str(folder / "dist"))
    return run_command("get", [*words, *here, *dist], Console())


def test_refuses_existing_folder(index: WheelIndex, tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()

    with pytest.raises(UsageError, match="exists already"):
        get(index, tmp_path, "fast")


def test_refuses_package_that_no_recipe_builds(index: WheelIndex, tmp_path: Path) -> None:
    with pytest.raises(InstallError) as caught:
        get(index, tmp_path, "fast", "sourced")

    assert "no recipe builds sourced" in caught.value.why
    assert not (tmp_path / "env").exists()


def test_builds_nothing_without_a_word(
    index: WheelIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InstallError) as caught:
        get(index, tmp_path, "fast", "flash-attn>=2.8")

    assert "--yes" in caught.value.fix
    assert "of memory for each parallel compile" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "env").exists()


def test_dry_run_shows_what_is_missing(
    index: WheelIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert get(index, tmp_path, "fast", "sourced", "--dry-run", "--json") == 1

    data = read_document(capsys.readouterr().out, "get")
    assert [package["project"] for package in data["stack"]["stack"]["missing"]] == ["sourced"]
    assert data["folder"] == ""
