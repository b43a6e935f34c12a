"""Symbols that an extension expects of PyTorch and that the installed PyTorch doesn't have."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from cuwheel.binaries.elf_image import ElfFormatError
from cuwheel.binaries.elf_symbols import Symbols
from cuwheel.binaries.symbol_names import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


# Those of an installed PyTorch that define its interface, the small ones first.
_LIBRARIES = (
    *("libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so"),
    *("libtorch_cuda_linalg.so", "libtorch.so", "libshm.so"),
)
# Mangled names in the namespaces of PyTorch (Itanium C++ ABI, "External Names"), and the C
# interface of AOTInductor.
_OF_TORCH = re.compile(r"_Z(T[VIST])?N?[VrK]*[RO]?(2at|3c10|5torch|6caffe2)|aoti_torch_")
# `std::string` in a name: of the C++11 ABI, and of the one before ("Dual ABI", libstdc++'s manual).
_NEW_STRING, _OLD_STRING = "NSt7__cxx1112basic_string", "Ss"
_STRING = re.compile(f"{_NEW_STRING}|{_OLD_STRING}")


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Symbols that are missing.

    Attributes:
        names: mangled, sorted.
        is_abi_only: PyTorch has the same with the other string ABI.
    """

    names: tuple[str, ...]
    is_abi_only: bool

    @property
    def example(self) -> str:
        """One of them, a function if there is one, as a person would write it."""
        return plain_name(min(self.names, key=lambda name: name.startswith("_ZT")))


def find_missing(stream: IO[bytes], folder: Path, others: Iterable[Path]) -> Missing | None:
    """What a library expects of PyTorch and nobody has; None: nothing.

    Args:
        stream: the library.
        folder: PyTorch's `lib`.
        others: libraries that may define it too.

    Raises:
        ElfFormatError: the library can't be read.
    """
    undefined = {name for name in Symbols(stream).undefined() if _OF_TORCH.match(name)}
    paths = [folder / name for name in _LIBRARIES]
    if not undefined or not any(path.exists() for path in paths):
        return None
    for path in (*paths, *others):
        if not undefined:
            return None
        undefined = _lacking(path, undefined)
    if not undefined:
        return None
    return Missing(names=tuple(sorted(undefined)), is_abi_only=_is_abi_only(undefined, paths))


def _lacking(path: Path, undefined: set[str]) -> set[str]:
    """A library that isn't there, or is damaged, has nothing."""
    try:
        with path.open("rb") as stream:
            return Symbols(stream).lacking(undefined)
    except (OSError, ElfFormatError, struct.error):
        return undefined


def _is_abi_only(names: Iterable[str], paths: Iterable[Path]) -> bool:
    """Whether each of the names is there with the other string."""
    swapped = {_with_other_string(name) for name in names}
    if "" in swapped:
        return False
    for path in paths:
        swapped -= _mentioned(path, swapped)
    return not swapped


def _mentioned(path: Path, starts: set[str]) -> set[str]:
    try:
        with path.open("rb") as stream:
            return Symbols(stream).mentions(starts)
    except (OSError, ElfFormatError, struct.error):
        return set()


def _with_other_string(name: str) -> str:
    """The beginning of a name up to its first string, with the other one; empty without a string.

    What stands behind can't be said: names refer back to their own parts by number.
    """
    found = _STRING.search(name)
    if found is None:
        return ""
    other = _NEW_STRING if found[0] == _OLD_STRING else _OLD_STRING
    return name[: found.start()] + other
