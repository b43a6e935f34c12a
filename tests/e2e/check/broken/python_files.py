"""Modules, startup files and metadata that keep a package from being imported."""

from __future__ import annotations

import shutil
import zipfile
from functools import partial

from tests.support.check.situations import Broken, Situation

_NUMBA = ("numba==0.60.0", "numpy==2.0.2")
_CUPY = ("cupy-cuda13x==14.2.0", "nvidia-cuda-runtime==13.0.96")
_IMPORTS_NUMBA = "python -c 'import numba'"
_IMPORTS_CUPY = "python -c 'import cupy'"


def _write_in_work(name: str, content: str, broken: Broken) -> None:
    broken.replace(broken.start / name, content)


def _rename_in_work(name: str, broken: Broken) -> None:
    (broken.start / name).rename(broken.start / f"my_{name}")


def _write(name: str, content: str, broken: Broken) -> None:
    broken.replace(broken.site / name, content)


def _remove(name: str, broken: Broken) -> None:
    broken.delete(name)


def _put_on_path(files: dict[str, str], broken: Broken) -> None:
    broken.environ["PYTHONPATH"] = str(broken.user_folder("tools", files))


def _insert_other_numpy(broken: Broken) -> None:
    old = broken.unpack("others", "numpy==2.3.5")
    broken.replace(broken.site / "team.pth", f"import sys; sys.path.insert(0, {str(old)!r})\n")


def _path_of_other_python(broken: Broken) -> None:
    folder = broken.unpack("py312", "--python-version", "3.12", "--no-deps", "numpy==2.0.2")
    broken.environ["PYTHONPATH"] = str(folder)


def _archive_on_path(broken: Broken) -> None:
    archive = broken.folder / "tools.zip"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("numpy/__init__.py", "__version__ = '0.1'\n")
    broken.environ["PYTHONPATH"] = str(archive)


def _leak_users_site(broken: Broken) -> None:
    config = broken.root / "pyvenv.cfg"
    text = config.read_text().replace("packages = false", "packages = true")
    broken.replace(config, text)
    broken.uv("pip", "uninstall", "-q", "--python", broken.python, "numpy")
    base = broken.folder / "userbase"
    broken.install("--target", base / "lib" / "python3.11" / "site-packages", "numpy==2.3.5")
    broken.environ["PYTHONUSERBASE"] = str(base)


def _lose_record(broken: Broken) -> None:
    broken.delete("numpy-*.dist-info/RECORD")
    broken.delete("numpy/linalg/__init__.py")


def _install_again(broken: Broken) -> None:
    broken.delete("numpy-*.dist-info")
    broken.install("numpy==2.0.2")


def _duplicate_metadata(broken: Broken) -> None:
    old = broken.unpack("older", "numpy==1.26.4")
    shutil.copytree(old / "numpy-1.26.4.dist-info", broken.site / "numpy-1.26.4.dist-info")


def _interrupt_pip(broken: Broken) -> None:
    for path in (broken.site / "numpy", broken.find("numpy-*.dist-info")):
        path.rename(path.with_name(f"~{path.name[1:]}"))


SITUATIONS = (
    Situation(
        name="file of a dependency deleted",
        packages=_NUMBA,
        breaks=partial(_remove, "llvmlite/binding/ffi.py"),
        cause=r"damaged-installation: llvmlite 0.43.0 is damaged: ffi.py isn't there",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="file of the package deleted",
        packages=_NUMBA,
        breaks=partial(_remove, "numba/core/types/__init__.py"),
        cause=r"damaged-installation: numba 0.60.0 is damaged",
        check=_IMPORTS_NUMBA,
        has_pip=True,
    ),
    Situation(
        name="numpy.py in the working folder",
        packages=_NUMBA,
        breaks=partial(_write_in_work, "numpy.py", "x = 1\n"),
        cause=r"shadowed-module: \S+/work/numpy.py hides numpy",
        check=_IMPORTS_NUMBA,
        words="rename",
        repair=partial(_rename_in_work, "numpy.py"),
    ),
    Situation(
        name="cupy.py in the working folder",
        packages=_CUPY,
        breaks=partial(_write_in_work, "cupy.py", "import cupy\ncupy.zeros(3)\n"),
        cause=r"shadowed-module: \S+/work/cupy.py hides cupy",
        check=_IMPORTS_CUPY,
        words="rename",
        repair=partial(_rename_in_work, "cupy.py"),
    ),
    Situation(
        name="random.py in the working folder",
        packages=_NUMBA,
        breaks=partial(_write_in_work, "random.py", "x = 1\n"),
        cause=r"shadowed-module: \S+/work/random.py hides",
        check=_IMPORTS_NUMBA,
        words="rename",
        repair=partial(_rename_in_work, "random.py"),
    ),
    Situation(
        name="random.py on PYTHONPATH",
        packages=_NUMBA,
        breaks=partial(_put_on_path, {"random.py": "x = 1\n"}),
        cause=r"(shadowed-module|diagnose-variable): .*/tools/random.py",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name=".pth that raises",
        packages=_NUMBA,
        breaks=partial(_write, "bad.pth", "import nonexistent_module\n"),
        cause=r"startup-file: .*bad.pth.*No module named 'nonexistent_module'",
        check=_IMPORTS_NUMBA,
        words="remove",
        repair=partial(_remove, "bad.pth"),
    ),
    Situation(
        name=".pth that puts a folder with another numpy first",
        packages=_NUMBA,
        breaks=_insert_other_numpy,
        cause=r"numpy.*(hides|twice|comes before)",
        also=(r"diagnose-versions: numba 0.60.0 requires numpy",),
        check=_IMPORTS_NUMBA,
        words=r"remove|\.pth",
        repair=partial(_remove, "team.pth"),
    ),
    Situation(
        name="sitecustomize that raises",
        packages=_NUMBA,
        breaks=partial(_write, "sitecustomize.py", "raise ValueError('company policy')\n"),
        cause=r"startup-file: .*sitecustomize.*company policy",
        check=_IMPORTS_NUMBA,
        words="correct or remove",
        repair=partial(_remove, "sitecustomize.py"),
    ),
    Situation(
        name="sitecustomize that ends Python",
        packages=_NUMBA,
        breaks=partial(_write, "sitecustomize.py", "import os\nos._exit(3)\n"),
        cause=r"sitecustomize",
        check=_IMPORTS_NUMBA,
        words="sitecustomize",
        repair=partial(_remove, "sitecustomize.py"),
    ),
    Situation(
        name="nvidia.py in site-packages",
        packages=_CUPY,
        breaks=partial(_write, "nvidia.py", "x = 1\n"),
        cause=r"shadowed-module: \S+/nvidia.py hides nvidia-cuda-runtime",
        check="python -c 'import cupy, nvidia.cu13'",
        words="rename",
        repair=partial(_remove, "nvidia.py"),
    ),
    Situation(
        name="nvidia/__init__.py on PYTHONPATH",
        packages=_CUPY,
        breaks=partial(_put_on_path, {"nvidia/__init__.py": ""}),
        cause=r"shadowed-module: \S+/tools/nvidia/__init__.py hides nvidia-cuda-runtime",
        check="python -c 'import cupy, nvidia.cu13'",
    ),
    Situation(
        name="PYTHONPATH to the packages of another Python",
        packages=_NUMBA,
        breaks=_path_of_other_python,
        cause=r"numpy.*(hides|another Python|twice|comes before)",
        also=("numpy.*(another Python|twice)",),
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="archive on PYTHONPATH",
        packages=_NUMBA,
        breaks=_archive_on_path,
        cause=r"shadowed-module: \S+/tools.zip.* hides numpy",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="numpy of the user's own folder",
        packages=_NUMBA,
        breaks=_leak_users_site,
        cause=r"diagnose-versions: numba 0.60.0 requires numpy<2.1",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="folder of a package deleted, metadata left",
        packages=_NUMBA,
        breaks=partial(_remove, "numpy"),
        cause=r"damaged-installation: numpy 2.0.2 is damaged",
        check=_IMPORTS_NUMBA,
    ),
    Situation(
        name="metadata of a dependency deleted, its files left",
        packages=_NUMBA,
        breaks=partial(_remove, "llvmlite-*.dist-info"),
        cause=r"numba 0.60.0 requires llvmlite",
        check="python -c 'import numba, importlib.metadata as m; m.version(\"llvmlite\")'",
    ),
    Situation(
        name="RECORD and a file deleted",
        packages=_NUMBA,
        breaks=_lose_record,
        cause=r"damaged-installation: numpy.*RECORD",
        check="python -c 'import numba, numpy.linalg'",
        has_pip=True,
    ),
    Situation(
        name="METADATA deleted",
        packages=_NUMBA,
        breaks=partial(_remove, "numpy-*.dist-info/METADATA"),
        cause=r"damaged-installation: numpy-2.0.2.dist-info can't be read",
        also=("numba 0.60.0 requires numpy",),
        check="python -c 'import numba, importlib.metadata as m; m.version(\"numpy\")'",
        words="remove that folder and install",
        repair=_install_again,
    ),
    Situation(
        name="metadata of two releases",
        packages=_NUMBA,
        breaks=_duplicate_metadata,
        cause=r"numpy.*(twice|two)",
        check="test $(ls -d {site}/numpy-*.dist-info | wc -l) = 1 && python -c 'import numba'",
        words="remove",
        repair=partial(_remove, "numpy-1.26.4.dist-info"),
    ),
    Situation(
        name="pip interrupted while it removed a package",
        packages=_NUMBA,
        breaks=_interrupt_pip,
        cause=r"damaged-installation: an interrupted pip left",
        also=("numba 0.60.0 requires numpy",),
        check=_IMPORTS_NUMBA,
        has_pip=True,
    ),
)
