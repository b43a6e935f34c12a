"""The shared libraries that come with wheels on the index, not in ours: who supplies which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import UsageError, suggest

if TYPE_CHECKING:
    from cuwheel.toolkits import Toolkit


@dataclass(frozen=True, kw_only=True)
class Component:
    """A set of shared libraries that comes with a wheel on the index, not in ours.

    Attributes:
        name: as recipes write it in `Link(...)`.
        cuda: the major release of CUDA that it belongs to, as several sonames are the same in two;
            None: it goes with any.
        sonames: what `DT_NEEDED` says, as glob patterns with the major version.
        distribution: the wheel that supplies them.
        requirement: `Requires-Dist` that our wheel gets for it; `{release}` is the toolkit's,
            `{cufft}` and the like the toolkit's release of that library, `{framework}` the
            framework's `major.minor`.
        site_folder: where that wheel puts them, below site-packages.
    """

    name: str
    cuda: int | None
    sonames: tuple[str, ...]
    distribution: str
    requirement: str
    site_folder: str


# Sonames and folders were read from the wheels that cuda-toolkit 12.1.1, 12.2.2, 12.4.0, 12.8.1
# and 13.0.2 pin, and from nvidia-cudnn-cu12 9.0.0.312, nvidia-cudnn-cu12 and -cu13 9.13.1.26.
# CUDA 12 wheels have a folder for each library; CUDA 13 wheels share one.
#
# The bounds: at least what we linked against, below the next major. A newer minor release of a
# library runs what was built against an older one, and may have functions that the older one lacks
# ("CUDA C++ Best Practices Guide", section "CUDA Toolkit Versioning"; for cuDNN the page
# "Compatibility" of its backend's guide). Minor releases are compared, not updates of one: conda
# and the package index have different updates (cuBLAS 12.8.5 and 12.8.4).
_CU13 = "nvidia/cu13/lib"
COMPONENTS = (
    Component(
        name="cudart",
        cuda=12,
        sonames=("libcudart.so.12",),
        distribution="nvidia-cuda-runtime-cu12",
        requirement="nvidia-cuda-runtime-cu12>={release},<13",
        site_folder="nvidia/cuda_runtime/lib",
    ),
    Component(
        name="cublas",
        cuda=12,
        sonames=("libcublas.so.12",),
        distribution="nvidia-cublas-cu12",
        requirement="nvidia-cublas-cu12>={release},<13",
        site_folder="nvidia/cublas/lib",
    ),
    Component(
        name="cublasLt",
        cuda=12,
        sonames=("libcublasLt.so.12",),
        distribution="nvidia-cublas-cu12",
        requirement="nvidia-cublas-cu12>={release},<13",
        site_folder="nvidia/cublas/lib",
    ),
    Component(
        name="cusparse",
        cuda=12,
        sonames=("libcusparse.so.12",),
        distribution="nvidia-cusparse-cu12",
        requirement="nvidia-cusparse-cu12>={cusparse},<13",
        site_folder="nvidia/cusparse/lib",
    ),
    Component(
        name="cusolver",
        cuda=12,
        sonames=("libcusolver.so.11",),
        distribution="nvidia-cusolver-cu12",
        requirement="nvidia-cusolver-cu12>={cusolver},<12",
        site_folder="nvidia/cusolver/lib",
    ),
    Component(
        name="cusolverMg",
        cuda=12,
        sonames=("libcusolverMg.so.11",),
        distribution="nvidia-cusolver-cu12",
        requirement="nvidia-cusolver-cu12>={cusolver},<12",
        site_folder="nvidia/cusolver/lib",
    ),
    Component(
        name="curand",
        cuda=12,
        sonames=("libcurand.so.10",),
        distribution="nvidia-curand-cu12",
        requirement="nvidia-curand-cu12>={curand},<11",
        site_folder="nvidia/curand/lib",
    ),
    Component(
        name="cufft",
        cuda=12,
        sonames=("libcufft.so.11", "libcufftw.so.11"),
        distribution="nvidia-cufft-cu12",
        requirement="nvidia-cufft-cu12>={cufft},<12",
        site_folder="nvidia/cufft/lib",
    ),
    Component(
        name="nvrtc",
        cuda=12,
        sonames=("libnvrtc.so.12",),
        distribution="nvidia-cuda-nvrtc-cu12",
        requirement="nvidia-cuda-nvrtc-cu12>={release},<13",
        site_folder="nvidia/cuda_nvrtc/lib",
    ),
    Component(
        name="nvJitLink",
        cuda=12,
        sonames=("libnvJitLink.so.12",),
        distribution="nvidia-nvjitlink-cu12",
        requirement="nvidia-nvjitlink-cu12>={release},<13",
        site_folder="nvidia/nvjitlink/lib",
    ),
    Component(
        name="nvtx",
        cuda=12,
        sonames=("libnvToolsExt.so.1",),
        distribution="nvidia-nvtx-cu12",
        requirement="nvidia-nvtx-cu12>={release},<13",
        site_folder="nvidia/nvtx/lib",
    ),
    Component(
        name="cupti",
        cuda=12,
        sonames=("libcupti.so.12",),
        distribution="nvidia-cuda-cupti-cu12",
        requirement="nvidia-cuda-cupti-cu12>={release},<13",
        site_folder="nvidia/cuda_cupti/lib",
    ),
    Component(
        name="cudnn",
        cuda=12,
        sonames=("libcudnn*.so.9",),
        distribution="nvidia-cudnn-cu12",
        requirement="nvidia-cudnn-cu12>={cudnn},<10",
        site_folder="nvidia/cudnn/lib",
    ),
    Component(
        name="cudart",
        cuda=13,
        sonames=("libcudart.so.13",),
        distribution="nvidia-cuda-runtime",
        requirement="nvidia-cuda-runtime>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="cublas",
        cuda=13,
        sonames=("libcublas.so.13",),
        distribution="nvidia-cublas",
        requirement="nvidia-cublas>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="cublasLt",
        cuda=13,
        sonames=("libcublasLt.so.13",),
        distribution="nvidia-cublas",
        requirement="nvidia-cublas>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="cusparse",
        cuda=13,
        sonames=("libcusparse.so.12",),
        distribution="nvidia-cusparse",
        requirement="nvidia-cusparse>={cusparse},<13",
        site_folder=_CU13,
    ),
    Component(
        name="cusolver",
        cuda=13,
        sonames=("libcusolver.so.12",),
        distribution="nvidia-cusolver",
        requirement="nvidia-cusolver>={cusolver},<13",
        site_folder=_CU13,
    ),
    Component(
        name="cusolverMg",
        cuda=13,
        sonames=("libcusolverMg.so.12",),
        distribution="nvidia-cusolver",
        requirement="nvidia-cusolver>={cusolver},<13",
        site_folder=_CU13,
    ),
    Component(
        name="curand",
        cuda=13,
        sonames=("libcurand.so.10",),
        distribution="nvidia-curand",
        requirement="nvidia-curand>={curand},<11",
        site_folder=_CU13,
    ),
    Component(
        name="cufft",
        cuda=13,
        sonames=("libcufft.so.12", "libcufftw.so.12"),
        distribution="nvidia-cufft",
        requirement="nvidia-cufft>={cufft},<13",
        site_folder=_CU13,
    ),
    Component(
        name="nvrtc",
        cuda=13,
        sonames=("libnvrtc.so.13",),
        distribution="nvidia-cuda-nvrtc",
        requirement="nvidia-cuda-nvrtc>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="nvJitLink",
        cuda=13,
        sonames=("libnvJitLink.so.13",),
        distribution="nvidia-nvjitlink",
        requirement="nvidia-nvjitlink>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="nvtx",
        cuda=13,
        sonames=("libnvtx3interop.so.1",),
        distribution="nvidia-nvtx",
        requirement="nvidia-nvtx>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="cupti",
        cuda=13,
        sonames=("libcupti.so.13",),
        distribution="nvidia-cuda-cupti",
        requirement="nvidia-cuda-cupti>={release},<14",
        site_folder=_CU13,
    ),
    Component(
        name="cudnn",
        cuda=13,
        sonames=("libcudnn*.so.9",),
        distribution="nvidia-cudnn-cu13",
        requirement="nvidia-cudnn-cu13>={cudnn},<10",
        site_folder="nvidia/cudnn/lib",
    ),
    # PyTorch keeps no C++ ABI between minor releases: the wheel works with the one it was built
    # with (its "undefined symbol" reports are the most frequent of the field).
    Component(
        name="torch",
        cuda=None,
        sonames=("libtorch*.so", "libc10*.so", "libshm.so"),
        distribution="torch",
        requirement="torch=={framework}.*",
        site_folder="torch/lib",
    ),
)

# cuDNN is no part of CUDA. Where the toolchain has none, the build environment brings it, and all
# that can be said is its major release.
_FIRST_RELEASES = {"cudnn": "9.0"}


def component_by_name(name: str, cuda: int | None = None) -> Component:
    """Find a component by the name that recipes use.

    Args:
        name: as in `Link(...)`.
        cuda: the target's major release of CUDA; None: any will do.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    fitting = [found for found in COMPONENTS if fits(found, cuda)]
    for component in fitting:
        if component.name == name:
            return component
    raise UsageError(
        f'no linkable component is called "{name}"',
        why=suggest(name, {component.name for component in fitting}),
        fix="correct the recipe's `link`, or add the component to cuwheel/components.py",
    )


def fits(component: Component, cuda: int | None) -> bool:
    """Whether a component goes with a major release of CUDA; None stands for all of them."""
    return cuda is None or component.cuda in {None, cuda}


def requirement_for(component: Component, toolkit: Toolkit, framework_release: str) -> str:
    """The `Requires-Dist` line of a wheel that was linked against a component.

    Args:
        component: what it was linked against.
        toolkit: the CUDA release that it was built with.
        framework_release: `major.minor` of its framework; empty without one.
    """
    libraries = {**_FIRST_RELEASES, **dict(toolkit.libraries)}
    return component.requirement.format(
        release=toolkit.release, framework=framework_release, **libraries
    )
