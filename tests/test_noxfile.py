"""The noxfile, run by a real nox on a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from typing import TYPE_CHECKING

import pytest

from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.nox_sessions import sessions_of
from cuwheel.paths import ROOT
from cuwheel.system.process import Finished, run

if TYPE_CHECKING:
    from pathlib import Path

_PARTS = ("noxfile.py", "cuwheel", "recipes", "envs", "tests/project")
_OF_NOXFILE = ("bench", "lint", "tests", "tests-e2e")
_LIMIT = 1.0  # seconds that `nox -l` may take
_OLD_PYTHONS = ("3.8", "3.9")

# What the noxfile imports, in a Python without any package: `-S` leaves site-packages out.
_BARE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
from cuwheel.model.catalogue import load_catalogue, missing_roots
from cuwheel.model.nox_sessions import asked_sessions, sessions_of, suggest_sessions
from cuwheel.paths import project_roots
entries = load_catalogue(project_roots())
assert not [path for path in sys.path if "site-packages" in path]
assert [name for name in sys.modules if name.startswith("cuwheel.")] == ROOMS
print([entry.fault for entry in entries if entry.fault], sessions_of(entries)[0].name)
"""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout as a clone gives it, for tests that only read."""
    return copy_checkout(tmp_path_factory.mktemp("clone"))


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
    command = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-m", "nox"]
    variables = {"PATH": os.defpath, "HOME": str(checkout), "NO_COLOR": "1", **env}
    return run([*command, *arguments], cwd=checkout, env=variables, check=False)


def list_sessions(checkout: Path, **env: str) -> dict[str, str]:
    """Each session and its help text, as a person reads them."""
    listed = nox(checkout, "-l", **env).output
    return dict(re.findall(r"^[*-] (\S+)(?: -> (.*))?$", listed, re.MULTILINE))


def test_lists_every_session(pristine: Path) -> None:
    hand_written = set(_HAND_WRITTEN)
    made = {session.name for session in sessions_of(load_catalogue([ROOT]))}

    assert set(list_sessions(pristine)) == hand_written | made


def test_lists_main_job(pristine: Path) -> None:
    assert "build-causal-conv1d-130" in list_sessions(pristine)


def test_every_session_has_one_line_of_help(pristine: Path) -> None:
    sessions = list_sessions(pristine)

    assert [name for name, text in sessions.items() if not text] == []


def test_lists_recipes_of_other_project(pristine: Path) -> None:
    sessions = list_sessions(pristine, CUWHEEL_PROJECT=str(pristine / "tests" / "project"))

    assert {"build-tiny-rdc-130", "build-causal-conv1d-130"} <= set(sessions)


def test_lists_in_under_a_second(pristine: Path) -> None:
    nox(pristine, "-l")  # compiles to bytecode, which a second clone's first run doesn't repeat

    spent = []
    for _ in range(3):
        started = time.monotonic()
        nox(pristine, "-l")
        spent.append(time.monotonic() - started)

    assert min(spent) < _LIMIT


def test_needs_no_package_but_nox(pristine: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", _BARE, str(pristine)]

    assert run(command, env={"PATH": os.defpath}).output == "[] build-bitsandbytes-121\n"


def test_broken_recipe_breaks_no_listing(checkout: Path) -> None:
    (checkout / "recipes" / "broken.py").write_text("from cuwheel import Nonsense\n")

    sessions = list_sessions(checkout)

    assert sessions["build-broken"].startswith("BROKEN recipe: ImportError")
    assert "build-causal-conv1d-130" in sessions


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("build-causal-conv1d-13", "build-causal-conv1d-130"),
        ("build-causal_conv1d-130", "build-causal-conv1d-130"),
        ("lock-chek", "lock-check"),
        ("test", "tests"),
    ],
)
def test_names_nearest_session(pristine: Path, wrong: str, right: str) -> None:
    done = nox(pristine, "-s", wrong)

    assert f'cuwheel: no session is called "{wrong}": did you mean "{right}"?' in done.output
    assert done.status != 0


def test_says_nothing_about_right_session(pristine: Path) -> None:
    assert "did you mean" not in nox(pristine, "-l", "-s", "lint").output


def test_names_project_folder_that_is_missing(pristine: Path) -> None:
    done = nox(pristine, "-l", CUWHEEL_PROJECT="/nonexistent")

    assert "cuwheel: CUWHEEL_PROJECT names /nonexistent" in done.output
