"""Libraries of a wheel that was unpacked beside an environment, and what they find there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cuwheel.perf.unpacked import link_neighbours
from cuwheel.system import process
from tests.support.factories import compile_library

OWN = "int found(void);\nint ask(void) { return found(); }\n"
RPATH = "-Wl,-rpath,$ORIGIN/../nvidia/cu13/lib:$ORIGIN:/usr/lib/unpacked"
# In another folder, as cuTensor's library is beside cuTensorNet's.
DEEP = "-Wl,-rpath,$ORIGIN/../../../deep/lib"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment's packages: one library, which needs another."""
    folder = tmp_path / "site"
    (tmp_path / "deep.c").write_text("int deep(void) { return 7; }\n")
    (tmp_path / "found.c").write_text("int deep(void);\nint found(void) { return deep(); }\n")
    deep = compile_library(folder / "deep/lib/libdeep.so", "gcc", tmp_path / "deep.c", "-fPIC")
    compile_library(
        folder / "nvidia/cu13/lib/libfound.so",
        *("gcc", tmp_path / "found.c", "-fPIC", f"-L{deep.parent}", "-ldeep", DEEP),
    )
    (folder / "nvidia" / "__init__.py").touch()
    return folder


@pytest.fixture
def unpacked(tmp_path: Path, site: Path) -> Path:
    """A wheel's package, whose library looks for the environment's."""
    (tmp_path / "own.c").write_text(OWN)
    lib = site / "nvidia" / "cu13" / "lib"
    search = (f"-L{lib}", "-lfound", f"-Wl,-rpath-link,{site / 'deep' / 'lib'}", RPATH)
    compile_library(tmp_path / "new/own/libown.so", "gcc", tmp_path / "own.c", "-fPIC", *search)
    return tmp_path / "new"


@pytest.fixture
def python(tmp_path: Path, site: Path) -> Path:
    """An interpreter whose environment that is."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path


def load(folder: Path) -> str:
    """What the wheel's library answers in a process of its own."""
    code = f"import ctypes; print(ctypes.CDLL({str(folder / 'own' / 'libown.so')!r}).ask())"
    return process.run([sys.executable, "-c", code], env={}, check=False).output.strip()


def test_finds_libraries_of_the_environment(unpacked: Path, python: Path) -> None:
    before = load(unpacked)

    link_neighbours(unpacked, python)

    assert "libfound.so: cannot open shared object file" in before
    assert load(unpacked) == "7"


def test_links_libraries_alone(unpacked: Path, site: Path, python: Path) -> None:
    link_neighbours(unpacked, python)

    assert (unpacked / "nvidia/cu13/lib").readlink() == site / "nvidia/cu13/lib"
    assert sorted(path.name for path in unpacked.iterdir()) == ["nvidia", "own"]
    assert not (unpacked / "nvidia").is_symlink()
    assert not (unpacked / "nvidia" / "__init__.py").exists()


def test_environment_that_lacks_them(unpacked: Path) -> None:
    link_neighbours(unpacked, Path(sys.executable))

    assert [path.name for path in unpacked.iterdir()] == ["own"]


def test_wheel_without_libraries_asks_nobody(tmp_path: Path) -> None:
    (tmp_path / "module.py").touch()

    link_neighbours(tmp_path, tmp_path / "no-python")
