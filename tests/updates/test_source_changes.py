from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.model.source import Sdist
from cuwheel.updates.source_changes import changes_of_source
from tests.support.drafted import FILES, write_tree
from tests.support.factories import make_recipe, make_workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.drafted import Index


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


def test_says_nothing_of_equal_sources(compare: Callable[..., tuple[str, ...]]) -> None:
    assert compare() == ()


def test_names_what_setup_py_does_now(compare: Callable[..., tuple[str, ...]]) -> None:
    text = FILES["setup.py"].replace('"cublas"', '"cusparse"').replace("TINY_FORCE", "TINY2_FORCE")

    found = compare(**{"setup.py": f'{text}F = "code=sm_90"\n'})

    assert set(found) == {
        "it now links cusparse (setup.py:23)",
        "it no longer links cublas",
        "it now reads the variable TINY2_FORCE_BUILD (setup.py:7)",
        "it no longer reads the variable TINY_FORCE_BUILD",
        "it now hard-codes the arch 90 (setup.py:29)",
    }


def test_names_requirements_and_pythons(compare: Callable[..., tuple[str, ...]]) -> None:
    info = FILES["PKG-INFO"].replace("einops", "numpy").replace(">=3.11", ">=3.12")

    found = compare(**{"PKG-INFO": info, "pyproject.toml": '[build-system]\nrequires = ["flit"]\n'})

    assert "the wheel now requires numpy" in found
    assert "the wheel no longer requires einops" in found
    assert "the build now requires flit" in found
    assert "it now requires Python >=3.12, the recipe's locks are for >=3.10" in found


def test_says_that_the_old_source_is_gone(index: Index, tmp_path: Path) -> None:
    index.folder.mkdir()
    source = Sdist(project="tiny-draft", sha256="0" * 64, version="1.0")
    tree = write_tree(tmp_path / "new", FILES)

    [found] = changes_of_source(
        make_recipe(), source, tree, tmp_path / "old", make_workspace(tmp_path)
    )

    assert found.startswith("not compared with 1.0: ")


def test_names_some_of_many(compare: Callable[..., tuple[str, ...]]) -> None:
    lines = "".join(f'os.getenv("NEW_{number}")\n' for number in range(9))

    found = compare(**{"setup.py": FILES["setup.py"] + lines})

    assert len(found) == 7
    assert found[-1] == "it now reads the variable …, 3 more"
