from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.catalogue import (
    asked_sessions,
    check_recipe,
    find_recipe,
    load_catalogue,
    missing_roots,
    sessions_of,
    suggest_sessions,
)
from cuwheel.errors import RecipeError, UsageError
from cuwheel.recipe import Archive, CMake, GitCommit, Link, Resource, Sdist, Setuptools, Smoke
from cuwheel.toolkits import TOOLKITS
from tests.factories import make_recipe

if TYPE_CHECKING:
    from pathlib import Path

_SOUND = """
from cuwheel import Link, Recipe, Sdist, Setuptools, Smoke
RECIPE = Recipe(
    name="{name}", version="1.0", license="MIT", homepage="", archs=("90",),
    source=Sdist(project="p", version="1.0", sha256="{digits}"),
    toolkits=("13.0",), build=Setuptools(), link=Link("cudart"),
    smoke=Smoke(imports=("p",)), maintainers=("{maintainer}",),
)
"""


def resource(to: str = "tiny", sha256: str = "0" * 64) -> Resource:
    return Resource(name="tiny", source=Archive(url="u", sha256=sha256), to=to, why="a test")


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


def test_first_project_wins(tmp_path: Path) -> None:
    for maintainer in ("first", "second"):
        add_recipe(tmp_path / maintainer, "same", maintainer)

    [entry] = load_catalogue([tmp_path / "first", tmp_path / "second"])

    assert entry.root == tmp_path / "first"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("RECIPE = ", "SyntaxError"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("RECIPE = 1", "TypeError: RECIPE is not a Recipe(...)"),
        ("", "AttributeError"),
        ("from cuwheel import Recipe\nRECIPE = Recipe(nme='x')", "TypeError"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        (
            "from tests.factories import make_recipe\nRECIPE = make_recipe(archs=('90'))",
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


def test_gives_sessions_for_every_toolkit(tmp_path: Path) -> None:
    add_recipe(tmp_path, "a-one")

    names = [made.name for made in sessions_of(load_catalogue([tmp_path]))]

    toolchains = [f"toolchain-{toolkit.tag}" for toolkit in TOOLKITS]
    assert names == ["build-a-one-130", "smoke-a-one-130", *toolchains]


def test_gives_broken_recipe_a_session_that_says_so(tmp_path: Path) -> None:
    add_module(tmp_path, "broken", "RECIPE = 1")

    first, *_ = sessions_of(load_catalogue([tmp_path]))

    assert (first.name, first.summary[:14]) == ("build-broken", "BROKEN recipe:")


@pytest.mark.parametrize("name", ["a-one", "a_one"])
def test_finds_recipe(tmp_path: Path, name: str) -> None:
    add_recipe(tmp_path, "a-one")

    assert find_recipe(name, load_catalogue([tmp_path])).name == "a-one"


def test_names_nearest_recipe(tmp_path: Path) -> None:
    add_recipe(tmp_path, "a-one")

    with pytest.raises(UsageError) as caught:
        find_recipe("a-on", load_catalogue([tmp_path]))

    assert caught.value.why == 'did you mean "a-one"?'


def test_refuses_recipe_that_can_not_be_loaded(tmp_path: Path) -> None:
    add_module(tmp_path, "broken", "RECIPE = 1")

    with pytest.raises(RecipeError) as caught:
        find_recipe("broken", load_catalogue([tmp_path]))

    assert caught.value.why == "TypeError: RECIPE is not a Recipe(...)"
    assert caught.value.fix == "correct recipes/broken.py"


def test_passes_sound_recipe() -> None:
    check_recipe(make_recipe())


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": "Tiny"}, "lower case"),
        ({"name": "tiny_cuda"}, "lower case"),
        ({"archs": ()}, "archs is empty"),
        ({"maintainers": ()}, "maintainers is empty"),
        ({"toolkits": ("13.7",)}, "cuwheel knows no CUDA 13.7"),
        ({"archs": ("90", "35")}, "cannot compile for sm_35"),
        ({"link": Link("cudart", "cublaslt")}, 'did you mean "cublasLt"?'),
        ({"source": Sdist(project="p", version="1", sha256="abc")}, "64 hexadecimal digits"),
        ({"source": Sdist(project="p", version="1", sha256="x" * 64)}, "64 hexadecimal digits"),
        ({"build": Setuptools(env={"ARCHS": "{arch}"})}, 'did you mean "archs"?'),
        ({"build": CMake(define={"JOBS": "{job}"})}, 'did you mean "jobs"?'),
        ({"build": CMake(env={"OPEN": "{"})}, "a brace itself is written twice"),
        ({"source": GitCommit(repository="r", commit="abc")}, "40 hexadecimal digits"),
        ({"more_archs": {"13.0": ("35",)}}, "cannot compile for sm_35"),
        ({"more_archs": {"12.8": ("90",)}}, 'more_archs names "12.8"'),
        ({"resources": (resource(to="/etc/x"),)}, "leads out of the folder"),
        ({"resources": (resource(to="a/../../x"),)}, "leads out of the folder"),
        ({"resources": (resource(to="x"), resource(to="x"))}, "two resources want one place"),
        ({"resources": (resource(to="x"), resource(to="x/y"))}, "two resources want one place"),
        ({"resources": (resource(sha256="abc"),)}, "resource tiny: source.sha256"),
        ({"smoke": Smoke(imports=("p",), libraries=("{archs}.so",))}, "smoke.libraries"),
        ({"toolkits": ("12.8", "13.0"), "link": Link("cublaslt")}, 'did you mean "cublasLt"?'),
        ({"build": CMake(define={"CMAKE_CUDA_COMPILER": "x"})}, "compilers are the toolchain's"),
        ({"build": Setuptools(env={"CXX": "g++-13"})}, "compilers are the toolchain's"),
        ({"build": Setuptools(env={"FLAGS": "-ccbin g++-13"})}, "compilers are the toolchain's"),
    ],
)
def test_names_fault(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe(make_recipe(**changes))

    assert fault in caught.value.why
    assert "1 fault" in caught.value.what


def test_passes_commit_without_hash() -> None:
    check_recipe(make_recipe(source=GitCommit(repository="r", commit="a" * 40)))


def test_names_all_faults_together() -> None:
    with pytest.raises(RecipeError) as caught:
        check_recipe(make_recipe(archs=("35",), link=Link("cuda"), maintainers=()))

    assert caught.value.what == "tiny-cuda: the recipe has 3 faults"


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("-l", ()),
        ("-s a", ("a",)),
        ("-s a b -r", ("a", "b")),
        ("--session=a", ("a",)),
        ("--sessions a -- -s b", ("a",)),
        ("-R -e a --verbose x", ("a",)),
    ],
)
def test_reads_sessions_from_command_line(line: str, asked: tuple[str, ...]) -> None:
    assert asked_sessions(line.split()) == asked


def test_names_nearest_session() -> None:
    known = ["build-x-130", "lint"]

    assert suggest_sessions(["lint", "biuld-x-130"], known) == (
        'no session is called "biuld-x-130": did you mean "build-x-130"?',
    )


def test_tells_why_session_of_broken_recipe_is_missing(tmp_path: Path) -> None:
    add_module(tmp_path, "a_one", "RECIPE = 1")
    entries = load_catalogue([tmp_path])

    [line] = suggest_sessions(["build-a-one-130"], ["build-a_one"], entries)

    assert "a_one.py can't be loaded: TypeError: RECIPE is not a Recipe(...)" in line


def test_names_project_folder_that_is_missing(tmp_path: Path) -> None:
    lost = tmp_path / "lost"

    assert missing_roots([tmp_path, lost]) == (f"CUWHEEL_PROJECT names {lost}, which is no folder",)
