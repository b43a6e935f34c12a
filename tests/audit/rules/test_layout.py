"""Where a wheel's files lie, each with the defect planted that a rule is there for."""

from __future__ import annotations

import py_compile
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from cuwheel.system.quantities import show_size
from tests.support.planted import MEMBER, judged, make_library, told


def test_finds_copies_of_a_library(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")
    names = ("pkg/libx.so", "pkg/libx.so.1", "pkg/other/libx.so.1.2")
    wasted = show_size(2 * library.stat().st_size)

    found = told(judged(tmp_path, dict.fromkeys(names, library)))

    [finding] = [line for line in found if "library copies" in line]
    assert finding == (
        "warning: pkg/libx.so: library copies: the same content is in the wheel 3 times, "
        f"{wasted} more than needed when unpacked: also as pkg/libx.so.1, pkg/other/libx.so.1.2"
    )


def test_lets_equal_files_that_are_no_library_pass(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made").read_bytes()
    files = {"pkg/a/__init__.py": b"", "pkg/b/__init__.py": b"", MEMBER: library}

    assert not [line for line in told(judged(tmp_path, {**files})) if "library copies" in line]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("lib/libx.a", "lib/"),
        ("include/x.h", "include/"),
        ("share/x/x.cmake", "share/"),
        ("pkg-1.0.data/platlib/tests/test_x.py", "tests/"),
        ("LICENSE", "LICENSE"),
    ],
)
def test_finds_what_lands_among_other_packages(tmp_path: Path, name: str, place: str) -> None:
    found = told(judged(tmp_path, {name: b"x", MEMBER: make_library(tmp_path / "made")}))

    [finding] = [line for line in found if "top level" in line]
    assert finding.startswith(f"warning: {place}: top level: ")
    assert "directly into site-packages" in finding


@pytest.mark.parametrize(
    "name", ["x.py", "x.cpython-311-x86_64-linux-gnu.so", "pkg/lib/x.a", "pkg-1.0.data/scripts/x"]
)
def test_lets_what_is_the_packages_own_pass(tmp_path: Path, name: str) -> None:
    found = told(judged(tmp_path, {name: b"x", MEMBER: make_library(tmp_path / "made")}))

    assert not [line for line in found if "top level" in line]


@pytest.mark.parametrize(("project", "places"), [("build", ["data/"]), ("data", ["build/"])])
def test_lets_project_have_the_folder_of_its_name(
    tmp_path: Path, project: str, places: list[str]
) -> None:
    files = {"build/__init__.py": b"", "data/__init__.py": b""}
    library = make_library(tmp_path / "made")

    found = told(judged(tmp_path, {**files, MEMBER: library}, name=project))

    assert [line.split(": ")[1] for line in found if "top level" in line] == places


def test_finds_byte_code_of_the_build(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("answer = 42\n")
    compiled = Path(cache_from_source(str(source)))
    py_compile.compile(str(source), doraise=True)
    name = f"pkg/__pycache__/{compiled.name}"
    files: dict[str, Path | bytes] = {
        "pkg/a.py": source,
        name: compiled,
        MEMBER: make_library(tmp_path / "made"),
    }

    (finding,) = told(judged(tmp_path, files))

    assert finding.startswith(f"warning: {name}: byte code: 1 file of byte code, ")


def test_lets_byte_code_without_source_pass(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/a.pyc": b"x",
        MEMBER: make_library(tmp_path / "made"),
    }

    assert told(judged(tmp_path, {**files})) == []


@pytest.mark.parametrize("name", ["__init__.py", "conftest.py"])
def test_finds_module_of_nobody(tmp_path: Path, name: str) -> None:
    (line,) = told(judged(tmp_path, {name: b"", MEMBER: make_library(tmp_path / "made")}))

    assert line.startswith(f"warning: {name}: top level: ")


def test_finds_data_folder_of_another_name(tmp_path: Path) -> None:
    (line,) = told(judged(tmp_path, {"other-1.0.data/purelib/pkg/x.py": b""}))

    assert line.startswith(
        "error: other-1.0.data: archive: the wheel's own folder is pkg-1.2.3.data: "
    )
