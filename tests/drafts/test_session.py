from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.choices import draft_of
from cuwheel.drafts.session import DraftOptions, draft_recipe
from cuwheel.errors import FileAccessError, SourceError, UnknownProjectError, UsageError
from cuwheel.model.catalogue import load_catalogue
from tests.support.drafted import FILES, write_tree
from tests.support.factories import make_workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.drafts.draft import Draft
    from tests.support.drafted import Index


@pytest.fixture
def draft(index: Index, tmp_path: Path) -> Callable[..., Path]:
    """Draft a recipe of what the index has into a project folder."""
    index.folder.mkdir(exist_ok=True)
    root = tmp_path / "project"

    def run(project: str = "tiny-draft", **options: object) -> Path:
        asked = DraftOptions(project=project, **options)  # type: ignore[arg-type]
        return draft_recipe(asked, root, load_catalogue([root]), make_workspace(tmp_path))

    return run


def test_writes_recipe_and_says_how_to_go_on(
    index: Index, draft: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    digest = index.add_sdist("tiny-draft", "1.0", FILES)

    path = draft(maintainer="someone")

    assert path.name == "tiny_draft.py"
    assert digest in path.read_text()
    said = capsys.readouterr().out
    assert "nox -s lock -- build:tiny-draft smoke:tiny-draft\n" in said
    assert "nox -s build-tiny-draft-130 -- --arch 90 --until preflight\n" in said
    assert "write your handle" not in said


def test_asks_for_a_handle(
    index: Index, draft: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)

    draft()

    assert "write your handle into `maintainers`" in capsys.readouterr().out


def test_overwrites_only_when_told(index: Index, draft: Callable[..., Path]) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    path = draft()
    path.write_text("mine\n")

    with pytest.raises(UsageError) as caught:
        draft()

    assert path.read_text() == "mine\n"
    assert "`--overwrite`" in caught.value.fix
    assert "RECIPE" in draft(overwrites=True).read_text()


def test_refuses_source_without_cuda(index: Index, draft: Callable[..., Path]) -> None:
    index.add_sdist("plain", "1.0", {"setup.py": "from setuptools import setup\nsetup()\n"})

    with pytest.raises(SourceError) as caught:
        draft("plain")

    assert "has no CUDA code" in caught.value.what


def test_refuses_source_that_is_no_package(index: Index, draft: Callable[..., Path]) -> None:
    index.add_sdist("plain", "1.0", {"kernel.cu": ""})

    with pytest.raises(SourceError) as caught:
        draft("plain")

    assert "contains no Python package" in caught.value.what


def test_refuses_unknown_name(draft: Callable[..., Path]) -> None:
    with pytest.raises(UnknownProjectError) as caught:
        draft("tiny-daft")

    assert "has no tiny-daft" in caught.value.why
    assert "may differ from the module's name" in caught.value.fix


@pytest.mark.parametrize("name", ["", "../x", "a b"])
def test_refuses_what_is_no_name(name: str, draft: Callable[..., Path]) -> None:
    with pytest.raises(UsageError):
        draft(name)


@pytest.mark.parametrize("name", ["@octocat", "Jane Doe", "a--b"])
def test_refuses_what_is_no_handle(name: str, index: Index, draft: Callable[..., Path]) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)

    with pytest.raises(UsageError) as caught:
        draft(maintainer=name)

    assert f'"{name}" is no handle' in caught.value.what


def test_says_how_a_release_is_named(draft: Callable[..., Path]) -> None:
    with pytest.raises(UsageError) as caught:
        draft("tiny-draft==1.0")

    assert caught.value.fix == "nox -s new -- tiny-draft --version 1.0"


def test_keeps_recipe_that_came_meanwhile(
    index: Index, draft: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    theirs = tmp_path / "project" / "recipes" / "tiny_draft.py"

    def write_theirs(*given: object) -> Draft:
        write_tree(theirs.parent, {theirs.name: "theirs\n"})
        return draft_of(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("cuwheel.drafts.session.draft_of", write_theirs)

    with pytest.raises(UsageError):
        draft()

    assert theirs.read_text() == "theirs\n"


def test_says_which_folder_it_may_not_write(
    index: Index, draft: Callable[..., Path], tmp_path: Path
) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    write_tree(tmp_path, {"project/recipes": "a file"})

    with pytest.raises(FileAccessError) as caught:
        draft()

    assert f"whose {tmp_path}/project/recipes is" in caught.value.fix
