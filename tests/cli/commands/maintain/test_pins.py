"""The sessions that move what is pinned."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cuwheel.base.errors import LockError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from tests.support.build.drafts import FILES, Index
from tests.support.build.patched_sources import SETUP
from tests.support.build.updates import make_updated
from tests.support.documents import read_document

PROJECT = ROOT / "tests" / "project"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder of its own, next to the repository's recipes."""
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    monkeypatch.setenv("CUWHEEL_PROJECT", str(folder))
    return folder


@pytest.mark.usefixtures("project")
def test_every_lock_matches_its_input(capsys: pytest.CaptureFixture[str]) -> None:
    run_command("lock-check", [], Console())

    assert "locks match" in capsys.readouterr().err


def test_shows_which_lock_was_edited(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = next((project / "envs" / "build").glob("*.lock"))
    lock.write_text(lock.read_text().replace("--hash=sha256:", "--hash=sha256:0", 1))

    with pytest.raises(LockError) as caught:
        run_command("lock-check", ["--json"], Console())

    assert caught.value.fix.startswith("nox -s lock -- build:")
    result = read_document(capsys.readouterr().out, "lock-check")
    faults = {lock["lock"]: lock["faults"] for lock in result["locks"]}
    assert [name for name, result in faults.items() if result] == [str(lock)]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """The only index; the project folder is the test's own."""
    built = Index(folder=tmp_path / "simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", built.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    return built


def test_new_drafts_into_the_first_project_folder(index: Index, tmp_path: Path) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    index.add_sdist("tiny-draft", "2.0", FILES)

    run_command("new", ["tiny_draft", "--version", "1.0", "--maintainer", "me"], Console())

    text = (tmp_path / "project" / "recipes" / "tiny_draft.py").read_text()
    assert 'version="1.0"' in text
    assert 'maintainers=("me",)' in text


def test_outdated_takes_names_of_recipes(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "project").rmdir()
    make_updated(tmp_path, index, SETUP)

    run_command("outdated", ["tiny-up", "--json", "--days", "5"], Console())

    result = read_document(capsys.readouterr().out, "outdated")
    assert [recipe["name"] for recipe in result["recipes"]] == ["tiny-up"]


def test_bump_wants_a_name(index: Index) -> None:
    index.folder.mkdir()

    with pytest.raises(UsageError) as caught:
        run_command("bump", [], Console())

    assert "needs a recipe" in caught.value.what
