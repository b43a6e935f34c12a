"""The folders of a build: on this machine, and by the names that they have on every machine.

In a sandbox a build sees its folders under the fixed names. Without one it sees them where they
are, and the compilers get the fixed names as prefix maps, so that the objects hold the same.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from cuwheel.build.sandbox.backends import sandboxed
from cuwheel.build.sandbox.mounts import Mount

TOP = Path("/cuwheel")


@dataclass(frozen=True, kw_only=True)
class BuildPath:
    """A folder of a build, with its name on every machine.

    Attributes:
        name: below `/cuwheel`.
        kind: `read` or `write`, what the build may do there; `name` where a sandbox holds it
            already, under this name or as a part of another folder.
        has_sources: True if the names of its files may get into objects, by `__FILE__`.
    """

    name: str
    real: Path
    kind: str = "read"
    has_sources: bool = False

    @property
    def fixed(self) -> Path:
        """Path on every machine."""
        return TOP / self.name


@dataclass(frozen=True, kw_only=True)
class PathMap:
    """The folders of one build.

    Attributes:
        named: those with a name; of two with one name, both get it.
        sandbox: the kind of sandbox, from `choose_sandbox`.
    """

    named: tuple[BuildPath, ...]
    sandbox: str
    extra: tuple[Mount, ...] = ()

    @property
    def is_sandboxed(self) -> bool:
        """True if the build sees the names."""
        return self.sandbox != "none"

    def neutral(self, text: str) -> str:
        """Return a text with the names in place of this machine's folders."""
        pattern, names = self._names
        return pattern.sub(lambda match: names[match[0]], text)

    @functools.cached_property
    def _names(self) -> tuple[re.Pattern[str], dict[str, str]]:
        """A pattern for this machine's folders, and the name of each; links followed once."""
        names = {
            str(path): str(folder.fixed)
            for folder in self.named
            for path in (folder.real.resolve(), folder.real)
        }
        longest_first = sorted(names, key=len, reverse=True)
        # `/a/b` is no part of `/a/bc`.
        pattern = "|".join(f"{re.escape(path)}(?![\\w.+-])" for path in longest_first)
        return re.compile(pattern), names

    def inside(self, text: str) -> str:
        """Return a text with its folders as the build sees them."""
        return self.neutral(text) if self.is_sandboxed else text

    @property
    def maps(self) -> tuple[tuple[str, str], ...]:
        """Prefixes that compilers replace in names of files; the last match wins (GCC's manual)."""
        if self.is_sandboxed:
            return ()
        # Where a folder is reached by a link, compilers may write either path.
        pairs = {
            (str(path), str(folder.fixed))
            for folder in self.named
            if folder.has_sources
            for path in (folder.real, folder.real.resolve())
        }
        return tuple(sorted(pairs, key=lambda pair: (len(pair[0]), pair)))

    def command(self, argv: list[str], folder: Path) -> list[str]:
        """Return a command as it is to be run here."""
        mounts = [
            Mount(source=path.real, target=path.fixed, kind=path.kind)
            for path in self.named
            if path.kind != "name"
        ]
        prefix = sandboxed(self.sandbox, [*mounts, *self.extra], Path(self.inside(str(folder))))
        return [*prefix, *map(self.inside, argv)]
