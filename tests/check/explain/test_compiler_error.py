"""The first error of a compiler, in logs of real builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.check.explain.compiler_error import first_compiler_error

PTX = "/tmp/tmpxft_00000006_00000000-6_scatter_add_0.ptx"
RAW = ROOT / "tests" / "logs" / "raw"


@pytest.mark.parametrize(
    ("log", "text", "command"),
    [
        (
            "dependency-header-missing--make-long",
            "src/softmax_1.cpp:2:10: error: nlohmann/json.hpp: No such file or directory",
            "g++ -std=c++17",
        ),
        (
            "cuda13-cccl-api-removed--ninja-long",
            '/home/builder/fastops/csrc/cumsum_2.cu:5: error: namespace "cub" has no member "Sum"',
            "/usr/local/cuda-13.0/bin/nvcc … -c /home/builder/fastops/csrc/cumsum_2.cu … (line ",
        ),
        (
            "nvcc-headers-version-mix--ptxas",
            f"{PTX}:9: error: Unsupported .version 9.1; current version is '9.0'",
            "",
        ),
        (
            "nvcc-older-than-package-minimum--cmake",
            "CMakeLists.txt:7: error: fastops needs CUDA 13.2 or newer, found 13.0.88",
            "",
        ),
        (
            "nvcc-unknown-option--make",
            "nvcc fatal   : Unknown option '--split-compile-extend=4'",
            "",
        ),
    ],
)
def test_names_first_error(log: str, text: str, command: str) -> None:
    error = first_compiler_error(RAW / f"{log}.log")

    assert error is not None
    assert error.text == text
    assert error.command.startswith(command)
    assert bool(error.command) == bool(command)


@pytest.mark.parametrize("log", sorted(RAW.glob("ok--*.log")), ids=lambda path: path.stem)
def test_healthy_log_has_none(log: Path) -> None:
    assert first_compiler_error(log) is None


def test_ignores_prefixes_of_ci(tmp_path: Path) -> None:
    stamp = "2026-11-22T06:38:52.5187790Z "
    log = tmp_path / "build.log"
    log.write_text(
        f"{stamp}[1/2] /bin/nvcc -c b.cu\n{stamp}[2/2] /bin/nvcc -c a.cu\n"
        f"{stamp}\x1b[1ma.cu(3): error: no\n"
    )

    error = first_compiler_error(log)

    assert error is not None
    assert (error.file, error.line, error.text) == ("a.cu", "3", "a.cu:3: error: no")
    assert error.command == "/bin/nvcc -c a.cu"
