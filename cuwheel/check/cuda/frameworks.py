"""The CUDA libraries that a framework's requirement installs and its import loads; its CUDA.

Frameworks and metapackages of the index require NVIDIA's wheels, some by extras, some of another
CUDA major in each release. Each row is from the METADATA of the releases in the comment above it.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.system.regular_files import read_module
from cuwheel.check.cuda.components import KNOWN_COMPONENTS


@dataclass(frozen=True, kw_only=True)
class Dependency:
    """A distribution that a wheel's requirements install.

    Attributes:
        by: the requirement that starts the chain, `torch`; the distribution itself if the wheel
            requires it.
        extra: of the wheel, under which it is installed; empty: always.
        cuda: the major release of CUDA of the distribution; None: none, or any. If a requirement
            allows releases of a framework for two majors, the distributions of both are listed.
    """

    distribution: str
    by: str
    extra: str
    cuda: int | None


class _Rule(NamedTuple):
    """Requirements of some releases of a distribution on Linux x86_64, perhaps of an extra.

    Attributes:
        owner: the distribution, the extra and the releases, as a requirement.
        brings: what they require.
        unless: later releases: if a requirement allows them too, an installer takes one of them,
            and the rule doesn't apply.
    """

    owner: Requirement
    brings: tuple[Requirement, ...]
    unless: SpecifierSet | None


def _rule(owner: str, brings: str, unless: str = "") -> _Rule:
    newer = SpecifierSet(unless) if unless else None
    return _Rule(Requirement(owner), tuple(map(Requirement, brings.split())), newer)


# Extras of cuda-toolkit with their parts, most of which have the same name (cuda-toolkit 12.1.1 to
# 12.9.1, 13.0.2 and 13.4.3).
_TOOLKIT_EXTRAS = (
    *("cudart", "cupti", "nvcc", "nvrtc", "cublas", "cufft", "cufile", "curand", "cusolver"),
    *("cusparse", "npp", "nvfatbin", "nvjitlink", "nvjpeg", "nvtx"),
)
_NAMES_OF_PARTS = {"cudart": "cuda-runtime", "cupti": "cuda-cupti"}
_NAMES_OF_PARTS |= {"nvcc": "cuda-nvcc", "nvrtc": "cuda-nvrtc"}
_TORCH_1 = "cublas cuda-nvrtc cuda-runtime cudnn"
_TORCH_2 = f"{_TORCH_1} cuda-cupti cufft curand cusolver cusparse nccl nvtx"
_JAX = "cublas cuda-cupti cuda-nvcc cuda-nvrtc cuda-runtime cufft cusolver cusparse nvjitlink"
_CUQUANTUM = ("cudensitymat", "cupauliprop", "custabilizer", "custatevec", "cutensornet")
_TORCH_EXTRAS = "cublas,cudart,cufft,cufile,cupti,cusolver,cusparse,nvjitlink,nvrtc,nvtx"
_CUPY_EXTRAS = "cublas,cudart,cufft,curand,cusolver,cusparse,nvrtc"


def _parts(names: str, suffix: str) -> str:
    return " ".join(f"nvidia-{name}{suffix}" for name in names.split())


_RULES = (
    *(
        _rule(f"cuda-toolkit[{extra}]{releases}", _parts(_NAMES_OF_PARTS.get(part, part), suffix))
        for releases, suffix in ((">=12,<13", "-cu12"), (">=13,<14", ""))
        for part in _TOOLKIT_EXTRAS
        for extra in (part, "all")
    ),
    _rule("cuda-toolkit[nvvm]>=13,<14", "nvidia-nvvm"),
    _rule("nvidia-cuda-nvcc", "nvidia-nvvm nvidia-cuda-runtime"),
    # nvidia-cublas 13.3.0.5, 13.4.1.3 and 13.10.0.20; nvidia-cublas-cu12 12.9.1.4 and 12.9.2.10.
    _rule("nvidia-cublas>=13.4.1", "nvidia-cuda-nvrtc"),
    _rule("nvidia-cublas-cu12>=12.9.2", "nvidia-cuda-nvrtc-cu12"),
    # torch 2.1.2, 2.3.1, 2.4.1, 2.5.1, 2.6.0, 2.7.1, 2.8.0, 2.9.1, 2.10.0; 2.11.0, 2.12.0, 2.14.0,
    # 2.15.0. Up to 2.0 it is for CUDA 11: 1.13.1, 2.0.1.
    _rule("torch>=1.13,<2.1", _parts(_TORCH_1, "-cu11"), unless=">=2.1"),
    _rule("torch>=2,<2.1", _parts(_TORCH_2, "-cu11"), unless=">=2.1"),
    _rule("torch>=2.1,<2.11", _parts(_TORCH_2, "-cu12")),
    _rule("torch>=2.5,<2.11", "nvidia-nvjitlink-cu12"),
    _rule("torch>=2.6,<2.11", "nvidia-cusparselt-cu12"),
    _rule("torch>=2.7,<2.11", "nvidia-cufile-cu12"),
    _rule("torch>=2.9,<2.11", "nvidia-nvshmem-cu12"),
    _rule("torch>=2.11", f"cuda-toolkit[{_TORCH_EXTRAS}]==13.*"),
    _rule("torch>=2.11", _parts("cudnn cusparselt nccl nvshmem", "-cu13")),
    _rule("torch>=2.11,<2.15", "nvidia-curand"),
    # jax, jax-cuda12-plugin and jax-cuda13-plugin 0.10.2 and 0.12.0.1. The extras cuda12-local and
    # cuda13-local bring the plugin alone, to find CUDA on the machine.
    _rule("jax[cuda]", "jax-cuda12-plugin[with-cuda]"),
    *(
        rule
        for cuda, suffix in ((12, "-cu12"), (13, ""))
        for rule in (
            _rule(f"jax[cuda{cuda}]", f"jax-cuda{cuda}-plugin[with-cuda]"),
            _rule(f"jax[cuda{cuda}-local]", f"jax-cuda{cuda}-plugin"),
            _rule(f"jax-cuda{cuda}-plugin", f"jax-cuda{cuda}-pjrt"),
            _rule(f"jax-cuda{cuda}-plugin[with-cuda]", _parts(_JAX, suffix)),
            _rule(f"jax-cuda{cuda}-plugin[with-cuda]", _parts("cudnn nccl nvshmem", f"-cu{cuda}")),
        )
    ),
    # tensorflow 2.16.2, 2.20.0 and 2.21.0.
    _rule("tensorflow[and-cuda]", _parts(f"{_JAX} cudnn curand nccl", "-cu12")),
    # cupy-cuda12x and cupy-cuda13x 14.2.0.
    *(
        _rule(f"cupy-cuda{cuda}x[ctk]", f"cuda-toolkit[{_CUPY_EXTRAS}]=={cuda}.*")
        for cuda in (12, 13)
    ),
    # tensorrt 10.9.0.34, 10.13.3.9, 10.16.1.11 and 11.1.0.106; tensorrt-cu12 10.9.0.34,
    # tensorrt-cu13 10.16.1.11.
    _rule("tensorrt>=10,<10.13", "tensorrt-cu12"),
    _rule("tensorrt>=10.13.3", "tensorrt-cu13"),
    *(_rule(f"tensorrt-cu{cuda}", f"tensorrt-cu{cuda}-libs") for cuda in (11, 12, 13)),
    # cuquantum and cuquantum-python 26.9.0.
    *(
        _rule(f"cuquantum{python}-cu{cuda}", f"{part}-cu{cuda}")
        for python in ("", "-python")
        for cuda in (12, 13)
        for part in _CUQUANTUM
    ),
    *(_rule(f"cuquantum-python-cu{cuda}", f"cupy-cuda{cuda}x") for cuda in (12, 13)),
)

# The toolkit whose parts PyTorch's releases require exactly.
_TORCH_TOOLKITS = {
    **dict.fromkeys(("2.1", "2.2", "2.3", "2.4"), "12.1"),
    **dict.fromkeys(("2.5", "2.6"), "12.4"),
    "2.7": "12.6",
    **dict.fromkeys(("2.8", "2.9", "2.10"), "12.8"),
    **dict.fromkeys(("2.11", "2.12", "2.13", "2.14"), "13.0"),
    "2.15": "13.2",
}
# What PyTorch requires exactly, on x86-64: METADATA of all patch releases.
_NAMES_OF_PINS = ("nvidia-cudnn-cu{}", "nvidia-nccl-cu{}", "nvidia-cusparselt-cu{}", "triton")
_TORCH_PINS = {
    "2.1": (12, "8.9.2.26", "2.18.1", "", "2.1.0"),
    "2.2": (12, "8.9.2.26", "2.19.3", "", "2.2.0"),
    "2.3": (12, "8.9.2.26", "2.20.5", "", "2.3.0 2.3.1"),
    "2.4": (12, "9.1.0.70", "2.20.5", "", "3.0.0"),
    "2.5": (12, "9.1.0.70", "2.21.5", "", "3.1.0"),
    "2.6": (12, "9.1.0.70", "2.21.5", "0.6.2", "3.2.0"),
    "2.7": (12, "9.5.1.17", "2.26.2", "0.6.3", "3.3.0 3.3.1"),
    "2.8": (12, "9.10.2.21", "2.27.3", "0.7.1", "3.4.0"),
    "2.9": (12, "9.10.2.21", "2.27.5", "0.7.1", "3.5.0 3.5.1"),
    "2.10": (12, "9.10.2.21", "2.27.5", "0.7.1", "3.6.0"),
    "2.11": (13, "9.19.0.56", "2.28.9", "0.8.0", "3.6.0"),
    "2.12": (13, "9.20.0.48", "2.29.7", "0.8.1", "3.7.0 3.7.1"),
    "2.13": (13, "9.20.0.48", "2.29.7", "0.8.1", "3.7.1"),
    "2.15": (13, "9.26.0.51", "2.30.7", "0.8.1", "3.9.0"),
}
_TOOLKIT_PART = re.compile(r"nvidia-(?:cublas|cuda-cupti|cuda-nvrtc|cuda-runtime|nvtx)(-cu12)?")

# Libraries that an import loads, as patterns of sonames. A loaded library serves all that need its
# soname, with any rpath.
#
# torch: `_preload_cuda_deps` in torch/__init__.py of 2.11.0, and /proc/self/maps after `import
# torch` on a machine without a GPU. jax's plugins load theirs when a backend starts, not when jax
# is imported (`initialize` in jax_plugins/xla_cuda13/__init__.py, 0.12.0.1); cupy loads cuTENSOR
# only (`cupy/__init__.py`, 14.2.0); tensorflow wasn't read. tensorrt imports the package of its
# libraries, which loads all of them (`tensorrt_libs/__init__.py` in NVIDIA/TensorRT).
_TENSORRT = ("libnvinfer*.so.*", "libnvonnxparser.so.*")
_TENSORRT_WHEELS = [f"tensorrt-cu{cuda}{part}" for cuda in (11, 12, 13) for part in ("", "-libs")]
_LOADED = {
    **dict.fromkeys(("tensorrt", *_TENSORRT_WHEELS), _TENSORRT),
    "torch": (
        *("libcublas.so.*", "libcublasLt.so.*", "libcudart.so.*", "libcudnn.so.*", "libcufft.so.*"),
        *("libcufile.so.*", "libcupti.so.*", "libcurand.so.*", "libcusolver.so.*"),
        *("libcusparse.so.*", "libcusparseLt.so.*", "libnccl.so.*", "libnvJitLink.so.*"),
        *("libnvrtc-builtins.so.*", "libnvrtc.so.*", "libnvshmem_host.so.*"),
        *("libtorch*.so", "libc10*.so", "libshm.so"),
        "libgomp.so.1",  # torch/lib/libgomp.so.1
    ),
}

# The machine for markers; NVIDIA's requirements don't depend on the Python.
_LINUX = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.12.9",  # as users have it, not the first
    "python_version": "3.12",
    "sys_platform": "linux",
}
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
# A wheel of a CUDA line, `torch==2.14.0+cu126`, requires what the nearest release of the public
# index does that is for this major: the first and the last of each.
_LINE = re.compile(r"==([\d.]+)\+cu(\d\d)\d")
_OF_CUDA = {"11": ("1.13.1", "2.0.1"), "12": ("2.1.0", "2.10.0"), "13": ("2.11.0", "9999")}
_CUDA_SUFFIX = re.compile(r"-cu(?:da)?(1[0-9])(?=x?$|-)")
_ROWS = {component.distribution: component for component in reversed(KNOWN_COMPONENTS)}
_KNOWN = {*_ROWS, *(rule.owner.name for rule in _RULES)}


def dependencies_of(
    requirements: Iterable[str], values: Mapping[str, str] = MappingProxyType({})
) -> tuple[Dependency, ...]:
    """Return every distribution that requirements install on Linux, as far as is known.

    Args:
        requirements: `Requires-Dist` lines of a wheel; invalid ones count as nothing.
        values: of markers, where they aren't those of Python 3.12 on x86_64.
    """
    dependencies: dict[Dependency, None] = {}
    for line in requirements:
        try:
            requirement = Requirement(line)
            extras = extras_of(requirement, values)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            continue
        by = canonicalize_name(requirement.name)
        for extra in extras:
            for name in _reached_by(requirement):
                suffix = _CUDA_SUFFIX.search(name)
                cuda = _ROWS[name].cuda if name in _ROWS else int(suffix[1]) if suffix else None
                new = Dependency(distribution=name, by=by, extra=extra, cuda=cuda)
                dependencies[new] = None
    return tuple(dependencies)


def toolkit_conflict(torch: SpecifierSet, requirement: Requirement) -> str:
    """Return the CUDA release of all allowed releases of PyTorch if a requirement excludes it."""
    part = _TOOLKIT_PART.fullmatch(canonicalize_name(requirement.name))
    if part is None:
        return ""
    known = {minor: SpecifierSet(f"=={minor}.*") for minor in _TORCH_TOOLKITS}
    others = SpecifierSet(",".join(f"!={minor}.*" for minor in known))
    if has_common_release(others, torch):
        return ""
    allowed = (minor for minor, releases in known.items() if has_common_release(releases, torch))
    toolkits = {_TORCH_TOOLKITS[minor] for minor in allowed}
    is_possible = any(
        toolkit.startswith("12.") is not bool(part[1])  # another wheel, of the other CUDA
        or has_common_release(SpecifierSet(f"=={toolkit}.*"), requirement.specifier)
        for toolkit in toolkits
    )
    return "" if is_possible else " or ".join(sorted(toolkits))


def pin_conflict(torch: SpecifierSet, requirement: Requirement) -> str:
    """Return the releases that all allowed releases of PyTorch require, if a requirement has none.

    Those of other indexes (`torch==2.6.0+cu118`) may require others.
    """
    known = {minor: SpecifierSet(f"=={minor}.*") for minor in _TORCH_PINS}
    others = SpecifierSet(",".join(f"!={minor}.*" for minor in known))
    if "+" in str(torch) or has_common_release(others, torch):
        return ""
    name, pins = canonicalize_name(requirement.name), dict[str, None]()
    for minor in (minor for minor, each in known.items() if has_common_release(each, torch)):
        cuda, *releases = _TORCH_PINS[minor]
        names = (text.format(cuda) for text in _NAMES_OF_PINS)
        own = dict(zip(names, map(str, releases), strict=True)).get(name, "").split()
        if not own or any(map(requirement.specifier.contains, own)):
            return ""
        pins |= dict.fromkeys(own)
    return " or ".join(pins)


def torch_toolkit(minor: str) -> str:
    """Return the CUDA release of PyTorch's wheels on the public index; empty: not known.

    Args:
        minor: `2.11`.
    """
    return _TORCH_TOOLKITS.get(minor, "")


def is_known(distribution: str) -> bool:
    """Return True if it is known what a distribution requires and contains."""
    return distribution in _KNOWN


def preloads(distribution: str, soname: str = "") -> bool:
    """Return True if importing a framework loads CUDA libraries, or one soname of them."""
    patterns = _LOADED.get(distribution, ())
    return any(fnmatchcase(soname, name) for name in patterns) if soname else bool(patterns)


def extras_of(
    requirement: Requirement, values: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return the wheel's extras under which a requirement applies on Linux; `("",)`: always.

    Args:
        values: of markers, where they aren't those of Python 3.12 on x86_64.
    """
    marker, there = requirement.marker, {**_LINUX, **values}
    if marker is None or marker.evaluate({**there, "extra": ""}):
        return ("",)
    names = dict.fromkeys(_EXTRA.findall(str(marker)))
    return tuple(name for name in names if marker.evaluate({**there, "extra": name}))


def has_common_release(known: SpecifierSet, required: SpecifierSet) -> bool:
    """Return True if a release meets both specifiers: one of their versions, or one next to it."""
    named: list[Version] = []
    for specifier in (*known, *required):
        with contextlib.suppress(InvalidVersion):  # `===` takes any text
            named.append(Version(specifier.version.removesuffix(".*")))
    after = [f"{version.base_version}.0.0.1" for version in named if not version.is_prerelease]
    return any(
        known.contains(release, prereleases=True) and required.contains(release, prereleases=True)
        for release in [*named, *map(Version, (*after, "0", "9999"))]
    )


def _reached_by(requirement: Requirement) -> Iterator[str]:
    """Yield the known distributions that a requirement installs, itself among them."""
    queue = [requirement]
    visited: set[str] = set()
    for current in queue:
        name = canonicalize_name(current.name)
        if name in _KNOWN or _CUDA_SUFFIX.search(name):
            if name not in visited:
                yield name
            queue += [needed for needed in _required_by(current) if str(needed) not in visited]
        visited |= {name, str(current)}


def _required_by(requirement: Requirement) -> Iterator[Requirement]:
    name = canonicalize_name(requirement.name)
    if name == "torch" and (line := _LINE.search(str(requirement.specifier))):
        oldest, newest = map(Version, _OF_CUDA.get(line[2], (line[1], line[1])))
        requirement = Requirement(f"torch=={min(max(Version(line[1]), oldest), newest)}")
    extras = {"", *map(canonicalize_name, requirement.extras)}
    for owner, brings, unless in _RULES:
        if (
            owner.name == name
            and (not owner.extras or owner.extras & extras)
            and has_common_release(owner.specifier, requirement.specifier)
            and not (unless and has_common_release(unless, requirement.specifier))
        ):
            yield from brings
    if name in _ROWS:
        yield from map(Requirement, _ROWS[name].brings)


def version_constants(version_file: Path) -> dict[str, object]:
    """Return the constants of a file by name, without running it; none if it can't be read."""
    constants: dict[str, object] = {}
    try:
        statements = read_module(version_file).body
    except (OSError, ValueError):
        return {}
    for statement in statements:
        targets = [*getattr(statement, "targets", ()), getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Constant):
            names = (target.id for target in targets if isinstance(target, ast.Name))
            constants = {**dict.fromkeys(names, value.value), **constants}
    return constants


def framework_cuda(version_file: Path) -> str | None:
    """Return `cuda` of PyTorch's `version.py`, without the seconds of an import of torch."""
    constants = version_constants(version_file)
    return str(constants["cuda"]) if "cuda" in constants else None
