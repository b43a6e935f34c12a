"""The search of the dynamic loader in a process of this machine: the file that it takes.

Order: ld.so(8). Files don't show what was loaded before: that comes from the import of a framework.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.process import run
from cuwheel.check.cuda.suppliers import is_from_driver
from cuwheel.check.linkage.loader_graph import LoaderGraph

# Where the system's loader looks; those of other architectures may be there for cross builds.
LIBRARY_FOLDERS = (f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib")
DRIVER = "the driver"
SYSTEM = "the system"
_LDCONFIG = ("/sbin/ldconfig", "/usr/sbin/ldconfig")
_TIME_LIMIT = 5.0  # seconds
_CACHED = re.compile(r"^\s*(\S+) \((.*)\) => (/.*)$", re.MULTILINE)  # ldconfig -p
_DEFAULT = (*LIBRARY_FOLDERS, *(folder.removeprefix("/usr") for folder in LIBRARY_FOLDERS))


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
class InstalledLoader:
    """The search of the dynamic loader in the process of an environment's interpreter.

    Attributes:
        conda: the folder of an environment of conda; None: it isn't conda's.
        library_path: `LD_LIBRARY_PATH`.
        owners: name and version of the distribution of each installed library, links followed.
        preloaded: by file name, what the import of a framework loads, with the framework's name.
        cache: of the system's loader, from `read_loader_cache`.
    """

    conda: Path | None = None
    library_path: str = ""
    owners: Mapping[Path, str]
    preloaded: Mapping[str, tuple[Path, str]]
    cache: Mapping[str, Path]

    def find(
        self, library: str, soname: str, package: LoaderGraph, imports: Collection[str]
    ) -> FoundLibrary | None:
        """Return where a library of a package finds another; None: nowhere.

        A loaded one is taken before any in a folder that the library names.

        Args:
            library: its path.
            imports: frameworks that are imported before it.
        """
        path, framework = self.preloaded.get(soname, (None, ""))
        loaded = None
        if path:
            loaded = FoundLibrary(path=path, supplier=self.supplier(path), condition=framework)
            if framework in imports:
                return loaded
        for folder in self._folders(library, soname, package):
            if (file := folder / soname).is_file():
                return FoundLibrary(path=file, supplier=self.supplier(file))
        if soname in self.cache:
            supplier = DRIVER if is_from_driver(soname) else SYSTEM
            return FoundLibrary(path=self.cache[soname], supplier=supplier)
        return FoundLibrary(path=None, supplier=DRIVER) if is_from_driver(soname) else loaded

    def supplier(self, path: Path) -> str:
        """Return who supplies a file."""
        real = Path(os.path.realpath(path))
        if real in self.owners:
            return self.owners[real]
        if self.conda and real.is_relative_to(self.conda.resolve()):
            return f"the conda environment {self.conda.name}"
        return SYSTEM if str(path.parent) in _DEFAULT else str(path.parent)

    def _folders(self, library: str, soname: str, package: LoaderGraph) -> Iterator[Path]:
        has_runpath = bool(package.elves[library].runpath)
        if not has_runpath:
            yield from map(Path, package.folders(library))
            if self.conda:  # its python has an rpath, which holds for all it loads
                yield self.conda / "lib"
        yield from (Path(entry) for entry in self.library_path.split(":") if entry)
        if has_runpath:
            yield from map(Path, package.folders(library))
        # What those that need the library have loaded before it, or lead it to.
        others = {folder for other in package.elves for folder in package.folders(other)}
        serving = {folder for folder in others if Path(folder, soname).is_file()}
        if serving and package.finds(library, soname, serving):
            yield from map(Path, sorted(serving))


def read_loader_cache() -> dict[str, Path]:
    """Return the libraries that the loader finds without an rpath, by soname."""
    program = next((path for path in _LDCONFIG if os.access(path, os.X_OK)), None)
    libraries: dict[str, Path] = {}
    if program:
        try:
            done = run([program, "-p"], env={"PATH": os.defpath}, timeout=_TIME_LIMIT, check=False)
            for name, kind, path in _CACHED.findall(done.output):
                if "64" in kind or os.uname().machine == "aarch64":
                    libraries.setdefault(name, Path(path))
        except CommandFailedError:
            pass
    for folder in map(Path, _DEFAULT):
        for file in folder.glob("*.so*"):
            libraries.setdefault(file.name, file)
    return libraries
