"""The rules for the members of a wheel, each with its defect."""

from __future__ import annotations

import py_compile
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from cuwheel.base.system.quantities import show_size
from tests.support.packages.defective_wheels import (
    CODE,
    MEMBER,
    audited,
    audited_library,
    breaches,
    files_breaches,
    library_breaches,
    make_library,
)

_CUDART = "pkg.libs/libcudart-1a2b3c4d.so.13.0.96"


def test_finds_copies_of_a_library(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")
    names = ("pkg/libx.so", "pkg/libx.so.1", "pkg/other/libx.so.1.2")

    result = audited(tmp_path, dict.fromkeys(names, library))

    [finding] = [item for item in result.findings if item.rule == "library copies"]
    assert (finding.severity, finding.file) == ("note", names[0])
    assert show_size(2 * library.stat().st_size) in finding.fact
    assert finding.fact.endswith(", ".join(names[1:]))


@pytest.mark.parametrize(
    ("files", "breach"),
    [
        ({"lib/libx.a": b"x"}, ("note", "top level", "lib/")),
        ({"include/x.h": b"x"}, ("note", "top level", "include/")),
        ({"lib/x.py": b""}, ("warning", "top level", "lib/")),
        ({"share/x/x.cmake": b"x"}, ("note", "top level", "share/")),
        ({"pkg-1.2.3.data/platlib/tests/test_x.py": b"x"}, ("note", "top level", "tests/")),
        ({"LICENSE": b"x"}, ("note", "top level", "LICENSE")),
        ({"__init__.py": b""}, ("warning", "top level", "__init__.py")),
        ({"conftest.py": b""}, ("warning", "top level", "conftest.py")),
        ({"other-1.0.data/purelib/pkg/x.py": b""}, ("error", "archive", "other-1.0.data")),
    ],
)
def test_finds_file_in_wrong_place(
    tmp_path: Path, files: dict[str, Path | bytes], breach: tuple[str, str, str]
) -> None:
    library = make_library(tmp_path / "made")

    assert files_breaches(tmp_path, {**files, MEMBER: library}) == [breach]


@pytest.mark.parametrize(
    "names",
    [
        ("x.py",),
        ("pkg/lib/x.a",),
        ("pkg-1.2.3.data/scripts/x",),
        ("pkg/a.pyc",),
        ("pkg/a/__init__.py", "pkg/b/__init__.py"),
    ],
)
def test_packages_own_files_pass(tmp_path: Path, names: tuple[str, ...]) -> None:
    library = make_library(tmp_path / "made")

    assert files_breaches(tmp_path, {**dict.fromkeys(names, b"0"), MEMBER: library}) == []


def test_library_may_be_at_the_top(tmp_path: Path) -> None:
    assert library_breaches(tmp_path, member="x.so") == []


@pytest.mark.parametrize(("project", "other"), [("build", "data/"), ("data", "build/")])
def test_project_may_have_the_folder_of_its_name(tmp_path: Path, project: str, other: str) -> None:
    files: dict[str, Path | bytes] = {"build/__init__.py": b"", "data/__init__.py": b""}

    result = audited(tmp_path, {**files, MEMBER: make_library(tmp_path / "made")}, name=project)

    assert breaches(result) == [("warning", "top level", other)]


def test_finds_byte_code_of_the_build(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("answer = 42\n")
    compiled = Path(cache_from_source(str(source)))
    py_compile.compile(str(source), doraise=True)
    name = f"pkg/__pycache__/{compiled.name}"
    library = make_library(tmp_path / "made")

    findings = files_breaches(tmp_path, {"pkg/a.py": source, name: compiled, MEMBER: library})

    assert findings == [("note", "byte code", name)]


@pytest.mark.parametrize(
    ("name", "requires", "severity"),
    [
        (_CUDART, (), "note"),
        ("pkg.libs/libcudart.1a2b3c4d.so.13", (), "note"),
        ("pkg/cuda/libcublas.so.13", ("nvidia-cublas",), "warning"),
        ("pkg/cuda/libcublas.so.13", (), "note"),
    ],
    ids=["auditwheel", "script", "second", "meant"],
)
def test_finds_copied_library(
    tmp_path: Path, name: str, requires: tuple[str, ...], severity: str
) -> None:
    findings = library_breaches(tmp_path, member=name, requires=requires)

    assert (severity, "grafted library", name) in findings


@pytest.mark.parametrize(
    ("member", "soname", "severity"),
    [
        (_CUDART, "libcudart-1a2b3c4d.so.13", "note"),
        ("pkg.libs/libcuda-1a2b3c4d.so.1", "libcuda.so.1", "error"),
    ],
)
def test_finds_copy_with_soname(tmp_path: Path, member: str, soname: str, severity: str) -> None:
    findings = library_breaches(tmp_path, flags=(f"-Wl,-soname,{soname}",), member=member)

    assert findings == [(severity, "grafted library", member)]


@pytest.mark.parametrize(
    ("builtins", "is_broken"),
    [("libnvrtc-builtins-5e6f7081.so.12.6.85", True), ("libnvrtc-builtins.so.12.6", False)],
)
def test_finds_copy_that_misses_what_it_opens(
    tmp_path: Path, builtins: str, *, is_broken: bool
) -> None:
    """As in cumm-cu126 0.8.2: NVRTC fails to open its builtins under their new name."""
    copy = make_library(tmp_path / "copy")
    nvrtc = "pkg.libs/libnvrtc-1a2b3c4d.so.12.6.85"

    findings = files_breaches(tmp_path, {nvrtc: copy, f"pkg.libs/{builtins}": copy})

    assert (("error", "grafted library", nvrtc) in findings) is is_broken


@pytest.mark.parametrize(
    ("content", "is_valid"),
    [
        (b"", False),
        (b"no library\n", False),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", False),
        (b"/* GNU ld script */\nINPUT(-lx)\n", True),
        (b"\xcf\xfa\xed\xfe", True),
        (b"!<arch>\n", True),
    ],
)
def test_finds_file_with_name_of_library(tmp_path: Path, content: bytes, *, is_valid: bool) -> None:
    findings = files_breaches(tmp_path, {"pkg/libx.so.1": content})

    assert (("error", "library", "pkg/libx.so.1") in findings) is not is_valid


def test_finds_data_folder_that_is_never_installed(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {"pkg-1.2.3.data/lib/x.txt": b"", "pkg-1.2.3.data/data/y": b""}

    findings = files_breaches(tmp_path, files)

    assert [item for item in findings if ".data/" in item[2]] == [
        ("error", "archive", "pkg-1.2.3.data/lib")
    ]


def test_notes_path_of_build_machine(tmp_path: Path) -> None:
    code = f'const char *where(void) {{ return "/home/someone/src/a.cu"; }}\n{CODE}'

    result = audited_library(tmp_path, code=code)

    assert breaches(result) == [("note", "build path", MEMBER)]
    assert result.findings[0].fact.endswith("/home/someone/src/a.cu")


def test_nvidias_own_wheel_has_no_copies(tmp_path: Path) -> None:
    library = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcufft.so.12",))

    result = audited(tmp_path, {"nvidia/cu13/lib/libcufft.so.12": library}, name="nvidia_cufft")

    assert breaches(result) == []


@pytest.mark.parametrize(
    ("opened", "severities"),
    [("libcuda.so", []), ("libnvrtc-builtins.so.11.3", ["error"])],
)
def test_finds_renamed_library_that_a_copy_opens(
    tmp_path: Path, opened: str, severities: list[str]
) -> None:
    code = f'void *dlopen(const char *, int); void *f(void) {{ return dlopen("{opened}", 1); }}\n'
    opener = "pkg.libs/libnvrtc-0a1b2c3d.so.11.3.109"
    copy = f"pkg.libs/{opened.replace('.so', '-0a1b2c3d.so')}.109"
    files: dict[str, Path | bytes] = {
        opener: make_library(tmp_path / "opener", code=code),
        copy: make_library(tmp_path / "copy", code="int two;\n"),
    }

    findings = audited(tmp_path, files).findings

    about = [item for item in findings if item.file == opener and " by name" in item.fact]
    assert [item.severity for item in about] == severities
