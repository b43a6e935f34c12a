"""What a requirement on a framework brings along, and what importing the framework loads.

Frameworks and metapackages of the index require NVIDIA's wheels, some of them by extras, some of
another CUDA major in each release. Every row was read from the METADATA of the releases beside it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.cuda.components import KNOWN_COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, kw_only=True)
class Dependency:
    """A distribution that a wheel's requirements bring.

    Attributes:
        distribution: its name, normalized.
        by: the requirement that starts the chain, e.g. `torch`; the distribution itself where the
            wheel requires it.
        extra: of the wheel, under which it comes; empty: always.
        cuda: the major release of CUDA that it belongs to; None: to none, or to any. Where a
            framework's releases differ in it and the specifier leaves both open, the distributions
            of both come.
    """

    distribution: str
    by: str
    extra: str
    cuda: int | None


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What some releases of a distribution require on Linux x86_64, perhaps under an extra.

    `unless` are later releases: where a requirement allows them too, an installer takes one of
    them, and the rule doesn't count.
    """

    name: str
    brings: tuple[str, ...]
    releases: str = ""
    extra: str = ""
    unless: str = ""


# Extras of cuda-toolkit, which are all but a few the names of the parts that they bring
# (cuda-toolkit 12.1.1 to 12.9.1, 13.0.2 and 13.4.3).
_TOOLKIT_EXTRAS = {
    "cublas": "cublas",
    "cudart": "cuda-runtime",
    "cufft": "cufft",
    "cufile": "cufile",
    "cupti": "cuda-cupti",
    "curand": "curand",
    "cusolver": "cusolver",
    "cusparse": "cusparse",
    "npp": "npp",
    "nvcc": "cuda-nvcc",
    "nvfatbin": "nvfatbin",
    "nvjitlink": "nvjitlink",
    "nvjpeg": "nvjpeg",
    "nvrtc": "cuda-nvrtc",
    "nvtx": "nvtx",
}
_TORCH_PARTS = (
    *("cublas", "cuda-cupti", "cuda-nvrtc", "cuda-runtime", "cudnn", "cufft", "curand"),
    *("cusolver", "cusparse", "nccl", "nvtx"),
)
_JAX_PARTS = (
    *("cublas", "cuda-cupti", "cuda-nvcc", "cuda-nvrtc", "cuda-runtime", "cufft"),
    *("cusolver", "cusparse", "nvjitlink"),
)
_TORCH_EXTRAS = "cublas,cudart,cufft,cufile,cupti,cusolver,cusparse,nvjitlink,nvrtc,nvtx"
_CUPY_EXTRAS = "cublas,cudart,cufft,curand,cusolver,cusparse,nvrtc"


def _parts(names: Iterable[str], suffix: str) -> tuple[str, ...]:
    return tuple(f"nvidia-{name}{suffix}" for name in names)


_RULES = (
    *(
        _Rule(name="cuda-toolkit", extra=extra, releases=releases, brings=_parts([part], suffix))
        for releases, suffix in ((">=12,<13", "-cu12"), (">=13,<14", ""))
        for name, part in _TOOLKIT_EXTRAS.items()
        for extra in (name, "all")
    ),
    _Rule(name="cuda-toolkit", extra="nvvm", releases=">=13,<14", brings=("nvidia-nvvm",)),
    _Rule(name="nvidia-cuda-nvcc", brings=("nvidia-nvvm", "nvidia-cuda-runtime")),
    # torch 2.1.2, 2.3.1, 2.4.1, 2.5.1, 2.6.0, 2.7.1, 2.8.0, 2.9.1, 2.10.0; 2.11.0, 2.12.0, 2.14.0,
    # 2.15.0. Up to 2.0 it is for CUDA 11: 1.13.1, 2.0.1.
    _Rule(
        name="torch",
        releases=">=1.13,<2.1",
        unless=">=2.1",
        brings=_parts(("cublas", "cuda-nvrtc", "cuda-runtime", "cudnn"), "-cu11"),
    ),
    _Rule(
        name="torch",
        releases=">=2,<2.1",
        unless=">=2.1",
        brings=_parts(
            ("cuda-cupti", "cufft", "curand", "cusolver", "cusparse", "nccl", "nvtx"), "-cu11"
        ),
    ),
    _Rule(name="torch", releases=">=2.1,<2.11", brings=_parts(_TORCH_PARTS, "-cu12")),
    _Rule(name="torch", releases=">=2.5,<2.11", brings=("nvidia-nvjitlink-cu12",)),
    _Rule(name="torch", releases=">=2.6,<2.11", brings=("nvidia-cusparselt-cu12",)),
    _Rule(name="torch", releases=">=2.7,<2.11", brings=("nvidia-cufile-cu12",)),
    _Rule(name="torch", releases=">=2.9,<2.11", brings=("nvidia-nvshmem-cu12",)),
    _Rule(
        name="torch",
        releases=">=2.11",
        brings=(
            f"cuda-toolkit[{_TORCH_EXTRAS}]==13.*",
            *_parts(("cudnn", "cusparselt", "nccl", "nvshmem"), "-cu13"),
        ),
    ),
    _Rule(name="torch", releases=">=2.11,<2.15", brings=("nvidia-curand",)),
    # jax, jax-cuda12-plugin and jax-cuda13-plugin 0.10.2 and 0.12.0.1. The extras cuda12-local and
    # cuda13-local bring the plugin alone, to find CUDA on the machine.
    _Rule(name="jax", extra="cuda", brings=("jax-cuda12-plugin[with-cuda]",)),
    _Rule(name="jax", extra="cuda12", brings=("jax-cuda12-plugin[with-cuda]",)),
    _Rule(name="jax", extra="cuda13", brings=("jax-cuda13-plugin[with-cuda]",)),
    _Rule(name="jax", extra="cuda12-local", brings=("jax-cuda12-plugin",)),
    _Rule(name="jax", extra="cuda13-local", brings=("jax-cuda13-plugin",)),
    _Rule(name="jax-cuda12-plugin", brings=("jax-cuda12-pjrt",)),
    _Rule(name="jax-cuda13-plugin", brings=("jax-cuda13-pjrt",)),
    _Rule(
        name="jax-cuda12-plugin",
        extra="with-cuda",
        brings=(*_parts(_JAX_PARTS, "-cu12"), *_parts(("cudnn", "nccl", "nvshmem"), "-cu12")),
    ),
    _Rule(
        name="jax-cuda13-plugin",
        extra="with-cuda",
        brings=(*_parts(_JAX_PARTS, ""), *_parts(("cudnn", "nccl", "nvshmem"), "-cu13")),
    ),
    # tensorflow 2.16.2, 2.20.0 and 2.21.0.
    _Rule(
        name="tensorflow",
        extra="and-cuda",
        brings=(
            *_parts(_JAX_PARTS, "-cu12"),
            *_parts(("cudnn", "curand", "nccl"), "-cu12"),
        ),
    ),
    # cupy-cuda12x and cupy-cuda13x 14.2.0.
    _Rule(name="cupy-cuda12x", extra="ctk", brings=(f"cuda-toolkit[{_CUPY_EXTRAS}]==12.*",)),
    _Rule(name="cupy-cuda13x", extra="ctk", brings=(f"cuda-toolkit[{_CUPY_EXTRAS}]==13.*",)),
    # tensorrt 10.9.0.34, 10.13.3.9, 10.16.1.11 and 11.1.0.106; tensorrt-cu12 10.9.0.34,
    # tensorrt-cu13 10.16.1.11.
    _Rule(name="tensorrt", releases=">=10,<10.13", brings=("tensorrt-cu12",)),
    _Rule(name="tensorrt", releases=">=10.13.3", brings=("tensorrt-cu13",)),
    *(
        _Rule(name=f"tensorrt-cu{major}", brings=(f"tensorrt-cu{major}-libs",))
        for major in (11, 12, 13)
    ),
    # cuquantum and cuquantum-python 26.9.0.
    *(
        _Rule(
            name=f"cuquantum{python}-cu{major}",
            brings=(
                *(
                    f"{part}-cu{major}"
                    for part in (
                        "cudensitymat",
                        "cupauliprop",
                        "custabilizer",
                        "custatevec",
                        "cutensornet",
                    )
                ),
                *([f"cupy-cuda{major}x"] if python else []),
            ),
        )
        for python in ("", "-python")
        for major in (12, 13)
    ),
)

# Who loads what when imported, as patterns of sonames. A library that is loaded serves everybody
# who needs its soname, whatever their rpath.
#
# torch: `_preload_cuda_deps` in torch/__init__.py of 2.11.0, and found in /proc/self/maps after
# `import torch` on a machine without a GPU. jax's plugins load theirs when a backend starts, not
# when jax is imported (`initialize` in jax_plugins/xla_cuda13/__init__.py, 0.12.0.1); cupy loads
# cuTENSOR alone (`cupy/__init__.py`, 14.2.0); tensorflow wasn't read. tensorrt imports the package
# of its libraries, which loads all of them (`tensorrt_libs/__init__.py` in NVIDIA/TensorRT).
_TENSORRT = ("libnvinfer*.so.*", "libnvonnxparser.so.*")
_LOADED = {
    "tensorrt": _TENSORRT,
    **{f"tensorrt-cu{major}": _TENSORRT for major in (11, 12, 13)},
    **{f"tensorrt-cu{major}-libs": _TENSORRT for major in (11, 12, 13)},
    "torch": (
        "libcublas.so.*",
        "libcublasLt.so.*",
        "libcudart.so.*",
        "libcudnn.so.*",
        "libcufft.so.*",
        "libcufile.so.*",
        "libcupti.so.*",
        "libcurand.so.*",
        "libcusolver.so.*",
        "libcusparse.so.*",
        "libcusparseLt.so.*",
        "libnccl.so.*",
        "libnvJitLink.so.*",
        "libnvrtc-builtins.so.*",
        "libnvrtc.so.*",
        "libnvshmem_host.so.*",
        "libtorch*.so",
        "libc10*.so",
        "libshm.so",
        "libgomp.so.1",  # torch/lib/libgomp.so.1
    ),
}

# A wheel's markers are judged for this machine; NVIDIA's requirements don't depend on the Python.
_LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.12.0",
    "python_version": "3.12",
    "sys_platform": "linux",
}
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_CUDA_SUFFIX = re.compile(r"-cu(?:da)?(1[0-9])(?=x?$|-)")
_ROWS = {found.distribution: found for found in reversed(KNOWN_COMPONENTS)}
_KNOWN = {*_ROWS, *(rule.name for rule in _RULES)}


def dependencies_of(requirements: Iterable[str]) -> tuple[Dependency, ...]:
    """Every distribution that requirements bring on Linux x86_64, as far as the tables know.

    Args:
        requirements: `Requires-Dist` lines of a wheel; those that aren't valid bring nothing.
    """
    found: dict[Dependency, None] = {}
    for line in requirements:
        try:
            requirement = Requirement(line)
            extras = extras_of(requirement)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            continue
        by = canonicalize_name(requirement.name)
        for extra in extras:
            for name in _reached_by(requirement):
                found[Dependency(distribution=name, by=by, extra=extra, cuda=_cuda_of(name))] = None
    return tuple(found)


def preloads(distribution: str, soname: str = "") -> bool:
    """Whether importing a framework loads the CUDA libraries that it brings.

    Args:
        distribution: the framework, normalized.
        soname: whether this one is among them.
    """
    loaded = _LOADED.get(distribution, ())
    return any(fnmatchcase(soname, pattern) for pattern in loaded) if soname else bool(loaded)


def extras_of(requirement: Requirement) -> tuple[str, ...]:
    """Extras of a wheel under which a requirement counts on Linux; `("",)` where it always does."""
    marker = requirement.marker
    if marker is None or marker.evaluate({**_LINUX, "extra": ""}):
        return ("",)
    named = dict.fromkeys(_EXTRA.findall(str(marker)))
    return tuple(name for name in named if marker.evaluate({**_LINUX, "extra": name}))


def has_common_release(rule: str, asked: SpecifierSet) -> bool:
    """Whether some release meets both specifiers: one that they name, or one beside it.

    Args:
        rule: of a table, empty for any release.
        asked: of a requirement.
    """
    known = SpecifierSet(rule)
    written = (one.version.removesuffix(".*") for one in (*known, *asked))
    named = [version for version in written if _is_version(version)]
    public = [Version(version).public for version in named]
    beside = [f"{version}.0.0.1" for version in public if Version(version).is_prerelease is False]
    return any(
        known.contains(release, prereleases=True) and asked.contains(release, prereleases=True)
        for release in (*named, *beside, "0", "9999")
    )


def _is_version(text: str) -> bool:
    """Whether it is one: behind `===` anything may stand."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _reached_by(requirement: Requirement) -> Iterator[str]:
    """The known distributions that a requirement brings, itself among them."""
    queue = [requirement]
    visited: set[str] = set()
    for asked in queue:
        name = canonicalize_name(asked.name)
        if name in _KNOWN or _CUDA_SUFFIX.search(name):
            if name not in visited:
                yield name
            queue += [required for required in _required_by(asked) if str(required) not in visited]
        visited |= {name, str(asked)}


def _required_by(asked: Requirement) -> Iterator[Requirement]:
    name = canonicalize_name(asked.name)
    extras = {"", *map(canonicalize_name, asked.extras)}
    for rule in _RULES:
        if (
            rule.name == name
            and rule.extra in extras
            and has_common_release(rule.releases, asked.specifier)
            and not (rule.unless and has_common_release(rule.unless, asked.specifier))
        ):
            yield from map(Requirement, rule.brings)
    if name in _ROWS:
        yield from map(Requirement, _ROWS[name].brings)


def _cuda_of(name: str) -> int | None:
    if name in _ROWS:
        return _ROWS[name].cuda
    suffix = _CUDA_SUFFIX.search(name)
    return int(suffix[1]) if suffix else None
