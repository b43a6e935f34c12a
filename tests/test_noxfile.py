"""The noxfile, run by a real nox on a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import Finished, run
from cuwheel.build.recipe.catalogue import load_catalogue, target_names
from cuwheel.build.recipe.nox_sessions import VERBS, sessions_of
from tests.support.machines.pythons import SAFE_PATH, find_release
from tests.support.requirements import lack

_PARTS = ("noxfile.py", "cuwheel", "recipes", "envs", "tests/project")
_OF_NOXFILE = (
    *("bench", "fuzz", "lint"),
    *("tests", "tests-e2e", "tests-nightly"),
)
_LIMIT = 0.6  # seconds of processor time, nox itself included; waiting for others is no fault

# What the noxfile imports, in a Python without any package: `-S` leaves site-packages out.
_BARE = """
import sys
sys.path.insert(0, sys.argv[1])
from cuwheel.build.recipe.catalogue import load_catalogue, missing_roots
from cuwheel.build.recipe.nox_sessions import requested_sessions, sessions_of, suggest_sessions
from cuwheel.base.caller import read_caller
entries = load_catalogue(read_caller().roots)
assert not [path for path in sys.path if "site-packages" in path]
named = (name.split(".") for name in sys.modules if name.startswith("cuwheel."))
rooms = {".".join(parts[1:3]) for parts in named if len(parts) > 2}
allowed = {"caller", "errors", "paths", "project_trust", "spelling", "system"}
assert rooms == {"build.recipe", "check.cuda", *(f"base.{name}" for name in allowed)}, rooms
system = [name for name in sys.modules if name.startswith("cuwheel.base.system.")]
names = ("quantities", "versions")
assert sorted(system) == [f"cuwheel.base.system.{name}" for name in names], system
print([entry.fault for entry in entries if entry.fault], sessions_of(entries)[0].name)
"""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout as a clone gives it, for tests that only read."""
    return copy_checkout(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def sessions(pristine: Path) -> dict[str, str]:
    """What `nox -l` lists in it."""
    return list_sessions(pristine)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that a test may change."""
    return copy_checkout(tmp_path)


def copy_checkout(folder: Path) -> Path:
    for name in _PARTS:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def nox(checkout: Path, *arguments: str, **env: str) -> Finished:
    command = [sys.executable, SAFE_PATH, "-m", "nox"]
    variables = {"PATH": os.defpath, "HOME": str(checkout), "NO_COLOR": "1", **env}
    return run([*command, *arguments], cwd=checkout, env=variables, check=False)


def list_sessions(checkout: Path, **env: str) -> dict[str, str]:
    """Each session and its help text, as a person reads them."""
    listed = nox(checkout, "-l", **env).output
    return dict(re.findall(r"^[*-] (\S+)(?: \[\w+\])?(?: -> (.*))?$", listed, re.MULTILINE))


@pytest.mark.parametrize("dashes", [(), ("--",)])
def test_nox_refuses_options_before_it_reads_the_noxfile(
    dashes: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "noxfile.py").write_text("print('it is read')\n")

    done = nox(tmp_path, "-s", "slim", *dashes, "x.whl", "--arch", "90")

    is_refused = "error: unrecognized arguments: --arch" in done.output
    assert (is_refused, "it is read" in done.output) == (not dashes, bool(dashes))
    assert "unrecognized arguments" in (ROOT / "README.md").read_text()


def test_lists_every_session(sessions: dict[str, str]) -> None:
    made = {session.name for session in sessions_of(load_catalogue([ROOT]))}

    assert set(sessions) == {*_OF_NOXFILE, *made}


def test_has_one_session_for_each_build(sessions: dict[str, str]) -> None:
    named = [name for name in sessions if re.search(r"-\d{3}$", name)]

    assert named == [f"build-{name}" for name in target_names(load_catalogue([ROOT]))]


def test_every_session_has_one_line_of_help(sessions: dict[str, str]) -> None:
    assert [name for name, text in sessions.items() if not text] == []


def test_lists_recipes_of_other_project(pristine: Path) -> None:
    sessions = list_sessions(pristine, CUWHEEL_PROJECT=str(pristine / "tests" / "project"))

    assert {"build-tiny-rdc-130", "build-causal-conv1d-130"} <= set(sessions)


def test_listing_takes_little_time(pristine: Path) -> None:
    nox(pristine, "-l")  # compiles to bytecode, which a second clone's first run doesn't repeat

    spent = []
    for _ in range(3):
        before = os.times()
        nox(pristine, "-l")
        after = os.times()
        spent.append(sum(after[2:4]) - sum(before[2:4]))

    assert min(spent) < _LIMIT


def test_needs_no_package_but_nox(pristine: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", _BARE, str(pristine)]

    assert run(command, env={"PATH": os.defpath}).output == "[] build-bitsandbytes-121\n"


def test_broken_recipe_breaks_no_listing(checkout: Path) -> None:
    (checkout / "recipes" / "broken.py").write_text(
        "from cuwheel import Nonsense\nRECIPE = Nonsense()\n"
    )

    sessions = list_sessions(checkout)

    assert sessions["build-broken"].startswith("BROKEN recipe: ImportError")
    assert "build-causal-conv1d-130" in sessions


def test_failure_ends_with_the_exit_code(pristine: Path, shared_cache: Path) -> None:
    ended = nox(pristine, "-s", "audit", "--", "gone.whl", CUWHEEL_CACHE=str(shared_cache))

    last = ended.output.strip().splitlines()[-2:]
    assert last == ["nox > exit code 2", "nox > Session audit failed."]


def test_names_nearest_session(pristine: Path) -> None:
    done = nox(pristine, "-s", "smoke-causal-conv1d-130")

    right = "nox -s smoke -- causal-conv1d-130"
    assert f'"smoke-causal-conv1d-130": did you mean "{right}"?' in done.output
    assert done.status != 0


@pytest.mark.parametrize("release", ["3.8", "3.9"])
def test_old_python_gets_one_sentence(release: str) -> None:
    python = find_release(release)
    if python is None:
        lack("old-python", f"this machine has no Python {release}", "what nox says in it")

    done = run([python, ROOT / "noxfile.py"], env={"PATH": os.defpath}, check=False)

    assert done.status == 1
    assert done.output.startswith(
        f"cuwheel: this nox runs on Python {release}, but cuwheel runs on "
    )
    assert len(done.output.splitlines()) == 1


def test_says_which_targets_were_never_built(sessions: dict[str, str]) -> None:
    never = {name for name, text in sessions.items() if text.endswith("NEVER BUILT yet")}
    named = {
        f"build-{entry.name}-{release.replace('.', '')}"
        for entry in load_catalogue([ROOT])
        for release in (entry.recipe.never_built if entry.recipe else ())
    }

    assert never == named


def test_names_project_folder_that_is_missing(pristine: Path) -> None:
    done = nox(pristine, "-l", CUWHEEL_PROJECT="/nonexistent")

    assert "cuwheel: CUWHEEL_PROJECT names /nonexistent" in done.output


@pytest.mark.parametrize("session", ["bench", "lint"])
def test_help_does_nothing_else(pristine: Path, session: str) -> None:
    done = nox(pristine, "-s", session, "--", "--help")

    assert f"usage: nox -s {session} --" in done.output
    assert "cuwheel's own environment" not in done.output


def test_what_is_printed_names_sessions_that_exist(sessions: dict[str, str]) -> None:
    """Every `nox -s …` of the pages and of the engine's messages, but for made-up packages."""
    made_up = {"build-torch-cluster-130", "build-hello-cuda-130"}  # in readers' projects

    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in _printed()
        for name in re.findall(r"nox -s ([a-z][\w-]*)(?=[\s`\"])", path.read_text())
    }

    assert {name for _, name in named} >= {"build-causal-conv1d-130", "verify", "lock"}
    assert [one for one in sorted(named) if one[1] not in {*sessions, *made_up}] == []


def test_what_is_printed_names_targets_that_exist() -> None:
    theirs = ("torch-cluster-130", "hello-cuda-130")  # in readers' projects
    known = (*target_names(load_catalogue([ROOT, ROOT / "tests" / "project"])), *theirs)
    verbs = "|".join(one.name for one in VERBS if one.takes == "target")

    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in _printed()
        for name in re.findall(rf"nox -s (?:{verbs}) -- ([a-z][\w-]*)", path.read_text())
    }

    assert {name for _, name in named} >= {"causal-conv1d-130", "all"}
    assert [one for one in sorted(named) if one[1] not in {*known, "all"}] == []


def _printed() -> list[Path]:
    pages = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    return [*pages, *ROOT.glob("cuwheel/**/*.py"), *ROOT.glob("recipes/**/*.py")]


@pytest.mark.parametrize("session", ["build-detectron2-130", "smoke-detectron2-130"])
def test_says_how_to_get_a_recipe_that_is_missing(pristine: Path, session: str) -> None:
    done = nox(pristine, "-s", session)

    assert "there is no recipe of detectron2; `nox -s new -- detectron2` drafts one" in done.output
    assert "did you mean" not in done.output


def test_says_nothing_of_a_program_that_it_does_not_need(pristine: Path) -> None:
    """PATH has no uv, which nox looks for in every session."""
    said = nox(pristine, "-s", "bench").output

    assert "choose what to measure" in said
    assert not re.search(r"\buv\b", said)
