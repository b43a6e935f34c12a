"""The session `release`, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.errors import PolicyError
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.documents import read_document
from tests.support.publish.releases import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One wheel in `dist/`, and nox started next to it."""
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    result = Project(folder=tmp_path)
    result.add()
    return result


def run(*words: str) -> None:
    run_command("release", ["--dist", "dist", "--to", "public", *words], Console())


def test_writes_nothing_without_a_request(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--json")
    planned = read_document(capsys.readouterr().out, "release")
    assert not project.site.exists()

    run("--json", "--publish")

    published = read_document(capsys.readouterr().out, "release")
    assert (planned["state"], published["state"]) == ("planned", "published")
    assert (project.site / "releases" / published["tag"] / "notes.md").is_file()


@pytest.mark.parametrize("option", ["perf", "verify", "verify,perf"])
def test_requires_what_is_named(option: str, project: Project) -> None:
    with pytest.raises(PolicyError):
        run("--publish", "--reports", "reports", "--require", option)

    assert not (project.site / "releases").exists()
