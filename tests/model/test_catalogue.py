from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import RecipeError, UsageError
from cuwheel.model.catalogue import (
    find_recipe,
    find_target,
    load_catalogue,
    missing_roots,
    target_names,
)
from cuwheel.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SOUND = """
from cuwheel import Link, Recipe, Sdist, Setuptools, Smoke
RECIPE = Recipe(
    name="{name}", version="1.0", license="MIT", homepage="", maintainers=("{maintainer}",),
    source=Sdist(project="p", sha256="{digits}"), toolkits=("13.0",), archs=("90",),
    requires=("setuptools",), build=Setuptools(), link=Link("cudart"),
    smoke=Smoke(imports=("p",)),
)
"""


def add_recipe(root: Path, name: str, maintainer: str = "me") -> None:
    text = _SOUND.format(name=name, digits="0" * 64, maintainer=maintainer)
    add_module(root, name.replace("-", "_"), text)


def add_module(root: Path, name: str, text: str) -> None:
    path = root / "recipes" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_loads_recipes_in_order(tmp_path: Path) -> None:
    add_recipe(tmp_path, "b-two")
    add_recipe(tmp_path, "a-one")

    assert [entry.name for entry in load_catalogue([tmp_path])] == ["a-one", "b-two"]


@pytest.mark.parametrize("name", ["../../../x", "/x", "a/b", ".x", ""])
def test_takes_no_name_that_leads_elsewhere(name: str, tmp_path: Path) -> None:
    """Work folders, locks and records are called by it."""
    add_module(tmp_path, "x", _SOUND.format(name=name, digits="0" * 64, maintainer="me"))

    [entry] = load_catalogue([tmp_path])

    assert (entry.name, entry.recipe) == ("x", None)
    assert f'"{name}" is used in folder names' in entry.fault


def test_takes_no_smoke_script_for_a_recipe(tmp_path: Path) -> None:
    add_recipe(tmp_path, "a-one")
    script = tmp_path / "recipes" / "smoke" / "a_one.py"
    script.parent.mkdir()
    script.write_text("raise SystemExit('only the wheel runs this')\n")

    assert [entry.name for entry in load_catalogue([tmp_path])] == ["a-one"]


@pytest.mark.parametrize("written", ['"torch==2.11.0"', '{"13.0": "torch==2.11.0"}'])
def test_says_what_a_framework_has_to_be(tmp_path: Path, written: str) -> None:
    text = _SOUND.format(name="x", digits="0" * 64, maintainer="me")
    add_module(tmp_path, "x", text.replace("requires=", f"framework={written}, requires="))

    [entry] = load_catalogue([tmp_path])

    assert "framework has to contain Framework(...)" in entry.fault


def test_first_project_wins(tmp_path: Path) -> None:
    for maintainer in ("first", "second"):
        add_recipe(tmp_path / maintainer, "same", maintainer)

    [entry] = load_catalogue([tmp_path / "first", tmp_path / "second"])

    assert entry.root == tmp_path / "first"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("RECIPE = ", "SyntaxError"),
        ("import nowhere\nRECIPE = 1", "ModuleNotFoundError: No module named 'nowhere'"),
        ("RECIPE = 1", "TypeError: RECIPE is not a Recipe(...)"),
        ("", "AttributeError: it doesn't define RECIPE"),
        (
            "from cuwheel import Recipe\nRECIPE = Recipe(nme='x')",
            "TypeError: Recipe.__init__() got an unexpected keyword argument 'nme': did you mean",
        ),
        ("raise SystemExit(1)\nRECIPE = 1", "SystemExit: 1"),
        (
            "from tests.support.factories import make_recipe\nRECIPE = make_recipe(archs=('90'))",
            'TypeError: archs has to be a tuple: ("90",), with the comma',
        ),
    ],
)
def test_broken_recipe_breaks_no_other(tmp_path: Path, text: str, fault: str) -> None:
    add_recipe(tmp_path, "sound")
    add_module(tmp_path, "broken", text)

    broken, sound = load_catalogue([tmp_path])

    assert broken.fault.startswith(fault)
    assert sound.recipe


def test_runs_no_script_of_other_projects(tmp_path: Path) -> None:
    """Repositories that have nothing to do with cuwheel keep scripts in `recipes/`."""
    add_module(tmp_path, "train", "from pathlib import Path\nPath(__file__).unlink()")

    [entry] = load_catalogue([tmp_path])

    assert (tmp_path / "recipes" / "train.py").is_file()
    assert entry.fault == "AttributeError: it doesn't define RECIPE, so it wasn't loaded"


@pytest.mark.parametrize("find", [find_recipe, find_target])
def test_says_how_to_get_a_recipe_that_is_missing(find: Callable[..., object]) -> None:
    with pytest.raises(UsageError) as caught:
        find("detectron2", load_catalogue([ROOT]))

    assert caught.value.why == "there is no recipe of detectron2"
    assert caught.value.fix.startswith("`nox -s new -- detectron2` drafts one")


@pytest.mark.parametrize("name", ["a-one", "a_one"])
def test_finds_recipe(tmp_path: Path, name: str) -> None:
    add_recipe(tmp_path, "a-one")

    assert find_recipe(name, load_catalogue([tmp_path])).name == "a-one"


def test_names_nearest_recipe(tmp_path: Path) -> None:
    add_recipe(tmp_path, "a-one")

    with pytest.raises(UsageError) as caught:
        find_recipe("a-on", load_catalogue([tmp_path]))

    assert caught.value.why == 'did you mean "a-one"?'


@pytest.mark.parametrize(
    ("was", "wrong", "fault"),
    [
        ('Link("cudart")', "Link", "link has to be Link(...)"),
        ('Link("cudart")', 'Link("cudart", mode="bundled")', "link's mode has to be External(...)"),
        ("build=Setuptools()", "build=Setuptools", "build has to be TorchExtension(...)"),
        ('toolkits=("13.0",)', "toolkits=(13.0,)", 'toolkits has to contain strings: "13.0"'),
        ('("90",)', "{'13.0': '90'}", 'archs["13.0"] has to be a tuple: ("90",), with the comma'),
        ('imports=("p",)', 'imports="p"', 'smoke.imports has to be a tuple: ("p",), with the'),
    ],
)
def test_says_what_a_field_takes(tmp_path: Path, was: str, wrong: str, fault: str) -> None:
    text = _SOUND.format(name="p", digits="0" * 64, maintainer="me")
    assert was in text
    add_module(tmp_path, "p", text.replace(was, wrong))

    (entry,) = load_catalogue([tmp_path])

    assert fault in entry.fault


def test_refuses_recipe_that_can_not_be_loaded(tmp_path: Path) -> None:
    add_module(tmp_path, "broken", "RECIPE = 1")

    with pytest.raises(RecipeError) as caught:
        find_recipe("broken", load_catalogue([tmp_path]))

    assert caught.value.why == "TypeError: RECIPE is not a Recipe(...)"
    assert caught.value.fix == f"correct {tmp_path}/recipes/broken.py"


@pytest.mark.parametrize("name", ["a-one-130", "a_one_130"])
def test_finds_target(tmp_path: Path, name: str) -> None:
    add_recipe(tmp_path, "a-one")
    entries = load_catalogue([tmp_path])

    assert target_names(entries) == ("a-one-130",)
    assert find_target(name, entries) == (entries[0], "130")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("a-one-131", 'did you mean "a-one-130"?'),
        ("a-one", "the toolkit is missing: a-one-130"),
        ("something", "there is no recipe of something"),
    ],
)
def test_names_nearest_target(tmp_path: Path, wrong: str, why: str) -> None:
    add_recipe(tmp_path, "a-one")

    with pytest.raises(UsageError) as caught:
        find_target(wrong, load_catalogue([tmp_path]))

    assert caught.value.what == f'there is no target "{wrong}"'
    assert caught.value.why == why


@pytest.mark.parametrize("name", ["a_one", "a-one-130", "a_one-130"])
def test_says_why_recipe_of_target_is_broken(tmp_path: Path, name: str) -> None:
    add_module(tmp_path, "a_one", "RECIPE = 1")

    with pytest.raises(RecipeError, match="can't be loaded"):
        find_target(name, load_catalogue([tmp_path]))


def test_names_project_folder_that_is_missing(tmp_path: Path) -> None:
    lost = tmp_path / "lost"

    assert missing_roots([tmp_path, lost]) == (
        f"CUWHEEL_PROJECT names {lost}, which is not a folder",
    )


def test_finds_broken_recipe_by_its_hyphens(tmp_path: Path) -> None:
    add_module(tmp_path, "a_one", "RECIPE = 1")

    with pytest.raises(RecipeError) as caught:
        find_recipe("a-one", load_catalogue([tmp_path]))

    assert caught.value.fix == f"correct {tmp_path}/recipes/a_one.py"


def test_says_which_name_is_not_imported(tmp_path: Path) -> None:
    add_module(tmp_path, "a_one", "from cuwheel import Recipe\nRECIPE = Recipe(link=Link())")

    [entry] = load_catalogue([tmp_path])

    assert entry.fault == (
        "NameError: name 'Link' is not defined: add Link to `from cuwheel import …`"
    )
