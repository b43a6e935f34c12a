from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.readers.cmake import read_cmake
from tests.support.drafted import CMAKE_FILES, write_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_reads_package_whole(tmp_path: Path) -> None:
    found = read_cmake(write_tree(tmp_path, CMAKE_FILES))

    assert {(one.kind, one.name, one.default) for one in found} == {
        ("minimum", "3.21...3.30", ""),
        ("option", "TINY_USE_CUDA", "OFF"),
        ("option", "TINY_NATIVE", "ON"),
        ("option", "TINY_DEBUG", "OFF"),
        ("language", "CUDA", ""),
        ("archs", "native", ""),
        ("library", "cudart", ""),
        ("library", "cufft", ""),
        ("library", "cublas_static", ""),
        ("flag", "-lineinfo", ""),
        ("download", "fetchcontent_declare(dep) https://example.invalid/dep.git v1", ""),
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CPMAddPackage(NAME x GIT_TAG v2)", ("download", "cpmaddpackage(x) v2")),
        (
            "ExternalProject_Add(x URL https://a/b)",
            ("download", "externalproject_add(x) https://a/b"),
        ),
        ("file(DOWNLOAD https://a/b c)", ("download", "file(DOWNLOAD https://a/b)")),
        (
            "execute_process(COMMAND ${GIT_EXECUTABLE} clone x)",
            ("download", "${GIT_EXECUTABLE} clone x"),
        ),
        ("set(A $ENV{HOME})", ("variable", "HOME")),
        ("find_package(Torch REQUIRED)", ("package", "Torch")),
        ("nanobind_add_module(ext NB_STATIC)", ("extension", "ext")),
        ('set(FLAGS -march=native CACHE STRING "")', ("option", "FLAGS")),
    ],
)
def test_reads_command(text: str, found: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(text)

    assert found in {(one.kind, one.name) for one in read_cmake(tmp_path)}


def test_leaves_out_tests_and_examples(tmp_path: Path) -> None:
    files = {f"{name}/CMakeLists.txt": "enable_language(CUDA)" for name in ("tests", "src")}

    found = read_cmake(write_tree(tmp_path, files))

    assert [one.where for one in found] == ["src/CMakeLists.txt:1"]
