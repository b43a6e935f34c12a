from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.system.console import Console
from cuwheel.build.drafts.updates.outdated import OutdatedRecipe, find_updates, print_updates
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Framework
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Patch, Sdist
from tests.support.build.drafts import Index
from tests.support.build.patched_sources import SETUP, changed
from tests.support.build.updates import make_updated
from tests.support.documents import read_document
from tests.support.factories import make_recipe, make_workspace

_NEWER = b"more\n" + changed(20).replace(b"line 38\n", b"thirty-eight\n")


@pytest.fixture
def updates_of(index: Index, tmp_path: Path) -> Callable[..., OutdatedRecipe]:
    """Find updates of a recipe with these fields."""
    index.folder.mkdir(exist_ok=True)

    def run(**fields: Any) -> OutdatedRecipe:
        entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=make_recipe(**fields))
        [found] = find_updates([entry], [entry], make_workspace(tmp_path)).recipes
        return found

    return run


def test_names_newest_release(index: Index, updates_of: Callable[..., OutdatedRecipe]) -> None:
    for version in ("1.2.3", "1.3", "2.0rc1"):
        index.add_sdist("tiny-cuda", version, {"setup.py": ""})

    found = updates_of(version="1.2.3").upstream

    assert (found.pinned, found.newest, found.is_outdated) == ("1.2.3", "1.3", True)


def test_reports_that_newer_release_has_no_source(
    index: Index, updates_of: Callable[..., OutdatedRecipe]
) -> None:
    index.add_sdist("tiny-cuda", "1.2.3", {"setup.py": ""})
    index.add_file("tiny-cuda", "tiny_cuda-1.3-py3-none-any.whl")

    found = updates_of(version="1.2.3").upstream

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
        (Sdist(project="other", sha256="0" * 64), "", "the index has no final release of other"),
    ],
)
def test_notes_what_was_queried(
    source: object, newest: str, note: str, index: Index, updates_of: Callable[..., OutdatedRecipe]
) -> None:
    index.add_file("tiny-cuda", "tiny_cuda-1.3-py3-none-any.whl")

    found = updates_of(source=source).upstream

    assert (found.newest, found.note) == (newest, note)


def test_names_newest_framework(index: Index, updates_of: Callable[..., OutdatedRecipe]) -> None:
    index.add_file("torch", "torch-2.15.0-py3-none-any.whl")

    [found] = updates_of(framework=Framework(name="torch", version="2.11.0")).frameworks

    assert (found.name, found.newest, found.is_outdated) == ("torch", "2.15.0", True)


def test_names_toolkits_that_have_no_row(index: Index, tmp_path: Path) -> None:
    for release in ("12.1.1", "12.9.0", "13.0.2", "99.1.0", "99.1.3"):
        index.add_file("cuda-toolkit", f"cuda_toolkit-{release}-py3-none-any.whl")

    found = find_updates([], [], make_workspace(tmp_path))

    assert found.toolkits == ("99.1",)


def test_tries_patches_on_newest_source(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, _NEWER, 5, 20, 38)

    [found] = find_updates([project.entry], [project.entry], make_workspace(tmp_path)).recipes

    assert [(part.file, part.state) for part in found.patches] == [
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

    assert [part.file for part in found.locks] == ["envs/build/tiny_up.lock"]
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
    assert [part["state"] for part in data["recipes"][0]["patches"]] == ["offset", "broken"]


def test_recipe_that_is_held_back_is_listed_apart(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("1.2.3", "1.3"):
        index.add_sdist("tiny-cuda", version, {"setup.py": ""})
    recipe = make_recipe(version="1.2.3", held_back="for code that needs PyTorch 2.2")
    entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=recipe)

    updates = find_updates([entry], [entry], make_workspace(tmp_path))
    print_updates(updates, Console(), as_json=False)

    output = capsys.readouterr().out
    assert "for code that needs PyTorch 2.2" in output
    assert "1.3" not in output
    assert "nox -s bump" not in output


def test_nothing_of_a_newer_source_is_fetched_for_it(
    index: Index, updates_of: Callable[..., OutdatedRecipe]
) -> None:
    for version in ("1.2.3", "1.3"):
        index.add_sdist("tiny-cuda", version, {"setup.py": ""})

    found = updates_of(
        version="1.2.3", held_back="old", patches=(Patch(file="0001-x.patch", why="x"),)
    )

    assert (found.held_back, found.patches) == ("old", ())
