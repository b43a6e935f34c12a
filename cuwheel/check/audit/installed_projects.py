"""The projects that requirements install, as far as that is known to the end.

None of those in the table has a library under a name that others need.

From METADATA on the index, November 2026: what each requires on Linux without an extra. NVIDIA's
wheels of libraries require only each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NOTHING = (
    *("cuda-pathfinder", "cuda-toolkit", "einops", "fastrlock", "filelock", "fsspec", "markupsafe"),
    *("ml-dtypes", "mpmath", "networkx", "ninja", "numpy", "packaging", "psutil", "pyyaml"),
    *("pycparser", "setuptools", "six", "threadpoolctl", "tqdm", "typing-extensions", "wheel"),
)
_TORCH = "filelock typing-extensions setuptools sympy networkx jinja2 fsspec mpmath markupsafe"
_REQUIRES = {
    **dict.fromkeys(_NOTHING, ""),
    "torch": f"{_TORCH} triton cuda-bindings cuda-toolkit cuda-pathfinder",
    "triton": "setuptools",
    "jinja2": "markupsafe",
    "sympy": "mpmath",
    "scipy": "numpy",
    "cffi": "pycparser",
    "cupy": "numpy fastrlock cuda-pathfinder",
    "cuda-bindings": "cuda-pathfinder",
    "apache-tvm-ffi": "typing-extensions",
    **dict.fromkeys(("cupy-cuda12x", "cupy-cuda13x"), "numpy fastrlock cuda-pathfinder"),
}
# Names of modules other than their project's.
_PROJECTS = {
    "PIL": "pillow",
    "_distutils_hack": "setuptools",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cffi": "cffi",
    "dateutil": "python-dateutil",
    "functorch": "torch",
    "google.colab": "google-colab",
    "pkg_resources": "setuptools",
    "pylab": "matplotlib",
    "pynvml": "nvidia-ml-py",
    "torchgen": "torch",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
# Modules of many projects, or of none on the index.
_SHARED = frozenset({"cuda", "cv2", "google", "mpl_toolkits", "nvidia", "jax_plugins"})
_CONDA = "isn't there: it is a package of conda"
_UNSUFFIXED = (
    *("cublas", "cuda-cupti", "cuda-nvcc", "cuda-nvrtc", "cuda-runtime", "cufft", "curand"),
    *("cusolver", "cusparse", "nvjitlink", "nvtx", "cuda-cccl", "cuda-crt", "cuda-culibos"),
    *("cuda-cuxxfilt", "cuda-opencl", "cuda-profiler-api", "cuda-sanitizer-api", "cufile", "npp"),
    *("nvfatbin", "nvjpeg", "nvml-dev", "nvptxcompiler", "nvvm"),
)
_MISNAMED = {
    "pytorch": "is no PyTorch, which is called torch",
    "tensorflow-gpu": "can't be installed: it is called tensorflow",
    "sklearn": "can't be installed: it is called scikit-learn",
    "nvidia-tensorrt": "has no wheel: it is called tensorrt",
    **dict.fromkeys(("cudatoolkit", "pytorch-cuda", "cudnn", "cuda-cudart", "libcublas"), _CONDA),
    "python": "isn't there: Requires-Python states it",
    **dict.fromkeys(("nvidia-cudnn", "nvidia-nccl"), "is empty: its name ends in -cu12 or -cu13"),
    **dict.fromkeys(
        (f"nvidia-{name}-cu13" for name in _UNSUFFIXED),
        "is empty: for CUDA 13 its name has no suffix",
    ),
}
# Projects that a requirement can't mean: why. Each looked for with pip, November 2026.
# NVIDIA's suffixes have one number of CUDA, `-cu12`, CuPy's `12x`.
_OTHER_SUFFIX = re.compile(
    rf"nvidia-({'|'.join(_UNSUFFIXED)}|cudnn|nccl)-cu1(\d\d|[4-9])|cupy-cuda1[2-9]\d?|cupy-cu1\d\w?"
)
# Of NVIDIA's wheels whose releases count as CUDA's do.
_RELEASED = re.compile(
    r"nvidia-(?:cublas|cuda-cupti|cuda-nvrtc|cuda-nvcc|cuda-runtime|nvjitlink|nvtx)(?:-cu(1\d))?"
)
# All extras of projects whose extras people make up: cuda-toolkit 12.8.2 and 13.5.0, torch 2.11.
_EXTRAS = {
    "cuda-toolkit": "all cccl crt cublas cudart cudla cufft cufile culibos cuobjdump cupti curand "
    "cusolver cusparse cuxxfilt npp nvcc nvdisasm nvfatbin nvjitlink nvjpeg nvml nvptxcompiler "
    "nvrtc nvtx nvvm opencl profiler sanitizer tileiras",
    "torch": "opt-einsum optree pyyaml",
}
OF_MODULES = {
    "attr": "attrs",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "opencv": "opencv-python",
    "pil": "pillow",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
}
"""Modules, with the projects that have them."""
BACKPORTS = frozenset(
    {"argparse", "asyncio", "dataclasses", "enum34", "futures", "pathlib", "typing"}
)
"""Projects with modules that every Python 3.8 has itself."""
WITHOUT_WHEELS = {
    "cupy": " with nvcc, over the files of cupy-cuda12x and cupy-cuda13x, which have some",
    "nvidia-pyindex": ", and the index that it adds isn't needed any more",
    **dict.fromkeys(("causal-conv1d", "flash-attn", "mamba-ssm", "pycuda"), ""),
}
"""Projects of which pip downloads only sources: what to add. Each looked for, November 2026."""
# Packages, each of which several projects of the index install.
_VARIANTS = {
    "cupy": "cupy",
    "cv2": "opencv-python opencv-python-headless opencv-contrib-python "
    "opencv-contrib-python-headless",
    "faiss": "faiss-cpu faiss-gpu",
    "onnxruntime": "onnxruntime onnxruntime-gpu onnxruntime-directml onnxruntime-openvino",
    "paddle": "paddlepaddle paddlepaddle-gpu",
    "tensorflow": "tensorflow tensorflow-cpu",
}
_PACKAGES = {name: package for package, names in _VARIANTS.items() for name in names.split()}
# `cupy-cuda13x`, `rmm-cu12`, `spconv-cu120`; NVIDIA's own wheels are known by their files.
FOR_CUDA = re.compile(r"(?!nvidia-)(?P<stem>.+)-cu(?:da)?(?P<major>1\d)(?:\d|x)?")
_NORMAL = re.compile(r"[-_.]+")


def installed_by(required: Iterable[str]) -> frozenset[str] | None:
    """Return all projects that some bring; None if that isn't known of one of them."""
    installed = frozenset(name for name in required if not name.startswith("nvidia-"))
    if not installed <= _REQUIRES.keys():
        return None
    return installed.union(*(_REQUIRES[name].split() for name in installed))


def is_brought(project: str, required: Iterable[str]) -> bool:
    """Return True if one of the required projects is, or is known to require, a project."""
    return any(project == name or project in _REQUIRES.get(name, "").split() for name in required)


def misnamed(project: str) -> str:
    """Return why a requirement can't mean a project; empty: it can."""
    fallback = "has no wheel of that name: the number is CUDA's major release"
    return _MISNAMED.get(project, fallback if _OTHER_SUFFIX.fullmatch(project) else "")


def unknown_extras(project: str, extras: Iterable[str]) -> list[str]:
    """Return the extras that a project doesn't have, as far as its extras are known."""
    known = _EXTRAS.get(project)
    own = map(_normal, extras)
    return sorted(set(own) - {*known.split()}) if known else []


def _normal(name: str) -> str:
    return _NORMAL.sub("-", name).lower()


def released(project: str) -> str:
    """Return which releases a wheel of NVIDIA's has, by the CUDA in its name; empty: unknown."""
    match = _RELEASED.fullmatch(project)
    if match is None:
        return ""
    # No release of CUDA had more than nine minor ones; but cuBLAS counts its own: 11.11.3.6 is for
    # CUDA 11.8, and there is a 13.10.0.20.
    if "cublas" in project:
        return f">={match[1]},<{int(match[1]) + 1}" if match[1] else ">=13"
    return f">={match[1]},<{match[1]}.10" if match[1] else ">=13,<13.10 or >=14"


def unknown_among(required: Iterable[str]) -> tuple[str, ...]:
    """Return the projects of which it isn't known what they require and contain."""
    return tuple(sorted(set(required) - _REQUIRES.keys()))


def package_of(project: str) -> str:
    """Return the package that builds of a project for several CUDA releases install; or empty."""
    match = FOR_CUDA.fullmatch(project)
    stem = match["stem"] if match else project
    fallback = stem.removesuffix("-gpu").replace("-", "_") if match else ""
    return _PACKAGES.get(project, _PACKAGES.get(stem, fallback))


def project_of_module(module: str) -> str:
    """Return the only project with a module's top level; empty if it isn't known to be one."""
    top, *inner = module.split(".")
    if top in _SHARED:
        return _PROJECTS.get(".".join((top, *inner[:1])), "")
    return _PROJECTS.get(top, _normal(top))
