from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest

from cuwheel.base.errors import RecipeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.drafts.updates.file_changes import (
    diff_of,
    edit_recipe,
    refuse_uncommitted,
    replace_files,
)
from tests.support.factories import commit_all

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


def test_changes_makes_and_removes(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")

    replace_files(
        {tmp_path / "old": b"new", tmp_path / "gone": None, tmp_path / "d" / "made": b"x"}
    )

    assert (tmp_path / "old").read_text() == "new"
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "d" / "made").read_text() == "x"


def test_failure_leaves_all_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")
    (tmp_path / "file").write_text("no folder")
    changes = {
        tmp_path / "old": b"new",
        tmp_path / "gone": None,
        tmp_path / "made": b"x",
        tmp_path / "file" / "below": b"x",
    }

    with pytest.raises(OSError, match="file"):
        replace_files(changes)

    contents = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert contents == {"old": "old", "gone": "gone", "file": "no folder"}


def test_shows_diff_as_git_would(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "made"

    lines = list(diff_of({old: b"a\nb\n", new: None}, {old: b"a\nc\n", new: b"x\n"}, tmp_path))

    assert lines == [
        *("--- a/old", "+++ b/old", "@@ -1,2 +1,2 @@", " a", "-b", "+c"),
        *("--- /dev/null", "+++ b/made", "@@ -0,0 +1 @@", "+x"),
    ]


def test_refuses_what_is_not_committed(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    commit_all(tmp_path)
    (tmp_path / "two").write_text("changed")

    refuse_uncommitted([tmp_path / "one"], tmp_path, os.environ)
    with pytest.raises(UsageError) as caught:
        refuse_uncommitted([tmp_path / "one", tmp_path / "two"], tmp_path, os.environ)

    assert caught.value.why == "M two"


def test_knows_nothing_outside_a_repository(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")

    refuse_uncommitted([tmp_path / "one"], tmp_path, os.environ)


def edit(path: Path, text: str, *without: str) -> str:
    path.write_text(text, encoding="utf-8")
    return edit_recipe(path, {"version": "2.0", "source.sha256": "11"}, without)


def test_changes_values_and_nothing_else() -> None:
    old = _REAL.read_text()

    new = edit_recipe(_REAL, {"version": "1.7.0", "source.sha256": "0" * 64})

    lines = list(difflib.ndiff(old.splitlines(), new.splitlines()))
    assert [line for line in lines if line.startswith("+ ")] == [
        '+     version="1.7.0",',
        f'+         sha256="{"0" * 64}",',
    ]
    assert len([line for line in lines if line.startswith("- ")]) == 2


def test_counts_characters_that_take_several_bytes(tmp_path: Path) -> None:
    new = edit(tmp_path / "x.py", _TWO)

    assert new == _TWO.replace('"1.0"', '"2.0"').replace('"00"', '"11"')


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
    new = edit(tmp_path / "x.py", _TWO, without)

    assert without not in new
    assert lost not in new
    assert kept in new
    assert new.splitlines()[2] == "from cuwheel import Patch, Recipe, Sdist"
    compile(new, "x.py", "exec")


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

    new = edit(tmp_path / "x.py", text, "0001-a.patch", "0002-b.patch")

    assert "atch" not in new.replace("two lines", "")
    assert left in new
    compile(new, "x.py", "exec")


def test_takes_patch_out_of_one_line(tmp_path: Path) -> None:
    text = _TWO[: _TWO.index("    patches=(")] + (
        '    patches=(Patch(file="a", why="x"), Patch(file="b", why="y")),\n)\n'
    )

    new = edit(tmp_path / "x.py", text, "a")

    assert '    patches=(Patch(file="b", why="y")),\n' in new


@pytest.mark.parametrize(
    ("text", "without", "what"),
    [
        (_TWO.replace('"1.0"', "VERSION"), (), "version in x.py can't be replaced"),
        (_TWO.replace("RECIPE =", "OTHER ="), (), "x.py can't be edited"),
        (_TWO.replace('"00"', '"0" * 2'), (), "source.sha256 in x.py can't be replaced"),
        (_TWO, ("0003-c.patch",), "x.py names 0003-c.patch in a way that can't be edited"),
    ],
)
def test_refuses_what_it_cannot_place(
    text: str, without: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError) as caught:
        edit(tmp_path / "x.py", text, *without)

    assert caught.value.what == what
