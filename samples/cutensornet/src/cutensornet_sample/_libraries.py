"""Which file each of NVIDIA's libraries in this process comes from, and whose it is."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path
from typing import NamedTuple

# The extension's own libraries, and those that they need in turn.
_NVIDIA = re.compile(
    r"lib(cuda|cudart|cublas|cublasLt|cusolver|cusparse|cutensor|cutensornet|nvJitLink"
    r"|nvrtc|nvrtc-builtins)\.so\.[\d.]+"
)


class Library(NamedTuple):
    """A loaded library: its name, the file, and the distribution that the file belongs to."""

    name: str
    file: Path
    owner: str


def libraries() -> tuple[Library, ...]:
    """NVIDIA's libraries in this process, by name; empty `owner`: no wheel brought the file."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    files = {Path(line.split(maxsplit=5)[-1]) for line in maps if "/" in line}
    loaded = sorted(file for file in files if _NVIDIA.fullmatch(file.name))
    owners = _owners({file.name for file in loaded})
    return tuple(Library(file.name, file, owners.get(file.resolve(), "")) for file in loaded)


def _owners(names: set[str]) -> dict[Path, str]:
    """The distribution of every installed file that has one of these names."""
    return {
        Path(str(file.locate())).resolve(): f"{found.metadata['Name']} {found.version}"
        for found in importlib.metadata.distributions()
        for file in found.files or ()
        if file.name in names
    }
