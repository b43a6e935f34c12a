from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.drafts.readers.cmake_files import guards_of_files
from cuwheel.drafts.readers.cmake_text import read_commands
from tests.support.drafted import write_tree

if TYPE_CHECKING:
    from pathlib import Path


def guards(tree: Path, **files: str) -> dict[str, str]:
    endings = (("__", "/"), ("_cmake", ".cmake"), ("_txt", ".txt"))
    named = {}
    for name, text in files.items():
        plain = name
        for was, is_now in endings:
            plain = plain.replace(was, is_now)
        named[plain] = text
    write_tree(tree, named)
    commands = {tree / name: tuple(read_commands(text)) for name, text in named.items()}
    found = guards_of_files(commands, tree)
    return {path.relative_to(tree).as_posix(): guard for path, guard in found.items()}


@pytest.mark.parametrize(
    "words",
    ["cmake/extra.cmake", "extra", "${PROJECT_SOURCE_DIR}/cmake/extra.cmake"],
)
def test_knows_condition_of_module(words: str, tmp_path: Path) -> None:
    found = guards(
        tmp_path, CMakeLists_txt=f"if(X)\ninclude({words})\nendif()", cmake__extra_cmake=""
    )

    assert found == {"CMakeLists.txt": "", "cmake/extra.cmake": "X"}


def test_adds_conditions_up_to_the_top(tmp_path: Path) -> None:
    found = guards(
        tmp_path,
        CMakeLists_txt="if(X)\nadd_subdirectory(a)\nendif()",
        a__CMakeLists_txt="if(Y)\nadd_subdirectory(b)\nendif()",
        a__b__CMakeLists_txt="",
    )

    assert found["a/b/CMakeLists.txt"] == "X AND Y"


def test_knows_none_of_what_is_included_twice(tmp_path: Path) -> None:
    text = "if(X)\ninclude(extra)\nendif()\ninclude(extra)"

    assert guards(tmp_path, CMakeLists_txt=text, cmake__extra_cmake="")["cmake/extra.cmake"] == ""


def test_leaves_out_module_that_nothing_names(tmp_path: Path) -> None:
    found = guards(
        tmp_path,
        CMakeLists_txt="find_package(Odd)\nforeach(one used)\ninclude(${one})\nendforeach()",
        cmake__FindOdd_cmake="",
        cmake__used_cmake="",
        cmake__lost_cmake="",
    )

    assert {*found} == {"CMakeLists.txt", "cmake/FindOdd.cmake", "cmake/used.cmake"}


def test_ends_where_files_include_each_other(tmp_path: Path) -> None:
    found = guards(
        tmp_path, CMakeLists_txt="", a_cmake="if(X)\ninclude(b)\nendif()", b_cmake="include(a)"
    )

    assert found["b.cmake"] == "X"
