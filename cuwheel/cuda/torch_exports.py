"""What the libraries of PyTorch's releases export: a table that `nox -s torch-symbols` writes.

It was read from the wheels for CPython 3.11 on Linux x86_64 of the public index: one release of
each minor one, the newest. Libraries without an interface (libtorch_cuda_linalg.so) weren't read.

It holds for aarch64 too, from 2.11 on, when wheels with CUDA for it came to the index: of the names
that are judged, 2.11.0 for aarch64 lacks 13 and has 13 others (inline functions, and Intel's ITT).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard
from packaging.specifiers import SpecifierSet

from cuwheel.cuda.frameworks import has_common_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TABLE = Path(__file__).with_name("torch_exports.zst")
LIBRARIES = (
    *("libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"),
    "libtorch_python.so",
)
MACHINES_OF_TABLE = ("x86_64", "aarch64")
# The releases that have a wheel for a Python, by its minor release; for 3.11 all have.
_PYTHONS = {
    8: "<2.5",
    9: "<2.9",
    10: "<2.15",
    12: ">=2.2",
    13: ">=2.5",
    14: ">=2.9",
    15: ">=2.15",
}
_LEVEL = 19  # of zstd; it is packed once
NEW_STRING = "cxx11"  # in `__cxx11` and `B5cxx11` of mangled names
_SIZE_MAX = 1 << 28  # bytes of the table, unpacked
# Mangled names in the namespaces of PyTorch (Itanium C++ ABI, "External Names"), and of the Python
# objects of its tensors.
_OF_TORCH = re.compile(r"_Z(?:T[VIST])?N?[VrK]*[RO]?(?:2at|3c10|5torch|6caffe2|\d+THP[A-Z])")
# Kernels, which change with each release; static variables within functions and names of types,
# which nobody needs; and what is linked in: templates of libstdc++, oneMKL, SLEEF.
_LEFT_OUT = re.compile(
    r"\w*6native|_ZGV|_ZZ|_ZT[Sht]|_Z(?:T[VI])?N?[VrK]*[RO]?S[tabsiod]|(?i:mkl)\w*_|Sleef_"
)


@dataclass(frozen=True, kw_only=True)
class TorchExports:
    """Which name is in which release.

    Attributes:
        releases: that were read, the oldest first: `2.12.1`.
        names: that one of them exports, sorted.
        masks: of each name the releases with it: bit 0 for the first.
    """

    releases: tuple[str, ...]
    names: tuple[str, ...]
    masks: tuple[int, ...]

    def releases_with(self, name: str) -> tuple[str, ...]:
        """Releases that export a name."""
        at = bisect_left(self.names, name)
        if at == len(self.names) or self.names[at] != name:
            return ()
        return tuple(one for bit, one in enumerate(self.releases) if self.masks[at] >> bit & 1)

    def has_new_strings(self, release: str) -> bool:
        """Whether a release was compiled with `_GLIBCXX_USE_CXX11_ABI=1`."""
        return bool(self._new_strings[1] >> self.releases.index(release) & 1)

    def returns_new_string(self, name: str) -> bool:
        """Whether some release has a name with the mark of functions that return the new string.

        The name without that mark is what a program asks for that has the old string.
        """
        return name in self._new_strings[0]

    @cached_property
    def _new_strings(self) -> tuple[frozenset[str], int]:
        """Functions that return the new string, without that mark; the releases that have it."""
        found = [
            (name, mask)
            for name, mask in zip(self.names, self.masks, strict=True)
            if NEW_STRING in name and is_judged(name)
        ]
        tagged = (name.replace("B5cxx11", "") for name, _ in found if "B5cxx11" in name)
        return frozenset(tagged), reduce(or_, (mask for _, mask in found), 0)

    def allowed_by(self, specifier: SpecifierSet, pythons: Iterable[int] = ()) -> tuple[str, ...]:
        """Releases of whose minor release a requirement takes some.

        Args:
            specifier: of the requirement.
            pythons: minor releases of Python 3, of which one has to have a wheel of PyTorch; none:
                whatever Python.
        """
        served = [SpecifierSet(_PYTHONS.get(minor, "")) for minor in pythons] or [SpecifierSet()]
        return tuple(
            one
            for one in self.releases
            if has_common_release(f"=={minor_of(one)}.*", specifier)
            and any(releases.contains(one) for releases in served)
        )


def is_judged(name: str) -> bool:
    """Whether a name is PyTorch's own by its namespace, and would be in the table."""
    return bool(_OF_TORCH.match(name)) and is_kept(name)


def is_kept(name: str) -> bool:
    """Whether a name that PyTorch exports goes into the table."""
    return not _LEFT_OUT.match(name)


def minor_of(release: str) -> str:
    """`2.12` of 2.12.1."""
    return ".".join(release.split(".")[:2])


@cache
def torch_exports() -> TorchExports:
    """The table."""
    return unpack(TABLE.read_bytes())


def pack(exported: Mapping[str, Iterable[str]]) -> bytes:
    """The table of these releases, as it is kept: releases, masks, then names, a line each.

    Args:
        exported: names of each release, the oldest release first.
    """
    masks: dict[str, int] = {}
    for bit, names in enumerate(exported.values()):
        for name in names:
            masks[name] = masks.get(name, 0) | 1 << bit
    width = -(-len(exported) // 4)
    ordered = sorted(masks)
    lines = (" ".join(exported), "".join(f"{masks[name]:0{width}x}" for name in ordered), *ordered)
    return zstandard.compress("\n".join(lines).encode(), _LEVEL)


def unpack(packed: bytes) -> TorchExports:
    """What `pack` made."""
    text = zstandard.decompress(packed, max_output_size=_SIZE_MAX).decode()
    releases, masks, *names = text.split("\n")
    width = len(masks) // max(1, len(names))
    return TorchExports(
        releases=tuple(releases.split()),
        names=tuple(names),
        masks=tuple(int(masks[at : at + width], 16) for at in range(0, len(masks), width)),
    )
