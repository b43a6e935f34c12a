"""The rules for single libraries, each with the defect planted that it is there for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from cuwheel.model.recipe import Framework
from tests.support.factories import compile_library, make_target, write_wheel
from tests.support.planted import MEMBER, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path

if TYPE_CHECKING:
    from pathlib import Path


_CONTEXT = "_ZN2at7Context6hasMKLEv"  # which every release since 2.0 has
_STRING = '#include <string>\nstd::string f(int n) { return std::to_string(n) + "!"; }\n'


def test_takes_cuda_of_driver_from_what_library_needs(tmp_path: Path) -> None:
    code = "int cuMemcpyBatchAsync(void); int f(void) { return cuMemcpyBatchAsync(); }\n"
    library = make_library(tmp_path / "made", "libcuda.so.1", "libcudart.so.12", code=code)

    found = told(judged(tmp_path, {MEMBER: library}))

    fact = "CUDA 12, whose oldest driver is 525.60.13"
    assert any("warning" in line and fact in line for line in found)


def test_finds_symbols_of_newer_compiler(tmp_path: Path) -> None:
    source = tmp_path / "code.cpp"
    source.write_text(_STRING)
    library = compile_library(tmp_path / "libmade.so", "g++", "-fPIC", source)

    found = told(judged(tmp_path, {MEMBER: library}, tag="py3-none-manylinux2014_x86_64"))

    (finding,) = (line for line in found if "GLIBCXX" in line)
    assert finding.startswith(f"error: {MEMBER}: platform tag: it needs GLIBCXX_3.4.")
    assert (
        "of libstdc++.so.6, which manylinux_2_17_x86_64 doesn't guarantee; manylinux_2_" in finding
    )


def test_judges_symbols_by_oldest_of_tags(tmp_path: Path) -> None:
    source = tmp_path / "code.cpp"
    source.write_text(_STRING)
    library = compile_library(tmp_path / "libmade.so", "g++", "-fPIC", source)
    tag = "py3-none-manylinux_2_12_x86_64.manylinux_2_17_x86_64"

    found = [line for line in told(judged(tmp_path, {MEMBER: library}, tag=tag)) if "CXX_" in line]

    assert found
    assert all("manylinux_2_12_x86_64 doesn't" in line for line in found)


def test_finds_code_that_loader_writes(tmp_path: Path) -> None:
    source = tmp_path / "code.c"
    source.write_text("extern int other;\nint *where(void) { return &other; }\n")
    flags = ("-fno-PIC", "-mcmodel=large", "-Wl,-z,notext")
    library = compile_library(tmp_path / "libmade.so", "gcc", source, *flags)

    fact = "the loader has to modify its code"
    found = told(judged(tmp_path, {MEMBER: library}))
    assert f"error: {MEMBER}: text relocations: {fact}" in found


def test_finds_stack_that_runs_code(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", flags=("-Wl,-z,execstack",))

    found = told(judged(tmp_path, {MEMBER: library}))

    assert found == [f"error: {MEMBER}: executable stack: it requires an executable stack"]


def test_finds_function_that_oldest_driver_lacks(tmp_path: Path) -> None:
    code = "int cuMemcpyBatchAsync(void); int f(void) { return cuMemcpyBatchAsync(); }\n"
    library = make_library(tmp_path / "made", "libcuda.so.1", code=code)

    (finding,) = told(judged(tmp_path, {MEMBER: library}, name="pkg_cu12"))

    expected = (
        "it needs the driver of CUDA 12.8 (cuMemcpyBatchAsync), but it is for CUDA 12, whose "
        "oldest driver is 525.60.13"
    )
    assert finding == f"warning: {MEMBER}: driver: {expected}"


@pytest.mark.parametrize("function", ["cuMemcpyBatchAsync", "cuMemAlloc_v2"])
def test_lets_function_of_oldest_driver_pass(tmp_path: Path, function: str) -> None:
    code = f"int {function}(void); int f(void) {{ return {function}(); }}\n"
    library = make_library(tmp_path / "made", "libcuda.so.1", code=code)

    assert told(judged(tmp_path, {MEMBER: library}, name="pkg_cu13")) == []


@pytest.mark.parametrize(
    ("symbol", "serves", "expected"),
    [
        (_CONTEXT, ("2.13.0",), [f"1 symbol outside PyTorch's stable ABI ({_CONTEXT})"]),
        (_CONTEXT, (), []),
        ("aoti_torch_get_dim", ("2.13.0",), []),
    ],
)
def test_finds_more_than_the_stable_abi(
    tmp_path: Path, symbol: str, serves: tuple[str, ...], expected: list[str]
) -> None:
    code = f"int {symbol}(void); int f(void) {{ return {symbol}(); }}\n"
    library = make_library(tmp_path / "made", "libtorch_cpu.so", code=code)
    framework = Framework(name="torch", version="2.11.0", serves=serves)
    wheel = write_wheel(tmp_path / "dist", {MEMBER: library}, requires=("torch==2.11.*",))

    result = audit_wheel(wheel, target=make_target(framework=framework))

    found = [one.fact for one in result.findings if one.rule == "framework ABI"]
    assert found == [f"it needs {fact}" for fact in expected]


@pytest.mark.parametrize("level", ["v3", "v4"])
def test_finds_library_for_newer_cpus(tmp_path: Path, level: str) -> None:
    library = make_library(tmp_path / "made", flags=(f"-Wl,-z,x86-64-{level}",))

    found = told(judged(tmp_path, {MEMBER: library}))

    fact = f"its ELF notes require an x86-64-{level} CPU, the tag includes every x86-64 CPU"
    assert found == [f"warning: {MEMBER}: platform tag: {fact}"]


def test_finds_data_that_stays_writable(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", flags=("-Wl,-z,norelro",))

    (finding,) = told(judged(tmp_path, {MEMBER: library}))

    assert finding.startswith(f"warning: {MEMBER}: relro: ")


@pytest.mark.parametrize(
    ("entry", "severity"),
    [
        ("/usr/local/cuda-12.8/lib64", "warning"),
        ("$ORIGIN/../../..", "note"),
        ("lib", "warning"),
        ("$ORIGIN/../nowhere/lib", "note"),
    ],
)
def test_finds_entry_that_leads_nowhere(tmp_path: Path, entry: str, severity: str) -> None:
    library = make_library(tmp_path / "made", flags=(f"-Wl,-rpath,{entry}",))

    (finding,) = told(judged(tmp_path, {MEMBER: library}))

    assert finding.startswith(f"{severity}: {MEMBER}: rpath: the entry {entry} ")


@pytest.mark.parametrize("entry", ["$ORIGIN/../nvidia/cudnn/lib", "$ORIGIN/../nvidia/cublas/lib"])
def test_lets_entry_of_either_layout_pass(tmp_path: Path, entry: str) -> None:
    library = make_library(tmp_path / "made", flags=(f"-Wl,-rpath,{entry}",))

    assert told(judged(tmp_path, {MEMBER: library})) == []
