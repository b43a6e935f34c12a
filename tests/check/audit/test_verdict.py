"""The verdict as a whole; each rule has its own tests in tests/audit/rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.version import InvalidVersion

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.check.audit import verdict
from cuwheel.check.audit.case import AuditCase
from cuwheel.check.audit.findings import AuditFinding, finding
from cuwheel.check.audit.scan import WheelScan
from cuwheel.check.audit.verdict import _merged, audit_wheel, facts_of, unreadable
from tests.support.factories import compile_cuda, compile_library
from tests.support.packages.defective_wheels import (
    CU13,
    MEMBER,
    audited,
    audited_library,
    breaches,
    files_breaches,
)


def make_static(folder: Path, home: Path, *flags: str | Path) -> Path:
    """A library with a linked runtime."""
    source = folder / "twice.cu"
    source.write_text("__global__ void twice(float *p) { p[threadIdx.x] *= 2; }\n")
    return compile_cuda(folder / "lib.so", home, source, "-arch=sm_90", f"-L{home}/lib", *flags)


def needing(folder: Path, soname: str) -> tuple[str | Path, ...]:
    """Return the flags of nvcc for a library that needs another."""
    source = folder / "stub.c"
    source.write_text("int answer(void) { return 42; }\n")
    stub = compile_library(folder / soname, "gcc", "-fPIC", source, f"-Wl,-soname,{soname}")
    return ("-Xlinker", "--no-as-needed", "-Xlinker", stub)


def test_finds_nothing_in_sound_wheel(tmp_path: Path) -> None:
    result = audited_library(tmp_path)

    assert (result.verdict, result.majors, result.min_driver) == (None, (), ())


def test_puts_the_worst_first(tmp_path: Path) -> None:
    flags = ("-Wl,-rpath,/tmp/lib", "-Wl,-z,execstack", "-Wl,-rpath,$ORIGIN/../nowhere/lib")

    result = audited_library(tmp_path, flags=flags)

    assert [finding.severity for finding in result.findings] == ["error", "warning", "note"]
    assert result.verdict == "error"
    assert not facts_of(result.case).findings


@pytest.mark.parametrize(
    ("soname", "tag", "driver"),
    [
        ("libcudart.so.12", "py3-none-manylinux_2_39_x86_64", "525.60.13"),
        ("libcudart.so.13", "py3-none-manylinux_2_39_x86_64", "580.65.06"),
        ("libcudart.so.13", "py3-none-manylinux_2_39_aarch64", "580.65.06"),
    ],
)
def test_names_oldest_driver_of_each_cuda(
    tmp_path: Path, soname: str, tag: str, driver: str
) -> None:
    major = int(soname.rpartition(".")[2])

    result = audited_library(tmp_path, soname, tag=tag)

    assert (result.majors, result.min_driver) == ((major,), ((major, driver),))
    assert facts_of(result.case).min_driver == result.min_driver


def test_names_cuda_and_driver_of_linked_runtime(tmp_path: Path, cuda_home: Path) -> None:
    result = audited(tmp_path, {MEMBER: make_static(tmp_path, cuda_home)})

    assert result.case.runtimes == ("13.0",)
    assert (result.majors, result.min_driver) == ((13,), ((13, "580.65.06"),))


def test_linked_runtime_counts_beside_needed_libraries(tmp_path: Path, cuda_home: Path) -> None:
    library = make_static(tmp_path, cuda_home, *needing(tmp_path, "libcudart.so.12"))

    result = audited(tmp_path, {MEMBER: library})

    assert result.min_driver == ((12, "525.60.13"), (13, "580.65.06"))
    assert [f.severity for f in result.findings if f.rule == "driver"] == ["warning"]


def test_driver_has_to_know_compression(tmp_path: Path, cuda_home: Path) -> None:
    flags = ("--compress-mode=size", "-cudart=none", *needing(tmp_path, "libcudart.so.12"))

    result = audited(tmp_path, {MEMBER: make_static(tmp_path, cuda_home, *flags)}, name="pkg_cu12")

    assert result.min_driver == ((12, "550.54.14"),)
    assert [f.severity for f in result.findings if "zstd" in f.fact] == ["warning"]
    assert [f.severity for f in result.findings if "PTX 9.0" in f.fact] == ["warning"]


def test_lazily_opened_runtime_tells_cuda(tmp_path: Path) -> None:
    code = '#include <dlfcn.h>\nvoid *f(void) { return dlopen("libcudart.so.12", 2); }\n'

    result = audited_library(tmp_path, code=code)

    assert (result.majors, result.min_driver) == ((12,), ((12, "525.60.13"),))


def test_package_without_compiled_code_needs_no_driver(tmp_path: Path) -> None:
    result = audited(tmp_path, {"pkg/__init__.py": b"x = 1\n"}, requires=("torch>=2.11",))

    assert (result.majors, result.min_driver) == ((), ())


def test_finds_linked_runtime_of_other_cuda_than_name(tmp_path: Path, cuda_home: Path) -> None:
    library = make_static(tmp_path, cuda_home)

    findings = files_breaches(tmp_path, {MEMBER: library}, name="pkg_cu12")

    assert ("error", "mixed CUDA majors", MEMBER) in findings


def test_takes_cuda_of_the_name_without_libraries_of_cuda(tmp_path: Path) -> None:
    assert audited_library(tmp_path, flags=(CU13,), name="pkg_cu12").majors == (12,)


def test_file_that_is_no_wheel_has_one_error(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    path.write_bytes(b"PK")

    with pytest.raises(UnsafeArchiveError):
        audit_wheel(path)

    result = unreadable(path, "why")
    assert breaches(result) == [("error", "archive", path.name)]
    assert result.case.scan.size == 2


def test_failing_rule_keeps_findings_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(case: AuditCase) -> Iterator[AuditFinding]:
        raise InvalidVersion(case.project)

    monkeypatch.setattr(verdict, "library_findings", fail)

    result = audited_library(tmp_path, requires=("numpy<2", "numpy>=2"))

    assert [f.rule for f in result.findings] == ["metadata", "not checked"]
    assert "InvalidVersion in fail: pkg" in result.findings[1].fact


_ABI = "it needs {}, which torch {} to 2.15 lacks; torch>=2 is required, it loads with 2.3"
_TAG = "it needs {}, which manylinux_2_5_x86_64 doesn't guarantee; manylinux_2_{}_x86_64 does"


@pytest.mark.parametrize(
    ("rule", "facts", "count"),
    [
        ("framework ABI", (_ABI.format("a", "2.6"), _ABI.format("b", "2.6")), 1),
        ("framework ABI", (_ABI.format("a", "2.6"), _ABI.format("b", "2.4")), 2),
        ("platform tag", (_TAG.format("a", 24), _TAG.format("b", 34)), 1),
        ("rpath", ("the entry x is here", "the entry x is here"), 1),
    ],
)
def test_one_finding_for_libraries_with_one_cause(
    rule: str, facts: tuple[str, ...], count: int
) -> None:
    case = AuditCase(scan=WheelScan(file_name="pkg-1.0-py3-none-any.whl", size=1), contract=None)
    found = [finding(f"pkg/{number}.so", rule, fact) for number, fact in enumerate(facts)]

    merged = list(_merged(found, case))

    assert len(merged) == count
    if count == 1:  # the one that needs the newest system stands for all
        first = int(rule == "platform tag")
        assert merged[0].fact == f"{facts[first]}; the same in pkg/{1 - first}.so"
