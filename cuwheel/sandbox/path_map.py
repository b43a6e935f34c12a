"""Where things are during a build: on this machine, and by the names that they have on every one.

In a sandbox a build sees its folders under the fixed names. Without one it sees them where they
are, and the compilers are told the fixed names as prefix maps, so that the objects say the same.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.sandbox.backends import Mount, sandboxed

if TYPE_CHECKING:
    from collections.abc import Iterator


TOP = Path("/cuwheel")


@dataclass(frozen=True, kw_only=True)
class BuildPath:
    """A folder of a build, with its name on every machine.

    Attributes:
        name: below `/cuwheel`.
        real: where it is on this machine.
        kind: `read` or `write`, what the build may do there; `name` where a sandbox holds it
            already, under this name or as a part of another folder.
        has_sources: whether the names of its files may get into objects, by `__FILE__`.
    """

    name: str
    real: Path
    kind: str = "read"
    has_sources: bool = False

    @property
    def fixed(self) -> Path:
        """Its path on every machine."""
        return TOP / self.name


@dataclass(frozen=True, kw_only=True)
class PathMap:
    """The folders of one build.

    Attributes:
        named: those with a name; of two with one name, both get it.
        sandbox: the kind of sandbox, from `choose_sandbox`.
        extra: what a sandbox holds beside them.
    """

    named: tuple[BuildPath, ...]
    sandbox: str
    extra: tuple[Mount, ...] = ()

    @property
    def is_sandboxed(self) -> bool:
        """Whether the build sees the names."""
        return self.sandbox != "none"

    def neutral(self, text: str) -> str:
        """A text with the names in place of this machine's folders."""
        pattern, names = self._names
        return pattern.sub(lambda found: names[found[0]], text)

    @functools.cached_property
    def _names(self) -> tuple[re.Pattern[str], dict[str, str]]:
        """What finds this machine's folders, and the name of each; links followed once."""
        names = {
            str(path): str(one.fixed)
            for one in self.named
            for path in (one.real.resolve(), one.real)
        }
        longest_first = sorted(names, key=len, reverse=True)
        # `/a/b` is no part of `/a/bc`.
        pattern = "|".join(f"{re.escape(path)}(?![\\w.+-])" for path in longest_first)
        return re.compile(pattern), names

    def inside(self, text: str) -> str:
        """A text with its folders as the build sees them."""
        return self.neutral(text) if self.is_sandboxed else text

    @property
    def maps(self) -> tuple[tuple[str, str], ...]:
        """What compilers replace in the names of files; the last that fits wins (GCC's manual)."""
        if self.is_sandboxed:
            return ()
        # Where a folder is reached by a link, compilers may write either path.
        pairs = {
            (str(path), str(one.fixed))
            for one in self.named
            if one.has_sources
            for path in (one.real, one.real.resolve())
        }
        return tuple(sorted(pairs, key=lambda pair: (len(pair[0]), pair)))

    def command(self, words: list[str], folder: Path) -> list[str]:
        """A program and its arguments, as they are to be run here.

        Args:
            words: with this machine's paths.
            folder: where it starts, likewise.
        """
        start = Path(self.inside(str(folder)))
        prefix = sandboxed(self.sandbox, self._mounts(), start)
        return [*prefix, *map(self.inside, words)]

    def _mounts(self) -> Iterator[Mount]:
        for one in self.named:
            if one.kind != "name":
                yield Mount(source=one.real, target=one.fixed, kind=one.kind)
        yield from self.extra
