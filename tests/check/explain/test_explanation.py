from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.output.documents import as_line
from cuwheel.check.explain.explain import ExplainDocument, explained_log
from cuwheel.check.explain.explanation import Explainer, Explanation
from tests.support.check.explanations import BUILT, GCC_TOO_NEW, explain
from tests.support.documents import read_document


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    return Explainer()


def slugs(explanation: Explanation) -> list[str]:
    return [cause.slug for cause in explanation.causes]


def test_finds_line_among_many(explainer: Explainer) -> None:
    noise = [f"[{number}/90000] nvcc -Werror -c file{number}.cu" for number in range(40_000)]

    first = explain(explainer, *noise, GCC_TOO_NEW, *noise, "ninja: build stopped.").causes[0]

    assert first.slug == "host-compiler-too-new"
    assert first.evidence[0].line == len(noise) + 1
    assert first.evidence[0].text == GCC_TOO_NEW


def test_fills_in_captures(explainer: Explainer) -> None:
    (result,) = explain(explainer, GCC_TOO_NEW).causes

    assert "CUDA 12.2" in result.why
    assert "gxx_linux-64=12" in result.fix


def test_fills_in_known_facts(explainer: Explainer) -> None:
    line = "#error -- unsupported GNU version! gcc versions later than 12 are not supported!"

    (result,) = explain(explainer, line, cuda="12.1").causes

    assert "CUDA 12.1" in result.why


@pytest.mark.parametrize(
    ("before", "slug"),
    [
        ("", "wrong-nvcc-picked"),
        ("Cuda compilation tools, release 13.0, V13.0.88", "arch-dropped-by-nvcc"),
        ("/usr/local/cuda-9.1/bin/nvcc -arch=sm_70 -c a.cu", "arch-newer-than-nvcc"),
    ],
)
def test_nvcc_that_ran_decides(before: str, slug: str, explainer: Explainer) -> None:
    line = "nvcc fatal   : Unsupported gpu architecture 'compute_70'"

    assert explain(explainer, before, line, cuda="12.4").causes[0].slug == slug


@pytest.mark.parametrize(("cuda", "package"), [("13.0.88", "dev-13-0"), ("", "dev-12-4")])
def test_names_packages_for_the_cuda_of_the_log(
    cuda: str, package: str, explainer: Explainer
) -> None:
    line = "a.cpp:1:10: fatal error: cusparse.h: No such file or directory"

    (result,) = explain(explainer, line, **({"cuda": cuda} if cuda else {})).causes

    assert f"apt install cuda-libraries-{package} " in result.fix


def test_names_the_whole_path(explainer: Explainer) -> None:
    line = "mkdir: cannot create directory '/usr/local/cuda-12.4': Permission denied"

    (result,) = explain(explainer, line).causes

    assert "`ls -ld /usr/local/cuda-12.4`" in result.fix


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
def test_ignores_decoration(log: str, explainer: Explainer) -> None:
    assert slugs(explain(explainer, log)) == ["host-compiler-too-new"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_reads_other_encodings(encoding: str, explainer: Explainer) -> None:
    log = f"größer\n{GCC_TOO_NEW}\n".encode(encoding)

    assert slugs(explainer.explain(io.BytesIO(log))) == ["host-compiler-too-new"]


def test_finds_nothing_in_healthy_log(explainer: Explainer) -> None:
    explanation = explain(
        explainer, "-- Performing Test HAS_FLAG - Failed", "c++ -Werror -c error.c", BUILT
    )

    assert (explanation.failed, explanation.lines) == (False, 3)


def test_success_overcomes_failure(explainer: Explainer) -> None:
    explanation = explain(explainer, GCC_TOO_NEW, BUILT)

    assert (explanation.failed, explanation.overcome) == (False, ("host-compiler-too-new",))


def test_success_does_not_overcome_lasting_failure(explainer: Explainer) -> None:
    explanation = explain(
        explainer,
        "ERROR: pip's dependency resolver does not currently take into account all the packages",
        "torchvision 0.18.0 requires torch==2.3.0, but you have torch 2.4.1",
        "Successfully installed torch-2.4.1",
    )

    assert slugs(explanation) == ["pip-resolution-conflict"]


def test_finds_failure_after_a_success(explainer: Explainer) -> None:
    explanation = explain(explainer, *[GCC_TOO_NEW] * 5, BUILT, GCC_TOO_NEW)

    assert [line.line for line in explanation.causes[0].evidence] == [7]


@pytest.mark.parametrize("log", ["", "\n", "\0\0\0", "no newline", "\xff\xfe" * 100])
def test_survives_anything(log: str, explainer: Explainer) -> None:
    assert not explain(explainer, log).causes


def test_converts_to_document(explainer: Explainer) -> None:
    log = explained_log(explain(explainer, "first", GCC_TOO_NEW), "build.log")

    [data] = read_document(as_line(ExplainDocument(logs=(log,))), "explain")["logs"]
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
        "import resource, sys; from cuwheel.check.explain.explanation import Explainer; "
        "explainer = Explainer(); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "log = explainer.explain(open(sys.argv[1], 'rb')); "
        "print(log.lines, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
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


def test_abstains_with_the_exact_error(explainer: Explainer) -> None:
    line = "RuntimeError: libcudnn_ops of cuDNN was refused by dlopen"
    explanation = explain(explainer, "start", line)

    assert explanation.error
    assert (explanation.causes, explanation.error.text) == ((), line)


CPU_TORCH = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install"


def test_asks_what_the_log_lacks(explainer: Explainer) -> None:
    explanation = explain(explainer, CPU_TORCH)

    assert slugs(explanation) == ["cuda-home-not-set", "built-without-cuda"]
    assert {cause.weight for cause in explanation.causes} == {"likely"}
    assert explanation.question
    assert explanation.question.command == 'python -c "import torch; print(torch.version.cuda)"'


@pytest.mark.parametrize(
    ("release", "slug"), [("cpu", "built-without-cuda"), ("cu130", "cuda-home-not-set")]
)
def test_fact_decides(release: str, slug: str, explainer: Explainer) -> None:
    explanation = explain(explainer, CPU_TORCH, torch_cuda=release)

    assert (slugs(explanation), explanation.question) == ([slug], None)


def test_quotes_advice_of_the_tool(explainer: Explainer) -> None:
    explanation = explain(
        explainer,
        "WARNING: Ignoring version 2.0.6 of omegaconf since it has invalid metadata:",
        "Please use pip<24.1 if you need to use this version.",
        "ERROR: No matching distribution found for omegaconf==2.0.6",
    )

    assert explanation.remedy
    assert explanation.remedy.line == 2


def test_computes_python_that_fits(explainer: Explainer) -> None:
    line = "RuntimeError: Cannot install on Python version 3.13.0; only versions >=3.8,<3.12 are"
    (cause,) = explain(explainer, f"{line} supported.").causes

    assert 'uv venv --python "3.11"' in cause.fix


def test_shows_own_error_with_its_place(explainer: Explainer) -> None:
    explanation = explain(explainer, 'src/a.cu(3): error: identifier "bar" is undefined')

    assert explanation.causes[0].slug == "source-error"
    assert "line 3 of src/a.cu" in explanation.causes[0].why


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
def test_explains_crash_by_code_or_words(explainer: Explainer, line: str, slug: str) -> None:
    assert slugs(explain(explainer, line))[:1] == [slug]


CAPTURING = "operation not permitted when stream is capturing"
WARP = "Warp CUDA error: Function cuShareHandle_f: a suitable driver entry point was not found"
SITE = "/opt/venv/lib/python3.12/site-packages"
NOT_LOADED = "ImportError: {}.cpython-312-x86_64-linux-gnu.so: undefined symbol: {}"
LD = "/usr/bin/ld: cannot find"
SOURCE = '  warnings.warn("Built without CUDA support, please rebuild")'
CUT = '    raise OSError("Unknown compute capability. Specify the target'
NO_ADDREF = "ImportError: a.so: undefined symbol: _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv"
IN_TRITON = "RuntimeError: Internal Triton PTX codegen error:"
NO_SPLIT = "AttributeError: 'NoneType' object has no attribute 'split'"


@pytest.mark.parametrize(
    ("log", "slug"),
    [
        # CUDA's own words for what a system refuses too
        (f"CUDA error: {CAPTURING}", "kernel-launch-refused"),
        ("chown: changing ownership of 'out': Operation not permitted", "permission-denied"),
        ("RuntimeError: CUDA error: system not yet initialized", "fabric-manager-not-running"),
        # a driver that is newer than the toolkit
        (f"{WARP}\n  CUDA Toolkit 12.8, Driver 13.0", ""),
        (f"{WARP}\n  CUDA Toolkit 12.8, Driver 12.2", "driver-too-old"),
        # a line of source, and what is printed
        (f"{SOURCE}\n\n\n{NO_ADDREF}", "glibcxx-too-old"),
        ("RuntimeError: Built without CUDA support, please rebuild\nstopped", "built-without-cuda"),
        (f"error: subprocess-exited-with-error\n{CUT}", "arch-list-empty-no-gpu"),
        # a symbol of a package's own namespace, of torch's, and of a project's
        (NOT_LOADED.format(f"{SITE}/t/io", "_ZN1t4readEPKc"), "native-libraries-mismatch"),
        (NOT_LOADED.format(f"{SITE}/t/io", "_ZN2at6detail4readEPKc"), "torch-abi-mismatch"),
        (NOT_LOADED.format("/src/t/io", "_ZN1t4readEPKc"), "own-symbol-undefined"),
        # torch's libraries, and CUDA's
        (f"{LD} -ltorch_cpu\n{LD} -ltorch_cuda", "missing-library-link"),
        (f"{LD} -lcurand\n{LD} -lcufft", "missing-cuda-libs-link"),
        # a line that another process split
        (f'{LD}  File "<string>", line 4, in f\n -lcuda\nerror', "missing-libcuda-link"),
        (f"{LD} -lgflags\n -lcuda\ncollect2: error", "missing-library-link"),
        # a heading, and the error below it
        (f"{IN_TRITON}\n  ptxas fatal   : Register allocation failed with count of '168'", ""),
        (f"{IN_TRITON}\n  nothing was printed", "triton-ptxas-too-old"),
        # torch.version.cuda of a CPU build, and another None
        (f"  major = torch.version.cuda.split('.')[0]\n{NO_SPLIT}", "built-without-cuda"),
        (f"  major = options.release.split('.')[0]\n{NO_SPLIT}", ""),
    ],
)  # fmt: skip
def test_tells_apart_what_looks_alike(explainer: Explainer, log: str, slug: str) -> None:
    explanation = explain(explainer, log)

    assert explanation.failed
    assert slugs(explanation)[:1] == ([slug] if slug else [])


def test_shows_error_below_a_heading(explainer: Explainer) -> None:
    explanation = explain(explainer, IN_TRITON, "  ptxas fatal   : Register allocation failed")

    assert explanation.error
    assert explanation.error.line == 2


@pytest.mark.parametrize(("module", "is_asked"), [("seglab.utils", True), ("torch._six", False)])
def test_asks_which_folder_is_imported(explainer: Explainer, module: str, is_asked: bool) -> None:  # noqa: FBT001
    explanation = explain(explainer, f"ModuleNotFoundError: No module named '{module}'")

    commands = [explanation.question.command] if explanation.question else []
    assert commands == ['python -c "import seglab; print(seglab.__path__)"'] * is_asked
