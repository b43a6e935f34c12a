from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.nox_sessions import (
    VERBS,
    misplaced_python,
    requested_sessions,
    sessions_of,
    suggest_sessions,
)
from tests.build.recipe.test_catalogue import add_module, add_recipe


def test_gives_one_session_for_each_toolkit(tmp_path: Path) -> None:
    add_recipe(tmp_path, "a-one")

    sessions = sessions_of(load_catalogue([tmp_path]))

    assert [session.name for session in sessions] == [
        "build-a-one-130",
        *(verb.name for verb in VERBS),
    ]
    assert sessions[0].command == ("build", "a-one-130")


def test_marks_session_of_broken_recipe(tmp_path: Path) -> None:
    add_module(tmp_path, "broken", "RECIPE = 1")

    first, *_ = sessions_of(load_catalogue([tmp_path]))

    assert (first.name, first.summary[:14]) == ("build-broken", "BROKEN recipe:")


@pytest.mark.parametrize(
    ("line", "requested"),
    [
        ("-l", ()),
        ("-s a", ("a",)),
        ("-s a b -r", ("a", "b")),
        ("--session=a", ("a",)),
        ("--sessions a -- -s b", ("a",)),
        ("-R -e a --verbose x", ("a",)),
    ],
)
def test_reads_sessions_from_command_line(line: str, requested: tuple[str, ...]) -> None:
    assert requested_sessions(line.split()) == requested


@pytest.mark.parametrize(
    ("requested", "suggested"),
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
def test_names_nearest_session(tmp_path: Path, requested: str, suggested: str) -> None:
    add_recipe(tmp_path, "a-one")
    entries = load_catalogue([tmp_path])
    known = [session.name for session in sessions_of(entries)]

    [line] = suggest_sessions(["lock", requested], known, entries)

    assert line.startswith(f'there is no session "{requested}": did you mean ')
    assert line.endswith(f'{suggested}"?')


def test_names_fault_of_broken_recipe(tmp_path: Path) -> None:
    add_module(tmp_path, "a_one", "RECIPE = 1")
    entries = load_catalogue([tmp_path])

    [line] = suggest_sessions(["build-a-one-130"], ["build-a_one"], entries)

    assert "a_one.py can't be loaded: TypeError: RECIPE is not a Recipe(...)" in line


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("audit dist", "dist"),
        ("audit ./docs", "./docs"),
        ("explain audit.log", "audit.log"),
        ("pick a-one", "a-one"),
        ("get a-one other", "a-one other"),
        ("install a-one-130", "a-one-130"),
    ],
)
def test_takes_files_and_packages_for_arguments(tmp_path: Path, line: str, typed: str) -> None:
    add_recipe(tmp_path, "a-one")
    entries = load_catalogue([tmp_path])
    known = [session.name for session in sessions_of(entries)]

    [suggestion] = suggest_sessions(line.split(), known, entries, files=["dist"])

    assert suggestion.endswith(f'"nox -s {line.split(maxsplit=1)[0]} -- {typed}"?')


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("-s diagnose --python X", "nox -s diagnose -- --python X"),
        ("-s build-a-130 -p 3.12 -- -q", "nox -s build-a-130 -- --python 3.12"),
        ("-s diagnose -- --python X", ""),
        ("-l --python 3.12", ""),
    ],
)
def test_names_option_that_nox_keeps(line: str, typed: str) -> None:
    lines = misplaced_python(line.split())

    assert [line.endswith(f'"{typed}"?') for line in lines] == [True] * bool(typed)


@pytest.mark.parametrize("arguments", ["torch-cluster", "torch-cluster other"])
def test_puts_what_is_no_session_behind_dashes(arguments: str) -> None:
    known = [session.name for session in sessions_of(())]

    [line] = suggest_sessions(["new", *arguments.split()], known)

    assert line == f'"{arguments}" is no session: did you mean "nox -s new -- {arguments}"?'
