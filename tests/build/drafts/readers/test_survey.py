from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.drafts.readers.survey import survey_source
from tests.support.build.drafts import CMAKE_FILES, FILES, write_tree


@pytest.mark.parametrize("folder", ["", "lib/"])
def test_surveys_torch_extension(folder: str, tmp_path: Path) -> None:
    files = dict(FILES)
    listing = "tiny_draft.egg-info/top_level.txt"
    files[folder + listing] = files.pop(listing)
    survey = survey_source(write_tree(tmp_path, files))

    assert survey.uses_torch
    assert not survey.uses_cmake
    assert survey.device_files == ("csrc/tiny.cu",)
    assert survey.packages == ("tiny_draft", "tiny_draft_cuda")


def test_surveys_cmake_package(tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path, CMAKE_FILES))

    assert survey.uses_cmake
    assert not survey.uses_torch
    assert survey.packages == ("tiny_cmake",)
    assert survey.has_cuda


def test_drops_facts_of_options_that_are_off(tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path, CMAKE_FILES))

    assert survey.of("flag")
    assert survey.relevant("flag") == ()


def test_knows_definitions_of_the_project(tmp_path: Path) -> None:
    project = f'{CMAKE_FILES["pyproject.toml"]}cmake.define = {{"TINY_DEBUG" = "ON"}}\n'
    survey = survey_source(write_tree(tmp_path, {**CMAKE_FILES, "pyproject.toml": project}))

    assert [fact.name for fact in survey.relevant("flag")] == ["-lineinfo"]


def test_sees_package_without_cuda(tmp_path: Path) -> None:
    files = {"setup.py": "from setuptools import setup\nsetup()\n", "tests/x.cu": ""}

    assert not survey_source(write_tree(tmp_path, files)).has_cuda


@pytest.mark.parametrize(
    ("line", "kinds"),
    [("", set()), ('import subprocess\nsubprocess.run(["cmake", "."])', {"language"})],
)
def test_reads_cmake_files_only_where_cmake_runs(
    line: str, kinds: set[str], tmp_path: Path
) -> None:
    files = {**FILES, "third_party/x/CMakeLists.txt": "project(x LANGUAGES CUDA)"}
    files["setup.py"] += f"{line}\n"

    survey = survey_source(write_tree(tmp_path, files))

    assert {fact.kind for fact in survey.of("language")} == kinds


def test_surveys_cmake_package_in_a_folder(tmp_path: Path) -> None:
    files = {"sub/CMakeLists.txt": CMAKE_FILES["CMakeLists.txt"]}
    files["pyproject.toml"] = f'{CMAKE_FILES["pyproject.toml"]}cmake.source-dir = "sub"\n'

    survey = survey_source(write_tree(tmp_path, files))

    assert survey.uses_cmake
    assert survey.has_cuda


@pytest.mark.parametrize(
    ("line", "library"),
    [
        ("#include <cuda.h>", "cuda"),
        ('  #  include "cuda_runtime_api.h"', "cudart"),
        ('cdef extern from "cublas_v2.h":', "cublas"),
        ("#include <curand.h>", "curand"),
    ],
)
def test_names_library_of_header(line: str, library: str, tmp_path: Path) -> None:
    survey = survey_source(write_tree(tmp_path, {"src/a.hpp": f"// text\n{line}\n"}))
    [fact] = survey.of("header")

    assert (fact.name, fact.where, survey.has_cuda) == (library, "src/a.hpp:2", True)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a.cpp", "#include <cudawrapper.h>"),
        ("a.cpp", "// #include <cuda.h>"),
        ("tests/a.cpp", "#include <cuda.h>"),
        ("a.md", "#include <cuda.h>"),
    ],
)
def test_passes_over_others(name: str, line: str, tmp_path: Path) -> None:
    assert not survey_source(write_tree(tmp_path, {name: line})).of("header")


def test_file_is_read_under_the_condition_of_its_include(tmp_path: Path) -> None:
    lists = "option(WITH_X a OFF)\nif(WITH_X)\n  include(${CMAKE_SOURCE_DIR}/x.cmake)\nendif()"
    files = {"CMakeLists.txt": lists, "x.cmake": "file(DOWNLOAD https://a/b c)"}
    survey = survey_source(write_tree(tmp_path, files))

    assert survey.of("download")
    assert not survey.relevant("download")


def test_finds_extension_of_a_package_that_helps_the_build(tmp_path: Path) -> None:
    helper = "def build():\n    from torch.utils.cpp_extension import CUDAExtension"
    files = {
        **FILES,
        "setup.py": "from ops import Builder",
        "ops/__init__.py": "from .builder import Builder\nimport tiny_draft.data",
        "ops/builder.py": helper,
        "tiny_draft/data.py": "import pandas",
    }
    survey = survey_source(write_tree(tmp_path, files))

    assert survey.uses_torch
    assert "pandas" not in {fact.name for fact in survey.of("import")}
