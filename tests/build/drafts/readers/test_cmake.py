from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.drafts.readers.cmake import CMakeCommand, read_cmake, read_commands
from tests.support.build.drafts import CMAKE_FILES, write_tree


def test_reads_package_whole(tmp_path: Path) -> None:
    findings = read_cmake(write_tree(tmp_path, CMAKE_FILES))

    assert {(finding.kind, finding.name, finding.default) for finding in findings} == {
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
    ("text", "findings"),
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
def test_reads_command(text: str, findings: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(text)

    assert findings in {(finding.kind, finding.name) for finding in read_cmake(tmp_path)}


def test_leaves_out_tests_and_examples(tmp_path: Path) -> None:
    files = {f"{name}/CMakeLists.txt": "enable_language(CUDA)" for name in ("tests", "src")}

    findings = read_cmake(write_tree(tmp_path, files))

    assert [finding.where for finding in findings] == ["src/CMakeLists.txt:1"]


def test_reads_names_arguments_and_lines() -> None:
    commands = list(read_commands('SET(A "b c" d)\n\nproject(x\n  LANGUAGES CUDA)\n'))

    assert commands == [
        CMakeCommand(name="set", arguments=("A", "b c", "d"), line=1, guard=""),
        CMakeCommand(name="project", arguments=("x", "LANGUAGES", "CUDA"), line=3, guard=""),
    ]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("set(A [[b) c]])", ("A", "b) c")),
        ("set(A [==[b]]c]==])", ("A", "b]]c")),
        ("set(A # set(B)\n b)", ("A", "b")),
        ("set(A #[[ b\n ]] c)", ("A", "c")),
        ("set(A ${B} $ENV{C})", ("A", "${B}", "$ENV{C}")),
        ('set(A "b\\"c(")', ("A", 'b\\"c(')),
        ("set(A (b OR c))", ("A", "(", "b", "OR", "c", ")")),
        ("set(A $<$<CONFIG:x>:-g>)", ("A", "$<$<CONFIG:x>:-g>")),
    ],
)
def test_reads_arguments(text: str, arguments: tuple[str, ...]) -> None:
    [commands] = read_commands(text)

    assert commands.arguments == arguments


def test_knows_conditions() -> None:
    text = "if(A)\na()\nelseif(B)\nb()\nelse()\nc()\nendif()\nif(D)\nif(E)\nd()\nendif()\nendif()\n"

    guards = {command.name: command.guard for command in read_commands(text)}

    assert guards["a"] == "A"
    assert guards["b"] == "NOT (A) AND B"
    assert guards["c"] == "NOT (B)"
    assert guards["d"] == "D AND E"


def test_counts_lines_over_texts_of_several() -> None:
    commands = list(read_commands('a("x\ny")\n#[[\n\n]]\nb()\n'))

    assert [command.line for command in commands] == [1, 6]


@pytest.mark.parametrize("text", ["", "(", "a", "a(", 'a("', ")", "a b c", "endif()", "\x00("])
def test_survives_what_is_no_cmake(text: str) -> None:
    list(read_commands(text))
