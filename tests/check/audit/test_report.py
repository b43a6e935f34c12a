"""The report of an audit, and its JSON document."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.base.system import process
from cuwheel.base.system.console import Console
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.report import print_result
from cuwheel.check.audit.scan import ScannedLibrary, WheelScan, join_codes
from cuwheel.check.audit.verdict import AuditResult
from tests.support.check.audits import make_wheel, run_session
from tests.support.documents import read_document
from tests.support.factories import compile_cuda, write_wheel
from tests.support.golden import Golden
from tests.support.packages.defective_wheels import TAG, make_library


def test_prints_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(tmp_path, "-Wl,-rpath,/tmp/lib")

    run_session(tmp_path, wheel, as_json=True, fails_on="never")

    [data] = read_document(capsys.readouterr().out, "audit")["wheels"]
    assert (data["wheel"], data["verdict"], data["recipe"]) == (wheel.name, "warning", None)
    [finding] = data["findings"]
    assert (finding["severity"], finding["rule"]) == ("warning", "rpath")
    assert finding["anchor"] == "TROUBLESHOOTING.md#audit-rpath"
    assert data["libraries"][0]["file"] == "tiny_cuda/libtiny.so"


def test_prints_facts_suppliers_and_findings(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    files: dict[str, Path | bytes] = {
        f"pkg/lib{name}.so": make_library(tmp_path / name, *needed, code=f"int {name};\n")
        for name, needed in (
            ("a", ("libcufft.so.12", "libcuda.so.1")),
            ("b", ("libcufft.so.12", "libc.so.6")),
            ("c", ("libnowhere.so.3",)),
        )
    }
    wheels = [
        write_wheel(tmp_path / "dist", files, name="pkg", tag=TAG),
        write_wheel(tmp_path / "dist", {"x.py": b""}, name="sound", tag="py3-none-any"),
    ]

    run_session(tmp_path, *wheels, fails_on="never")

    # The linker decides the size and the hash.
    output = re.sub(r"(?m)^(size|sha256) .*", r"\1", capsys.readouterr().out)
    golden.check("audit/two-wheels.txt", output)


def test_shows_which_library_has_code_for_which_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    old, new = DeviceCode(sass=("80", "90")), DeviceCode(sass=("90",), ptx=("90",))
    libraries = [
        ScannedLibrary(name=f"pkg/{name}.so", elf=None, device_code=code)
        for name, code in (("a", old), ("b", old), ("c", new))
    ]
    scan = WheelScan(file_name="pkg-1.0-py3-none-any.whl", size=1, libraries=tuple(libraries))
    case = AuditCase(scan=scan, contract=None)
    result = AuditResult(case=case, findings=(), code=join_codes([old, new]))

    print_result(result, rich.console.Console(), Console())

    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    first = rows.index("code for sm_80 sm_90 PTX 90")
    assert rows[first + 1 : first + 3] == ["pkg/a.so and 1 more x x", "pkg/c.so x x"]


def test_prints_one_fault_of_several_files_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("a", "b", "c", "d")
    files: dict[str, Path | bytes] = {
        f"pkg/{name}.py": b"\n" * line + b"from typing import override\n"
        for line, name in enumerate(names)
    }
    files["pkg/__init__.py"] = b"from . import a, b, c, d\n"
    wheel = write_wheel(tmp_path / "dist", files, name="pkg", tag="py3-none-any", python=">=3.10")

    run_session(tmp_path, wheel, fails_on="never")

    fault = "imports typing.override, which Python has from 3.12 on, but 3.10 is allowed"
    line = f"pkg/a.py:1, pkg/b.py:2, pkg/c.py:3 and 1 more: {fault}"
    assert line in " ".join(capsys.readouterr().out.split())


@pytest.mark.e2e
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
