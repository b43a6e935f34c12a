"""Requirements of a file: pip's format, or `[project]` of a `pyproject.toml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base import limits
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import check_url, redact_text, redact_url
from cuwheel.base.system.output.terminal import visible
from cuwheel.base.system.regular_files import read_text, read_toml

_INDEX_OPTIONS = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links")
_IGNORED_OPTIONS = ("--no-binary", "--only-binary", "--pre", "--prefer-binary", "--trusted-host")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[= ]\S+")
_MOST_FILES = 20
_LONGEST = 80  # characters of a line in an error
_QUERY = re.compile(r"(//[^\s?]*\?)\S+")  # of an address: it may hold a token
_FIX = "remove that line, or name the packages on the command line"


@dataclass(kw_only=True)
class RequirementFile:
    """The content of a file, and of those that it names.

    Attributes:
        requirements: those whose markers apply to Linux.
        indexes: addresses that its options name.
        constraints: further limits of versions, a requirement each, with its marker.
    """

    requirements: list[Requirement] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)


def read_requirement_file(path: Path) -> RequirementFile:
    """Read requirements of a `pyproject.toml` or of pip's format.

    Raises:
        UsageError: it can't be read, or has lines that are no requirement of a release.
    """
    content = RequirementFile()
    if path.suffix == ".toml":
        for text in _dependencies(path):
            _add(text, path, content)
    else:
        _Reader(content).read(path)
    return content


def quoted(line: str) -> str:
    """Return the start of a line from outside for an error: no secrets of addresses in it."""
    text = visible(_QUERY.sub(r"\1…", redact_text(line)))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _dependencies(path: Path) -> list[str]:
    try:
        project: dict[str, Any] = read_toml(path).get("project", {})
        lines = project.get("dependencies", [])
    except (OSError, ValueError, AttributeError) as problem:
        raise _unreadable(path, problem) from problem
    if not isinstance(lines, list) or not lines:
        raise UsageError(
            f"{path} names no requirements",
            why="its `[project]` has no `dependencies`",
            fix="name the packages on the command line, or a file in pip's format",
        )
    return [str(line) for line in lines]


class _Reader:
    """The reader of a file in pip's format, and of those that it names."""

    def __init__(self, content: RequirementFile) -> None:
        self._content = content
        self._seen: set[Path] = set()

    def read(self, path: Path) -> None:
        """Read a file with requirements, once."""
        self._read(path, self._read_option, lambda line: _add(line, path, self._content))

    def _read_constraints(self, path: Path) -> None:
        """Read a file with limits of versions: uv gets its requirements, and no option of it."""

        def keep(line: str) -> None:
            self._content.constraints.append(str(_requirement(line, path)))

        self._read(path, self._read_option_of_constraints, keep)

    def _read(
        self,
        path: Path,
        read_option: Callable[[_Option], None],
        keep: Callable[[str], None],
    ) -> None:
        if path in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add(path)
        for number, line in _lines(path):
            words = _HASH.sub("", _COMMENT.sub("", line)).strip()
            if words.startswith("-"):
                name, _, value = re.sub(r"[=\s]+", " ", words, count=1).partition(" ")
                place = f"{path}, line {number},"
                read_option(_Option(path=path, place=place, name=name, value=value.strip()))
            elif words:
                keep(words)

    def _read_option(self, option: _Option) -> None:
        if option.name in {"-r", "--requirement"}:
            self.read(option.file())
        elif option.name in {"-c", "--constraint"}:
            self._read_constraints(option.file())
        elif option.name in _INDEX_OPTIONS:
            self._content.indexes.append(option.address())
        elif option.name not in _IGNORED_OPTIONS:
            raise option.refused("a stack consists of wheels of releases")

    def _read_option_of_constraints(self, option: _Option) -> None:
        if option.name in {"-c", "--constraint"}:
            self._read_constraints(option.file())
        elif option.name not in _IGNORED_OPTIONS:
            raise option.refused("a file of constraints only limits versions")


@dataclass(frozen=True, kw_only=True)
class _Option:
    """A line of a file that begins with an option.

    Attributes:
        place: file and line, for an error.
    """

    path: Path
    place: str
    name: str
    value: str

    def file(self) -> Path:
        """Return the file that it names."""
        if "://" in self.value:
            raise UsageError(
                f"{self.place} names {quoted(redact_url(self.value))}, an address",
                why=f"{self.name} takes a file of this machine here",
                fix="download it, and name the file",
            )
        return (self.path.parent / self.value).absolute()

    def address(self) -> str:
        """Return the index or page that it names; a folder becomes an address."""
        if "://" not in self.value:
            return (self.path.parent / self.value).absolute().as_uri()
        check_url(self.value, f"{self.name} in {self.place}")
        return self.value

    def refused(self, why: str) -> UsageError:
        """Return the error for an option that such a file can't have."""
        what = f"{self.place} has {quoted(self.name)}, which isn't supported"
        return UsageError(what, why=why, fix=_FIX)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with the number of each; a backslash continues one."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from problem
    if "\0" in text:
        raise _unreadable(path, ValueError("it is not a text: it holds zero bytes"))
    first, begun = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        if line.endswith("\\"):
            begun += f"{line[:-1]} "
            continue
        yield first, begun + line
        first, begun = 0, ""
    yield first, begun


def _requirement(line: str, path: Path) -> Requirement:
    what = f'{path} has "{quoted(line)}", which is no requirement of a release'
    if line.count("(") > limits.BRACKETS:
        raise UsageError(what, why="it is nested too deeply", fix=_FIX)
    try:
        requirement = Requirement(line)
    except InvalidRequirement as problem:
        why = quoted(str(problem).partition("\n")[0])
        raise UsageError(what, why=why, fix=_FIX) from None
    if requirement.url:
        raise UsageError(
            f"{path} has {requirement.name} with an address",
            why="a stack consists of wheels of releases",
            fix=f"write {requirement.name}, and give the place of its wheels with --index",
        )
    return requirement


def _add(line: str, path: Path, content: RequirementFile) -> None:
    requirement = _requirement(line, path)
    if requirement.marker and not requirement.marker.evaluate({"sys_platform": "linux"}):
        return
    requirement.marker = None
    requirement.name = canonicalize_name(requirement.name)
    content.requirements.append(requirement)


def _unreadable(path: Path, problem: Exception) -> UsageError:
    return UsageError(
        f"{path} can't be read",
        why=getattr(problem, "strerror", None) or str(problem),
        fix="name a file in pip's format, or a pyproject.toml",
    )
