"""The session `install` as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document
from tests.support.golden import Golden
from tests.support.publish.installations import offer, uv_environment, versions, write_project


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh environment, and a project with the recipe of toy."""
    monkeypatch.setenv("CUWHEEL_PROJECT", str(write_project(tmp_path / "project")))
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
    monkeypatch.setenv("UV_OFFLINE", "1")
    return uv_environment(tmp_path / "env")


def install(*words: str) -> None:
    run_command("install", words, Console())


def test_installs_and_prints_data(environment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    offer(environment.parent / "wheels")

    install("toy-130", "--python", "env", "--index", "wheels", "--json")

    data = read_document(capsys.readouterr().out, "install")
    assert (data["target"], data["is_done"]) == ("toy-130", True)
    assert data["installed"]["trial"]["imported"] == ["toy"]
    assert versions(environment) == ["1.0+cu130"]


def test_shows_what_it_would_do(
    environment: Path, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    offer(environment.parent / "wheels", stated=None)

    install("toy-130", "--python", "env", "--index", "wheels", "--dry-run")

    golden.check("install/dry-run.txt", capsys.readouterr().err, {environment.parent: "DIR"})
    assert versions(environment) == []


def test_shows_why_none_fits(environment: Path) -> None:
    offer(environment.parent / "wheels", tag="cp38-cp38-win_amd64")

    with pytest.raises(InstallError) as caught:
        install("toy-130", "--python", str(environment), "--index", "wheels")

    assert "win_amd64" in caught.value.why
