"""What a tree's CMake files say about CUDA, downloads and libraries: read, never run."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from cuwheel import limits
from cuwheel.drafts.readers.cmake_files import guards_of_files
from cuwheel.drafts.readers.cmake_text import Command, read_commands
from cuwheel.drafts.readers.finding import Finding, Kind, place_of
from cuwheel.drafts.readers.flags import read_flags
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Folders whose CMake files build no part of a wheel.
_ASIDE = re.compile(r"(^|/)(tests?|examples?|benchmarks?|docs?|samples?|ci|\.github)(/|$)")
_NO_FLAGS = {"if", "elseif", "message", "option"}
_FETCHES = (
    *("fetchcontent_declare", "fetchcontent_populate", "externalproject_add"),
    *("cpmaddpackage", "cpmfindpackage", "cpmdeclarepackage"),
)
_ENVIRONMENT = re.compile(r"\$ENV\{(\w+)\}")
_CUDA_TARGET = re.compile(r"CUDA::(\w+)")
_MODULES = (
    *("pybind11_add_module", "nanobind_add_module"),
    *("python_add_library", "python3_add_library"),
)
_PROGRAMS = re.compile(r"(?:^|/)(?:git|wget|curl)$", re.IGNORECASE)
_STABLE = ("STABLE_ABI", "USE_SABI")
_ARCHS = "CMAKE_CUDA_ARCHITECTURES"


class _Maker(Protocol):
    """Makes a finding of the command at hand."""

    def __call__(self, kind: Kind, name: str, default: str = "") -> Finding: ...


def read_cmake(tree: Path) -> tuple[Finding, ...]:
    """Every fact that CMakeLists.txt and `*.cmake` files below a tree state.

    Which of them a build reaches is known only while CMake runs, so all are read but those of
    tests, examples and documentation, and modules that no other file names. What stands in a file
    that is only included inside of an `if` has that condition too.
    """
    files: dict[Path, tuple[Command, ...]] = {}
    for path in sorted((*tree.rglob("CMakeLists.txt"), *tree.rglob("*.cmake"))):
        if path.is_file() and not _ASIDE.search(path.relative_to(tree).as_posix()):
            text = read_text(path, limit=limits.CMAKE, errors="replace")
            files[path] = tuple(read_commands(text))
    found: list[Finding] = []
    for path, guard in guards_of_files(files, tree).items():
        for command in files[path]:
            within = replace(command, guard=" AND ".join(filter(None, (guard, command.guard))))
            found += _read_command(within, place_of(tree, path, command.line))
    return tuple(dict.fromkeys(found))


def _read_command(command: Command, where: str) -> Iterator[Finding]:
    def finding(kind: Kind, name: str, default: str = "") -> Finding:
        return Finding(kind=kind, name=name, where=where, default=default, guard=command.guard)

    words = command.arguments
    text = " ".join(words)
    for name in _ENVIRONMENT.findall(text):
        yield finding("variable", name)
    for name in _CUDA_TARGET.findall(text) if command.name == "target_link_libraries" else ():
        yield finding("library", name)
    for word in words if command.name not in _NO_FLAGS else ():
        yield from read_flags(word, where, command.guard)
    if words and (read := _READERS.get(command.name)):
        yield from read(command, finding)


def _read_option(command: Command, finding: _Maker) -> Iterator[Finding]:
    name, _, *default = (*command.arguments, "")
    yield finding("option", name, default[0] if default and default[0] else "OFF")


def _read_languages(command: Command, finding: _Maker) -> Iterator[Finding]:
    names = command.arguments[1:] if command.name == "project" else command.arguments
    if "CUDA" in names:
        yield finding("language", "CUDA")


def _read_minimum(command: Command, finding: _Maker) -> Iterator[Finding]:
    number = (word for word in command.arguments if word[:1].isdigit())
    yield finding("minimum", next(number, ""))


def _read_module(command: Command, finding: _Maker) -> Iterator[Finding]:
    yield finding("extension", command.arguments[0])
    if {*command.arguments} & {*_STABLE}:
        yield finding("stable ABI", command.name)


def _read_package(command: Command, finding: _Maker) -> Iterator[Finding]:
    yield finding("package", command.arguments[0])


def _read_fetch(command: Command, finding: _Maker) -> Iterator[Finding]:
    yield finding("download", _described(command))


def _read_file(command: Command, finding: _Maker) -> Iterator[Finding]:
    if command.arguments[0].upper() == "DOWNLOAD":
        yield finding("download", f"file(DOWNLOAD {' '.join(command.arguments[1:2])})")


def _read_set(command: Command, finding: _Maker) -> Iterator[Finding]:
    name, *values = command.arguments
    if name == _ARCHS and values:
        yield finding("archs", " ".join(values))
    elif "CACHE" in values:
        yield finding("option", name, " ".join(values[: values.index("CACHE")]))


def _read_process(command: Command, finding: _Maker) -> Iterator[Finding]:
    """`execute_process(COMMAND git clone …)`; `${GIT_EXECUTABLE}` is git too."""
    words = command.arguments
    plain = [word.removesuffix("_EXECUTABLE}").removeprefix("${") for word in words]
    is_fetch = any(map(_PROGRAMS.search, plain)) and {"clone", "submodule", "fetch"} & {*words}
    if is_fetch or any(re.search(r"(?:^|/)(?:wget|curl)$", word) for word in words):
        yield finding("download", " ".join(words[1:]))


def _described(command: Command) -> str:
    """What a dependency manager of CMake's would fetch: name, address, version."""
    words = command.arguments
    fields = {
        key: value
        for key, value in itertools.pairwise(words)
        if key in {"NAME", "GIT_REPOSITORY", "GITHUB_REPOSITORY", "URL", "GIT_TAG", "VERSION"}
    }
    name = fields.pop("NAME", words[0])
    return " ".join([f"{command.name}({name})", *fields.values()])


_READERS: dict[str, Callable[[Command, _Maker], Iterator[Finding]]] = {
    "option": _read_option,
    "cmake_dependent_option": _read_option,
    "set": _read_set,
    "file": _read_file,
    "execute_process": _read_process,
    "project": _read_languages,
    "enable_language": _read_languages,
    "find_package": _read_package,
    "cmake_minimum_required": _read_minimum,
    **dict.fromkeys(_FETCHES, _read_fetch),
    **dict.fromkeys(_MODULES, _read_module),
}
