"""Functions of NVIDIA's driver by the CUDA release that added them: driver_functions.txt.

A library that needs a function of `libcuda.so.1` can't be loaded with an older driver. The names
are those that `cuda.h` of a release declares and the one before doesn't, from
nvidia-cuda-runtime-cu12 12.0.146 to 12.9.79 and nvidia-cuda-runtime 13.0.96 to 13.5.37. Variants
for per-thread streams (`_ptsz`, `_ptds`) came with their plain form. Those of 12.0 and before are
from `cuda.h`, `cudaGL.h`, `cudaEGL.h` and `cudaVDPAU.h` of the first of these wheels, under the
names of the headers' macros, and the three of `cudaProfiler.h`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_OLDEST = "12.0"  # with all earlier releases
_VARIANTS = ("_ptsz", "_ptds")


def release_of_function(name: str) -> str | None:
    """Return the CUDA release that added a function; None for 12.0 and earlier, or unknown.

    Args:
        name: as a library needs it, `cuMemcpyBatchAsync_ptsz`.
    """
    release = _releases().get(_plain(name))
    return None if release == _OLDEST else release


def is_driver_function(name: str) -> bool:
    """Return True if the driver of some CUDA release has a function of this name."""
    return _plain(name) in _releases()


def functions_of(release: str) -> tuple[str, ...]:
    """Return every name that the driver of a CUDA release exports, with all variants.

    Args:
        release: `13.0`.
    """
    plain = [name for name, first in _releases().items() if _key(first) <= _key(release)]
    return tuple(name + variant for name in plain for variant in ("", *_VARIANTS))


@cache
def _releases() -> dict[str, str]:
    """Return the table: name → release."""
    releases, release = {}, ""
    for word in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split():
        if word[0].isdigit():
            release = word
        else:
            releases[word] = release
    return releases


def _plain(name: str) -> str:
    for variant in _VARIANTS:
        name = name.removesuffix(variant)
    return name


def _key(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
