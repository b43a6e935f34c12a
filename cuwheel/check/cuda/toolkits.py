"""CUDA releases: compilers, archs, drivers and libraries, each fact with its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cuwheel.base.errors import RecipeError, UsageError, suggest


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """A CUDA release.

    Attributes:
        release: major and minor, `13.0`.
        nvcc: full version of its compiler.
        max_gcc: the newest major version of GCC that nvcc takes; from its own
            `include/crt/host_config.h` (`__GNUC__ > …` → `#error unsupported GNU version`).
        archs: all that it compiles for, the architecture-specific (`90a`) and family-specific ones
            (`100f`) among them; from `nvcc --help`, where there is no nvcc to ask from `ptxas
            --help` (`nvcc --list-gpu-arch` leaves these out).
        min_driver: the oldest Linux driver that runs it; from NVIDIA's CUDA release notes,
            table "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version
            Compatibility".
        provider: where its toolchain comes from unless `--toolchain` says otherwise: `pypi` from
            13.0 on; before, NVIDIA's own wheels hold no nvcc: `debian` where Debian has that
            release, else `conda`, or `redist` where conda has no lock.
        libraries: the release of each library that doesn't count as CUDA does, as its component
            and `major.minor`; from the pins of cuda-toolkit on the package index, and the manifests
            of NVIDIA's archives.
        site_folder: where its wheels put a whole compiler, below site-packages; empty where they
            hold none.
    """

    release: str
    nvcc: str
    max_gcc: int
    archs: tuple[str, ...]
    min_driver: str
    provider: str
    libraries: tuple[tuple[str, str], ...]
    site_folder: str = ""

    @property
    def tag(self) -> str:
        """The release without its dot, `130`."""
        return self.release.replace(".", "")

    @property
    def major(self) -> int:
        """The major release, 13."""
        return int(self.release.split(".", maxsplit=1)[0])


# Versions of nvcc: for 12.x the one of conda-forge or NVIDIA's archives, for 13.x the one that the
# cuda-toolkit of envs/cuda<tag>/pypi.in pins. The limits and archs of 11.8 and 12.x were read from
# the nvidia-cuda-nvcc-cu11 and -cu12 wheels of the same versions, which hold host_config.h and
# ptxas (tests/e2e/tables/test_cuda12.py), those of 13.x from the locked nvcc itself
# (tests/e2e/tables/test_cuda13.py).
_ARCHS_12 = (
    *("50", "52", "53", "60", "61", "62", "70", "72", "75"),
    *("80", "86", "87", "89", "90", "90a"),
)
_UP_TO_103 = (
    *("75", "80", "86", "87", "88", "89", "90", "90a"),
    *("100", "100a", "100f", "103", "103a", "103f"),
)
_FROM_110 = ("110", "110a", "110f", "120", "120a", "120f", "121", "121a", "121f")
_ARCHS_13 = (*_UP_TO_103, *_FROM_110)
_ARCHS_13_4 = (*_UP_TO_103, "107", "107a", "107f", *_FROM_110)


# The order of the libraries' releases below. cuDNN, which is no part of CUDA, is the one that
# envs/cuda128 adds to its toolchain.
_LIBRARIES = ("cublas", "cufft", "curand", "cusolver", "cusparse", "cudnn")


_OLDEST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}


def _toolkit(release: str, libraries: str, provider: str = "conda", **fields: Any) -> Toolkit:
    parts = tuple(zip(_LIBRARIES, libraries.split(), strict=False))
    driver = _OLDEST_DRIVERS[int(release.split(".", maxsplit=1)[0])]
    return Toolkit(release=release, libraries=parts, min_driver=driver, provider=provider, **fields)


def _cuda_13(release: str, libraries: str, **fields: Any) -> Toolkit:
    return _toolkit(release, libraries, "pypi", site_folder="nvidia/cu13", **fields)


TOOLKITS = (
    _toolkit(
        *("11.8", "11.11 10.9 10.3 11.4 11.7", "debian"),
        nvcc="11.8.89",
        max_gcc=11,
        archs=("35", "37", *_ARCHS_12[:-1]),
    ),
    _toolkit(
        *("12.0", "12.0 11.0 10.3 11.4 12.0", "redist"),
        nvcc="12.0.140",
        max_gcc=12,
        archs=_ARCHS_12,
    ),
    _toolkit("12.1", "12.1 11.0 10.3 11.4 12.1", nvcc="12.1.105", max_gcc=12, archs=_ARCHS_12),
    _toolkit("12.2", "12.2 11.0 10.3 11.5 12.1", nvcc="12.2.140", max_gcc=12, archs=_ARCHS_12),
    _toolkit(
        *("12.3", "12.3 11.0 10.3 11.5 12.2", "redist"),
        nvcc="12.3.107",
        max_gcc=12,
        archs=_ARCHS_12,
    ),
    _toolkit(
        *("12.4", "12.4 11.2 10.3 11.6 12.3", "debian"),
        nvcc="12.4.131",
        max_gcc=13,
        archs=_ARCHS_12,
    ),
    _toolkit(
        *("12.5", "12.5 11.2 10.3 11.6 12.5", "redist"),
        nvcc="12.5.82",
        max_gcc=13,
        archs=_ARCHS_12,
    ),
    _toolkit(
        *("12.6", "12.6 11.3 10.3 11.7 12.5", "redist"),
        nvcc="12.6.85",
        max_gcc=13,
        archs=_ARCHS_12,
    ),
    _toolkit(
        "12.8",
        "12.8 11.3 10.3 11.7 12.5 9.13",
        nvcc="12.8.93",
        max_gcc=14,
        archs=(*_ARCHS_12, "100", "100a", "101", "101a", "120", "120a"),
    ),
    _toolkit(
        *("12.9", "12.9 11.4 10.3 11.7 12.5", "redist"),
        nvcc="12.9.86",
        max_gcc=14,
        archs=(
            *(*_ARCHS_12, "100", "100a", "100f", "101", "101a", "101f", "103", "103a", "103f"),
            *_FROM_110[3:],
        ),
    ),
    # cuBLAS is 13.1 in fact: the requirement stays, so that published wheels keep their bytes.
    _cuda_13("13.0", "13.0 12.0 10.4 12.0 12.6", nvcc="13.0.88", max_gcc=15, archs=_ARCHS_13),
    _cuda_13("13.1", "13.2 12.1 10.4 12.0 12.7", nvcc="13.1.115", max_gcc=15, archs=_ARCHS_13),
    _cuda_13("13.2", "13.4 12.2 10.4 12.2 12.7", nvcc="13.2.86", max_gcc=15, archs=_ARCHS_13),
    _cuda_13("13.3", "13.6 12.3 10.4 12.2 12.8", nvcc="13.3.73", max_gcc=15, archs=_ARCHS_13),
    _cuda_13("13.4", "13.8 12.4 10.4 12.3 12.8", nvcc="13.4.92", max_gcc=16, archs=_ARCHS_13_4),
    _cuda_13("13.5", "13.10 12.5 10.4 12.4 12.9", nvcc="13.5.37", max_gcc=16, archs=_ARCHS_13_4),
)


def toolkit_by_release(release: str) -> Toolkit:
    """Find a toolkit by its release (`13.0`) or tag (`130`).

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    for toolkit in TOOLKITS:
        if release in (toolkit.release, toolkit.tag):
            return toolkit
    of_major = ", ".join(kit.release for kit in TOOLKITS if str(kit.major) == release)
    known = [kit.release if "." in release else kit.tag for kit in TOOLKITS]
    raise UsageError(
        f"cuwheel doesn't know CUDA {release}",
        why=f"releases of CUDA {release} are {of_major}" if of_major else suggest(release, known),
        fix="use one of the known releases, or add it to cuwheel/check/cuda/toolkits.py",
    )


GONE_HEADERS = frozenset(
    f"{name}.h{suffix}"
    for name in ("texture_fetch_functions", "surface_functions")
    for suffix in ("", "pp")
) | {"cuda_surface_types.h", "cuda_texture_types.h"}
"""Headers of texture and surface references, which CUDA 13 doesn't have any more."""


def check_archs(owner: str, toolkit: Toolkit, archs: tuple[str, ...]) -> None:
    """Raise RecipeError for all archs that the toolkit's nvcc doesn't know."""
    unknown = [arch for arch in archs if arch not in toolkit.archs]
    if unknown:
        names = ", ".join(f"sm_{arch}" for arch in unknown)
        plain = {arch: re.sub(r"^(sm|compute)_|\.", "", arch) for arch in unknown}
        meant = [f'write {was} as "{arch}"' for was, arch in plain.items() if arch in toolkit.archs]
        if meant:
            names = ", ".join(unknown)
        quoted = ", ".join(f'"{arch}"' for arch in unknown)
        raise RecipeError(
            f"{owner}: CUDA {toolkit.release} cannot compile for {names}",
            why=f"an arch is written without sm_ and dot: {', '.join(meant)}"
            if len(meant) == len(unknown)
            else f"its nvcc supports sm_{', sm_'.join(toolkit.archs)}",
            fix=", ".join(meant)
            or f"remove {quoted} from `archs` (or --arch), or use another toolkit",
        )
