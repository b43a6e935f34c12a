"""Requirements of a file: pip's format, or `[project]` of a `pyproject.toml`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import redact_text
from cuwheel.base.system.regular_files import read_text, read_toml

_INDEX_OPTIONS = ("-i", "--index-url", "--extra-index-url", "-f", "--find-links")
_IGNORED_OPTIONS = ("--no-binary", "--only-binary", "--pre", "--prefer-binary", "--trusted-host")
_COMMENT = re.compile(r"(^|\s)#.*$")
_HASH = re.compile(r"\s--hash[= ]\S+")
_MOST_FILES = 20


@dataclass(kw_only=True)
class RequirementFile:
    """The content of a file, and of those that it names.

    Attributes:
        requirements: those whose markers apply to Linux.
        indexes: addresses that its options name.
        constraints: files with further limits of versions.
    """

    requirements: list[Requirement] = field(default_factory=list)
    indexes: list[str] = field(default_factory=list)
    constraints: list[Path] = field(default_factory=list)


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
        _read(path, content, set())
    return content


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


def _read(path: Path, content: RequirementFile, seen: set[Path]) -> None:
    if path in seen or len(seen) >= _MOST_FILES:
        return
    seen.add(path)
    try:
        text = read_text(path)
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from problem
    for line in text.replace("\\\n", " ").splitlines():
        words = _HASH.sub("", _COMMENT.sub("", line)).strip()
        if words.startswith("-"):
            _read_option(words, path, content, seen)
        elif words:
            _add(words, path, content)


def _read_option(line: str, path: Path, content: RequirementFile, seen: set[Path]) -> None:
    name, _, value = re.sub(r"[=\s]+", " ", line, count=1).partition(" ")
    value = value.strip()
    if name in {"-r", "--requirement"}:
        _read((path.parent / value).absolute(), content, seen)
    elif name in {"-c", "--constraint"}:
        content.constraints.append((path.parent / value).absolute())
    elif name in _INDEX_OPTIONS:
        is_path = "://" not in value
        content.indexes.append((path.parent / value).absolute().as_uri() if is_path else value)
    elif name not in _IGNORED_OPTIONS:
        raise UsageError(
            f"{path} has {name}, which isn't supported",
            why="a stack consists of wheels of releases",
            fix="remove that line, or name the packages on the command line",
        )


def _add(line: str, path: Path, content: RequirementFile) -> None:
    try:
        requirement = Requirement(line)
    except InvalidRequirement as problem:
        raise UsageError(
            f'{path} has "{redact_text(line)}", which is no requirement of a release',
            why=redact_text(str(problem).splitlines()[0]),
            fix="remove that line, or name the packages on the command line",
        ) from None
    if requirement.url:
        raise UsageError(
            f"{path} has {requirement.name} with an address",
            why="a stack consists of wheels of releases",
            fix=f"write {requirement.name}, and give the place of its wheels with --index",
        )
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
