"""CUDA releases: what every recipe needs to know about each, once, each fact with its source."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuwheel.errors import UnsupportedArchError, UsageError, suggest


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
        provider: where its toolchain comes from unless `--toolchain` says otherwise: `conda`
            before 13.0, as NVIDIA's own wheels hold no nvcc there, `pypi` from then on.
        libraries: the release of each library that doesn't count as CUDA does, as its component
            and `major.minor`; from the pins of cuda-toolkit on the package index.
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
        """`130` for 13.0."""
        return self.release.replace(".", "")

    @property
    def major(self) -> int:
        """13 for 13.0."""
        return int(self.release.split(".", maxsplit=1)[0])


# Versions of nvcc: for 12.x the one that conda-forge has, for 13.x the one that the cuda-toolkit of
# envs/cuda<tag>/pypi.in pins. The limits and archs of 12.x were read from the nvidia-cuda-nvcc-cu12
# wheels of the same versions, which hold host_config.h and ptxas (tests/e2e/test_cuda12_facts.py),
# those of 13.x from the locked nvcc itself (tests/e2e/test_cuda13_facts.py).
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
TOOLKITS = (
    Toolkit(
        release="12.1",
        nvcc="12.1.105",
        max_gcc=12,
        archs=_ARCHS_12,
        min_driver="525.60.13",
        provider="conda",
        libraries=(
            ("cublas", "12.1"),
            ("cufft", "11.0"),
            ("curand", "10.3"),
            ("cusolver", "11.4"),
            ("cusparse", "12.1"),
        ),
    ),
    Toolkit(
        release="12.2",
        nvcc="12.2.140",
        max_gcc=12,
        archs=_ARCHS_12,
        min_driver="525.60.13",
        provider="conda",
        libraries=(
            ("cublas", "12.2"),
            ("cufft", "11.0"),
            ("curand", "10.3"),
            ("cusolver", "11.5"),
            ("cusparse", "12.1"),
        ),
    ),
    Toolkit(
        release="12.4",
        nvcc="12.4.99",
        max_gcc=13,
        archs=_ARCHS_12,
        min_driver="525.60.13",
        provider="conda",
        libraries=(
            ("cublas", "12.4"),
            ("cufft", "11.2"),
            ("curand", "10.3"),
            ("cusolver", "11.6"),
            ("cusparse", "12.3"),
        ),
    ),
    Toolkit(
        release="12.8",
        nvcc="12.8.93",
        max_gcc=14,
        archs=(*_ARCHS_12, "100", "100a", "101", "101a", "120", "120a"),
        min_driver="525.60.13",
        provider="conda",
        libraries=(
            ("cublas", "12.8"),
            ("cufft", "11.3"),
            ("curand", "10.3"),
            ("cusolver", "11.7"),
            ("cusparse", "12.5"),
            # No part of CUDA: the release that envs/cuda128 adds to its toolchain.
            ("cudnn", "9.13"),
        ),
    ),
    Toolkit(
        release="13.0",
        nvcc="13.0.88",
        max_gcc=15,
        archs=_ARCHS_13,
        min_driver="580.65.06",
        provider="pypi",
        libraries=(
            # 13.1 in truth: the requirement stays, so that published wheels keep their bytes.
            ("cublas", "13.0"),
            ("cufft", "12.0"),
            ("curand", "10.4"),
            ("cusolver", "12.0"),
            ("cusparse", "12.6"),
        ),
        site_folder="nvidia/cu13",
    ),
    Toolkit(
        release="13.1",
        nvcc="13.1.115",
        max_gcc=15,
        archs=_ARCHS_13,
        min_driver="580.65.06",
        provider="pypi",
        libraries=(
            ("cublas", "13.2"),
            ("cufft", "12.1"),
            ("curand", "10.4"),
            ("cusolver", "12.0"),
            ("cusparse", "12.7"),
        ),
        site_folder="nvidia/cu13",
    ),
    Toolkit(
        release="13.2",
        nvcc="13.2.86",
        max_gcc=15,
        archs=_ARCHS_13,
        min_driver="580.65.06",
        provider="pypi",
        libraries=(
            ("cublas", "13.4"),
            ("cufft", "12.2"),
            ("curand", "10.4"),
            ("cusolver", "12.2"),
            ("cusparse", "12.7"),
        ),
        site_folder="nvidia/cu13",
    ),
    Toolkit(
        release="13.3",
        nvcc="13.3.73",
        max_gcc=15,
        archs=_ARCHS_13,
        min_driver="580.65.06",
        provider="pypi",
        libraries=(
            ("cublas", "13.6"),
            ("cufft", "12.3"),
            ("curand", "10.4"),
            ("cusolver", "12.2"),
            ("cusparse", "12.8"),
        ),
        site_folder="nvidia/cu13",
    ),
    Toolkit(
        release="13.4",
        nvcc="13.4.92",
        max_gcc=16,
        archs=_ARCHS_13_4,
        min_driver="580.65.06",
        provider="pypi",
        libraries=(
            ("cublas", "13.8"),
            ("cufft", "12.4"),
            ("curand", "10.4"),
            ("cusolver", "12.3"),
            ("cusparse", "12.8"),
        ),
        site_folder="nvidia/cu13",
    ),
    Toolkit(
        release="13.5",
        nvcc="13.5.37",
        max_gcc=16,
        archs=_ARCHS_13_4,
        min_driver="580.65.06",
        provider="pypi",
        libraries=(
            ("cublas", "13.10"),
            ("cufft", "12.5"),
            ("curand", "10.4"),
            ("cusolver", "12.4"),
            ("cusparse", "12.9"),
        ),
        site_folder="nvidia/cu13",
    ),
)


def toolkit_by_release(release: str) -> Toolkit:
    """Find a toolkit by its release (`13.0`) or tag (`130`).

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    for toolkit in TOOLKITS:
        if release in (toolkit.release, toolkit.tag):
            return toolkit
    raise UsageError(
        f"cuwheel doesn't know CUDA {release}",
        why=_meant_release(release),
        fix="use one of the known releases, or add it to cuwheel/cuda/toolkits.py",
    )


def _meant_release(text: str) -> str:
    of_major = [one.release for one in TOOLKITS if str(one.major) == text]
    if of_major:
        return f"releases of CUDA {text} are {', '.join(of_major)}"
    return suggest(text, [one.release if "." in text else one.tag for one in TOOLKITS])


# Of majors that no recipe builds for: wheels of others do. The same table of NVIDIA's.
_OLDER_DRIVERS = {11: "450.80.02"}


def oldest_driver(major: int | None) -> str:
    """The oldest Linux driver for a major release of CUDA; empty where it isn't known."""
    found = next((toolkit.min_driver for toolkit in TOOLKITS if toolkit.major == major), "")
    return found or _OLDER_DRIVERS.get(major or 0, "")


def check_archs(owner: str, toolkit: Toolkit, archs: tuple[str, ...]) -> None:
    """Refuse archs that the toolkit's nvcc doesn't know, all of them together.

    Args:
        owner: the target's id, for the message.
        toolkit: the CUDA release.
        archs: without dot.

    Raises:
        UnsupportedArchError: at least one is unknown.
    """
    unknown = [arch for arch in archs if arch not in toolkit.archs]
    if unknown:
        names = ", ".join(f"sm_{arch}" for arch in unknown)
        plain = {arch: re.sub(r"^(sm|compute)_|\.", "", arch) for arch in unknown}
        meant = [f'write {was} as "{arch}"' for was, arch in plain.items() if arch in toolkit.archs]
        if meant:
            names = ", ".join(unknown)
        quoted = ", ".join(f'"{arch}"' for arch in unknown)
        raise UnsupportedArchError(
            f"{owner}: CUDA {toolkit.release} cannot compile for {names}",
            why=f"an arch is written without sm_ and dot: {', '.join(meant)}"
            if len(meant) == len(unknown)
            else f"its nvcc supports sm_{', sm_'.join(toolkit.archs)}",
            fix=", ".join(meant)
            or f"remove {quoted} from `archs` (or --arch), or use another toolkit",
        )
