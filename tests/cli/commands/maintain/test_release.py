"""The session `release`, as it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import ReleaseRequirementError, UsageError
from cuwheel.system.console import Console
from tests.support.documents import read_document
from tests.support.released import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """One wheel in `dist/`, and nox started beside it."""
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    made = Project(folder=tmp_path)
    made.add()
    return made


def run(*words: str) -> None:
    run_command("release", ["--dist", "dist", "--to", "public", *words], Console())


def test_writes_nothing_unless_asked_to(
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
    with pytest.raises(ReleaseRequirementError):
        run("--publish", "--reports", "reports", "--require", option)

    assert not (project.site / "releases").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--require", "pref"), "perf"),
        (("--index", "https://host/simple/"), "--index is for --upload"),
        (("--upload", "https://me:secret@host/"), "contains a user or a password"),
        (("--tag", "v2026-01-01"), "has no release"),
    ],
)
def test_refuses(words: tuple[str, ...], says: str, project: Project) -> None:
    assert project.dist.is_dir()
    with pytest.raises(UsageError) as caught:
        run(*words)

    assert says in str(caught.value)
    assert "secret" not in str(caught.value)
