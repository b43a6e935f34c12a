"""A third set, labelled when the rules for the first two were finished, and run once."""

from __future__ import annotations

from functools import partial

from tests.support.check.situations import Broken, Situation

_NUMBA = ("numba==0.60.0", "numpy==2.0.2")
_IMPORTS_NUMBA = "python -c 'import numba'"


def _jaxlib_for_other_python(broken: Broken) -> None:
    broken.put("--reinstall", "--python-version", "3.12", "jaxlib==0.5.3")


def _truncate(pattern: str, broken: Broken) -> None:
    path = broken.find(pattern)
    content = path.read_bytes()
    broken.replace(path, content[: len(content) // 3])


def _uninstall_numpy(broken: Broken) -> None:
    broken.uv("pip", "uninstall", "-q", "--python", broken.python, "numpy")


def _second_folder(broken: Broken) -> None:
    harmless = broken.user_folder("harmless", {"notes.txt": ""})
    stub = broken.compile(broken.folder / "old" / "libc10.so", "int x;", "-Wl,-soname,libc10.so")
    broken.environ["LD_LIBRARY_PATH"] = f"{harmless}:{stub.parent}"


def _lose_part_of_onnxruntime(broken: Broken) -> None:
    broken.delete("onnxruntime/capi/_pybind_state.py")
    broken.words = ["onnxruntime"]


def _typing_in_work(broken: Broken) -> None:
    broken.replace(broken.start / "dataclasses.py", "x = 1\n")


def _rename(broken: Broken) -> None:
    (broken.start / "dataclasses.py").rename(broken.start / "mine.py")


def _empty_metadata(broken: Broken) -> None:
    broken.replace(broken.find("llvmlite-*.dist-info/METADATA"), b"")


def _move_away(broken: Broken) -> None:
    (broken.site / "numpy").rename(broken.site / "numpy_backup")
    (broken.site / "numpy").mkdir()


SITUATIONS = (
    Situation(
        name="jaxlib for another Python",
        packages=("jax==0.5.3", "jaxlib==0.5.3"),
        breaks=_jaxlib_for_other_python,
        cause=r"python-version-unsupported: jaxlib 0.5.3 is built for another Python",
        check="python -c 'import jax.numpy'",
    ),
    Situation(
        name="extension of numba cut short",
        packages=_NUMBA,
        breaks=partial(_truncate, "numba/_helperlib*.so"),
        cause=r"damaged-installation: .*numba 0.60.0",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="CuPy without numpy",
        packages=("cupy-cuda13x==14.2.0",),
        breaks=_uninstall_numpy,
        cause=r"cupy-cuda13x 14.2.0 requires numpy",
        check="python -c 'import cupy'",
    ),
    Situation(
        name="two folders on LD_LIBRARY_PATH, one with another libc10",
        packages=("torch==2.13.0+cpu", "numpy==2.0.2"),
        breaks=_second_folder,
        cause=r"torch 2.13.0\+cpu .*/old in LD_LIBRARY_PATH",
        check='case "$LD_LIBRARY_PATH" in *harmless) python -c "import torch";; *) exit 1;; esac',
    ),
    Situation(
        name="onnxruntime without a module",
        packages=("onnxruntime==1.30.0",),
        breaks=_lose_part_of_onnxruntime,
        cause=r"damaged-installation: onnxruntime 1.30.0 is damaged: _pybind_state.py",
        check="python -c 'import onnxruntime'",
        has_pip=True,
    ),
    Situation(
        name="dataclasses.py in the working folder",
        packages=_NUMBA,
        breaks=_typing_in_work,
        cause=r"shadowed-module: \S+/work/dataclasses.py hides Python's own module",
        check=_IMPORTS_NUMBA,
        words="rename",
        repair=_rename,
    ),
    Situation(
        name="empty METADATA",
        packages=_NUMBA,
        breaks=_empty_metadata,
        cause=r"damaged-installation: llvmlite-0.43.0.dist-info can't be read",
        check="python -c 'import numba, importlib.metadata as m; m.version(\"llvmlite\")'",
        has_pip=True,
    ),
    Situation(
        name="empty folder in place of numpy",
        packages=_NUMBA,
        breaks=_move_away,
        cause=r"damaged-installation: numpy 2.0.2 is damaged",
        check=_IMPORTS_NUMBA,
    ),
)
