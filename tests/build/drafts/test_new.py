from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, FileAccessError, SourceError, UsageError
from cuwheel.build.drafts.choices import draft_of
from cuwheel.build.drafts.draft import Draft
from cuwheel.build.drafts.new import DraftOptions, draft_recipe
from cuwheel.build.recipe.catalogue import load_catalogue
from tests.support.build.drafts import FILES, Index, write_tree
from tests.support.factories import make_workspace
from tests.support.golden import Golden

WHOLE = {**FILES, "csrc/lost.cu": "__global__ void lost() {}\n"}
SOURCES = {
    "whole": WHOLE,
    "incomplete": FILES,
    "open": {**WHOLE, "setup.py": f"import strange_words\n{FILES['setup.py']}"},
}


@pytest.fixture
def draft(index: Index, tmp_path: Path) -> Callable[..., Path]:
    """Draft a recipe of a project on the index into a project folder."""
    index.folder.mkdir(exist_ok=True)
    root = tmp_path / "project"

    def run(project: str = "tiny-draft", **options: object) -> Path:
        request = DraftOptions(project=project, **options)  # type: ignore[arg-type]
        return draft_recipe(request, root, load_catalogue([root]), make_workspace(tmp_path))

    return run


@pytest.mark.parametrize("name", SOURCES)
def test_prints_worst_consequences_first(
    name: str,
    index: Index,
    draft: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    digest = index.add_sdist("tiny-draft", "1.0", SOURCES[name])

    path = draft(maintainer="" if name == "open" else "someone")

    assert digest in path.read_text()
    golden.check(f"new/{name}.txt", capsys.readouterr().out, {path.parent: "recipes"})


def test_overwrites_only_on_request(index: Index, draft: Callable[..., Path]) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    path = draft()
    path.write_text("mine\n")

    with pytest.raises(UsageError) as caught:
        draft()

    assert path.read_text() == "mine\n"
    assert "`--overwrite`" in caught.value.fix
    assert "RECIPE" in draft(overwrites=True).read_text()


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("setup.py", "from setuptools import setup\nsetup()\n", "has no CUDA code"),
        ("kernel.cu", "", "contains no Python package"),
    ],
)
def test_refuses_foreign_source(
    file: str, text: str, fault: str, index: Index, draft: Callable[..., Path]
) -> None:
    index.add_sdist("plain", "1.0", {file: text})

    with pytest.raises(SourceError, match=fault):
        draft("plain")


def test_refuses_unknown_name(draft: Callable[..., Path]) -> None:
    with pytest.raises(DownloadError) as caught:
        draft("tiny-daft")

    assert "has no tiny-daft" in caught.value.why
    assert "may differ from the module's name" in caught.value.fix


@pytest.mark.parametrize("name", ["", "../x", "a b", "tiny-draft==1.0"])
def test_refuses_what_is_no_name(name: str, draft: Callable[..., Path]) -> None:
    with pytest.raises(UsageError):
        draft(name)


@pytest.mark.parametrize("name", ["@octocat", "Jane Doe", "a--b"])
def test_refuses_what_is_no_handle(name: str, index: Index, draft: Callable[..., Path]) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)

    with pytest.raises(UsageError) as caught:
        draft(maintainer=name)

    assert f'"{name}" is no handle' in caught.value.what


def test_keeps_recipe_that_came_meanwhile(
    index: Index, draft: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    theirs = tmp_path / "project" / "recipes" / "tiny_draft.py"

    def write_theirs(*arguments: object) -> Draft:
        write_tree(theirs.parent, {theirs.name: "theirs\n"})
        return draft_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("cuwheel.build.drafts.new.draft_of", write_theirs)

    with pytest.raises(UsageError):
        draft()

    assert theirs.read_text() == "theirs\n"


def test_reports_which_folder_it_may_not_write(
    index: Index, draft: Callable[..., Path], tmp_path: Path
) -> None:
    index.add_sdist("tiny-draft", "1.0", FILES)
    write_tree(tmp_path, {"project/recipes": "a file"})

    with pytest.raises(FileAccessError) as caught:
        draft()

    assert f"whose {tmp_path}/project/recipes is" in caught.value.fix


def test_puts_question_where_no_distribution_is_known(
    index: Index, draft: Callable[..., Path]
) -> None:
    setup = f"import strange_words\n{FILES['setup.py']}"
    index.add_sdist("tiny-draft", "1.0", {**FILES, "setup.py": setup})
    index.add_wheel("strange-words", "1.0", {"strange_words.py": ""})  # a stranger's

    text = draft().read_text()

    assert '"?strange_words"' in text
    assert "which setup.py:1 imports" in text
