"""The rules for symbols, each with its defect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuwheel.check.audit.findings import AuditFinding
from tests.support.packages.defective_wheels import (
    audited,
    audited_library,
    breaches,
    files_breaches,
    library_breaches,
    make_library,
)

_MODULE = "void *PyInit_ext(void) { return 0; }\n"
_CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"
_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jRK{}"
_NEW = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_PRELOAD = b"import ctypes\nctypes.CDLL('libmpi.so.40', ctypes.RTLD_GLOBAL)\n"
_EXTENSION = "pkg/ext.cpython-312-x86_64-linux-gnu.so"
_TAG = "cp312-cp312-manylinux_2_39_x86_64"
_HAS_NOT = "_ZN2at7Context6hasNotEv"
_MINE = "_ZN2at4mineEv"


def calling(*names: str) -> str:
    """C code that calls functions."""
    declared = "".join(f"int {name}(void);\n" for name in names)
    calls = "".join(f"{name}();" for name in names)
    return f"{declared}void call(void) {{ {calls} }}\n"


def torch_findings(folder: Path, *names: str, **wheel: Any) -> list[AuditFinding]:
    """The findings about PyTorch in a wheel with an extension that needs these names."""
    sonames = ("libc10_cuda.so", "libtorch_cpu.so")
    result = audited_library(folder, *sonames, code=calling(*names), member="pkg/_C.so", **wheel)
    return [finding for finding in result.findings if finding.rule == "framework ABI"]


@pytest.mark.parametrize(
    ("names", "requires", "severity", "facts"),
    [
        (
            (f"{_CHECK}ib",),
            ("torch>=2.4",),
            "error",
            ("c10::cuda::c10_cuda_check_implementation", "torch 2.10 to ", "2.0 to 2.9"),
        ),
        (
            (f"{_CHECK}jb", "torch_library_impl", "_ZN2at7Context6hasMKLEv"),
            ("torch<2.14,>=2.8",),
            "warning",
            ("1 symbol more", "torch 2.8 to 2.9 lacks"),
        ),
        ((f"{_CHECK}ib",), (), "note", ("2.0 to 2.9",)),
        ((_HAS_NOT,), ("torch==2.12.*",), "error", ("torch 2.12 lacks", "no release has all")),
        ((_HAS_NOT,), ("torch>=2.12",), "error", ()),
        (("_ZN3c105ErrorC1ESsSsPKv",), ("torch>=2.3",), "error", ("c10::Error",)),
    ],
    ids=["newest", "older", "not required", "none", "later", "other string"],
)
def test_finds_torch_without_symbols(
    tmp_path: Path,
    names: tuple[str, ...],
    requires: tuple[str, ...],
    severity: str,
    facts: tuple[str, ...],
) -> None:
    [finding] = torch_findings(tmp_path, *names, requires=requires)

    assert (finding.severity, finding.file) == (severity, "pkg/_C.so")
    assert [fact for fact in facts if fact not in finding.fact] == []


@pytest.mark.parametrize("required", ["torch==2.9.1", "torch<2.10", "torch>=2.1,<2.9"])
def test_bounded_torch_passes(tmp_path: Path, required: str) -> None:
    assert torch_findings(tmp_path, f"{_CHECK}ib", requires=(required,)) == []


@pytest.mark.parametrize(("python", "count"), [("cp313", 1), ("cp314", 0)])
def test_leaves_out_torch_without_wheel_for_the_python(
    tmp_path: Path, python: str, count: int
) -> None:
    """The name is in 2.7 and later, wheels for Python 3.13 in 2.5, for 3.14 in 2.9."""
    tag = f"{python}-{python}-manylinux_2_39_x86_64"

    findings = torch_findings(
        tmp_path, "aoti_torch_library_init_impl", tag=tag, requires=("torch",)
    )

    assert len(findings) == count


@pytest.mark.parametrize(
    ("version", "names", "required", "severity"),
    [
        ("1.0+cu123torch2.4cxx11abiTRUE", (_FAIL.format(_NEW), _MINE), "torch==2.4.*", "warning"),
        ("1.0+cxx11abiFALSE", (_FAIL.format("Ss"), _MINE), "torch==2.8.*", "warning"),
        (
            "1.0",
            (_FAIL.format(_NEW), "_ZNK3c106Device3strB5cxx11Ev"),
            "torch==2.4.*",
            "warning",
        ),
        ("1.0", (_FAIL.format("Ss"), "_ZNK3c106Device3strEv"), "torch==2.8.*", "error"),
        ("1.0+cxx11abiFALSE", (_MINE,), "torch==2.4.*", "error"),
        ("1.0", (_FAIL.format(_NEW), _MINE), "torch==2.4.*", "error"),
    ],
)
def test_torch_with_the_other_string_is_a_warning(
    tmp_path: Path, version: str, names: tuple[str, ...], required: str, severity: str
) -> None:
    [finding] = torch_findings(tmp_path, *names, version=version, requires=(required,))

    assert finding.severity == severity
    is_explained = severity == "warning" or "Ss" in names[0]
    assert ("string ABI" in finding.fact) is is_explained


def test_takes_name_of_the_wheels_own_library(tmp_path: Path) -> None:
    user = make_library(tmp_path / "a", "libtorch_cpu.so", code=calling(_MINE))
    owner = make_library(tmp_path / "b", code=f"void {_MINE}(void) {{}}\n")
    files: dict[str, Path | bytes] = {"pkg/_C.so": user, "pkg/libmine.so": owner}

    assert files_breaches(tmp_path, files, requires=("torch==2.12.*",)) == []


def test_takes_variants_for_several_releases_together(tmp_path: Path) -> None:
    """As nixl-cu12 1.5.1 and dgl 2.1.0: one library for each release of PyTorch."""
    files: dict[str, Path | bytes] = {
        f"pkg/_C_torch2{minor}.so": make_library(
            tmp_path / str(minor), "libc10_cuda.so", code=calling(f"{_CHECK}{arguments}")
        )
        for minor, arguments in ((9, "ib"), (10, "jb"))
    }

    findings = files_breaches(tmp_path, files, requires=("torch>=2.4,<2.14",))

    assert "framework ABI" not in {rule for _, rule, _ in findings}


def test_ignores_other_machines_than_those_of_the_table(tmp_path: Path) -> None:
    tag = "py3-none-manylinux_2_39_ppc64le"

    assert torch_findings(tmp_path, f"{_CHECK}ib", tag=tag, requires=("torch",)) == []


@pytest.mark.parametrize(
    ("member", "severity"), [(_EXTENSION, "error"), ("pkg/libplugin.so", "warning")]
)
def test_finds_undefined_symbol(tmp_path: Path, member: str, severity: str) -> None:
    code = calling("helper_v2", "_ZN6helper3addEi") + _MODULE * (member == _EXTENSION)

    result = audited_library(tmp_path, code=code, member=member, tag=_TAG)

    assert breaches(result) == [(severity, "undefined symbol", member)]
    assert result.findings[0].fact.endswith("helper::add (_ZN6helper3addEi), helper_v2")


@pytest.mark.parametrize(
    ("init", "requires", "severity"),
    [
        (_PRELOAD, ("mpi4py", "numpy"), "note"),
        (_PRELOAD, ("torch",), "error"),
        (_PRELOAD, ("mpi4py; extra == 'mpi'",), "error"),
        (b"import mpi4py\n", ("mpi4py",), "error"),
    ],
)
def test_symbol_that_python_may_load_is_a_note(
    tmp_path: Path, init: bytes, requires: tuple[str, ...], severity: str
) -> None:
    library = make_library(tmp_path / "made", code=calling("MPI_Init") + _MODULE)
    files: dict[str, Path | bytes] = {_EXTENSION: library, "pkg/__init__.py": init}

    result = audited(tmp_path, files, tag=_TAG, requires=requires)

    [finding] = [item for item in result.findings if item.rule == "undefined symbol"]
    assert finding.severity == severity
    assert ("from mpi4py" in finding.fact) is (severity == "note")


def test_finds_symbol_that_own_library_lacks(tmp_path: Path) -> None:
    helper = make_library(tmp_path / "b", flags=("-Wl,-soname,libhelper.so",))
    flags = ("-Wl,-rpath,$ORIGIN",)
    code = calling("helper_v2") + _MODULE
    module = make_library(tmp_path / "a", "libhelper.so", flags=flags, code=code)
    files: dict[str, Path | bytes] = {_EXTENSION: module, "pkg/libhelper.so": helper}

    assert files_breaches(tmp_path, files, tag=_TAG) == [("error", "undefined symbol", _EXTENSION)]


@pytest.mark.parametrize(
    ("names", "member", "tag", "facts"),
    [
        (("PyList_New", "_PyObject_GetDictPtr"), "ext.abi3.so", "cp39-abi3", ["_GetDictPtr"]),
        (("PyList_New", "PyType_GetName"), "ext.abi3.so", "cp39-abi3", ["3.11", "3.9"]),
        (("PyType_GetName",), "ext.abi3.so", "cp311-abi3", []),
        (("_PyObject_GetDictPtr",), "ext.so", "cp39-abi3", ["_GetDictPtr"]),
        (("_PyObject_GetDictPtr",), "ext.so", "cp312-cp312", []),
    ],
)
def test_finds_function_outside_of_stable_abi(
    tmp_path: Path, names: tuple[str, ...], member: str, tag: str, facts: list[str]
) -> None:
    code = calling(*names) + _MODULE
    tag = f"{tag}-manylinux_2_39_x86_64"

    result = audited_library(tmp_path, code=code, member=f"pkg/{member}", tag=tag)

    severity = "error" if "3.11" in facts else "warning"
    assert breaches(result) == [(severity, "stable ABI", f"pkg/{member}")] * bool(facts)
    assert all(fact in item.fact for item in result.findings for fact in facts)


def test_undefined_symbols_of_python_are_not_reported(tmp_path: Path) -> None:
    code = calling("PyList_New") + _MODULE

    assert library_breaches(tmp_path, code=code, member=_EXTENSION, tag=_TAG) == []
