"""The sessions new, outdated and bump, as a command line reaches them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import UsageError
from cuwheel.system.console import Console
from tests.support.documents import read_document
from tests.support.drafted import FILES, Index
from tests.support.patched import SETUP
from tests.support.updated import make_updated

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """The only index; the project folder is the test's own."""
    made = Index(folder=tmp_path / "simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", made.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))
    monkeypatch.setenv("CUWHEEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    return made


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

    found = read_document(capsys.readouterr().out, "outdated")
    assert [one["name"] for one in found["recipes"]] == ["tiny-up"]


@pytest.mark.parametrize("command", ["outdated", "bump"])
def test_names_nearest_recipe(command: str, index: Index) -> None:
    index.folder.mkdir()

    with pytest.raises(UsageError) as caught:
        run_command(command, ["causal-conv2d"], Console())

    assert caught.value.why == 'did you mean "causal-conv1d"?'


def test_bump_wants_a_name(index: Index) -> None:
    index.folder.mkdir()

    with pytest.raises(UsageError) as caught:
        run_command("bump", [], Console())

    assert "needs a recipe" in caught.value.what


@pytest.mark.parametrize("command", ["outdated", "bump"])
def test_refuses_what_is_no_number_of_days(command: str) -> None:
    option = {"outdated": "--days", "bump": "--cooldown"}[command]

    with pytest.raises(UsageError, match="soon is not a number of days"):
        run_command(command, [option, "soon"], Console())
