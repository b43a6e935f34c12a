"""Paths of a build machine that a compiler or a script left in a file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

from cuwheel.base.formats.binaries.windows import LOOKAHEAD, Window

# A compiler leaves the names of sources (`__FILE__`, debug information). Only names of sources
# count: programs have good reasons to hold `/tmp/` or `/root/.cache`.
_SOURCE = re.compile(
    rb"(?:/[\w.+@=~,-]+)+\.(?:cuh?|cc?|cpp|cxx|hh?|hpp|hxx|inl|ipp|pyx|rs|gcda"
    rb"|cubin|fatbin|ptx|bin|dat|npy|npz|onnx|engine)\b"
)
COVERAGE = ".gcda"  # written when a process ends, with `gcc --coverage`
DATA = (".bin", ".dat", ".npy", ".npz", ".onnx", ".engine")  # read by a program, not a compiler
_PRINTABLE = re.compile(rb"[\x20-\x7e]*")
_IN_NAME = re.compile(rb"[\w.+~-]")
# A person's files, or those of a build that was run by hand.
_HOMES = re.compile(rb"/(?:home/[\w.-]+|Users/[\w.-]+|root|tmp/[\w.+-]+)/")
# Users under which build services run all builds (images of GitHub, GitLab, Azure,
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
class Leak:
    """The first path below one folder of a build machine in a member of the wheel.

    Attributes:
        count: how many paths of that folder there are.
    """

    name: str
    text: str
    count: int


class LeakFinder:
    """The search of the members of a wheel.

    Args:
        private_paths: absolute folders of the build machine; no file may hold their names.
    """

    def __init__(self, private_paths: tuple[str, ...]) -> None:
        folders = {path.rstrip("/") for path in private_paths} - {""}
        # The outermost alone, so that a leak is reported once.
        self._private = frozenset(
            os.fsencode(path)
            for path in folders
            if not any(path.startswith(f"{top}/") for top in folders)
        )
        # `/work` is only a part of `/workshop` and of `/home/work`.
        named = [re.escape(path) + rb"(?![\w-])" for path in sorted(self._private)]
        self._in_text = re.compile(b"|".join(named)) if named else None
        # One search for all, which begins with their "/", costs the same for three as for thirty.
        self._in_library = re.compile(b"|".join([*named, *_FOLDERS]))
        self._leaks: dict[tuple[str, bytes, bool], Leak] = {}

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """One leak for each member and folder."""
        return tuple(self._leaks.values())

    def search(self, name: str, window: Window, *, is_library: bool) -> None:
        """Search the next part of a member.

        Args:
            is_library: search for sources too; text may name paths of any machine.
        """
        pattern = self._in_library if is_library else self._in_text
        # What begins before `end` may go on behind it.
        for match in pattern.finditer(window.data, window.begin) if pattern else ():
            if match.start() >= window.end:
                break
            self._check(name, window.data, match.start(), match[0])

    def _check(self, name: str, data: bytes, offset: int, folder: bytes) -> None:
        is_services, path = False, None
        if folder in self._private:
            path = _PRINTABLE.match(data, offset, offset + LOOKAHEAD)
        elif not _IN_NAME.match(data, offset - 1) and (path := _SOURCE.match(data, offset)):
            source = path[0]
            is_services = source.startswith(_WORKSPACES) or bool(_SERVICE_HOMES.match(source))
            is_data = source.endswith(tuple(map(str.encode, DATA)))
            if not (is_services or (_HOMES.match(source) and not is_data)):
                return
        if path:
            last = next((kind for kind in (COVERAGE, *DATA) if path[0].endswith(kind.encode())), "")
            key = (name, last.encode() or folder, is_services)
            first = self._leaks.get(key, Leak(name=name, text=path[0].decode(), count=0))
            self._leaks[key] = replace(first, count=first.count + 1)
