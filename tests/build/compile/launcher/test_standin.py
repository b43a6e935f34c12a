"""Compiles that a trial lists, and those that have to be done for the package's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.compile.launcher.rewrite import CompilerCommand
from cuwheel.build.compile.launcher.standin import COMMANDS, TREE, is_own


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("tree/a.cu", "a.o", True),
        ("tree/a.cu", "", False),
        ("tree/build/CMakeFiles/4.1/test.cu", "test.o", False),
        ("tmp/conftest.c", "conftest.o", False),
    ],
    ids=["source", "no object", "CMake's", "another folder"],
)
def test_lists_objects_of_the_source(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    output: str,
    expected: bool,  # noqa: FBT001 - a parameter
) -> None:
    monkeypatch.setenv(COMMANDS, "commands.jsonl")
    monkeypatch.setenv(TREE, str(tmp_path / "tree"))
    command = CompilerCommand([], source, output)
    command.source_path = str(tmp_path / source)

    assert is_own(command) is expected


def test_lists_nothing_in_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMMANDS, raising=False)
    command = CompilerCommand([], "a.cu", "a.o")
    command.source_path = str(tmp_path / "a.cu")

    assert not is_own(command)
