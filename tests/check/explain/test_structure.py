"""The parts of a log, and which of its errors count."""

from __future__ import annotations

import pytest

from cuwheel.check.explain.explanation import Explainer
from tests.support.check.explanations import GCC_TOO_NEW, explain

BAD = (
    "Building wheels for collected packages: bad, good",
    "  Building wheel for bad (pyproject.toml): started",
    GCC_TOO_NEW,
    "  ERROR: Failed building wheel for bad",
)
GOOD = (
    "  Building wheel for good (pyproject.toml): started",
    "  Building wheel for good (pyproject.toml): finished with status 'done'",
    "Successfully built good",
)
INSTALLED = ("Collecting six", "Successfully installed six-1.17.0")
FRAMES = (
    "Traceback (most recent call last):",
    '  File "run.py", line 3, in <module>',
    "    load()",
    "runtime.NoSuchFile: net.onnx",
)
CONFIGURED = (
    "-- The CXX compiler identification is GNU 12.2.0",
    "-- Detecting CXX compiler ABI info - done",
    "-- The CUDA compiler identification is NVIDIA 13.0.88",
    "-- Configuring done (1.2s)",
    "-- Build files have been written to: /src/build",
)
MADE = ("make: *** [Makefile:3: k.o] Error 1",)


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


@pytest.mark.parametrize(
    "lines",
    [
        (*BAD, *GOOD, "error: failed-wheel-build-for-install"),
        (*BAD, "error: failed-wheel-build-for-install", *INSTALLED),
        (GCC_TOO_NEW, *MADE, *INSTALLED),
        (GCC_TOO_NEW, *MADE, "-- Build files have been written to: /src/build"),
        ("+ make", GCC_TOO_NEW, "+ pip install six", *INSTALLED),
        ("error: Failed to build `bad==1`", GCC_TOO_NEW, *INSTALLED),
        (GCC_TOO_NEW, "Resolved 1 package in 4ms", "Installed 1 package in 2ms"),
        (GCC_TOO_NEW, "Solving environment: done", "Executing transaction: done"),
    ],
    ids=["package", "installation", "make", "cmake", "command", "uv", "by uv", "by conda"],
)
def test_success_closes_its_own_part(lines: tuple[str, ...], explainer: Explainer) -> None:
    explanation = explain(explainer, *lines)

    assert [cause.slug for cause in explanation.causes] == ["host-compiler-too-new"]
    assert explanation.error
    assert explanation.error.text == GCC_TOO_NEW


@pytest.mark.parametrize(
    "lines",
    [
        (*BAD, "Collecting bad", "Successfully installed bad-1.0"),
        (GCC_TOO_NEW, "-- Build files have been written to: /src/build"),
        (*BAD, "Finished: SUCCESS"),
        ("Looking in indexes: mirror", GCC_TOO_NEW, *INSTALLED),
        (*CONFIGURED[:2], GCC_TOO_NEW, *CONFIGURED[2:]),
        ("The Meson build system", GCC_TOO_NEW, "Build targets in project: 3"),
        ("checking build system type... x86_64", GCC_TOO_NEW, "config.status: creating Makefile"),
        ("Test project /src/build", GCC_TOO_NEW, "100% tests passed, 0 tests failed out of 3"),
    ],
    ids=[
        "same package",
        "same run",
        "whole log",
        "same installation",
        "several languages",
        "meson",
        "autoconf",
        "ctest",
    ],
)
def test_success_overcomes_its_part(lines: tuple[str, ...], explainer: Explainer) -> None:
    assert not explain(explainer, *lines).failed


def test_last_exception_of_a_chain_failed(explainer: Explainer) -> None:
    explanation = explain(
        explainer,
        "Traceback (most recent call last):",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "run.py", line 3, in <module>',
        "KeyError: 'blocks'",
    )

    assert explanation.error
    assert explanation.error.text == "KeyError: 'blocks'"
    assert [cause.weight for cause in explanation.causes] == ["likely"]


def test_error_is_no_wrapper(explainer: Explainer) -> None:
    explanation = explain(
        explainer,
        "error: subprocess-exited-with-error",
        "Traceback (most recent call last):",
        "ops.cu(7): error: no such frobnicator",
        "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1.",
        "RuntimeError: Error compiling objects for extension",
    )

    assert explanation.error
    assert explanation.error.line == 3


def test_many_failures_stay_bounded(explainer: Explainer) -> None:
    explanation = explain(explainer, *[line for _ in range(5_000) for line in (*BAD, *MADE)])

    assert len(explanation.causes[0].evidence) < 200


@pytest.mark.parametrize(
    "line",
    [
        "a.cpp:1:19: Fehler: expected »;« before »}« token",
        "a.cpp:2:5: Fehler: »bar« nicht deklariert",
        "a.cpp:4:24: erreur: « y » n'a pas été déclaré dans cette portée",
        "a.cpp:2:3: エラー: 識別子が予期されます",
    ],
)
def test_reads_severity_in_other_languages(line: str, explainer: Explainer) -> None:
    assert explain(explainer, line).causes[0].slug == "source-error"


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("w.c:2:10: фатальная ошибка: fftw3.h: Нет такого файла или каталога", "dependency-header"),
        (
            "w.c:2:10: erreur fatale\u00a0: fftw3.h: Aucun fichier ou dossier de ce type",
            "dependency",
        ),
        ("w.c:2:10: 致命错误\uff1acublas_v2.h\uff1a没有那个文件或目录", "missing-cuda-headers"),
        ("./build.sh: строка 3: cmake: команда не найдена", "build-tool-missing"),
        ("tar: a: Auf dem Gerät ist kein Speicherplatz mehr verfügbar", "disk-full"),
        ("libcudart.so.12: 无法打开共享对象文件: 没有那个文件或目录", "libcudart"),
        ("x.cpp:(.text+0x5): неопределённая ссылка на «launch(int)»", "own-symbol-undefined"),
    ],
)
def test_reads_a_translated_line_as_its_english_one(
    line: str, slug: str, explainer: Explainer
) -> None:
    first = explain(explainer, line).causes[0]

    assert first.slug.startswith(slug)
    assert first.evidence[0].text == line


@pytest.mark.parametrize(
    "line",
    [
        "1 out of 1 hunk FAILED -- saving rejects to file src/ops.c.rej",
        "run.sh: line 1: ./build.sh: cannot execute: required file not found",
        "run.sh: line 3: cutlass.tar: No such file or directory",
        "run.sh: line 3: $'\\r': command not found",
    ],
)
def test_failure_without_a_known_cause_is_one(line: str, explainer: Explainer) -> None:
    explanation = explain(explainer, line)

    assert (explanation.failed, explanation.causes) == (True, ())


HOST_CALL = "calling a __host__ function from a __device__ function is not allowed"


@pytest.mark.parametrize(
    "lines",
    [
        ("op.py:3: UserWarning: Torch not compiled with CUDA enabled", *FRAMES),
        (f"+ echo '{GCC_TOO_NEW}'", *FRAMES),
        (GCC_TOO_NEW, "make: [Makefile:3: k.o] Error 1 (ignored)", *FRAMES),
        (f"k.cu(5): warning #20014-D: {HOST_CALL}", *FRAMES),
    ],
    ids=["warning", "set -x", "ignored", "nvcc's warning"],
)
def test_uncaught_exception_is_the_failure(lines: tuple[str, ...], explainer: Explainer) -> None:
    explanation = explain(explainer, *lines)

    assert explanation.causes == ()
    assert explanation.error
    assert explanation.error.text == FRAMES[-1]


def test_line_that_a_failed_test_printed_is_a_hint(explainer: Explainer) -> None:
    explanation = explain(
        explainer,
        "t/test_a.py:7: AssertionError",
        "----- Captured log call -----",
        GCC_TOO_NEW,
        "===== short test summary info =====",
    )

    assert [cause.weight for cause in explanation.causes] == ["hint"]
