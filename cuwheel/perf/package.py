"""What is measured: which distribution a module belongs to, its libraries, its hash."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

from cuwheel.errors import ProbeError


@dataclass(frozen=True, kw_only=True)
class InstalledPackage:
    """An installed distribution.

    Attributes:
        name: with its release: `causal-conv1d 1.6.1`.
        libraries: its shared libraries.
        sha256: of its RECORD, which holds the hashes of all its files.
    """

    name: str
    libraries: tuple[Path, ...]
    sha256: str


def find_package(module_file: str, module: str) -> InstalledPackage:
    """The distribution that has brought a module.

    Args:
        module_file: the imported module's file.
        module: its name.

    Raises:
        ProbeError: no distribution lists it: it isn't installed, but found on a path.
    """
    path = Path(module_file)
    depth = module.count(".") + (2 if path.name.startswith("__init__.") else 1)
    site = path.parents[depth - 1]
    own = str(path.relative_to(site))
    for item in importlib.metadata.distributions(path=[str(site)]):
        record = item.read_text("RECORD") or ""
        if own not in record:
            continue
        names = [row[0] for row in csv.reader(record.splitlines()) if row]
        if own in names:
            libraries = (site / name for name in names if ".so" in name.rpartition("/")[2])
            return InstalledPackage(
                name=f"{item.metadata['Name']} {item.version}",
                libraries=tuple(sorted(one for one in libraries if one.is_file())),
                sha256=hashlib.sha256(record.encode()).hexdigest(),
            )
    raise ProbeError(
        f"{module} was imported from {path}, which no installed package lists",
        why="a folder of that name was found before the installed package, or it is installed in "
        "editable mode",
        fix="run this from another folder, remove it from PYTHONPATH, or give a wheel: --wheel "
        "FILE",
    )
