"""Packages that don't fit each other, and environments in unusual places."""

from __future__ import annotations

import shutil
from functools import partial

from tests.support.check.situations import Broken, Situation

_NUMBA = ("numba==0.60.0", "numpy==2.0.2")
_CUPY = ("cupy-cuda13x==14.2.0", "nvidia-cuda-runtime==13.0.96")
_JAX = ("jax==0.5.3", "jaxlib==0.5.3")
_TORCH = ("torch==2.13.0+cpu", "numpy==2.0.2")
_IMPORTS_NUMBA = "python -c 'import numba'"
_IMPORTS_CUPY = "python -c 'import cupy'"
_IMPORTS_JAX = "python -c 'import jax.numpy'"
_IMPORTS_TORCH = "python -c 'import torch'"
_NEWER_NUMPY = r"(diagnose-versions: numba 0.60.0 requires numpy<2.1|NumPy 2.0 or less)"


def _put(*packages: str) -> partial[None]:
    return partial(_over, packages)


def _over(packages: tuple[str, ...], broken: Broken) -> None:
    for package in packages:
        broken.put(package)


def _name(*words: str) -> partial[None]:
    return partial(_set_words, list(words))


def _set_words(words: list[str], broken: Broken) -> None:
    broken.words = words


def _target_folder(broken: Broken) -> None:
    broken.target = broken.unpack("packages", *_NUMBA)
    (broken.target / "llvmlite" / "binding" / "ffi.py").unlink()


def _copy_without_programs(broken: Broken) -> None:
    broken.delete("llvmlite/binding/ffi.py")
    broken.target = broken.folder / "copied"
    shutil.copytree(broken.root / "lib", broken.target / "lib")


def _like_conda(broken: Broken) -> None:
    broken.replace(broken.root / "conda-meta" / "history", "==> 2026-11-01 10:00:00 <==\n")
    broken.put("numpy==2.3.5")


def _in_ascii_locale(broken: Broken) -> None:
    broken.environ["LC_ALL"] = "C"
    broken.put("numpy==2.3.5")


def _lose_library(broken: Broken) -> None:
    broken.delete("torch/lib/libtorch_python.so")


def _truncate_library(broken: Broken) -> None:
    path = broken.find("torch/lib/libtorch_cpu.so")
    content = path.read_bytes()
    broken.replace(path, content[: len(content) // 2])


def _script_of_that_name(broken: Broken) -> None:
    broken.replace(broken.start / "torch.py", "import torch\n")


def _rename_script(broken: Broken) -> None:
    (broken.start / "torch.py").rename(broken.start / "train.py")


def _lose_extension_of_opencv(broken: Broken) -> None:
    broken.delete("cv2/cv2*.so")
    broken.words = ["cv2"]


def _older_numpy_for_opencv(broken: Broken) -> None:
    broken.put("numpy==1.23.5")
    broken.words = ["cv2"]


def _uninstall(*packages: str) -> partial[None]:
    return partial(_take, packages)


def _take(packages: tuple[str, ...], broken: Broken) -> None:
    broken.uv("pip", "uninstall", "-q", "--python", broken.python, *packages)


SITUATIONS = (
    Situation(
        name="numba 0.60 with a newer numpy",
        packages=_NUMBA,
        breaks=_put("numpy==2.3.5"),
        cause=_NEWER_NUMPY,
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="plugin that its jaxlib refuses",
        packages=_JAX,
        breaks=_put("jax-cuda12-plugin==0.4.36", "jax-cuda12-pjrt==0.4.36"),
        cause=r"jax.*(works only with jax-cuda12-plugin|doesn't use its plugin)",
        also=("jax.*plugin",),
        check=_IMPORTS_JAX,
    ),
    Situation(
        name="jaxlib older than jax needs",
        packages=_JAX,
        breaks=_put("jaxlib==0.4.36"),
        cause=r"jax 0.5.3 requires jaxlib",
        check=_IMPORTS_JAX,
    ),
    Situation(
        name="ml-dtypes older than jax needs",
        packages=_JAX,
        breaks=_put("ml-dtypes==0.2.0"),
        cause=r"(jax|jaxlib) .*ml.dtypes",
        check=_IMPORTS_JAX,
    ),
    Situation(
        name="numpy older than jaxlib needs",
        packages=("jax==0.10.2", "jaxlib==0.10.2"),
        breaks=_put("numpy==1.26.4"),
        cause=r"(jax|jaxlib) .*numpy",
        also=("numpy",),
        check=_IMPORTS_JAX,
    ),
    Situation(
        name="folder of pip install --target, a file deleted",
        breaks=_target_folder,
        cause=r"damaged-installation: llvmlite 0.43.0 is damaged: ffi.py isn't there",
        check="true",
        is_unknown=True,
    ),
    Situation(
        name="site-packages copied without bin, a file deleted",
        packages=_NUMBA,
        breaks=_copy_without_programs,
        cause=r"damaged-installation: llvmlite 0.43.0 is damaged: ffi.py isn't there",
        check="true",
        is_unknown=True,
    ),
    Situation(
        name="cupy for CUDA 12 over cupy for CUDA 13",
        packages=_CUPY,
        breaks=_put("cupy-cuda12x==14.2.0"),
        cause=r"shared-files: cupy-cuda12x 14.2.0 and cupy-cuda13x 14.2.0",
        also=("cupy-cuda12x",),
        check=_IMPORTS_CUPY,
    ),
    Situation(
        name="cupy named by its module",
        packages=_CUPY,
        breaks=_name("cupy"),
        cause="",
        check=_IMPORTS_CUPY,
    ),
    Situation(
        name="wheels of NVIDIA for two CUDA releases",
        packages=_CUPY,
        breaks=_put("nvidia-cuda-runtime-cu12==12.9.79"),
        cause=r"mixed-cuda: the NVIDIA wheels are for CUDA 12 and 13",
        check=_IMPORTS_CUPY,
    ),
    Situation(
        name="onnxruntime over onnxruntime-gpu",
        packages=("onnxruntime-gpu==1.31.1",),
        breaks=_put("onnxruntime==1.30.0"),
        cause=r"shared-files: onnxruntime 1.30.0 and onnxruntime-gpu 1.31.1",
        also=(r"onnxruntime-gpu 1.31.1 (doesn't|may not) find",),
        check="true",
        is_costly=True,
    ),
    Situation(
        name="two packages of opencv",
        packages=("opencv-python==5.0.0.93",),
        breaks=_put("opencv-python-headless==5.0.0.93"),
        cause=r"shared-files: opencv-python 5.0.0.93 and opencv-python-headless 5.0.0.93",
        check="python -c 'import cv2'",
    ),
    Situation(
        name="opencv, its extension deleted, named",
        packages=("opencv-python-headless==5.0.0.93",),
        breaks=_lose_extension_of_opencv,
        cause=r"damaged-installation: opencv-python-headless 5.0.0.93 is damaged",
        check="python -c 'import cv2'",
    ),
    Situation(
        name="opencv with an older numpy, named",
        packages=("opencv-python-headless==5.0.0.93", "numpy==2.0.2"),
        breaks=_older_numpy_for_opencv,
        cause=r"(opencv-python-headless 5.0.0.93 requires numpy|numpy-abi-mismatch: opencv)",
        also=("opencv",),
        check="python -c 'import cv2'",
    ),
    Situation(
        name="TensorRT without its libraries",
        packages=("numpy==2.0.2",),
        breaks=_put("tensorrt-cu13-bindings==11.4.0.106"),
        cause=r"tensorrt-cu13-bindings.*libnvinfer",
        words="install tensorrt-cu13-libs",
        check="true",
        is_unknown=True,
    ),
    Situation(
        name="prefix like conda's, numba with a newer numpy",
        packages=_NUMBA,
        breaks=_like_conda,
        cause=_NEWER_NUMPY,
        check=_IMPORTS_NUMBA,
        has_pip=True,
    ),
    Situation(
        name="folder with space and accent, C locale, numba with a newer numpy",
        packages=_NUMBA,
        breaks=_in_ascii_locale,
        cause=_NEWER_NUMPY,
        check=_IMPORTS_NUMBA,
        folder="mon env \N{LATIN SMALL LETTER E WITH ACUTE}",
        has_pip=True,
    ),
    Situation(
        name="PyTorch without a library",
        packages=_TORCH,
        breaks=_lose_library,
        cause=r"damaged-installation: torch 2.13.0\+cpu is damaged: libtorch_python.so isn't there",
        check=_IMPORTS_TORCH,
        is_unknown=True,
    ),
    Situation(
        name="PyTorch with half a library",
        packages=_TORCH,
        breaks=_truncate_library,
        cause=r"damaged-installation: torch 2.13.0\+cpu is damaged: libtorch_cpu.so has",
        check=_IMPORTS_TORCH,
        is_unknown=True,
    ),
    Situation(
        name="torch.py in the working folder",
        packages=_TORCH,
        breaks=_script_of_that_name,
        cause=r"shadowed-module: \S+/work/torch.py hides torch",
        check=_IMPORTS_TORCH,
        words="rename",
        repair=_rename_script,
    ),
    Situation(
        name="typing-extensions older than PyTorch needs",
        packages=_TORCH,
        breaks=_put("typing-extensions==4.5.0"),
        cause=r"torch 2.13.0\+cpu requires typing.extensions",
        check=_IMPORTS_TORCH,
    ),
    Situation(
        name="dependencies of PyTorch removed",
        packages=_TORCH,
        breaks=_uninstall("sympy", "networkx"),
        cause=r"torch 2.13.0\+cpu lacks 2|torch 2.13.0\+cpu requires (sympy|networkx)",
        check="python -c 'import torch, sympy, networkx'",
    ),
    Situation(
        name="torchvision for CUDA with PyTorch for the CPU",
        packages=(*_TORCH, "pillow"),
        breaks=_put("torchvision==0.27.0"),
        cause=r"(built-without-cuda|torch-abi-mismatch|torchvision-mismatch): torchvision 0.27.0",
        also=("torchvision",),
        check="true",
        is_costly=True,
    ),
)
