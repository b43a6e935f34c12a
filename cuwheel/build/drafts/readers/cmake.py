"""A reader of a tree's CMake files: CUDA, options, downloads, libraries.

Grammar: cmake-language(7), "Syntax". Variables are left as they are written, since only a run of
CMake knows their values.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.drafts.readers.facts import Kind, SourceFact, place_of, read_flags

_Stated = tuple[Kind, str, str]  # kind, name and default of a fact

_TOKEN = re.compile(
    r"""
    (?P<skipped> \#\[(?P<c>=*)\[ .*? \](?P=c)\] | \#[^\n]* | \s+ )
    | \[(?P<b>=*)\[ (?P<bracket> .*? ) \](?P=b)\]
    | " (?P<quoted> (?: \\. | [^\\"] )* ) "
    | (?P<paren> [()] )
    | (?P<word> (?: \\. | \$\{[^}]*\} | \$ENV\{[^}]*\} | [^\s()\#"\\] | "(?:\\.|[^\\"])*" )+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
# Folders whose CMake files build no part of a wheel.
_ASIDE = re.compile(r"(^|/)(tests?|examples?|benchmarks?|docs?|samples?|scripts|ci|\.github)(/|$)")
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
_FOLDER_VARIABLE = re.compile(r"^\$\{\w+\}/")
_PROGRAMS = re.compile(r"(?:^|/)(?:git|wget|curl)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class CMakeCommand:
    """A command.

    Attributes:
        arguments: without quotes; parentheses inside are arguments too, as in CMake.
        guard: the conditions of the file's `if`s around it, joined by AND; may be empty.
    """

    name: str
    arguments: tuple[str, ...]
    line: int
    guard: str


def read_commands(text: str) -> Iterator[CMakeCommand]:
    """Yield every command of a file; what is no CMake is skipped."""
    guards: list[list[str]] = []
    for name, arguments, line in _calls(text):
        condition = " ".join(arguments)
        if name in {"elseif", "else"} and guards:
            added = [condition] if name == "elseif" else []
            guards[-1] = [*(f"NOT ({last})" for last in guards[-1][-1:]), *added]
        elif name == "endif" and guards:
            guards.pop()
        guard = " AND ".join(part for level in guards for part in level)
        yield CMakeCommand(name=name, arguments=arguments, line=line, guard=guard)
        if name == "if":
            guards.append([condition])


def _calls(text: str) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yield name, arguments and line of each command."""
    name, start, depth = "", 0, 0
    arguments: list[str] = []
    for kind, value, line in _tokens(text):
        if kind == "paren" and (depth or (name and value == "(")):
            depth += 1 if value == "(" else -1
            if depth == 0:
                yield name.lower(), tuple(arguments), start
                name, arguments = "", []
            elif depth > 1 or value == ")":
                arguments.append(value)
        elif depth:
            arguments.append(value)
        else:
            name, start = (value if kind == "word" and _NAME.fullmatch(value) else ""), line


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield kind, value without quotes, and line of each token; a lone quote ends the file."""
    position, line = 0, 1
    while token := _TOKEN.match(text, position):
        for kind in ("bracket", "quoted", "paren", "word"):
            if token[kind] is not None:
                yield kind, token[kind], line
        line += token[0].count("\n")
        position = token.end()


def read_cmake(tree: Path) -> tuple[SourceFact, ...]:
    """Return every fact that CMakeLists.txt and `*.cmake` files below a tree state.

    Only a run of CMake knows which of them a build reaches, so all are read but those of tests,
    examples and documentation.
    """
    commands = {
        path: [*read_commands(read_text(path, limit=limits.CMAKE, errors="replace"))]
        for path in sorted((*tree.rglob("CMakeLists.txt"), *tree.rglob("*.cmake")))
        if path.is_file() and not _ASIDE.search(path.relative_to(tree).as_posix())
    }
    conditions = _conditions_of_files(commands)
    facts: list[SourceFact] = []
    for path, command in ((path, one) for path, all_ in commands.items() for one in all_):
        where = place_of(tree, path, command.line)
        guard = " AND ".join(filter(None, (conditions.get(path, ""), command.guard)))
        facts += (
            SourceFact(kind=kind, name=name, where=where, default=default, guard=guard)
            for kind, name, default in _facts(command)
        )
        if command.name not in _NO_FLAGS:
            for argument in command.arguments:
                facts += read_flags(argument, where, guard)
    return tuple(dict.fromkeys(facts))


def _conditions_of_files(commands: Mapping[Path, list[CMakeCommand]]) -> dict[Path, str]:
    """Return the condition under which each file is included, of those included once."""
    conditions: dict[Path, list[str]] = {}
    for path, command in ((path, one) for path, all_ in commands.items() for one in all_):
        if command.name == "include" and command.arguments:
            file = path.parent / _FOLDER_VARIABLE.sub("", command.arguments[0])
            conditions.setdefault(file, []).append(command.guard)
    return {file: guards[0] for file, guards in conditions.items() if len(guards) == 1}


def _facts(command: CMakeCommand) -> Iterator[_Stated]:
    name, arguments = command.name, command.arguments
    text = " ".join(arguments)
    yield from (("variable", variable, "") for variable in _ENVIRONMENT.findall(text))
    yield from _settings(name, arguments)
    if name == "target_link_libraries":
        yield from (("library", library, "") for library in _CUDA_TARGET.findall(text))
    elif name in _FETCHES and arguments:
        yield "download", _fetched(name, arguments), ""
    elif name in _MODULES and arguments:
        yield "extension", arguments[0], ""
        if {"STABLE_ABI", "USE_SABI"} & {*arguments}:
            yield "stable ABI", name, ""
    elif name == "execute_process" and _is_download(arguments):
        yield "download", " ".join(arguments[1:]), ""


def _settings(name: str, arguments: tuple[str, ...]) -> Iterator[_Stated]:
    match (name, *arguments):
        case ("option" | "cmake_dependent_option", option, *more):
            yield "option", option, (more[1] if len(more) > 1 else "") or "OFF"
        case ("set", "CMAKE_CUDA_ARCHITECTURES", *values) if values:
            yield "archs", " ".join(values), ""
        case ("set", option, *values) if "CACHE" in values:
            yield "option", option, " ".join(values[: values.index("CACHE")])
        case ("file", "DOWNLOAD", url, *_):
            yield "download", f"file(DOWNLOAD {url})", ""
        case ("project", _, *languages) | ("enable_language", *languages) if "CUDA" in languages:
            yield "language", "CUDA", ""
        case ("find_package", package, *_):
            yield "package", package, ""
        case ("cmake_minimum_required", *words):
            yield "minimum", next((text for text in words if text[:1].isdigit()), ""), ""


def _fetched(name: str, arguments: tuple[str, ...]) -> str:
    """Return name, address and version of a dependency that CMake would fetch."""
    fields = {
        key: value
        for key, value in itertools.pairwise(arguments)
        if key in {"NAME", "GIT_REPOSITORY", "GITHUB_REPOSITORY", "URL", "GIT_TAG", "VERSION"}
    }
    project = fields.pop("NAME", arguments[0])
    return " ".join([f"{name}({project})", *fields.values()])


def _is_download(arguments: tuple[str, ...]) -> bool:
    """Return True for `execute_process(COMMAND git clone …)`; `${GIT_EXECUTABLE}` is git too."""
    plain = [text.removesuffix("_EXECUTABLE}").removeprefix("${").lower() for text in arguments]
    programs = {match[0].rpartition("/")[2] for match in map(_PROGRAMS.search, plain) if match}
    is_git = "git" in programs and bool({"clone", "submodule", "fetch"} & {*arguments})
    return is_git or bool(programs - {"git"})
