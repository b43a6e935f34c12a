"""What every recipe needs to know about CUDA, once, each fact with its source."""

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
        archs: compute capabilities that it compiles for; from `nvcc --list-gpu-arch`.
        min_driver: the oldest Linux driver that runs it; from NVIDIA's CUDA release notes,
            table "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version
            Compatibility".
        site_folder: where its wheels put everything, below site-packages.
    """

    release: str
    nvcc: str
    max_gcc: int
    archs: tuple[str, ...]
    min_driver: str
    site_folder: str

    @property
    def tag(self) -> str:
        """`130` for 13.0."""
        return self.release.replace(".", "")

    @property
    def major(self) -> int:
        """13 for 13.0."""
        return int(self.release.split(".", maxsplit=1)[0])


TOOLKITS = (
    Toolkit(
        release="13.0",
        nvcc="13.0.88",
        max_gcc=15,
        archs=("75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"),
        min_driver="580.65.06",
        site_folder="nvidia/cu13",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Component:
    """A set of shared libraries that comes with a wheel on the index, not in ours.

    Attributes:
        name: as recipes write it in `Link(...)`.
        sonames: what `DT_NEEDED` says, as glob patterns with the major version.
        distribution: the wheel that supplies them.
        requirement: `Requires-Dist` that our wheel gets for it; `{release}` is the toolkit's,
            `{framework}` the framework's `major.minor`.
        site_folder: where that wheel puts them, below site-packages.
    """

    name: str
    sonames: tuple[str, ...]
    distribution: str
    requirement: str
    site_folder: str


# CUDA 13 wheels share one folder. Sonames and folders were read from the wheels that
# cuda-toolkit 13.0.2 pins. CUDA promises that a library of one major release runs programs built
# against an older minor release of it ("CUDA Compatibility", section "Minor Version
# Compatibility"), hence the bounds: at least what we linked against, below the next major.
_CU13 = "nvidia/cu13/lib"
COMPONENTS = (
    Component(
        name="cudart",
        sonames=("libcudart.so.13",),
        distribution="nvidia-cuda-runtime",
        requirement="nvidia-cuda-runtime>=13.0,<14",
        site_folder=_CU13,
    ),
    Component(
        name="cublas",
        sonames=("libcublas.so.13",),
        distribution="nvidia-cublas",
        requirement="nvidia-cublas>=13.0,<14",
        site_folder=_CU13,
    ),
    Component(
        name="cublasLt",
        sonames=("libcublasLt.so.13",),
        distribution="nvidia-cublas",
        requirement="nvidia-cublas>=13.0,<14",
        site_folder=_CU13,
    ),
    Component(
        name="cusparse",
        sonames=("libcusparse.so.12",),
        distribution="nvidia-cusparse",
        requirement="nvidia-cusparse>=12.6,<13",
        site_folder=_CU13,
    ),
    Component(
        name="cusolver",
        sonames=("libcusolver.so.12",),
        distribution="nvidia-cusolver",
        requirement="nvidia-cusolver>=12.0,<13",
        site_folder=_CU13,
    ),
    Component(
        name="curand",
        sonames=("libcurand.so.10",),
        distribution="nvidia-curand",
        requirement="nvidia-curand>=10.4,<11",
        site_folder=_CU13,
    ),
    Component(
        name="cufft",
        sonames=("libcufft.so.12", "libcufftw.so.12"),
        distribution="nvidia-cufft",
        requirement="nvidia-cufft>=12.0,<13",
        site_folder=_CU13,
    ),
    Component(
        name="nvrtc",
        sonames=("libnvrtc.so.13",),
        distribution="nvidia-cuda-nvrtc",
        requirement="nvidia-cuda-nvrtc>=13.0,<14",
        site_folder=_CU13,
    ),
    Component(
        name="nvJitLink",
        sonames=("libnvJitLink.so.13",),
        distribution="nvidia-nvjitlink",
        requirement="nvidia-nvjitlink>=13.0,<14",
        site_folder=_CU13,
    ),
    # PyTorch keeps no C++ ABI between minor releases: the wheel works with the one it was built
    # with (its "undefined symbol" reports are the most frequent of the field).
    Component(
        name="torch",
        sonames=("libtorch*.so", "libc10*.so", "libshm.so"),
        distribution="torch",
        requirement="torch=={framework}.*",
        site_folder="torch/lib",
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
        f"cuwheel knows no CUDA {release}",
        why=suggest(release, [toolkit.release for toolkit in TOOLKITS]),
        fix="name one of the known releases, or add it to cuwheel/toolkits.py",
    )


def component_by_name(name: str) -> Component:
    """Find a component by the name that recipes use.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    for component in COMPONENTS:
        if component.name == name:
            return component
    raise UsageError(
        f'no linkable component is called "{name}"',
        why=suggest(name, [component.name for component in COMPONENTS]),
        fix="correct the recipe's `link`, or add the component to cuwheel/toolkits.py",
    )


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
            why=f"its nvcc knows sm_{', sm_'.join(toolkit.archs)}",
            fix=", ".join(meant)
            or f"remove {quoted} from `archs` (or --arch), or take another toolkit",
        )
