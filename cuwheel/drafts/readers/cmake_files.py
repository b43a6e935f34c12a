"""Which CMake files of a tree a build may read, and under which conditions, by what names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cuwheel.drafts.readers.cmake_text import Command

_FOLDER = re.compile(r"\$\{\w*(?:SOURCE|LIST)_DIR\}/")  # of the project, or of the file at hand


def guards_of_files(files: Mapping[Path, tuple[Command, ...]], tree: Path) -> dict[Path, str]:
    """The condition that each file is read under; empty: none is known.

    A module that no command of another file names isn't among them: nothing includes it. A
    CMakeLists.txt always is, as what adds its folder may be computed.

    Args:
        files: the commands of each.
        tree: the source.
    """
    calls = {path: tuple(_calls_of(path, files, tree)) for path in files}
    words = {
        path: {word for one in commands for text in one.arguments for word in _WORD.findall(text)}
        for path, commands in files.items()
    }
    return {
        path: _guard(path, calls, frozenset())
        for path in files
        if path.name == "CMakeLists.txt" or _is_named(path, words)
    }


def _is_named(path: Path, words: Mapping[Path, set[str]]) -> bool:
    """Whether another file has the module's name; `find_package(X)` means FindX."""
    names = {path.stem, path.stem.removeprefix("Find")}
    return any(names & found for one, found in words.items() if one != path)


_WORD = re.compile(r"[\w-]+")


def _calls_of(
    path: Path, files: Mapping[Path, tuple[Command, ...]], tree: Path
) -> Iterator[tuple[Path, str]]:
    """The files that include this one or add its folder, with the condition of each time."""
    for caller, commands in files.items():
        for one in commands:
            if one.name in {"include", "add_subdirectory"} and one.arguments and caller != path:
                text = _FOLDER.sub("", one.arguments[0])
                if path in _meant(text, one.name, caller, tree):
                    yield caller, one.guard


def _meant(text: str, command: str, caller: Path, tree: Path) -> tuple[Path, ...]:
    """The files that an argument may mean; `include(name)` searches folders for a module."""
    places = (caller.parent, tree)
    if command == "add_subdirectory":
        return tuple(place / text / "CMakeLists.txt" for place in places)
    modules = (*places, caller.parent / "cmake", tree / "cmake")
    return tuple(place / name for place in modules for name in (text, f"{text}.cmake"))


def _guard(
    path: Path, calls: Mapping[Path, tuple[tuple[Path, str], ...]], above: frozenset[Path]
) -> str:
    """The condition, where one place alone includes the file."""
    if len(calls[path]) != 1 or path in above:
        return ""
    [(caller, guard)] = calls[path]
    return " AND ".join(filter(None, (_guard(caller, calls, above | {path}), guard)))
