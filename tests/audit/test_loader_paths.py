"""Which library the loader finds from which, by RPATH and RUNPATH."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.planted import CU13, judged, make_library, told

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

    fact = "libthird.so is in the wheel, but no rpath entry points to it"
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

    assert "libinner.so is in the wheel, but no rpath entry points to it" in finding


_MODULE = "pkg/sub/ext.abi3.so"
_INIT = "void *PyInit_ext(void) { return 0; }\n"


def make_module(
    folder: Path, entry: str, soname: str = "libown.so.1", file: str = "libown.so.1"
) -> dict[str, Path | bytes]:
    """An extension module that needs a library of its own wheel."""
    flags = (f"-Wl,-rpath,{entry}",)
    own = make_library(folder / "own", flags=(f"-Wl,-soname,{soname}",))
    return {
        _MODULE: make_library(folder / "ext", soname, flags=flags, code=_INIT),
        f"pkg.libs/{file}": own,
    }


def test_finds_entry_with_one_level_too_few(tmp_path: Path) -> None:
    found = told(judged(tmp_path, make_module(tmp_path, "$ORIGIN/../pkg.libs")))

    fact = "libown.so.1 is in the wheel, but no rpath entry points to it"
    assert f"error: {_MODULE}: needed library: {fact}" in found


def test_finds_lost_link_of_soname(tmp_path: Path) -> None:
    files = make_module(tmp_path, "$ORIGIN/../../pkg.libs", file="libown.so.1.2.3")

    found = told(judged(tmp_path, files))

    fact = "libown.so.1 is in the wheel only as libown.so.1.2.3, a name that the loader doesn't"
    assert found == [f"error: {_MODULE}: needed library: {fact} search for"]


@pytest.mark.parametrize(
    "loader",
    [b"ctypes.CDLL(path)", b"torch.ops.load_library(path)", b"os.environ['LD_LIBRARY_PATH']"],
)
def test_judges_mildly_what_python_may_have_loaded(tmp_path: Path, loader: bytes) -> None:
    files = {**make_module(tmp_path, "$ORIGIN/../pkg.libs"), "pkg/__init__.py": loader}

    assert judged(tmp_path, files).verdict == "warning"


def test_judges_mildly_what_another_module_may_have_loaded(tmp_path: Path) -> None:
    flags = ("-Wl,-rpath,$ORIGIN/../pkg.libs",)
    code = "void *PyInit_first(void) { return 0; }\n"
    first = make_library(tmp_path / "first", "libown.so.1", flags=flags, code=code)
    files = {**make_module(tmp_path, "$ORIGIN/../pkg.libs"), "pkg/first.abi3.so": first}

    assert judged(tmp_path, files).verdict == "warning"


def test_finds_nothing_where_entry_leads_to_library(tmp_path: Path) -> None:
    assert told(judged(tmp_path, make_module(tmp_path, "$ORIGIN/../../pkg.libs"))) == []
