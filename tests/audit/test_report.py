"""What is printed of an audit, and its data."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import rich.console

from cuwheel.audit.report import print_result
from cuwheel.audit.verdict import audit_wheel
from cuwheel.system import process
from cuwheel.system.console import Console
from tests.support.audited import make_wheel, run_session
from tests.support.documents import read_document
from tests.support.factories import compile_cuda, write_wheel
from tests.support.planted import TAG, make_library

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_ends_with_line_for_each_of_many_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels = [make_wheel(tmp_path, name=name) for name in ("a_one", "b_two")]

    run_session(tmp_path, *wheels)

    lines = capsys.readouterr().out.splitlines()[-2:]
    assert lines == [f"{wheel.name}: nothing found" for wheel in wheels]


def test_prints_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(tmp_path, "-Wl,-z,norelro")

    run_session(tmp_path, wheel, as_json=True, fails_on="never")

    [data] = read_document(capsys.readouterr().out, "audit")["wheels"]
    assert (data["wheel"], data["verdict"], data["recipe"]) == (wheel.name, "warning", None)
    assert data["findings"] == [
        {
            "severity": "warning",
            "rule": "relro",
            "file": "tiny_cuda/libtiny.so",
            "fact": "its relocated data stays writable (no PT_GNU_RELRO)",
            "anchor": "TROUBLESHOOTING.md#audit-relro",
        }
    ]
    assert data["libraries"][0]["file"] == "tiny_cuda/libtiny.so"


def printed(folder: Path, *needed: str) -> str:
    """The report on a wheel with libraries that need one of these each."""
    files: dict[str, Path | bytes] = {
        f"pkg/lib{name}.so": make_library(folder / name, soname, code=f"int {name};\n")
        for name, soname in zip("ab", needed, strict=True)
    }
    wheel = write_wheel(folder / "dist", files, name="pkg", tag=TAG)
    terminal = rich.console.Console(file=io.StringIO(), width=200)
    print_result(audit_wheel(wheel), terminal, Console())
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def test_names_runtime_and_code_for_link_at_run_time(
    tmp_path: Path, cuda_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "twice.cu"
    source.write_text("__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n")
    library = compile_cuda(tmp_path / "lib.so", cuda_home, source, "-arch=sm_90")
    flags = ("-fatbin", "-gencode=arch=compute_90,code=lto_90")
    process.run(
        [cuda_home / "bin" / "nvcc", "-ccbin=g++", *flags, source, "-o", tmp_path / "k.fatbin"],
        env={"PATH": os.environ["PATH"]},
    )
    files: dict[str, bytes | Path] = {"pkg/lib.so": library, "pkg/k.fatbin": tmp_path / "k.fatbin"}
    wheel = write_wheel(tmp_path / "dist", files, name="pkg", tag=TAG)

    run_session(tmp_path, wheel, fails_on="never")

    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "CUDA runtime 13.0, statically linked" in rows
    assert "device files 1: lto_90 (LTO-IR)" in rows


def test_says_once_what_is_true_of_several_files(tmp_path: Path) -> None:
    said = printed(tmp_path, "libcufft.so.12", "libcufft.so.12")

    assert said.count("libcufft.so.12 comes from nvidia-cufft, which isn't") == 1
    assert "  pkg/liba.so and 1 more: libcufft.so.12" in said


def test_says_once_what_differs_in_numbers_only(tmp_path: Path) -> None:
    said = printed(tmp_path, "libodd.so.3", "libodd.so.4")

    assert "and 1 more that differ in numbers only: -- -v shows all" in said


def test_shows_who_supplies_what(tmp_path: Path) -> None:
    rows = [line.split() for line in printed(tmp_path, "libcuda.so.1", "libc.so.6").splitlines()]

    assert ["driver", "libcuda.so.1"] in rows
    assert not any(row[:1] == ["system"] for row in rows)


def test_ends_with_the_number_of_findings_of_each_kind(tmp_path: Path) -> None:
    last = printed(tmp_path, "libnowhere.so.3", "libnowhere.so.3").splitlines()[-1]

    assert last == f"pkg-1.2.3-{TAG}.whl: 2 errors"
