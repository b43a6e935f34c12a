"""The search of the loader from library to library, by RPATH and RUNPATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packages.defective_wheels import CU13, audited, files_breaches, make_library

_RPATH = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../pkg.libs"
_RUNPATH = _RPATH.replace("disable", "enable")
_MODULE = "pkg/sub/ext.abi3.so"
_INIT = "void *PyInit_ext(void) { return 0; }\n"


def make_chain(folder: Path, flag: str, length: int) -> dict[str, Path | bytes]:
    """A module with an rpath, and a chain of libraries without one."""
    names = [f"lib{number}.so" for number in range(length)]
    files: dict[str, Path | bytes] = {
        f"pkg.libs/{name}": make_library(
            folder / name[:-3], *names[index + 1 : index + 2], flags=(f"-Wl,-soname,{name}",)
        )
        for index, name in enumerate(names)
    }
    files["pkg/ext.so"] = make_library(folder / "ext", names[0], flags=(flag,))
    return files


@pytest.mark.parametrize("length", [2, 3])
def test_rpath_serves_whole_chain(tmp_path: Path, length: int) -> None:
    assert files_breaches(tmp_path, make_chain(tmp_path, _RPATH, length)) == []


@pytest.mark.parametrize("length", [2, 3])
def test_runpath_serves_no_chain(tmp_path: Path, length: int) -> None:
    findings = files_breaches(tmp_path, make_chain(tmp_path, _RUNPATH, length))

    assert ("warning", "needed library", "pkg.libs/lib0.so") in findings


def test_missing_library_of_a_part_is_a_warning(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/libpart.so": make_library(tmp_path / "part", "libcufft.so.12", flags=(CU13,)),
        "pkg/libmain.so": make_library(tmp_path / "main"),
    }

    assert files_breaches(tmp_path, files) == [("warning", "needed library", "pkg/libpart.so")]


def test_program_does_not_count_as_another_part(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/libmain.so": make_library(tmp_path / "main", "libcufft.so.12", flags=(CU13,)),
        "pkg/bin/tool": make_library(tmp_path / "tool"),
    }

    assert audited(tmp_path, files).verdict == "error"


def make_module(folder: Path, entry: str, file: str = "libown.so.1") -> dict[str, Path | bytes]:
    """An extension module that needs a library of its own wheel."""
    own = make_library(folder / "own", flags=("-Wl,-soname,libown.so.1",))
    module = make_library(folder / "ext", "libown.so.1", flags=(f"-Wl,-rpath,{entry}",), code=_INIT)
    return {_MODULE: module, f"pkg.libs/{file}": own}


@pytest.mark.parametrize(
    ("entry", "file", "fact"),
    [
        ("$ORIGIN/../pkg.libs", "libown.so.1", "no rpath entry"),
        ("$ORIGIN/../../pkg.libs", "libown.so.1.2.3", "only as libown.so.1.2.3"),
    ],
    ids=["one level too few", "lost link"],
)
def test_finds_library_that_is_not_found(tmp_path: Path, entry: str, file: str, fact: str) -> None:
    result = audited(tmp_path, make_module(tmp_path, entry, file))

    [finding] = [item for item in result.findings if item.rule == "needed library"]
    assert (finding.severity, finding.file) == ("error", _MODULE)
    assert fact in finding.fact


@pytest.mark.parametrize(
    "loader",
    [
        b"import ctypes\ndef load(path):\n    ctypes.CDLL(path)\n",
        b"import torch\ndef load(path):\n    torch.ops.load_library(path)\n",
        b"import os, subprocess\nos.environ['LD_LIBRARY_PATH'] = '/lib'\nsubprocess.run('x')\n",
    ],
)
def test_library_that_python_may_load_is_a_warning(tmp_path: Path, loader: bytes) -> None:
    files = {**make_module(tmp_path, "$ORIGIN/../pkg.libs"), "pkg/__init__.py": loader}

    assert audited(tmp_path, files).verdict == "warning"


def test_variable_of_the_loader_is_read_before_python_starts(tmp_path: Path) -> None:
    loader = b"import os\nos.environ['LD_LIBRARY_PATH'] = '/lib'\n"
    files = {**make_module(tmp_path, "$ORIGIN/../pkg.libs"), "pkg/__init__.py": loader}

    assert audited(tmp_path, files).verdict == "error"


def test_library_that_another_module_may_load_is_a_warning(tmp_path: Path) -> None:
    flags = ("-Wl,-rpath,$ORIGIN/../pkg.libs",)
    code = "void *PyInit_first(void) { return 0; }\n"
    first = make_library(tmp_path / "first", "libown.so.1", flags=flags, code=code)
    files = {**make_module(tmp_path, "$ORIGIN/../pkg.libs"), "pkg/first.abi3.so": first}

    assert audited(tmp_path, files).verdict == "warning"


def test_finds_nothing_if_entry_leads_to_library(tmp_path: Path) -> None:
    assert files_breaches(tmp_path, make_module(tmp_path, "$ORIGIN/../../pkg.libs")) == []
