from __future__ import annotations

import pytest

from cuwheel.drafts.readers.cmake_text import Command, read_commands


def test_reads_names_arguments_and_lines() -> None:
    found = list(read_commands('SET(A "b c" d)\n\nproject(x\n  LANGUAGES CUDA)\n'))

    assert found == [
        Command(name="set", arguments=("A", "b c", "d"), line=1, guard=""),
        Command(name="project", arguments=("x", "LANGUAGES", "CUDA"), line=3, guard=""),
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
    [found] = read_commands(text)

    assert found.arguments == arguments


def test_knows_conditions() -> None:
    text = "if(A)\na()\nelseif(B)\nb()\nelse()\nc()\nendif()\nif(D)\nif(E)\nd()\nendif()\nendif()\n"

    guards = {one.name: one.guard for one in read_commands(text)}

    assert guards["a"] == "A"
    assert guards["b"] == "NOT (A) AND B"
    assert guards["c"] == "NOT (B)"
    assert guards["d"] == "D AND E"


def test_counts_lines_over_texts_of_several() -> None:
    found = list(read_commands('a("x\ny")\n#[[\n\n]]\nb()\n'))

    assert [one.line for one in found] == [1, 6]


@pytest.mark.parametrize("text", ["", "(", "a", "a(", 'a("', ")", "a b c", "endif()", "\x00("])
def test_survives_what_is_no_cmake(text: str) -> None:
    list(read_commands(text))
