from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.explain.catalogue import Weight
from cuwheel.explain.explanation import Explainer, Explanation
from cuwheel.explain.report import ExplainDocument, explained_log, explanation_as_text
from cuwheel.paths import ROOT
from cuwheel.system.output.documents import as_line
from tests.support.documents import read_document
from tests.support.explained import BUILT, GCC_TOO_NEW

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


def explain(explainer: Explainer, *lines: str, **known: str) -> Explanation:
    return explainer.explain(io.BytesIO("\n".join(lines).encode()), known)


def slugs(explanation: Explanation) -> list[str]:
    return [one.cause.slug for one in explanation.causes]


def test_finds_line_among_many(explainer: Explainer) -> None:
    noise = [f"[{number}/90000] nvcc -Werror -c file{number}.cu" for number in range(40_000)]

    found = explain(explainer, *noise, GCC_TOO_NEW, *noise, "ninja: build stopped.").causes[0]

    assert found.cause.slug == "host-compiler-too-new"
    assert found.evidence[0].number == len(noise) + 1
    assert found.evidence[0].text == GCC_TOO_NEW


def test_fills_in_what_the_line_says(explainer: Explainer) -> None:
    (found,) = explain(explainer, GCC_TOO_NEW).causes

    assert "CUDA 12.2 supports GCC up to 12" in found.why
    assert "gxx_linux-64=12" in found.fix


def test_fills_in_what_is_known_besides(explainer: Explainer) -> None:
    line = "#error -- unsupported GNU version! gcc versions later than 12 are not supported!"

    (found,) = explain(explainer, line, cuda="12.1").causes

    assert "CUDA 12.1 supports GCC up to 12" in found.why


@pytest.mark.parametrize(
    "log",
    [
        f"\x1b[01;31m\x1b[K{GCC_TOO_NEW}\x1b[m",
        f"2026-11-22T05:00:00.1234567Z {GCC_TOO_NEW}",
        f"#12 34.56 {GCC_TOO_NEW}",
        GCC_TOO_NEW.upper(),
        GCC_TOO_NEW.replace("\n", "\r\n") + "\r\n",
        f"  Building: 10%\r  Building: 20%\r{GCC_TOO_NEW}",
    ],
)
def test_sees_through_decoration(log: str, explainer: Explainer) -> None:
    assert slugs(explain(explainer, log)) == ["host-compiler-too-new"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_reads_other_encodings(encoding: str, explainer: Explainer) -> None:
    log = f"größer\n{GCC_TOO_NEW}\n".encode(encoding)

    assert slugs(explainer.explain(io.BytesIO(log))) == ["host-compiler-too-new"]


def test_finds_nothing_where_it_went_well(explainer: Explainer) -> None:
    told = explain(
        explainer, "-- Performing Test HAS_FLAG - Failed", "c++ -Werror -c error.c", BUILT
    )

    assert not told.failed
    assert "no failure found in 3 lines" in explanation_as_text(told, "build.log")


def test_forgives_what_was_overcome(explainer: Explainer) -> None:
    told = explain(explainer, GCC_TOO_NEW, BUILT)

    assert (told.failed, told.overcome) == (False, ("host-compiler-too-new",))


def test_does_not_forgive_what_outlasts_a_success(explainer: Explainer) -> None:
    told = explain(
        explainer,
        "ERROR: pip's dependency resolver does not currently take into account all the packages",
        "torchvision 0.18.0 requires torch==2.3.0, but you have torch 2.4.1",
        "Successfully installed torch-2.4.1",
    )

    assert slugs(told) == ["pip-resolution-conflict"]


def test_remembers_what_came_again_behind_a_success(explainer: Explainer) -> None:
    told = explain(explainer, *[GCC_TOO_NEW] * 5, BUILT, GCC_TOO_NEW)

    assert [one.number for one in told.causes[0].evidence] == [7]


def test_shows_first_error_where_it_knows_nothing(explainer: Explainer) -> None:
    lines = ["one", "two", "three", "widget.c:4: error: no such frobnicator", "five", "six"]

    text = explanation_as_text(explain(explainer, *lines), "build.log")

    assert "cuwheel knows none of its errors" in text
    assert ">       4  widget.c:4: error: no such frobnicator" in text
    assert "        2  two" in text
    assert "docs/how-to/failure-catalogue.md" in text


@pytest.mark.parametrize("log", ["", "\n", "\0\0\0", "no newline", "\xff\xfe" * 100])
def test_survives_anything(log: str, explainer: Explainer) -> None:
    assert not explain(explainer, log).causes


def test_gives_data(explainer: Explainer) -> None:
    found = explained_log(explain(explainer, "first", GCC_TOO_NEW), "build.log")

    [data] = read_document(as_line(ExplainDocument(logs=(found,))), "explain")["logs"]
    (cause,) = data["causes"]
    assert (data["log"], data["lines"], data["failed"]) == ("build.log", 2, True)
    assert cause["evidence"][0]["line"] == 2
    assert cause["anchor"] == "TROUBLESHOOTING.md#host-compiler-too-new"


@pytest.mark.e2e
def test_reads_large_log_in_bounded_memory(tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    with log.open("w") as stream:
        for number in range(25_000):
            stream.write(f"[{number}] " + "nvcc -O3 -c some/file.cu -o some/file.o " * 50 + "\n")
    script = (
        "import resource, sys; from cuwheel.explain.explanation import Explainer; "
        "explainer = Explainer(); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "told = explainer.explain(open(sys.argv[1], 'rb')); "
        "print(told.lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, log],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    lines, grown = map(int, done.stdout.split())
    assert lines == 25_000
    assert grown << 10 < log.stat().st_size // 2


def test_names_the_nearest_cause_where_no_pattern_fits(explainer: Explainer) -> None:
    line = "RuntimeError: libcudnn_ops of cuDNN was refused by dlopen"
    found = explain(explainer, "start", line)

    (one,) = found.causes

    assert one.cause.slug == "libcudnn-not-found"
    assert one.weight is Weight.PERHAPS
    assert [evidence.text for evidence in one.evidence] == [line]
    text = explanation_as_text(found, "x.log")
    assert text.index("cuwheel knows none of its errors") < text.index("Perhaps:")
    assert explained_log(found, "x.log").causes[0].weight == "perhaps"


def test_guesses_nothing_where_nothing_failed(explainer: Explainer) -> None:
    found = explain(explainer, "libcudnn_ops of cuDNN was opened with dlopen", "done")

    assert not found.causes
    assert not found.failed


def test_guesses_nothing_where_a_success_came_after(explainer: Explainer) -> None:
    found = explain(
        explainer,
        "RuntimeError: libcudnn_ops of cuDNN was refused by dlopen",
        "Successfully installed x-1.0",
    )

    assert not found.causes


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("docker: container exited with code 137", "oom-killed-compile"),
        ("worker exited with code 139", "native-crash"),
        ("Process finished with exit code 134", "native-crash"),
        ("the test process exited with code 132", "cpu-instruction-missing"),
        ("Process exited with code 0xC0000005", "native-crash"),
        ("importing it after torch crashes with a segfault", "native-crash"),
        ("python segfaults on import", "native-crash"),
    ],
)
def test_explains_a_crash_that_shows_as_a_code_or_in_words(
    explainer: Explainer, line: str, slug: str
) -> None:
    assert slugs(explain(explainer, line))[:1] == [slug]
