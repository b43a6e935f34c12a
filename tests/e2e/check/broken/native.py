"""Libraries, interpreters and rights that keep a package from being imported."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

from tests.support.check.situations import WITHOUT_RIGHTS, Broken, Situation

_NUMBA = ("numba==0.60.0", "numpy==2.0.2")
_CUPY = ("cupy-cuda13x==14.2.0",)
_IMPORTS_NUMBA = "python -c 'import numba'"
_IMPORTS_CUPY = "python -c 'import cupy'"
_STUB_OF_CUDA = """
int cuInit(unsigned flags) { return 34; }
int cuDriverGetVersion(int *to) { return 34; }
int cuDeviceGetCount(int *to) { return 34; }
"""
_SETUP = """
import numpy
from setuptools import Extension, setup
own = Extension("mykernels", ["mykernels.c"], include_dirs=[numpy.get_include()])
setup(name="mykernels", version="0.3", install_requires=["numpy"], ext_modules=[own])
"""
_EXTENSION = r"""
#include <Python.h>
#include <numpy/arrayobject.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "mykernels", 0, -1, 0};
PyMODINIT_FUNC PyInit_mykernels(void) { import_array(); return PyModule_Create(&module); }
"""
_PURE = """
from setuptools import setup
setup(name="mykernels", version="0.3", py_modules=["mykernels"], install_requires=["numba-cuda"])
"""


def _set(name: str, value: str, broken: Broken) -> None:
    broken.environ[name] = value


def _unset(name: str, broken: Broken) -> None:
    broken.environ.pop(name, None)


def _stub(name: str, code: str, broken: Broken) -> None:
    path = broken.folder / "stubs" / name
    broken.compile(path, code, f"-Wl,-soname,{name}")
    broken.environ["LD_LIBRARY_PATH"] = str(path.parent)


def _empty_driver(broken: Broken) -> None:
    path = broken.replace(broken.folder / "stubs" / "libcuda.so.1", b"")
    broken.environ["LD_LIBRARY_PATH"] = str(path.parent)


def _preload_lacking(broken: Broken) -> None:
    code = "int gone(void); int use(void) { return gone(); } int *p = (int *)gone;"
    library = broken.compile(broken.folder / "hooks" / "libhook.so", code)
    broken.environ["LD_PRELOAD"] = str(library)


def _for_other_machine(package: str, broken: Broken) -> None:
    platform = ("--python-platform", "aarch64-manylinux_2_28")
    broken.put("--reinstall", *platform, package)


def _for_other_python(package: str, broken: Broken) -> None:
    broken.put("--reinstall", "--python-version", "3.12", package)


def _put(package: str, broken: Broken) -> None:
    broken.put(package)


def _name_old_pandas(broken: Broken) -> None:
    broken.install("pandas==2.0.3", "numpy==2.0.2")
    broken.words = ["pandas"]


def _build_against_older_numpy(broken: Broken) -> None:
    files = {"setup.py": _SETUP, "mykernels.c": _EXTENSION}
    folder = broken.user_folder("mykernels", files)
    broken.install("--no-build-isolation", "-e", folder)
    broken.install("numpy==2.0.2")
    broken.words = ["mykernels"]


def _build_again(broken: Broken) -> None:
    shutil.rmtree(broken.folder / "mykernels" / "build", ignore_errors=True)
    for path in (broken.folder / "mykernels").glob("*.so"):
        path.unlink()
    broken.install("--no-build-isolation", "--reinstall", "-e", broken.folder / "mykernels")


def _lose_project(broken: Broken) -> None:
    files = {"setup.py": _PURE, "mykernels.py": "from numba import cuda\n"}
    folder = broken.user_folder("mykernels", files)
    broken.put("--no-build-isolation", "-e", folder)
    folder.rename(broken.folder / "elsewhere")


def _forbid_reading(broken: Broken) -> None:
    path = broken.find("numpy/_core/multiarray.py")
    broken.replace(path, path.read_bytes()).chmod(0)
    broken.prefix = WITHOUT_RIGHTS


def _forbid_running(broken: Broken) -> None:
    real = broken.python.resolve()
    for path in (broken.root / "bin").glob("python*"):
        path.unlink()
        shutil.copy(real, path)
        path.chmod(0o644)


def _allow_running(broken: Broken) -> None:
    for path in (broken.root / "bin").glob("python*"):
        path.chmod(0o755)


def _dangle(pattern: str, broken: Broken) -> None:
    path = broken.find(pattern)
    path.unlink()
    path.symlink_to(broken.folder / "gone" / path.name)


def _lose_python(broken: Broken) -> None:
    for path in (broken.root / "bin").glob("python*"):
        path.unlink()
        path.symlink_to("/opt/gone/bin/python3.11")


def _create_again(broken: Broken) -> None:
    broken.uv("venv", "-q", "--clear", "--python", sys.executable, broken.root)
    broken.install(*_NUMBA)


def _cannot_write_home(broken: Broken) -> None:
    home = Path(broken.environ["HOME"])
    home.chmod(0o555)
    broken.prefix = WITHOUT_RIGHTS


SITUATIONS = (
    Situation(
        name="libstdc++ of a stub on LD_LIBRARY_PATH",
        packages=_NUMBA,
        breaks=partial(_stub, "libstdc++.so.6", "int stub;"),
        also=(r"couldn't be examined: .* without LD_LIBRARY_PATH",),
        cause=r"glibcxx-too-old: .*stubs|glibcxx-too-old: numba .*(undefined symbol|not found)",
        check=_IMPORTS_NUMBA,
        words="LD_LIBRARY_PATH",
        repair=partial(_unset, "LD_LIBRARY_PATH"),
    ),
    Situation(
        name="libc10 of another PyTorch on LD_LIBRARY_PATH",
        packages=("torch==2.13.0+cpu", "numpy==2.0.2"),
        breaks=partial(_stub, "libc10.so", "int stub;"),
        cause=r"torch 2.13.0\+cpu.*(libc10|undefined symbol)",
        check="python -c 'import torch'",
        words="LD_LIBRARY_PATH",
        repair=partial(_unset, "LD_LIBRARY_PATH"),
    ),
    Situation(
        name="LD_PRELOAD of a missing file",
        packages=_NUMBA,
        breaks=partial(_set, "LD_PRELOAD", "/opt/gone/libjemalloc.so.2"),
        cause=r"LD_PRELOAD.*libjemalloc|libjemalloc.*LD_PRELOAD",
        check='test -z "$LD_PRELOAD" && python -c "import numba"',
    ),
    Situation(
        name="LD_PRELOAD of a library that lacks a symbol",
        packages=_NUMBA,
        breaks=_preload_lacking,
        cause=r"LD_PRELOAD.*libhook|libhook.*LD_PRELOAD|libhook.so: undefined symbol",
        check='test -z "$LD_PRELOAD" && python -c "import numba"',
        words="LD_PRELOAD",
        repair=partial(_unset, "LD_PRELOAD"),
    ),
    Situation(
        name="stub of libcuda on LD_LIBRARY_PATH",
        packages=_CUPY,
        breaks=partial(_stub, "libcuda.so.1", _STUB_OF_CUDA),
        cause=r"stub",
        check='test -z "$LD_LIBRARY_PATH" && python -c "import cupy"',
        words="LD_LIBRARY_PATH",
        repair=partial(_unset, "LD_LIBRARY_PATH"),
    ),
    Situation(
        name="empty libcuda on LD_LIBRARY_PATH",
        packages=_CUPY,
        breaks=_empty_driver,
        cause=r"libcuda.so.1.*(too short|empty)",
        check='test -z "$LD_LIBRARY_PATH" && python -c "import cupy"',
        words="LD_LIBRARY_PATH",
        repair=partial(_unset, "LD_LIBRARY_PATH"),
    ),
    Situation(
        name="numpy for aarch64",
        packages=_NUMBA,
        breaks=partial(_for_other_machine, "numpy==2.0.2"),
        cause=r"numpy 2.0.2 .*(aarch64|another (machine|architecture|processor))",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="llvmlite for aarch64",
        packages=_NUMBA,
        breaks=partial(_for_other_machine, "llvmlite==0.43.0"),
        cause=r"llvmlite 0.43.0 .*(aarch64|another (machine|architecture|processor))",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="numba for another Python",
        packages=_NUMBA,
        breaks=partial(_for_other_python, "numba==0.60.0"),
        cause=r"python-version-unsupported: numba 0.60.0 is built for another Python",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="numpy for another Python",
        packages=_NUMBA,
        breaks=partial(_for_other_python, "numpy==2.0.2"),
        cause=r"python-version-unsupported: numpy 2.0.2 is built for another Python",
        check=_IMPORTS_NUMBA,
        has_pip=True,
    ),
    Situation(
        name="pandas of NumPy 1, not named",
        packages=(*_NUMBA, "python-dateutil", "pytz", "tzdata"),
        breaks=partial(_put, "pandas==2.0.3"),
        cause=r"numpy-abi-mismatch: pandas 2.0.3",
        check="python -c 'import numba, pandas'",
    ),
    Situation(
        name="pandas of NumPy 1, named",
        packages=_NUMBA,
        breaks=_name_old_pandas,
        cause=r"numpy-abi-mismatch: pandas 2.0.3",
        check="python -c 'import pandas'",
    ),
    Situation(
        name="own extension of NumPy 1",
        packages=("numpy==1.26.4", "setuptools==80.9.0", "wheel"),
        breaks=_build_against_older_numpy,
        cause=r"numpy-abi-mismatch: mykernels 0.3",
        check="python -c 'import mykernels'",
        words="build|install it again",
        repair=_build_again,
    ),
    Situation(
        name="folder of an editable project moved",
        packages=("numba-cuda==0.30.4", "setuptools==80.9.0", "wheel"),
        breaks=_lose_project,
        cause=r"mykernels 0.3.*(folder|source).*(gone|isn't there|doesn't exist)",
        check="python -c 'import mykernels'",
        is_unknown=True,
    ),
    Situation(
        name="file that can't be read",
        packages=_NUMBA,
        breaks=_forbid_reading,
        cause=r"numpy 2.0.2 is damaged: multiarray.py can't be read: Permission denied",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="interpreter that can't be executed",
        packages=_NUMBA,
        breaks=_forbid_running,
        cause=r"python-not-found: .*execut",
        check=_IMPORTS_NUMBA,
        words="chmod",
        repair=_allow_running,
    ),
    Situation(
        name="library that is a dangling link",
        packages=_NUMBA,
        breaks=partial(_dangle, "llvmlite/binding/libllvmlite.so"),
        cause=r"damaged-installation: llvmlite 0.43.0 is damaged: libllvmlite.so isn't there",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="Python of the environment removed",
        packages=_NUMBA,
        breaks=_lose_python,
        cause=r"python-not-found: .*/opt/gone/bin/python3.11, which no longer exists",
        check=_IMPORTS_NUMBA,
        words="create the environment again",
        repair=_create_again,
    ),
    Situation(
        name="PYTHONHOME of a removed Python",
        packages=_NUMBA,
        breaks=partial(_set, "PYTHONHOME", "/opt/gone"),
        cause=r"PYTHONHOME",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="home that can't be written",
        packages=_CUPY,
        breaks=_cannot_write_home,
        cause=r"permission-denied: cupy-cuda13x can't write \S+/home/.cupy/kernel_cache",
        check=_IMPORTS_CUPY,
        words="CUPY_CACHE_DIR",
        repair=partial(_set, "CUPY_CACHE_DIR", "/tmp/cupy-cache"),
    ),
)
