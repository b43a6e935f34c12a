"""The structure of a log: its commands, packages and tool runs, each with its status.

Nodes are line ranges: a command holds packages, a package holds tool runs. A line of success drops
what its own node printed; a line of failure closes its node, so that no later success drops it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LEVELS = ("log", "command", "installation", "package", "run")
MOST_FAILED = 50  # failed nodes that are kept; a log that repeats itself has thousands
_VERSION = re.compile(r"(?:-\d[^/]*|==.*|@.*|\.tar\.gz|\.zip)$")
_SEPARATORS = re.compile(r"[-_.]+")


@dataclass(kw_only=True)
class Node:
    """A part of a log that one command, package or run of a tool printed.

    Attributes:
        start: its first line, from 1.
        end: its last line; 0 while it is open.
        names: of packages, normalized.
    """

    level: int
    start: int
    end: int = 0
    names: set[str] = field(default_factory=set)

    def __contains__(self, line: int) -> bool:
        return self.start <= line and (line <= self.end or not self.end)


@dataclass(kw_only=True)
class Structure:
    """The nodes of a log, kept up to date line by line.

    Attributes:
        failed: closed nodes that failed, in the order of their ends.
    """

    failed: list[Node] = field(default_factory=list)
    _open: list[Node] = field(default_factory=list)
    _floor: int = 1  # the line after the last failure

    @property
    def is_full(self) -> bool:
        """True if no further failed node is kept."""
        return len(self.failed) >= MOST_FAILED

    def settle(self, line: int) -> None:
        """End the failed package whose output went on up to here."""
        if self.failed and not self.failed[-1].end:
            self.failed[-1].end = line - 1
            self._floor = line

    def begin(self, level: str, names: str, line: int) -> None:
        """Open a node; a package opens an installation too."""
        depth = LEVELS.index(level)
        packages = set(_normalized(names))
        if level in ("installation", "run") and self._at(depth):
            return  # one line of many
        if level == "package":
            installation = self._at(depth - 1)
            if not installation:
                installation = Node(level=depth - 1, start=line)
                self._open.append(installation)
            installation.names |= packages
        self._close(depth)
        self._open.append(Node(level=depth, start=line, names=packages))

    def succeed(self, level: str, names: str, line: int) -> list[Node]:
        """Close a node, and return the ranges whose errors it overcame."""
        depth, packages = LEVELS.index(level), set(_normalized(names))
        node, start = self._at(depth), self._start(depth)
        if node and level == "installation":
            packages |= node.names
        if node and packages and not packages & node.names:
            start = line  # of other packages
        overcome = [Node(level=depth, start=start, end=line)]
        if packages:
            overcome += [one for one in self.failed if one.names and one.names <= packages]
        if len(overcome) > 1 or any(failed.start >= start for failed in self.failed):
            self.failed = [
                failed
                for failed in self.failed
                if not any(failed.start in part for part in overcome)
            ]
        self._close(depth)
        return overcome

    def fail(self, level: str, names: str, line: int, *, goes_on: bool = False) -> None:
        """Close a node that failed.

        Args:
            goes_on: its output follows, up to the next node.
        """
        depth = LEVELS.index(level)
        node = self._at(depth)
        packages = set(_normalized(names)) or (node.names if node else set())
        if not self.is_full:
            start, end = (line, 0) if goes_on else (self._start(depth), line)
            self.failed.append(Node(level=depth, start=start, end=end, names=packages))
            self._floor = line + 1
        self._close(depth)

    def forget(self, line: int) -> None:
        """Drop the failed nodes that ended up to a line."""
        self.failed = [node for node in self.failed if not 0 < node.end <= line]

    def first_failure(self) -> Node | None:
        """Return the first failed package or run, else the first failed command."""
        inner = [node for node in self.failed if node.level > LEVELS.index("installation")]
        for first in inner or self.failed:
            around = [node for node in inner if first.start in node and first.end in node]
            return max(around, key=lambda node: node.end - node.start, default=first)
        return None

    def _at(self, depth: int) -> Node | None:
        return next((node for node in self._open if node.level == depth), None)

    def _start(self, depth: int) -> int:
        """Return the first line of the open node, or of what no node has yet."""
        if depth == 0:
            return 1
        if node := self._at(depth):
            return node.start
        return max([self._floor, *(node.start for node in self._open if node.level < depth)])

    def _close(self, depth: int) -> None:
        self._open = [node for node in self._open if node.level < depth]


@functools.lru_cache
def _normalized(names: str) -> frozenset[str]:
    """Return the names of packages in a list of names, files or requirements."""
    return frozenset(_normal_names(names)) if names else frozenset()


def _normal_names(names: str) -> Iterator[str]:
    for word in names.replace(",", " ").split():
        name = _VERSION.sub("", word.strip("'\"`").rstrip("/").rpartition("/")[2])
        if name and name != "and":
            yield _SEPARATORS.sub("-", name.lower())
