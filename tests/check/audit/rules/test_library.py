"""The rules for single libraries, each with its defect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.base.formats.binaries.fatbin import ElementKind
from cuwheel.build.recipe.contract import contract_of
from cuwheel.build.recipe.recipe import Framework
from cuwheel.check.audit.verdict import audit_wheel, judge
from tests.support.check.scans import begin_fatbin
from tests.support.factories import compile_library, make_target, write_wheel
from tests.support.packages.defective_wheels import (
    CODE,
    MEMBER,
    audited,
    audited_library,
    breaches,
    files_breaches,
    library_breaches,
    make_library,
)

_CONTEXT = "_ZN2at7Context6hasMKLEv"  # which every release since 2.0 has
_STRING = '#include <string>\nstd::string f(int n) { return std::to_string(n) + "!"; }\n'


def calling(name: str) -> str:
    return f"int {name}(void); int f(void) {{ return {name}(); }}\n"


@pytest.mark.parametrize(
    ("sonames", "project"),
    [(("libcuda.so.1", "libcudart.so.12"), "pkg"), (("libcuda.so.1",), "pkg_cu12")],
    ids=["CUDA of needs", "CUDA of name"],
)
def test_finds_function_that_oldest_driver_lacks(
    tmp_path: Path, sonames: tuple[str, ...], project: str
) -> None:
    code = calling("cuMemcpyBatchAsync")

    result = audited_library(tmp_path, *sonames, code=code, name=project)

    [finding] = [item for item in result.findings if item.rule == "driver"]
    assert (finding.severity, finding.file) == ("warning", MEMBER)
    assert "CUDA 12.8 (cuMemcpyBatchAsync)" in finding.fact
    assert finding.fact.endswith("525.60.13")


@pytest.mark.parametrize("function", ["cuMemcpyBatchAsync", "cuMemAlloc_v2"])
def test_function_of_oldest_driver_passes(tmp_path: Path, function: str) -> None:
    code = calling(function)

    assert library_breaches(tmp_path, "libcuda.so.1", code=code, name="pkg_cu13") == []


@pytest.mark.parametrize(
    ("platform", "oldest"),
    [
        ("manylinux2014_x86_64", "manylinux_2_17_x86_64"),
        ("manylinux_2_12_x86_64.manylinux_2_17_x86_64", "manylinux_2_12_x86_64"),
    ],
)
def test_finds_symbols_of_newer_compiler(tmp_path: Path, platform: str, oldest: str) -> None:
    source = tmp_path / "code.cpp"
    source.write_text(_STRING)
    library = compile_library(tmp_path / "libmade.so", "g++", "-fPIC", source)

    result = audited(tmp_path, {MEMBER: library}, tag=f"py3-none-{platform}")

    facts = [item.fact for item in result.findings if "GLIBCXX_3.4" in item.fact]
    assert facts
    assert all(f"{oldest} doesn't guarantee; manylinux_2_" in fact for fact in facts)


def test_finds_text_relocations(tmp_path: Path) -> None:
    source = tmp_path / "code.c"
    source.write_text("extern int other;\nint *where(void) { return &other; }\n")
    flags = ("-fno-PIC", "-mcmodel=large", "-Wl,-z,notext")
    library = compile_library(tmp_path / "libmade.so", "gcc", source, *flags)

    findings = files_breaches(tmp_path, {MEMBER: library})

    assert ("warning", "text relocations", MEMBER) in findings


@pytest.mark.parametrize(
    ("flag", "severity", "rule"),
    [
        ("execstack", "error", "executable stack"),
        ("norelro", "note", "relro"),
        ("x86-64-v3", "warning", "platform tag"),
        ("x86-64-v4", "warning", "platform tag"),
    ],
)
def test_finds_flag_of_linker(tmp_path: Path, flag: str, severity: str, rule: str) -> None:
    findings = library_breaches(tmp_path, flags=(f"-Wl,-z,{flag}",))

    assert findings == [(severity, rule, MEMBER)]


@pytest.mark.parametrize(
    ("symbol", "serves", "count"),
    [(_CONTEXT, ("2.13.0",), 1), (_CONTEXT, (), 0), ("aoti_torch_get_dim", ("2.13.0",), 0)],
)
def test_finds_more_than_the_stable_abi(
    tmp_path: Path, symbol: str, serves: tuple[str, ...], count: int
) -> None:
    library = make_library(tmp_path / "made", "libtorch_cpu.so", code=calling(symbol))
    framework = Framework(name="torch", version="2.11.0", serves=serves)
    wheel = write_wheel(tmp_path / "dist", {MEMBER: library}, requires=("torch==2.11.*",))

    result = audit_wheel(wheel, contract=contract_of(make_target(framework=framework)))

    facts = [item.fact for item in result.findings if item.rule == "framework ABI"]
    assert len(facts) == count
    assert all(symbol in fact for fact in facts)


@pytest.mark.parametrize(
    ("entry", "severity"),
    [
        ("/usr/local/cuda-12.8/lib64", "note"),
        ("$ORIGIN/../../..", "note"),
        ("lib", "note"),
        ("/tmp/lib", "warning"),
        ("$ORIGIN/../nowhere/lib", "note"),
    ],
)
def test_finds_entry_that_leads_nowhere(tmp_path: Path, entry: str, severity: str) -> None:
    findings = library_breaches(tmp_path, flags=(f"-Wl,-rpath,{entry}",))

    assert findings == [(severity, "rpath", MEMBER)]


@pytest.mark.parametrize("entry", ["$ORIGIN/../nvidia/cudnn/lib", "$ORIGIN/../nvidia/cublas/lib"])
def test_entry_of_either_layout_passes(tmp_path: Path, entry: str) -> None:
    assert library_breaches(tmp_path, flags=(f"-Wl,-rpath,{entry}",)) == []


@pytest.mark.parametrize(
    ("name", "code", "severity"),
    [
        ("_ops", DeviceCode(sass=("75",)), "warning"),
        ("_ops_sm75", DeviceCode(sass=("75",)), "note"),
        ("_ops", DeviceCode(sass=("90a",)), "note"),
        ("_ops", DeviceCode(sass=("53", "87")), "warning"),
        ("_ops", DeviceCode(ptx=("120",), ptx_version=(8, 7)), "warning"),
        ("_ops", DeviceCode(ptx=("80",), ptx_version=(8, 7)), "note"),
    ],
)
def test_finds_module_for_fewer_gpus(
    tmp_path: Path, name: str, code: DeviceCode, severity: str
) -> None:
    codes = {"_C": DeviceCode(sass=("75", "80", "90a"), ptx=("90",)), name: code}
    modules = {f"pkg/{module}.so": codes[module] for module in codes}
    made: dict[str, Path | bytes] = {
        member: make_library(tmp_path / member, code=f"int PyInit_{Path(member).stem};")
        for member in modules
    }
    case = audited(tmp_path, made).case
    libraries = [
        replace(library, device_code=modules[library.name]) for library in case.scan.libraries
    ]

    result = judge(replace(case, scan=replace(case.scan, libraries=tuple(libraries))))

    assert breaches(result) == [(severity, "archs", f"pkg/{name}.so")]


@pytest.mark.parametrize(
    ("code", "size", "expected"),
    [
        (DeviceCode(sass=("90a",)), 5000, ["warning"]),
        (DeviceCode(sass=("52",)), 5000, ["warning"]),
        (DeviceCode(sass=("52",)), 1248, []),  # of a device link without kernels
        (DeviceCode(sass=("87",)), 5000, ["warning"]),
        (DeviceCode(sass=("86",)), 5000, ["note"]),
        (DeviceCode(ptx=("120",), ptx_version=(9, 0)), 344, ["warning"]),
    ],
)
def test_finds_opened_library_for_one_gpu(
    tmp_path: Path, code: DeviceCode, size: int, expected: list[str]
) -> None:
    opens = b"import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/libx.so')\n"
    files: dict[str, Path | bytes] = {
        "pkg/__init__.py": opens,
        "pkg/libx.so": make_library(tmp_path / "x"),
    }
    case = audited(tmp_path, files).case
    kind = ElementKind(kind=2, arch=(*code.sass, *code.ptx)[0], version=(0, 0), is_zstd=False)
    (library,) = case.scan.libraries
    changed = replace(library, device_code=code, code_sizes={kind: size})

    result = judge(replace(case, scan=replace(case.scan, libraries=(changed,))))

    assert [item.severity for item in result.findings if item.rule == "archs"] == expected


@pytest.mark.parametrize(
    ("kind", "code", "severity"),
    [(8, CODE, "warning"), (8, calling("cuLinkAddData_v2"), ""), (2, CODE, "")],
    ids=["LTO-IR alone", "linked at run time", "machine code"],
)
def test_lto_code_needs_a_linker(tmp_path: Path, kind: int, code: str, severity: str) -> None:
    library = make_library(tmp_path / "made", code=code)
    files: dict[str, Path | bytes] = {MEMBER: library}
    files |= {"pkg/a.fatbin": begin_fatbin(80, 8, kind=kind) + bytes(8)}

    severities = [
        item.severity for item in audited(tmp_path, files).findings if item.rule == "archs"
    ]

    assert severities == ([severity] if severity else [])
