"""The exports of PyTorch's releases: a table that `nox -s torch-symbols` writes.

It is from the wheels for CPython 3.11 on Linux x86_64 of the public index: the newest release of
each minor one. Libraries without an interface (libtorch_cuda_linalg.so) are left out.

It holds for aarch64 too, from 2.11 on, when wheels with CUDA for it came to the index: of the names
that are judged, 2.11.0 for aarch64 lacks 13 and has 13 others (inline functions, and Intel's ITT).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from operator import or_
from pathlib import Path

import zstandard
from packaging.specifiers import SpecifierSet

from cuwheel.check.cuda.frameworks import has_common_release

TABLE = Path(__file__).with_name("torch_exports.zst")
LIBRARIES = (
    *("libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"),
    "libtorch_python.so",
)
MACHINES_OF_TABLE = ("x86_64", "aarch64")
# The releases with a wheel for a Python, by its minor release; all have one for 3.11.
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
# which no library needs; and linked libraries: templates of libstdc++, oneMKL, SLEEF.
_LEFT_OUT = re.compile(
    r"\w*6native|_ZGV|_ZZ|_ZT[Sht]|_Z(?:T[VI])?N?[VrK]*[RO]?S[tabsiod]|(?i:mkl)\w*_|Sleef_"
)


@dataclass(frozen=True, kw_only=True)
class TorchExports:
    """The table: which release exports a name.

    Attributes:
        releases: the oldest first: `2.12.1`.
        masks: of each name, the releases with it: bit 0 for the first.
    """

    releases: tuple[str, ...]
    names: tuple[str, ...]
    masks: tuple[int, ...]

    def releases_with(self, name: str) -> tuple[str, ...]:
        """Return the releases that export a name."""
        at = bisect_left(self.names, name)
        if at == len(self.names) or self.names[at] != name:
            return ()
        mask = self.masks[at]
        return tuple(release for bit, release in enumerate(self.releases) if mask >> bit & 1)

    def has_new_strings(self, release: str) -> bool:
        """Return True if a release was compiled with `_GLIBCXX_USE_CXX11_ABI=1`."""
        return bool(self._new_strings[1] >> self.releases.index(release) & 1)

    def returns_new_string(self, name: str) -> bool:
        """Return True if some release has a name with the mark of a new string's return.

        A program with the old string needs the name without that mark.
        """
        return name in self._new_strings[0]

    @cached_property
    def _new_strings(self) -> tuple[frozenset[str], int]:
        """The functions that return a new string, without that mark; the mask of their releases."""
        names = [
            (name, mask)
            for name, mask in zip(self.names, self.masks, strict=True)
            if NEW_STRING in name and is_judged(name)
        ]
        tagged = (name.replace("B5cxx11", "") for name, _ in names if "B5cxx11" in name)
        return frozenset(tagged), reduce(or_, (mask for _, mask in names), 0)

    def allowed_by(self, specifier: SpecifierSet, pythons: Iterable[int] = ()) -> tuple[str, ...]:
        """Return the releases with a minor release that a requirement allows.

        Args:
            pythons: minor releases of Python 3, one of which needs a wheel of PyTorch; empty: any.
        """
        served = [SpecifierSet(_PYTHONS.get(minor, "")) for minor in pythons] or [SpecifierSet()]
        return tuple(
            release
            for release in self.releases
            if has_common_release(SpecifierSet(f"=={minor_of(release)}.*"), specifier)
            and any(releases.contains(release) for releases in served)
        )


def is_judged(name: str) -> bool:
    """Return True if a name is in PyTorch's namespaces, and would be in the table."""
    return bool(_OF_TORCH.match(name)) and is_kept(name)


def is_kept(name: str) -> bool:
    """Return True if a name that PyTorch exports is kept in the table."""
    return not _LEFT_OUT.match(name)


def minor_of(release: str) -> str:
    """Return `2.12` for 2.12.1."""
    return ".".join(release.split(".")[:2])


def describe_releases(releases: Sequence[str]) -> str:
    """Return releases of the table as `2.6 to 2.9 and 2.12`."""
    order = [minor_of(release) for release in torch_exports().releases]
    numbers = [order.index(minor_of(release)) for release in releases]
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    texts = (
        order[span[0]] if len(span) == 1 else f"{order[span[0]]} to {order[span[-1]]}"
        for span in spans
    )
    return " and ".join(texts)


@cache
def torch_exports() -> TorchExports:
    """Return the table."""
    return unpack(TABLE.read_bytes())


def pack(exported: Mapping[str, Iterable[str]]) -> bytes:
    """Return the packed table: releases, masks, then names, one per line."""
    masks: dict[str, int] = {}
    for bit, names in enumerate(exported.values()):
        for name in names:
            masks[name] = masks.get(name, 0) | 1 << bit
    width = -(-len(exported) // 4)
    ordered = sorted(masks)
    lines = (" ".join(exported), "".join(f"{masks[name]:0{width}x}" for name in ordered), *ordered)
    return zstandard.compress("\n".join(lines).encode(), _LEVEL)


def unpack(packed: bytes) -> TorchExports:
    """Return the table that `pack` packed."""
    text = zstandard.decompress(packed, max_output_size=_SIZE_MAX).decode()
    releases, masks, *names = text.split("\n")
    width = len(masks) // max(1, len(names))
    return TorchExports(
        releases=tuple(releases.split()),
        names=tuple(names),
        masks=tuple(int(masks[at : at + width], 16) for at in range(0, len(masks), width)),
    )
