"""Compiles that a trial lists, and those that have to be done for the package's configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.compile.launcher.rewrite import CompilerCommand, Settings
from cuwheel.build.compile.launcher.standin import (
    COMMANDS,
    REAL,
    TREE,
    is_own,
    stand_in_for_link,
)


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


@pytest.fixture
def listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which a dry run lists compiles, with a source."""
    monkeypatch.setenv(COMMANDS, str(tmp_path / "commands.jsonl"))
    monkeypatch.setenv(TREE, f"{tmp_path / 'tree'}:{tmp_path / 'build'}")
    monkeypatch.setenv(REAL, str(tmp_path / "real"))
    for name in ("tree", "build"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "build")
    return tmp_path


def _command(source: Path) -> CompilerCommand:
    command = CompilerCommand([], "a.cu", "a.o")
    command.source_path = str(source)
    return command


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("build/generated.cu", True),
        ("build/CMakeFiles/x.dir/Unity/unity_0_cu.cu", True),
        ("build/CMakeFiles/4.1/CompilerIdCUDA/CMakeCUDACompilerId.cu", False),
        ("build/CMakeFiles/CMakeScratch/TryCompile-a/src.cu", False),
    ],
)
def test_lists_sources_that_the_build_made(listing: Path, source: str, *, expected: bool) -> None:
    assert is_own(_command(listing / source)) is expected


def test_a_check_of_the_packages_own_source_is_real(
    listing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = listing / "build/CMakeFiles/CMakeScratch/TryCompile-a"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)

    assert not is_own(_command(listing / "tree/check.cu"))


def test_sources_of_a_needed_program_are_real(listing: Path) -> None:
    (listing / "real").write_text(f"{listing / 'tree/gen.cpp'}\n{listing / 'build/gen'}")

    assert not is_own(_command(listing / "tree/gen.cpp"))
    assert is_own(_command(listing / "tree/other.cpp"))
    assert not stand_in_for_link("g++", ["gen.o", "-o", "gen"], Settings())


def test_a_program_without_content_tells_that_it_was_run(listing: Path) -> None:
    made = stand_in_for_link("g++", ["-O2", "gen.o", "-o", "it's a program"], Settings())

    done = run([listing / "build/it's a program"], env={}, check=False)

    assert made
    assert done.status == 127
    assert "has no content" in done.output
    assert (listing / "called").read_text() == f"{listing}/build/it's a program\n"
    assert json.loads((listing / "commands.jsonl").read_text())["inputs"] == [
        str(listing / "build/gen.o")
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-shared", "a.o", "-o", "a.so"],
        ["main.cpp", "-o", "one-step"],
        ["-E", "a.o", "-o", "a"],
        ["a.o", "-o", "/elsewhere/a"],
        ["--version"],
    ],
    ids=["library", "compile and link", "no link", "elsewhere", "version"],
)
def test_links_what_can_be_linked(listing: Path, arguments: list[str]) -> None:
    assert not stand_in_for_link("g++", arguments, Settings())
    assert not (listing / "commands.jsonl").exists()
