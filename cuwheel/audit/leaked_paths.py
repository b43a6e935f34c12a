"""Paths of a build machine that a compiler or a script left in a file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cuwheel.binaries.windows import LOOKAHEAD

if TYPE_CHECKING:
    from cuwheel.binaries.windows import Window


LeakKind = Literal["private", "home", "workspace"]

# A compiler leaves the names of sources (`__FILE__`, debug information). Only names of sources
# count: programs have good reasons to hold `/tmp/` or `/root/.cache`.
_SOURCE = re.compile(rb"(?:/[\w.+@=~,-]+)+\.(?:cuh?|cc?|cpp|cxx|hh?|hpp|hxx|inl|ipp|pyx|rs)\b")
_PRINTABLE = re.compile(rb"[\x20-\x7e]*")
_IN_NAME = re.compile(rb"[\w.+~-]")
# Below them lie a person's files, or those of a build that somebody ran by hand.
_HOMES = re.compile(rb"/(?:home/[\w.-]+|Users/[\w.-]+|root|tmp/[\w.+-]+)/")
# Users of build services, under which everybody's builds run (images of GitHub, GitLab, Azure,
# Jenkins, CircleCI, Travis CI, conda-forge).
_SERVICE_HOMES = re.compile(rb"/home/(?:runner|gitlab-runner|vsts|jenkins|circleci|travis|conda)/")
# Where build services keep sources: GitHub in a container and as an action, cibuildwheel,
# GitLab, conda-build.
_WORKSPACES = (
    *(b"/__w/", b"/github/workspace/", b"/project/", b"/workspace/", b"/builds/"),
    *(b"/opt/conda/conda-bld/", b"/croot/"),
)
_FOLDERS = (b"/home/", b"/Users/", b"/root/", b"/tmp/", *_WORKSPACES)


@dataclass(frozen=True, kw_only=True)
class FoundPath:
    """The first path below one folder of a build machine, and how many paths of it there are."""

    kind: LeakKind
    text: str
    count: int


class LeakRules:
    """What to look for.

    Three kinds: `private`, below a folder that the caller named; `home`, a source below somebody's
    home or a temporary folder; `workspace`, a source where a build service puts everybody's, which
    identifies nobody.

    Args:
        private_paths: absolute folders of the build machine; no file may hold their names.
    """

    def __init__(self, private_paths: tuple[str, ...]) -> None:
        folders = {path.rstrip("/") for path in private_paths} - {""}
        # The outermost alone, so that a leak is reported once.
        self.private = frozenset(
            os.fsencode(path)
            for path in folders
            if not any(path.startswith(f"{top}/") for top in folders)
        )
        # `/work` is only a part of `/workshop` and of `/home/work`.
        named = [re.escape(path) + rb"(?![\w-])" for path in sorted(self.private)]
        self.in_text = re.compile(b"|".join(named)) if named else None
        # One search for all, which begins with their "/", costs the same for three as for thirty.
        self.in_library = re.compile(b"|".join([*named, *_FOLDERS]))


class LeakFinder:
    """Finds paths in one file.

    Args:
        rules: what to look for.
        is_library: look for sources too; text may name anybody's.
    """

    def __init__(self, rules: LeakRules, *, is_library: bool) -> None:
        self._private = rules.private
        self._pattern = rules.in_library if is_library else rules.in_text
        self._found: dict[tuple[LeakKind, bytes], FoundPath] = {}

    @property
    def found(self) -> tuple[FoundPath, ...]:
        """Each folder's first path, with the number of times that the folder came."""
        return tuple(self._found.values())

    def search(self, window: Window) -> None:
        """Search the next part of the file."""
        if self._pattern is None:
            return
        # What begins before `end` may go on behind it.
        for match in self._pattern.finditer(window.data, window.begin):
            if match.start() >= window.end:
                break
            self._check(window.data, match.start(), match[0])

    def _check(self, data: bytes, offset: int, folder: bytes) -> None:
        if folder in self._private:
            text = _PRINTABLE.match(data, offset)
            self._note("private", folder, text[0][:LOOKAHEAD] if text else b"")
        elif not _IN_NAME.match(data, offset - 1):
            source = _SOURCE.match(data, offset)
            kind = _kind_of(source[0]) if source else None
            if source and kind:
                self._note(kind, folder, source[0])

    def _note(self, kind: LeakKind, folder: bytes, text: bytes) -> None:
        new = FoundPath(kind=kind, text=text.decode(), count=0)
        first = self._found.get((kind, folder), new)
        self._found[kind, folder] = replace(first, count=first.count + 1)


def _kind_of(source: bytes) -> LeakKind | None:
    if source.startswith(_WORKSPACES) or _SERVICE_HOMES.match(source):
        return "workspace"
    return "home" if _HOMES.match(source) else None
