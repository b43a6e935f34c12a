from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import RecipeError
from cuwheel.paths import ROOT
from cuwheel.updates.recipe_edit import edit_recipe

if TYPE_CHECKING:
    from pathlib import Path

_REAL = ROOT / "recipes" / "causal_conv1d.py"
_TWO = """\
\"\"\"Größe: x.\"\"\"

from cuwheel import Patch, Recipe, Sdist

RECIPE = Recipe(
    version="1.0",  # über alles
    source=Sdist(project="x", sha256="00"),
    patches=(
        # why the first
        Patch(file="0001-a.patch", why="version"),
        # why the second, in
        # two lines
        Patch(
            file="0002-b.patch",
            why="b",
        ),
    ),
)
"""


def edit(path: Path, text: str, *without: str) -> str:
    path.write_text(text, encoding="utf-8")
    return edit_recipe(path, {"version": "2.0", "source.sha256": "11"}, without)


def test_changes_values_and_nothing_else() -> None:
    was = _REAL.read_text()

    now = edit_recipe(_REAL, {"version": "1.7.0", "source.sha256": "0" * 64})

    lines = list(difflib.ndiff(was.splitlines(), now.splitlines()))
    assert [line for line in lines if line.startswith("+ ")] == [
        '+     version="1.7.0",',
        f'+         sha256="{"0" * 64}",',
    ]
    assert len([line for line in lines if line.startswith("- ")]) == 2


def test_counts_characters_that_take_several_bytes(tmp_path: Path) -> None:
    now = edit(tmp_path / "x.py", _TWO)

    assert now == _TWO.replace('"1.0"', '"2.0"').replace('"00"', '"11"')


@pytest.mark.parametrize(
    ("without", "lost", "kept"),
    [
        ("0001-a.patch", "why the first", "why the second, in"),
        ("0002-b.patch", "two lines", "why the first"),
    ],
)
def test_takes_patch_out_with_its_comment(
    without: str, lost: str, kept: str, tmp_path: Path
) -> None:
    now = edit(tmp_path / "x.py", _TWO, without)

    assert without not in now
    assert lost not in now
    assert kept in now
    assert now.splitlines()[2] == "from cuwheel import Patch, Recipe, Sdist"
    compile(now, "x.py", "exec")


@pytest.mark.parametrize(
    ("imported", "left"),
    [
        ("from cuwheel import Patch, Recipe, Sdist", "from cuwheel import Recipe, Sdist"),
        ("from cuwheel import Recipe, Sdist, Patch", "from cuwheel import Recipe, Sdist"),
        (
            "from cuwheel import (\n    Patch,\n    Recipe,\n)",
            "from cuwheel import (\n    Recipe,\n)",
        ),
    ],
)
def test_takes_last_patches_out_with_field_and_import(
    imported: str, left: str, tmp_path: Path
) -> None:
    text = _TWO.replace("from cuwheel import Patch, Recipe, Sdist", imported)

    now = edit(tmp_path / "x.py", text, "0001-a.patch", "0002-b.patch")

    assert "atch" not in now.replace("two lines", "")
    assert left in now
    compile(now, "x.py", "exec")


def test_takes_patch_out_of_one_line(tmp_path: Path) -> None:
    text = _TWO[: _TWO.index("    patches=(")] + (
        '    patches=(Patch(file="a", why="x"), Patch(file="b", why="y")),\n)\n'
    )

    now = edit(tmp_path / "x.py", text, "a")

    assert '    patches=(Patch(file="b", why="y")),\n' in now


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_TWO.replace('"1.0"', "VERSION"), "version in x.py can't be replaced"),
        (_TWO.replace("RECIPE =", "OTHER ="), "x.py can't be edited"),
        (_TWO.replace('sha256="00"', 'sha256="0" * 2'), "source.sha256 in x.py can't be replaced"),
    ],
)
def test_refuses_what_it_cannot_place(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        edit(tmp_path / "x.py", text)

    assert words in caught.value.what


def test_refuses_patch_that_is_computed(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        edit(tmp_path / "x.py", _TWO, "0003-c.patch")

    assert "0003-c.patch" in caught.value.what
