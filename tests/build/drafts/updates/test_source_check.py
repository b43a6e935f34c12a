from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import SourceError
from cuwheel.build.drafts.updates.source_check import changes_of_source, check_patches_of
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.source import Sdist
from tests.support.build.drafts import FILES, Index, write_tree
from tests.support.build.patched_sources import SETUP
from tests.support.build.updates import make_updated
from tests.support.factories import make_recipe, make_workspace


def source(folder: Path) -> Path:
    (folder / "tree").mkdir()
    (folder / "tree" / "setup.py").write_bytes(SETUP)
    return folder / "tree"


def limited(entry: CatalogueEntry, *toolkits: tuple[str, ...]) -> CatalogueEntry:
    """The recipe for two toolkits, each patch for some of them."""
    assert entry.recipe
    patches = [
        dataclasses.replace(patch, toolkits=releases)
        for patch, releases in zip(entry.recipe.patches, toolkits, strict=True)
    ]
    recipe = dataclasses.replace(entry.recipe, patches=tuple(patches), toolkits=("12.8", "13.0"))
    return dataclasses.replace(entry, recipe=recipe)


def test_leaves_source_as_it_was(index: Index, tmp_path: Path) -> None:
    entry, tree = make_updated(tmp_path, index, SETUP, 5, 20).entry, source(tmp_path)

    patches = check_patches_of(entry, tree)

    assert [patch.state for patch in patches] == ["applies", "applies"]
    assert (tree / "setup.py").read_bytes() == SETUP


def test_tries_together_what_one_toolkit_gets(index: Index, tmp_path: Path) -> None:
    """The second, which changes the same line, can't follow the first, and never has to."""
    project = make_updated(tmp_path, index, SETUP, 20, 22)

    patches = check_patches_of(limited(project.entry, ("12.8",), ("13.0",)), source(tmp_path))

    assert [patch.state for patch in patches] == ["applies", "applies"]


def test_reports_the_worst_of_several_toolkits(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, SETUP, 20, 22)

    patches = check_patches_of(limited(project.entry, ("12.8",), ()), source(tmp_path))

    assert [(patch.file[:4], patch.state) for patch in patches] == [
        ("0020", "applies"),
        ("0022", "broken"),
    ]


def test_names_patch_that_is_missing(index: Index, tmp_path: Path) -> None:
    project = make_updated(tmp_path, index, SETUP, 5)
    (project.patches / "0005-change.patch").unlink()

    with pytest.raises(SourceError) as caught:
        check_patches_of(project.entry, source(tmp_path))

    assert "0005-change.patch" in caught.value.why


@pytest.fixture
def compare(index: Index, tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """Compare a source with one that has other files."""

    def run(**changed: str) -> tuple[str, ...]:
        digest = index.add_sdist("tiny-draft", "1.0", FILES)
        source = Sdist(project="tiny-draft", sha256=digest, version="1.0")
        tree = write_tree(tmp_path / "new", {**FILES, **changed})
        return changes_of_source(
            make_recipe(), source, tree, tmp_path / "old", make_workspace(tmp_path)
        )

    return run


def test_reports_nothing_of_equal_sources(compare: Callable[..., tuple[str, ...]]) -> None:
    assert compare() == ()


def test_names_what_setup_py_does_now(compare: Callable[..., tuple[str, ...]]) -> None:
    text = FILES["setup.py"].replace('"cublas"', '"cusparse"').replace("TINY_FORCE", "TINY2_FORCE")

    changes = compare(**{"setup.py": f'{text}F = "code=sm_90"\n'})

    assert set(changes) == {
        "it now links cusparse (setup.py:23)",
        "it no longer links cublas",
        "it now reads the variable TINY2_FORCE_BUILD (setup.py:7)",
        "it no longer reads the variable TINY_FORCE_BUILD",
        "it now hard-codes the arch 90 (setup.py:29)",
    }


def test_names_requirements_and_pythons(compare: Callable[..., tuple[str, ...]]) -> None:
    info = FILES["PKG-INFO"].replace("einops", "numpy").replace(">=3.11", ">=3.12")

    changes = compare(
        **{"PKG-INFO": info, "pyproject.toml": '[build-system]\nrequires = ["flit"]\n'}
    )

    assert "the wheel now requires numpy" in changes
    assert "the wheel no longer requires einops" in changes
    assert "the build now requires flit" in changes
    assert "it now requires Python >=3.12, the recipe's locks are for >=3.10" in changes


def test_reports_that_the_old_source_is_gone(index: Index, tmp_path: Path) -> None:
    index.folder.mkdir()
    source = Sdist(project="tiny-draft", sha256="0" * 64, version="1.0")
    tree = write_tree(tmp_path / "new", FILES)

    [changes] = changes_of_source(
        make_recipe(), source, tree, tmp_path / "old", make_workspace(tmp_path)
    )

    assert changes.startswith("not compared with 1.0: ")


def test_names_some_of_many(compare: Callable[..., tuple[str, ...]]) -> None:
    lines = "".join(f'os.getenv("NEW_{number}")\n' for number in range(9))

    changes = compare(**{"setup.py": FILES["setup.py"] + lines})

    assert len(changes) == 7
    assert changes[-1] == "it now reads the variable …, 3 more"
