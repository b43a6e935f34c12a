from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.nox_sessions import VERBS, requested_sessions, sessions_of, suggest_sessions
from tests.model.test_catalogue import add_module, add_recipe

if TYPE_CHECKING:
    from pathlib import Path


def test_gives_one_session_for_each_toolkit(tmp_path: Path) -> None:
    add_recipe(tmp_path, "a-one")

    made = sessions_of(load_catalogue([tmp_path]))

    assert [one.name for one in made] == ["build-a-one-130", *(verb.name for verb in VERBS)]
    assert made[0].command == ("build", "a-one-130")


def test_gives_broken_recipe_a_session_that_says_so(tmp_path: Path) -> None:
    add_module(tmp_path, "broken", "RECIPE = 1")

    first, *_ = sessions_of(load_catalogue([tmp_path]))

    assert (first.name, first.summary[:14]) == ("build-broken", "BROKEN recipe:")


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
    assert requested_sessions(line.split()) == asked


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("biuld-a-one-130", "a-one-130"),
        ("build-a_one-130", "build-a-one-130"),
        ("lock-chek", "lock-check"),
        ("smoke-a-one-130", "nox -s smoke -- a-one-130"),
        ("verify-a-one-13", "nox -s verify -- a-one-130"),
        ("profile-a_one-130", "nox -s profile -- a-one-130"),
        ("toolchain-122", "nox -s toolchain -- 122"),
        ("smoke-a-one", "nox -s smoke -- a-one-130"),
    ],
)
def test_names_nearest_session(tmp_path: Path, asked: str, suggested: str) -> None:
    add_recipe(tmp_path, "a-one")
    entries = load_catalogue([tmp_path])
    known = [one.name for one in sessions_of(entries)]

    [line] = suggest_sessions(["lock", asked], known, entries)

    assert line.startswith(f'there is no session "{asked}": did you mean ')
    assert line.endswith(f'{suggested}"?')


def test_tells_why_session_of_broken_recipe_is_missing(tmp_path: Path) -> None:
    add_module(tmp_path, "a_one", "RECIPE = 1")
    entries = load_catalogue([tmp_path])

    [line] = suggest_sessions(["build-a-one-130"], ["build-a_one"], entries)

    assert "a_one.py can't be loaded: TypeError: RECIPE is not a Recipe(...)" in line


@pytest.mark.parametrize("words", ["torch-cluster", "torch-cluster other"])
def test_puts_what_is_no_session_behind_dashes(words: str) -> None:
    known = [one.name for one in sessions_of(())]

    [line] = suggest_sessions(["new", *words.split()], known)

    assert line == f'"{words}" is no session: did you mean "nox -s new -- {words}"?'
