"""Which file the loader takes for a library that another one needs, in an environment at rest.

Order: ld.so(8). What can't be known from files is what was loaded before: that comes from a
framework that was really imported.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cuda.suppliers import is_from_driver
from cuwheel.errors import CommandFailedError
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cuwheel.diagnose.facts.environment import PythonEnvironment
    from cuwheel.diagnose.facts.imports import FrameworkFacts


_LDCONFIG = ("/sbin/ldconfig", "/usr/sbin/ldconfig")
_TIME_LIMIT = 5.0  # seconds
_CACHED = re.compile(r"^\s*(\S+) \((.*)\) => (/.*)$", re.MULTILINE)  # ldconfig -p
_DEFAULT = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
)
_ORIGIN = re.compile(r"\$(ORIGIN\b|\{ORIGIN\})")

DRIVER = "the driver"
SYSTEM = "the system"


@dataclass(frozen=True, kw_only=True)
class FoundLibrary:
    """Where a library comes from.

    Attributes:
        path: the file; None for what the driver brings, which may not be there.
        supplier: name and version of a distribution, `the system`, `the driver`, a folder.
        condition: the framework that has to be imported before; empty: none.
        call: what its package offers to load it with, `package.preload()`; empty: it needs none.
    """

    path: Path | None
    supplier: str
    condition: str = ""
    call: str = ""


@dataclass(frozen=True, kw_only=True)
class SearchContext:
    """The ways that a library knows to others.

    Attributes:
        rpath, runpath: its entries.
        imports: frameworks that are imported before it.
    """

    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Loader:
    """Finds libraries as the dynamic loader would for the interpreter of an environment.

    Attributes:
        environment: where.
        environ: `LD_LIBRARY_PATH` is read from it.
        frameworks: whose libraries are there once they were imported.
        known: what `ldconfig -p` says.
    """

    environment: PythonEnvironment
    environ: Mapping[str, str]
    frameworks: tuple[FrameworkFacts, ...]
    known: Mapping[str, Path]

    @cached_property
    def owners(self) -> dict[Path, str]:
        """Who has installed a library, links followed."""
        return {
            path.resolve(): f"{one.name} {one.version}"
            for one in self.environment.distributions.values()
            for path in one.libraries
        }

    @cached_property
    def _preloaded(self) -> dict[str, tuple[Path, str]]:
        """Libraries by file name, and who has loaded them."""
        return {
            path.name: (path, framework.name)
            for framework in self.frameworks
            if framework.was_imported
            for path in framework.libraries
        }

    @cached_property
    def _listed(self) -> tuple[Path, ...]:
        entries = self.environ.get("LD_LIBRARY_PATH", "").split(":")
        return tuple(Path(entry) for entry in entries if entry)

    def find(self, library: Path, soname: str, context: SearchContext) -> FoundLibrary | None:
        """Where a library finds another; None: nowhere.

        What is loaded already is taken, whatever folders the library names.

        Args:
            library: the file that needs it.
            soname: what it needs.
            context: the ways that the library knows.
        """
        path, name = self._preloaded.get(soname, (None, ""))
        before = (
            FoundLibrary(path=path, supplier=self._supplier(path), condition=name) if path else None
        )
        if before and name in context.imports:
            return before
        rpath, runpath = context.rpath, context.runpath
        for folder in self._folders(library, rpath, runpath):
            there = folder / soname
            if there.is_file():
                return FoundLibrary(path=there, supplier=self._supplier(there))
        if soname in self.known:
            there = self.known[soname]
            return FoundLibrary(path=there, supplier=DRIVER if is_from_driver(soname) else SYSTEM)
        if is_from_driver(soname):
            return FoundLibrary(path=None, supplier=DRIVER)
        return before

    def opened(self, path: Path, call: str = "") -> FoundLibrary:
        """A library that a package has loaded by its path.

        Args:
            path: the file.
            call: what made it do so, beyond its import.
        """
        return FoundLibrary(path=path, supplier=self._supplier(path), call=call)

    def _folders(
        self, library: Path, rpath: tuple[str, ...], runpath: tuple[str, ...]
    ) -> Iterator[Path]:
        if not runpath:
            yield from rpath_folders(library, rpath)
            if self.environment.is_conda:  # its python has an rpath, which holds for all it loads
                yield self.environment.prefix / "lib"
        yield from self._listed
        yield from rpath_folders(library, runpath)

    def _supplier(self, path: Path) -> str:
        real = path.resolve()
        if real in self.owners:
            return self.owners[real]
        if self.environment.is_conda and real.is_relative_to(self.environment.prefix.resolve()):
            return f"the conda environment {self.environment.prefix.name}"
        return SYSTEM if str(path.parent) in _DEFAULT else str(path.parent)


def rpath_folders(library: Path, entries: tuple[str, ...]) -> Iterator[Path]:
    """Without those that count from the folder in which a program is started, which may be any."""
    origin = str(library.parent)
    for entry in entries:
        place = Path(os.path.normpath(_ORIGIN.sub(lambda _: origin, entry)))
        if place.is_absolute():
            yield place


def read_loader_cache() -> dict[str, Path]:
    """The libraries that the loader finds without being led to: soname and file."""
    program = next((one for one in _LDCONFIG if os.access(one, os.X_OK)), None)
    found: dict[str, Path] = {}
    if program:
        try:
            done = run([program, "-p"], env={"PATH": os.defpath}, timeout=_TIME_LIMIT, check=False)
            for name, kind, path in _CACHED.findall(done.output):
                if "64" in kind or os.uname().machine == "aarch64":
                    found.setdefault(name, Path(path))
        except CommandFailedError:
            pass
    for folder in map(Path, _DEFAULT):
        for path in folder.glob("*.so*"):
            found.setdefault(path.name, path)
    return found
