"""Wheels that were built for another Python, machine or NumPy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.check.diagnose.facts.builds import (
    file_for_numpy_1,
    find_other_build,
    modules_of_cython,
    was_built_here,
)
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from tests.check.diagnose.samples import make_distribution, make_environment

_NUMPY_1 = b"numpy.core._multiarray_umath"
_NUMPY_2 = b"numpy._core._multiarray_umath\0numpy.core._multiarray_umath"
_CYTHON = b"%s size changed, may indicate binary incompatibility\0flatiter\0"


def make_python(version: str, suffix: str = ".so") -> PythonEnvironment:
    markers = {"platform_machine": "x86_64", "implementation_name": "cpython"}
    return replace(make_environment(), version=version, suffixes=(suffix,), markers=markers)


@pytest.mark.parametrize(
    ("tag", "machine"),
    [
        ("cp311-cp311-manylinux_2_17_x86_64", ""),
        ("cp313-abi3-manylinux_2_17_x86_64", ""),
        ("cp312-cp312t-manylinux_2_17_x86_64", ""),
        ("cp312-cp312-manylinux_2_28_aarch64", "aarch64"),
        ("py3-none-manylinux2014_aarch64", "aarch64"),
        ("cp312-cp312-linux_aarch64", "aarch64"),
        ("cp312-cp312-macosx_11_0_arm64", "arm64"),
        ("cp312-cp312-win_amd64", "amd64"),
    ],
)
def test_names_wheel_for_another_interpreter(tmp_path: Path, tag: str, machine: str) -> None:
    (tmp_path / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")

    build = find_other_build(make_distribution("ext", tmp_path), make_python("3.12.1"))

    assert build is not None
    assert (build.tag, build.machine) == (tag, machine)


@pytest.mark.parametrize(
    "tags",
    [
        ("cp312-cp312-manylinux_2_17_x86_64",),
        ("cp38-abi3-manylinux2014_x86_64",),
        ("py3-none-any",),
        ("py2.py3-none-musllinux_1_2_x86_64", "py2.py3-none-manylinux_2_17_x86_64"),
        ("cp312-cp312-linux_x86_64",),
        ("pp310-pypy310_pp73-manylinux_2_17_x86_64",),
        ("cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_17_x86_64"),
        (),
    ],
)
def test_accepts_wheel_for_this_interpreter(tmp_path: Path, tags: tuple[str, ...]) -> None:
    (tmp_path / "WHEEL").write_text("".join(f"Tag: {tag}\n" for tag in tags))

    assert find_other_build(make_distribution("ext", tmp_path), make_python("3.12.1")) is None


def test_accepts_free_threaded_wheel_in_such_a_python(tmp_path: Path) -> None:
    (tmp_path / "WHEEL").write_text("Tag: cp313-cp313t-manylinux_2_17_x86_64\n")
    threaded = make_python("3.13.1", ".cpython-313t-x86_64-linux-gnu.so")

    assert find_other_build(make_distribution("ext", tmp_path), threaded) is None


@pytest.mark.parametrize(
    ("content", "file"), [(_NUMPY_1, "ext.so"), (_NUMPY_2, ""), (b"\x7fELF", ""), (b"", "")]
)
def test_names_extension_for_numpy_1(tmp_path: Path, content: bytes, file: str) -> None:
    library = tmp_path / "ext.so"
    library.write_bytes(content)

    assert file_for_numpy_1(make_distribution("ext", tmp_path, libraries=(library,))) == file


@pytest.mark.parametrize(
    ("content", "count"), [(_CYTHON, 1), (_CYTHON + _NUMPY_2, 0), (_CYTHON[:-9], 0), (b"", 0)]
)
def test_names_modules_of_cython_with_types_of_numpy(
    tmp_path: Path, content: bytes, count: int
) -> None:
    library = tmp_path / "ext" / "part.cpython-312-x86_64-linux-gnu.so"
    library.parent.mkdir()
    library.write_bytes(content)
    own = make_distribution("ext", tmp_path, libraries=(library,))

    assert list(modules_of_cython(own)) == [("ext.part", library.name)] * count


@pytest.mark.parametrize(
    ("name", "is_own"), [("ext", True), ("cupy-cuda12x", False), ("ext-cu13", False)]
)
def test_takes_tag_of_a_machine_for_a_build_of_it(
    tmp_path: Path, name: str, *, is_own: bool
) -> None:
    (tmp_path / "WHEEL").write_text("Tag: cp312-cp312-linux_x86_64\n")

    assert was_built_here(make_distribution(name, tmp_path)) == is_own
