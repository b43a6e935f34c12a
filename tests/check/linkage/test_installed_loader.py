"""Where the loader finds the libraries that an installed one needs: as the real one does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.system import process
from cuwheel.check.linkage.installed_loader import FoundLibrary, InstalledLoader
from cuwheel.check.linkage.loader_graph import LoaderGraph
from tests.support.packages.defective_wheels import make_library

_RPATH = "-Wl,--disable-new-dtags,-rpath,"
_RUNPATH = "-Wl,--enable-new-dtags,-rpath,"
_DEEP = "$ORIGIN/deep"


def build_package(folder: Path, module: str, inner: str, *needs: str) -> LoaderGraph:
    """A module that needs libinner.so, which needs deep/libdeep.so, each with these flags."""
    (folder / "deep").mkdir()
    elves = {}
    for name, rpath, wanted in (
        ("module", module, (*needs, "libinner.so")),
        ("inner", inner, ("libdeep.so",)),
        ("deep/deep", "", ()),
    ):
        soname = f"lib{Path(name).name}.so"
        flags = (f"-Wl,-soname,{soname}", *filter(None, [rpath]))
        made = make_library(folder / "made" / name, *wanted, flags=flags)
        path = (folder / name).with_name(soname)
        made.rename(path)
        with path.open("rb") as stream:
            elves[str(path)] = read_elf(stream)
    return LoaderGraph(elves=elves)


def find(folder: Path, package: LoaderGraph, library_path: str = "") -> FoundLibrary | None:
    loader = InstalledLoader(library_path=library_path, owners={}, preloaded={}, cache={})
    return loader.find(str(folder / "libinner.so"), "libdeep.so", package, ())


def is_loaded(folder: Path, library_path: str = "") -> bool:
    """Load the module in a process of its own, started in the folder of libdeep.so."""
    environ = {"PATH": os.defpath, "LD_LIBRARY_PATH": library_path}
    program = f"import ctypes; ctypes.CDLL({str(folder / 'libmodule.so')!r})"
    argv = [sys.executable, "-c", program]
    return process.run(argv, env=environ, cwd=folder / "deep", check=False).status == 0


@pytest.mark.parametrize(
    ("module", "inner", "needs", "is_found"),
    [
        (f"{_RPATH}$ORIGIN", f"{_RPATH}{_DEEP}", (), True),
        (f"{_RPATH}$ORIGIN", f"{_RUNPATH}{_DEEP}", (), True),
        (f"{_RPATH}$ORIGIN", f"{_RUNPATH}$ORIGIN/gone", (), False),
        (f"{_RPATH}$ORIGIN:{_DEEP}", "", (), True),
        (f"{_RUNPATH}$ORIGIN:{_DEEP}", "", (), False),
        (f"{_RPATH}$ORIGIN:{_DEEP}", f"{_RUNPATH}$ORIGIN", (), False),
        (f"{_RUNPATH}$ORIGIN:{_DEEP}", "", ("libdeep.so",), True),
        (f"{_RPATH}$ORIGIN", f"{_RPATH}deep", (), False),
        (f"{_RPATH}$ORIGIN", f"{_RUNPATH}{{}}/deep", (), True),
    ],
    ids=[
        *("own RPATH", "own RUNPATH", "RUNPATH to nowhere", "RPATH of the module"),
        *("RUNPATH of the module", "RUNPATH hides RPATH", "loaded before"),
        *("relative to the start", "absolute"),
    ],
)
def test_finds_what_the_loader_finds(
    tmp_path: Path, module: str, inner: str, needs: tuple[str, ...], *, is_found: bool
) -> None:
    package = build_package(tmp_path, module, inner.replace("{}", str(tmp_path)), *needs)

    found = find(tmp_path, package)

    assert is_loaded(tmp_path) is is_found
    assert (found and found.path) == (tmp_path / "deep" / "libdeep.so" if is_found else None)


@pytest.mark.parametrize(("entry", "is_found"), [("{}/deep", True), ("", False)])
def test_searches_library_path(tmp_path: Path, entry: str, *, is_found: bool) -> None:
    package = build_package(tmp_path, f"{_RPATH}$ORIGIN", "")
    library_path = entry.format(tmp_path)

    found = find(tmp_path, package, library_path)

    assert is_loaded(tmp_path, library_path) is (found is not None) is is_found


@pytest.mark.parametrize(("imports", "condition"), [((), ""), (("torch",), "torch")])
def test_takes_loaded_library_before_any_other(
    tmp_path: Path, imports: tuple[str, ...], condition: str
) -> None:
    package = build_package(tmp_path, "", f"{_RPATH}{_DEEP}")
    loaded = {"libdeep.so": (Path("/torch/libdeep.so"), "torch")}
    loader = InstalledLoader(owners={}, preloaded=loaded, cache={})

    found = loader.find(str(tmp_path / "libinner.so"), "libdeep.so", package, imports)

    assert found
    assert found.condition == condition
