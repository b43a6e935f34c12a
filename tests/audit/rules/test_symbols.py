"""The rules for symbols, each with the defect planted that it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.planted import MEMBER, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path

_MODULE = "void *PyInit_ext(void) { return 0; }\n"
_CHECK = "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"
_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jRK{}"
_NEW = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_PRELOAD = b"import ctypes\nctypes.CDLL('libmpi.so.40', ctypes.RTLD_GLOBAL)\n"
_EXTENSION = "pkg/ext.cpython-312-x86_64-linux-gnu.so"


def calling(*names: str) -> str:
    """C code that calls functions."""
    declared = "".join(f"int {name}(void);\n" for name in names)
    calls = "".join(f"{name}();" for name in names)
    return f"{declared}void call(void) {{ {calls} }}\n"


def findings_of(
    folder: Path, code: str, requires: tuple[str, ...], rule: str = "framework ABI"
) -> list[str]:
    """What one rule says of a PyTorch extension with this code."""
    library = make_library(folder / "made", "libc10_cuda.so", "libtorch_cpu.so", code=code)
    found = told(judged(folder, {"pkg/_C.so": library}, requires=requires))
    return [line for line in found if f": {rule}: " in line]


def test_predicts_that_newer_torch_breaks_extension(tmp_path: Path) -> None:
    (line,) = findings_of(tmp_path, calling(f"{_CHECK}ib"), ("torch>=2.4",))

    assert line.startswith(
        "error: pkg/_C.so: framework ABI: it needs c10::cuda::c10_cuda_check_implementation "
        f"({_CHECK}ib), which torch 2.10 to "
    )
    assert line.endswith("torch>=2.4 is required, it loads with 2.0 to 2.9")


def test_warns_where_only_older_torch_breaks_extension(tmp_path: Path) -> None:
    names = (f"{_CHECK}jb", "torch_library_impl", "_ZN2at7Context6hasMKLEv")

    (line,) = findings_of(tmp_path, calling(*names), ("torch<2.14,>=2.8",))

    assert line.startswith("warning: ")
    assert " and 1 symbol more, which torch 2.8 to 2.9 lacks; " in line


@pytest.mark.parametrize("required", ["torch==2.9.1", "torch<2.10", "torch>=2.1,<2.9"])
def test_lets_bounded_torch_pass(tmp_path: Path, required: str) -> None:
    assert findings_of(tmp_path, calling(f"{_CHECK}ib"), (required,)) == []


@pytest.mark.parametrize(("python", "count"), [("cp313", 1), ("cp314", 0)])
def test_leaves_out_torch_without_wheel_for_the_python(
    tmp_path: Path, python: str, count: int
) -> None:
    """Since 2.7 there is this one, wheels for Python 3.13 since 2.5, for 3.14 since 2.9."""
    code = calling("aoti_torch_library_init_impl")
    library = make_library(tmp_path / "made", "libtorch_cpu.so", code=code)
    tag = f"{python}-{python}-manylinux_2_39_x86_64"

    found = told(judged(tmp_path, {"pkg/_C.so": library}, tag=tag, requires=("torch",)))

    assert len([line for line in found if "framework ABI" in line]) == count


def test_only_notes_it_where_no_torch_is_required(tmp_path: Path) -> None:
    (line,) = findings_of(tmp_path, calling(f"{_CHECK}ib"), ())

    assert line.startswith("note: ")
    assert "no release is required, it loads with 2.0 to 2.9" in line


def test_finds_name_that_no_torch_has(tmp_path: Path) -> None:
    (line,) = findings_of(tmp_path, calling("_ZN2at7Context6hasNotEv"), ("torch==2.12.*",))

    assert line.startswith("error: ")
    assert "which torch 2.12 lacks; torch==2.12.* is required, no release has all" in line


def test_finds_string_of_the_other_abi(tmp_path: Path) -> None:
    name = "_ZN3c105ErrorC1ESsSsPKv"  # as built with _GLIBCXX_USE_CXX11_ABI=0

    (line,) = findings_of(tmp_path, calling(name), ("torch>=2.3",))

    assert line.startswith("error: pkg/_C.so: framework ABI: it needs c10::Error")


@pytest.mark.parametrize(
    ("version", "names", "required"),
    [
        ("1.0+cu123torch2.4cxx11abiTRUE", (_FAIL.format(_NEW), "_ZN2at4mineEv"), "torch==2.4.*"),
        ("1.0+cxx11abiFALSE", (_FAIL.format("Ss"), "_ZN2at4mineEv"), "torch==2.8.*"),
        ("1.0", (_FAIL.format(_NEW), "_ZNK3c106Device3strB5cxx11Ev"), "torch==2.4.*"),
        ("1.0", (_FAIL.format("Ss"), "_ZNK3c106Device3strEv"), "torch==2.8.*"),
    ],
)
def test_warns_of_torch_with_the_other_string(
    tmp_path: Path, version: str, names: tuple[str, ...], required: str
) -> None:
    library = make_library(tmp_path / "made", "libtorch_cpu.so", code=calling(*names))

    found = told(judged(tmp_path, {"pkg/_C.so": library}, version=version, requires=(required,)))

    (line,) = [line for line in found if ": framework ABI: " in line]
    assert line.startswith("warning: ")
    assert f" lacks with the string ABI of PyPI's wheels; {required} is required" in line


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("1.0+cxx11abiFALSE", ("_ZN2at4mineEv",)),
        ("1.0", (_FAIL.format(_NEW), "_ZN2at4mineEv")),
    ],
)
def test_finds_what_no_string_explains(
    tmp_path: Path, version: str, names: tuple[str, ...]
) -> None:
    library = make_library(tmp_path / "made", "libtorch_cpu.so", code=calling(*names))
    files: dict[str, Path | bytes] = {"pkg/_C.so": library}

    found = told(judged(tmp_path, files, version=version, requires=("torch==2.4.*",)))

    (line,) = [line for line in found if ": framework ABI: " in line]
    assert line.startswith("error: ")
    assert "string ABI" not in line


def test_warns_where_it_may_be_for_a_torch_to_come(tmp_path: Path) -> None:
    (line,) = findings_of(tmp_path, calling("_ZN2at7Context6hasNotEv"), ("torch>=2.12",))

    assert line.startswith("warning: ")


def test_takes_name_of_the_wheels_own_library(tmp_path: Path) -> None:
    user = make_library(tmp_path / "a", "libtorch_cpu.so", code=calling("_ZN2at4mineEv"))
    owner = make_library(tmp_path / "b", code="void _ZN2at4mineEv(void) {}\n")
    files: dict[str, Path | bytes] = {"pkg/_C.so": user, "pkg/libmine.so": owner}

    found = told(judged(tmp_path, files, requires=("torch==2.12.*",)))

    assert not [line for line in found if "framework ABI" in line]


def test_takes_variants_for_several_releases_together(tmp_path: Path) -> None:
    """As nixl-cu12 1.5.1 and dgl 2.1.0: one library for each release of PyTorch."""
    files: dict[str, Path | bytes] = {
        f"pkg/_C_torch2{minor}.so": make_library(
            tmp_path / str(minor), "libc10_cuda.so", code=calling(f"{_CHECK}{arguments}")
        )
        for minor, arguments in ((9, "ib"), (10, "jb"))
    }

    found = told(judged(tmp_path, files, requires=("torch>=2.4,<2.14",)))

    assert not [line for line in found if "framework ABI" in line]


def test_lets_other_machines_be(tmp_path: Path) -> None:
    """The table is of x86_64, and holds for aarch64."""
    library = make_library(tmp_path / "made", "libtorch_cpu.so", code=calling(f"{_CHECK}ib"))
    tag = "py3-none-manylinux_2_39_ppc64le"

    found = told(judged(tmp_path, {MEMBER: library}, tag=tag, requires=("torch",)))

    assert not [line for line in found if "framework ABI" in line]


@pytest.mark.parametrize(
    ("name", "severity"), [(_EXTENSION, "error"), ("pkg/libplugin.so", "warning")]
)
def test_finds_symbol_that_nobody_has(tmp_path: Path, name: str, severity: str) -> None:
    code = calling("helper_v2", "_ZN6helper3addEi") + _MODULE * (name == _EXTENSION)
    library = make_library(tmp_path / "made", code=code)

    (line,) = told(judged(tmp_path, {name: library}, tag="cp312-cp312-manylinux_2_39_x86_64"))

    fact = "no library that it loads defines helper::add (_ZN6helper3addEi), helper_v2"
    assert line == f"{severity}: {name}: undefined symbol: {fact}"


@pytest.mark.parametrize(
    ("init", "requires", "told_of"),
    [
        (_PRELOAD, ("mpi4py", "numpy"), "note"),
        (_PRELOAD, ("torch",), "error"),
        (_PRELOAD, ("mpi4py; extra == 'mpi'",), "error"),
        (b"import mpi4py\n", ("mpi4py",), "error"),
    ],
)
def test_only_notes_symbol_that_python_may_have_loaded(
    tmp_path: Path, init: bytes, requires: tuple[str, ...], told_of: str
) -> None:
    library = make_library(tmp_path / "made", code=calling("MPI_Init") + _MODULE)
    files: dict[str, Path | bytes] = {_EXTENSION: library, "pkg/__init__.py": init}
    tag = "cp312-cp312-manylinux_2_39_x86_64"

    found = told(judged(tmp_path, files, tag=tag, requires=requires))

    fact = "no library that it loads defines MPI_Init"
    if told_of == "note":
        fact += ", unless Python code loads one that does before, from mpi4py or numpy"
    assert f"{told_of}: {_EXTENSION}: undefined symbol: {fact}" in found


def test_finds_symbol_that_own_library_lacks(tmp_path: Path) -> None:
    helper = make_library(tmp_path / "b", flags=("-Wl,-soname,libhelper.so",))
    flags = ("-Wl,-rpath,$ORIGIN",)
    code = calling("helper_v2") + _MODULE
    module = make_library(tmp_path / "a", "libhelper.so", flags=flags, code=code)
    files: dict[str, Path | bytes] = {_EXTENSION: module, "pkg/libhelper.so": helper}

    found = told(judged(tmp_path, files, tag="cp312-cp312-manylinux_2_39_x86_64"))

    assert found == [
        f"error: {_EXTENSION}: undefined symbol: no library that it loads defines helper_v2"
    ]


def stable_abi(folder: Path, *names: str, tag: str = "cp39-abi3") -> list[str]:
    """What the audit says of a module of the stable ABI that needs these names."""
    library = make_library(folder / "made", code=calling(*names) + _MODULE)
    return told(judged(folder, {"pkg/ext.abi3.so": library}, tag=f"{tag}-manylinux_2_39_x86_64"))


def test_finds_function_outside_of_stable_abi(tmp_path: Path) -> None:
    (line,) = stable_abi(tmp_path, "PyList_New", "_PyObject_GetDictPtr", "PyUnicode_AsUTF8")

    assert line.startswith("warning: pkg/ext.abi3.so: stable ABI: it is tagged abi3, but ")
    assert "PyUnicode_AsUTF8, _PyObject_GetDictPtr is not part" in line or "PyUnicode" not in line


def test_finds_function_that_oldest_python_lacks(tmp_path: Path) -> None:
    (line,) = stable_abi(tmp_path, "PyList_New", "PyType_GetName")

    fact = (
        "it needs PyType_GetName, which is in the stable ABI from Python 3.11 on, but the "
        "tag says 3.9"
    )
    assert line == f"warning: pkg/ext.abi3.so: stable ABI: {fact}"


@pytest.mark.parametrize(("tag", "count"), [("cp39-abi3", 1), ("cp312-cp312", 0)])
def test_takes_module_for_stable_by_its_tag(tmp_path: Path, tag: str, count: int) -> None:
    library = make_library(tmp_path / "made", code=calling("_PyObject_GetDictPtr") + _MODULE)

    found = told(judged(tmp_path, {"pkg/ext.so": library}, tag=f"{tag}-manylinux_2_39_x86_64"))

    assert len(found) == count


def test_lets_newer_tag_have_newer_functions(tmp_path: Path) -> None:
    assert stable_abi(tmp_path, "PyType_GetName", tag="cp311-abi3") == []
