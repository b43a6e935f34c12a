"""Further kinds, labelled when the rules for the first ones were finished."""

from __future__ import annotations

import shutil
import sys
from functools import partial

from tests.support.check.situations import WITHOUT_RIGHTS, Broken, Situation

_NUMBA = ("numba==0.60.0", "numpy==2.0.2")
_JAX = ("jax==0.5.3", "jaxlib==0.5.3")
_IMPORTS_NUMBA = "python -c 'import numba'"
_PROJECT = """
from setuptools import setup
setup(name="mykernels", version="0.3", py_modules=["mykernels"], install_requires=["numba-cuda"])
"""


def _source_tree(broken: Broken) -> None:
    broken.replace(broken.start / "numba" / "__init__.py", "from ._version import version\n")


def _rename_tree(broken: Broken) -> None:
    (broken.start / "numba").rename(broken.start / "numba-source")


def _several_folders(broken: Broken) -> None:
    harmless = broken.user_folder("scripts", {"mine.py": "x = 1\n"})
    old = broken.unpack("frozen", "--no-deps", "numpy==2.3.5")
    broken.environ["PYTHONPATH"] = f"{harmless}:{old}"


def _set(name: str, value: str, broken: Broken) -> None:
    broken.environ[name] = value


def _zero(broken: Broken) -> None:
    path = broken.find("numpy/__init__.py")
    broken.replace(path, bytes(path.stat().st_size))


def _conflict(broken: Broken) -> None:
    path = broken.find("numba/core/config.py")
    broken.replace(path, f"<<<<<<< HEAD\n{path.read_text()}")


def _mix_releases(broken: Broken) -> None:
    other = broken.unpack("newer", "--no-deps", "numpy==2.3.5")
    for path in (other / "numpy" / "_core").glob("*.py"):
        broken.replace(broken.site / "numpy" / "_core" / path.name, path.read_bytes())


def _old_scipy(broken: Broken) -> None:
    broken.install("numpy==2.0.2")
    broken.put("scipy==1.11.4")


def _stub_of_libffi(broken: Broken) -> None:
    for number in (7, 8):
        name = f"libffi.so.{number}"
        broken.compile(broken.folder / "stubs" / name, "int stub;", f"-Wl,-soname,{name}")
    broken.environ["LD_LIBRARY_PATH"] = str(broken.folder / "stubs")


def _forbid_folder(broken: Broken) -> None:
    broken.find("numba/core").chmod(0)
    broken.prefix = WITHOUT_RIGHTS


def _allow_folder(broken: Broken) -> None:
    broken.find("numba/core").chmod(0o755)


def _lose_configuration(broken: Broken) -> None:
    (broken.root / "pyvenv.cfg").unlink()
    broken.words = ["numba"]


def _create_again(broken: Broken) -> None:
    shutil.rmtree(broken.root)
    broken.uv("venv", "-q", "--python", sys.executable, broken.root)
    broken.install(*_NUMBA)


def _other_python(broken: Broken) -> None:
    folder = broken.site.parent
    folder.rename(folder.with_name("python3.12"))
    broken.words = ["numba"]


def _put(package: str, broken: Broken) -> None:
    broken.put(package)


def _loop(broken: Broken) -> None:
    broken.delete("llvmlite/binding")
    (broken.site / "llvmlite" / "binding").symlink_to("binding")


def _needs_pkg_resources(broken: Broken) -> None:
    files = {"setup.py": _PROJECT, "mykernels.py": "import pkg_resources\n"}
    broken.put("--no-build-isolation", broken.user_folder("mykernels", files))
    broken.uv("pip", "uninstall", "-q", "--python", broken.python, "setuptools")


def _little_memory(broken: Broken) -> None:
    broken.prefix = ("prlimit", "--as=1500000000", "--")


SITUATIONS = (
    Situation(
        name="source tree of numba in the working folder",
        packages=_NUMBA,
        breaks=_source_tree,
        cause=r"shadowed-module: \S+/work/numba/__init__.py hides numba",
        check=_IMPORTS_NUMBA,
        words="rename",
        repair=_rename_tree,
    ),
    Situation(
        name="two folders on PYTHONPATH, one with another numpy",
        packages=_NUMBA,
        breaks=_several_folders,
        cause=r"frozen.* (comes before|in PYTHONPATH)|PYTHONPATH.*frozen",
        also=("numba 0.60.0 requires numpy<2.1", "numpy is installed twice"),
        check=f'test "${{PYTHONPATH%scripts}}" != "$PYTHONPATH" && {_IMPORTS_NUMBA}',
    ),
    Situation(
        name="JAX_ENABLE_X64 with an unknown value",
        packages=_JAX,
        breaks=partial(_set, "JAX_ENABLE_X64", "maybe"),
        cause=r"jax 0.5.3.*JAX_ENABLE_X64",
        check="python -c 'import jax.numpy'",
    ),
    Situation(
        name="PYTHONIOENCODING with an unknown encoding",
        packages=_NUMBA,
        breaks=partial(_set, "PYTHONIOENCODING", "utf-99"),
        cause=r"PYTHONIOENCODING",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="file of zero bytes after a power failure",
        packages=_NUMBA,
        breaks=_zero,
        cause=r"damaged-installation: numpy 2.0.2 is damaged: __init__.py",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="file with the marks of a merge",
        packages=_NUMBA,
        breaks=_conflict,
        cause=r"damaged-installation: numba 0.60.0 .*config.py",
        check=_IMPORTS_NUMBA,
        has_pip=True,
    ),
    Situation(
        name="files of two releases of numpy",
        packages=_NUMBA,
        breaks=_mix_releases,
        cause=r"damaged-installation: numpy 2.0.2 ",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="scipy of NumPy 1 under JAX",
        packages=(*_JAX, "scipy==1.15.3"),
        breaks=_old_scipy,
        cause=r"(numpy-abi-mismatch: scipy 1.11.4|scipy 1.11.4 requires numpy)",
        check="python -c 'import jax.scipy'",
    ),
    Situation(
        name="libffi of a stub on LD_LIBRARY_PATH",
        packages=_NUMBA,
        breaks=_stub_of_libffi,
        cause=r"LD_LIBRARY_PATH.*stubs|stubs.*LD_LIBRARY_PATH",
        also=(r"couldn't be examined: .* without LD_LIBRARY_PATH",),
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="folder that can't be read",
        packages=_NUMBA,
        breaks=_forbid_folder,
        cause=r"numba 0.60.0.*[Pp]ermission",
        check=_IMPORTS_NUMBA,
        words="permission|chmod|read",
        repair=_allow_folder,
    ),
    Situation(
        name="pyvenv.cfg deleted",
        packages=_NUMBA,
        breaks=_lose_configuration,
        cause=r"pyvenv.cfg",
        check=_IMPORTS_NUMBA,
        words="create the environment again",
        repair=_create_again,
    ),
    Situation(
        name="environment of another Python release",
        packages=_NUMBA,
        breaks=_other_python,
        cause=r"python3.12",
        also=("numba isn't installed",),
        check=_IMPORTS_NUMBA,
        words="create the environment again|Python 3.12",
        repair=_create_again,
    ),
    Situation(
        name="coverage that numba doesn't expect",
        packages=_NUMBA,
        breaks=partial(_put, "coverage==4.5.4"),
        cause="",  # the label before the first run was an import error, but numba bears it
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="folder that is a link to itself",
        packages=_NUMBA,
        breaks=_loop,
        cause=r"damaged-installation: llvmlite 0.43.0 is damaged",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="undeclared use of pkg_resources",
        packages=("numba-cuda==0.30.4", "setuptools==80.9.0", "wheel"),
        breaks=_needs_pkg_resources,
        cause=r"import-failed: mykernels 0.3 can't be imported: .*No module named 'pkg_resources'",
        check="true",
        is_unknown=True,
    ),
    Situation(
        name="limit of memory below what PyTorch maps",
        packages=("torch==2.13.0+cpu", "numpy==2.0.2"),
        breaks=_little_memory,
        cause="",  # the label was the limit, but 1.5 GB are enough for the import
        check="python -c 'import torch'",
    ),
)
