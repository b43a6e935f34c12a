from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import RecipeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.recipe.catalogue import (
    find_recipe,
    find_target,
    load_catalogue,
    missing_roots,
    target_names,
)

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
    """The first project wins; a smoke test is no recipe."""
    first, second = tmp_path / "first", tmp_path / "second"
    for root, name in ((first, "b-two"), (first, "a-one"), (second, "a-one")):
        add_recipe(root, name)
    script = first / "recipes" / "smoke" / "a_one.py"
    script.parent.mkdir()
    script.write_text("raise SystemExit('only the wheel runs this')\n")

    entries = load_catalogue([first, second])

    assert [(entry.name, entry.root) for entry in entries] == [("a-one", first), ("b-two", first)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("RECIPE = ", "SyntaxError"),
        ("import nowhere\nRECIPE = 1", "ModuleNotFoundError: No module named 'nowhere'"),
        ("RECIPE = 1", "TypeError: RECIPE is not a Recipe(...)"),
        (
            "from pathlib import Path\nPath(__file__).unlink()",  # a script of another project
            "AttributeError: it doesn't define RECIPE, so it wasn't loaded",
        ),
        (
            "from cuwheel import Recipe\nRECIPE = Recipe(link=Link())",
            "NameError: name 'Link' is not defined: add Link to `from cuwheel import …`",
        ),
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


@pytest.mark.parametrize("find", [find_recipe, find_target])
def test_names_command_that_drafts_a_missing_recipe(find: Callable[..., object]) -> None:
    with pytest.raises(UsageError) as caught:
        find("detectron2", load_catalogue([ROOT]))

    assert caught.value.why == "there is no recipe of detectron2"
    assert caught.value.fix.startswith("`nox -s new -- detectron2` drafts one")


@pytest.mark.parametrize(
    ("was", "wrong", "fault"),
    [
        ('Link("cudart")', "Link", "link has to be Link(...)"),
        ('Link("cudart")', 'Link("cudart", mode="bundled")', "link's mode has to be External(...)"),
        ("build=Setuptools()", "build=Setuptools", "build has to be TorchExtension(...)"),
        ('toolkits=("13.0",)', "toolkits=(13.0,)", 'toolkits has to contain strings: "13.0"'),
        ('("90",)', "{'13.0': '90'}", 'archs["13.0"] has to be a tuple: ("90",), with the comma'),
        ('imports=("p",)', 'imports="p"', 'smoke.imports has to be a tuple: ("p",), with the'),
        *(
            ("requires=", f"framework={written}, requires=", "framework has to contain Framework(")
            for written in ('"torch==2.11.0"', '{"13.0": "torch==2.11.0"}')
        ),
        *(  # work folders, locks and records are called by it
            ('name="p"', f'name="{name}"', f'"{name}" is used in folder names')
            for name in ("../../../x", "/x", "a/b", ".x", "")
        ),
    ],
)
def test_refuses_field_of_another_type(tmp_path: Path, was: str, wrong: str, fault: str) -> None:
    text = _SOUND.format(name="p", digits="0" * 64, maintainer="me")
    assert was in text
    add_module(tmp_path, "p", text.replace(was, wrong))

    (entry,) = load_catalogue([tmp_path])

    assert fault in entry.fault


@pytest.mark.parametrize("name", ["a_one", "a-one", "a-one-130", "a_one-130"])
def test_refuses_recipe_that_can_not_be_loaded(name: str, tmp_path: Path) -> None:
    add_module(tmp_path, "a_one", "RECIPE = 1")
    find = find_target if name.endswith("130") else find_recipe

    with pytest.raises(RecipeError) as caught:
        find(name, load_catalogue([tmp_path]))

    assert caught.value.why == "TypeError: RECIPE is not a Recipe(...)"
    assert caught.value.fix == f"correct {tmp_path}/recipes/a_one.py"


@pytest.mark.parametrize("name", ["a-one", "a_one"])
def test_finds_recipe_and_target(tmp_path: Path, name: str) -> None:
    add_recipe(tmp_path, "a-one")
    entries = load_catalogue([tmp_path])

    assert find_recipe(name, entries).name == "a-one"
    assert target_names(entries) == ("a-one-130",)
    assert find_target(f"{name.replace('-', name[1])}{name[1]}130", entries) == (entries[0], "130")
    with pytest.raises(UsageError) as caught:
        find_recipe("a-on", entries)
    assert caught.value.why == 'did you mean "a-one"?'


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


def test_names_project_folder_that_is_missing(tmp_path: Path) -> None:
    lost = tmp_path / "lost"

    assert missing_roots([tmp_path, lost]) == (
        f"CUWHEEL_PROJECT names {lost}, which is not a folder",
    )
