"""Which library the loader finds from which, by RPATH and RUNPATH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.planted import CU13, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from pathlib import Path


_LIBS = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../pkg.libs"


def make_chain(folder: Path, flag: str) -> dict[str, Path | bytes]:
    """A module that needs a library that needs a library that needs a last one."""
    names = ("liblast.so", "libthird.so", "libsecond.so")
    files: dict[str, Path | bytes] = {}
    for name, needed in zip(names, ((), names[:1], names[1:2]), strict=True):
        made = make_library(folder / name[:-3], *needed, flags=(f"-Wl,-soname,{name}",))
        files[f"pkg.libs/{name}"] = made
    files["pkg/ext.so"] = make_library(folder / "ext", "libsecond.so", flags=(flag,))
    return files


def test_lets_rpath_serve_whole_chain(tmp_path: Path) -> None:
    assert told(judged(tmp_path, make_chain(tmp_path, _LIBS))) == []


def test_does_not_let_runpath_serve_chain(tmp_path: Path) -> None:
    runpath = _LIBS.replace("disable", "enable")

    found = told(judged(tmp_path, make_chain(tmp_path, runpath)))

    fact = "libthird.so is in the wheel and no rpath entry leads to it"
    assert f"warning: pkg.libs/libsecond.so: needed library: {fact}" in found


def test_judges_part_of_wheel_mildly(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/libpart.so": make_library(tmp_path / "part", "libcufft.so.12", flags=(CU13,)),
        "pkg/libmain.so": make_library(tmp_path / "main"),
    }

    fact = "libcufft.so.12 comes from nvidia-cufft, which isn't in Requires-Dist"
    assert told(judged(tmp_path, files)) == [f"warning: pkg/libpart.so: needed library: {fact}"]


def test_judges_whole_wheel_hard_beside_program(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/libmain.so": make_library(tmp_path / "main", "libcufft.so.12", flags=(CU13,)),
        "pkg/bin/tool": make_library(tmp_path / "tool"),
    }

    assert judged(tmp_path, files).verdict == "error"


def test_lets_parents_rpath_serve_its_children(tmp_path: Path) -> None:
    inner = make_library(tmp_path / "inner", flags=("-Wl,-soname,libinner.so",))
    middle = make_library(tmp_path / "middle", "libinner.so", flags=("-Wl,-soname,libmiddle.so",))
    flags = ("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../pkg.libs")
    outer = make_library(tmp_path / "outer", "libmiddle.so", flags=flags)
    files: dict[str, Path | bytes] = {
        "pkg/ext.so": outer,
        "pkg.libs/libmiddle.so": middle,
        "pkg.libs/libinner.so": inner,
    }

    assert told(judged(tmp_path, files)) == []


def test_does_not_let_runpath_serve_children(tmp_path: Path) -> None:
    inner = make_library(tmp_path / "inner", flags=("-Wl,-soname,libinner.so",))
    middle = make_library(tmp_path / "middle", "libinner.so", flags=("-Wl,-soname,libmiddle.so",))
    flags = ("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/../pkg.libs")
    outer = make_library(tmp_path / "outer", "libmiddle.so", flags=flags)
    files: dict[str, Path | bytes] = {
        "pkg/ext.so": outer,
        "pkg.libs/libmiddle.so": middle,
        "pkg.libs/libinner.so": inner,
    }

    (finding,) = told(judged(tmp_path, files))

    assert "libinner.so is in the wheel and no rpath entry leads to it" in finding
