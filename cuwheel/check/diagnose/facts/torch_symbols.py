"""Symbols that an extension expects of PyTorch and that the installed PyTorch doesn't have."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cuwheel.base.formats.binaries.elf_image import ElfFormatError
from cuwheel.base.formats.binaries.elf_symbols import Symbols, plain_name
from cuwheel.base.system.regular_files import open_file

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
        """The demangled name of one of them, a function if there is one."""
        return plain_name(min(self.names, key=lambda name: name.startswith("_ZT")))


def find_missing(stream: IO[bytes], folder: Path, others: Iterable[Path]) -> Missing | None:
    """Return the symbols of PyTorch that a library needs and no other defines; None: none.

    Args:
        folder: PyTorch's `lib`.

    Raises:
        ElfFormatError: the library can't be read.
    """
    undefined = {name for name in Symbols(stream).undefined() if _OF_TORCH.match(name)}
    paths = [folder / name for name in _LIBRARIES]
    if not undefined or not any(path.exists() for path in paths):
        return None
    for path in (*paths, *others):
        undefined = _answer(path, undefined, Symbols.lacking, undefined) if undefined else undefined
    if not undefined:
        return None
    swapped = {_with_other_string(name) for name in undefined}
    for path in paths if "" not in swapped else ():
        swapped -= _answer(path, swapped, Symbols.mentions, set())
    return Missing(names=tuple(sorted(undefined)), is_abi_only=not swapped)


def _answer(
    path: Path,
    names: set[str],
    question: Callable[[Symbols, set[str]], set[str]],
    otherwise: set[str],
) -> set[str]:
    """Return what a library's symbols answer about names; `otherwise` if it can't be read."""
    try:
        with open_file(path) as stream:
            return question(Symbols(stream), names)
    except (OSError, ElfFormatError, struct.error):
        return otherwise


def _with_other_string(name: str) -> str:
    """Return a name up to its first string, with the other one; empty without a string.

    The rest can't be known: names refer back to their own parts by number.
    """
    match = _STRING.search(name)
    if match is None:
        return ""
    return name[: match.start()] + (_NEW_STRING if match[0] == _OLD_STRING else _OLD_STRING)
