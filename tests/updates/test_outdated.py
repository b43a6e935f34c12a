from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.model.catalogue import CatalogueEntry
from cuwheel.model.recipe import Framework
from cuwheel.model.source import Archive, Folder, GitCommit, Patch, Sdist
from cuwheel.system.console import Console
from cuwheel.updates.outdated import find_updates
from cuwheel.updates.report import print_updates
from tests.support.documents import read_document
from tests.support.factories import make_recipe, make_workspace
from tests.support.patched import SETUP, changed
from tests.support.updated import make_updated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.updates.outdated import RecipeUpdates
    from tests.support.drafted import Index

_NEWER = b"more\n" + changed(20).replace(b"line 38\n", b"thirty-eight\n")


@pytest.fixture
def ask(index: Index, tmp_path: Path) -> Callable[..., RecipeUpdates]:
    """What is newer than what a recipe of these fields pins."""
    index.folder.mkdir(exist_ok=True)

    def run(**fields: Any) -> RecipeUpdates:
        entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=make_recipe(**fields))
        [found] = find_updates([entry], [entry], make_workspace(tmp_path)).recipes
        return found

    return run


def test_names_newest_release(index: Index, ask: Callable[..., RecipeUpdates]) -> None:
    for version in ("1.2.3", "1.3", "2.0rc1"):
        index.add_sdist("tiny-cuda", version, {"setup.py": ""})

    found = ask(version="1.2.3").upstream

    assert (found.pinned, found.newest, found.is_outdated) == ("1.2.3", "1.3", True)


def test_says_that_newer_release_has_no_source(
    index: Index, ask: Callable[..., RecipeUpdates]
) -> None:
    index.add_sdist("tiny-cuda", "1.2.3", {"setup.py": ""})
    index.add_file("tiny-cuda", "tiny_cuda-1.3-py3-none-any.whl")

    found = ask(version="1.2.3").upstream

    assert (found.newest, found.note) == ("1.2.3", "1.3 exists without an sdist")


@pytest.mark.parametrize(
    ("source", "newest", "note"),
    [
        (
            Archive(url="https://a.invalid/{version}", sha256="0" * 64),
            "1.3",
            (
                "pinned as an archive, whose server isn't queried; this is the index's, only as "
                "wheels"
            ),
        ),
        (
            GitCommit(repository="https://a.invalid/b", commit="0" * 40),
            "1.3",
            "pinned as a commit, whose server isn't queried; this is the index's, only as wheels",
        ),
        (Folder(path="samples/x"), "", "its source is a local folder"),
        (Sdist(project="other", sha256="0" * 64), "", "the index has no other"),
    ],
)
def test_says_what_was_asked(
    source: object, newest: str, note: str, index: Index, ask: Callable[..., RecipeUpdates]
) -> None:
    index.add_file("tiny-cuda", "tiny_cuda-1.3-py3-none-any.whl")

    found = ask(source=source).upstream

    assert (found.newest, found.note) == (newest, note)


def test_names_newest_framework(index: Index, ask: Callable[..., RecipeUpdates]) -> None:
    index.add_file("torch", "torch-2.15.0-py3-none-any.whl")

    [found] = ask(framework=Framework(name="torch", version="2.11.0")).frameworks

    assert (found.name, found.newest, found.is_outdated) == ("torch", "2.15.0", True)


def test_names_toolkits_that_have_no_row(index: Index, tmp_path: Path) -> None:
    for release in ("12.1.1", "12.9.0", "13.0.2", "99.1.0", "99.1.3"):
        index.add_file("cuda-toolkit", f"cuda_toolkit-{release}-py3-none-any.whl")

    found = find_updates([], [], make_workspace(tmp_path))

    assert found.toolkits == ("99.1",)


def test_tries_patches_on_newest_source(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, _NEWER, 5, 20, 38)

    [found] = find_updates([project.entry], [project.entry], make_workspace(tmp_path)).recipes

    assert [(one.file, one.state) for one in found.patches] == [
        ("0005-change.patch", "offset"),
        ("0020-change.patch", "obsolete"),
        ("0038-change.patch", "broken"),
    ]


def test_names_old_locks(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, SETUP)
    lock = project.root / "envs" / "build" / "tiny_up.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("# uploaded before 2020-01-01T00:00:00Z\n")

    [found] = find_updates([project.entry], [project.entry], make_workspace(tmp_path)).recipes

    assert [one.file for one in found.locks] == ["envs/build/tiny_up.lock"]
    assert found.locks[0].days > 2000


def test_prints_table_and_data(
    index: Index,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    project = make_updated(tmp_path, index, _NEWER, 5, 38)
    updates = find_updates([project.entry], [project.entry], make_workspace(tmp_path))

    print_updates(updates, Console(), as_json=False)
    table = capsys.readouterr().out
    print_updates(updates, Console(), as_json=True)
    data = read_document(capsys.readouterr().out, "outdated")

    assert "0005-change.patch: applies with offset" in table
    assert "`nox -s bump -- tiny-up` makes the change" in table
    assert data["recipes"][0]["upstream"]["is_outdated"] is True
    assert [one["state"] for one in data["recipes"][0]["patches"]] == ["offset", "broken"]


def test_recipe_that_is_held_back_stands_apart(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("1.2.3", "1.3"):
        index.add_sdist("tiny-cuda", version, {"setup.py": ""})
    recipe = make_recipe(version="1.2.3", held_back="for code that needs PyTorch 2.2")
    entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=recipe)

    updates = find_updates([entry], [entry], make_workspace(tmp_path))
    print_updates(updates, Console(), as_json=False)

    said = capsys.readouterr().out
    assert "for code that needs PyTorch 2.2" in said
    assert "1.3" not in said
    assert "nox -s bump" not in said


def test_nothing_of_a_newer_source_is_fetched_for_it(
    index: Index, ask: Callable[..., RecipeUpdates]
) -> None:
    for version in ("1.2.3", "1.3"):
        index.add_sdist("tiny-cuda", version, {"setup.py": ""})

    found = ask(version="1.2.3", held_back="old", patches=(Patch(file="0001-x.patch", why="x"),))

    assert (found.held_back, found.patches) == ("old", ())
