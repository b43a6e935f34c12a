"""The audit of wheels that have no recipe here: who supplies what, and which faults are whose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from tests.support.factories import write_wheel
from tests.support.planted import CU13, MEMBER, TAG, judged, make_library, told

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.audit.supply import Supply
    from cuwheel.audit.verdict import AuditResult


def supply_of(result: AuditResult, soname: str) -> Supply:
    (found,) = {supply for supply in result.supplies if supply.soname == soname}
    return found


def test_good_external_wheel_has_nothing_to_find(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library}, requires=("nvidia-cufft>=12,<13",))

    assert told(result) == []
    assert supply_of(result, "libcufft.so.12").supplier == "nvidia-cufft (nvidia/cu13/lib)"
    assert result.majors == (13,)
    assert result.min_driver == ((13, "580.65.06"),)


def test_finds_library_that_is_needed_and_not_declared(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library})

    fact = "libcufft.so.12 comes from nvidia-cufft, which isn't in Requires-Dist"
    assert told(result) == [f"error: {MEMBER}: needed library: {fact}"]


def test_finds_library_that_nothing_leads_to(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12")

    result = judged(tmp_path, {MEMBER: library}, requires=("nvidia-cufft",))

    fact = "libcufft.so.12 is in nvidia/cu13/lib and no rpath entry leads there"
    assert told(result) == [f"warning: {MEMBER}: needed library: {fact}"]


def test_finds_library_that_nobody_supplies(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libnowhere.so.3")

    (finding,) = told(judged(tmp_path, {MEMBER: library}))

    assert finding.startswith(f"error: {MEMBER}: needed library: libnowhere.so.3 is neither")


def test_follows_needs_of_nvidias_own_libraries(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcusolver.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library}, requires=("nvidia-cusolver",))

    needed = {supply.soname: supply.library for supply in result.supplies}
    assert needed["libcublas.so.13"] == "libcusolver.so.12 of nvidia-cusolver"
    assert needed["libnvJitLink.so.13"] in {
        "libcusolver.so.12 of nvidia-cusolver",
        "libcusparse.so.12 of nvidia-cusparse",
    }
    assert told(result) == []


def test_finds_what_nvidias_library_needs_and_nobody_requires(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../cutensor/lib"
    library = make_library(tmp_path / "made", "libcutensor.so.2", flags=(entry,))

    result = judged(tmp_path, {MEMBER: library}, name="pkg_cu13", requires=("cutensor-cu13",))

    fact = "which neither cutensor-cu13 nor this wheel requires"
    (finding,) = told(result)
    assert finding.startswith("error: libcutensor.so.2 of cutensor-cu13: needed library: ")
    assert finding.endswith(fact)


def test_takes_what_required_wheels_require_for_there(tmp_path: Path) -> None:
    """As in the cuTensorNet sample: nvidia-cusolver brings the cuBLAS that cutensornet needs."""
    entry = "-Wl,-rpath,$ORIGIN/../cuquantum/lib"
    library = make_library(tmp_path / "made", "libcutensornet.so.2", flags=(entry,))
    requires = ("cutensornet-cu13", "nvidia-cusolver")

    result = judged(tmp_path, {MEMBER: library}, name="pkg_cu13", requires=requires)

    unused = "nvidia-cusolver is required, and no library of the wheel needs anything of it"
    assert [line for line in told(result) if unused not in line] == []


@pytest.mark.parametrize(
    ("requirement", "is_lost"), [("nvidia-cusolver", True), ("nvidia-cusolver>=12.1", False)]
)
def test_finds_nvidias_library_that_does_not_find_its_own(
    tmp_path: Path, requirement: str, *, is_lost: bool
) -> None:
    library = make_library(tmp_path / "made", "libcusolverMg.so.12", flags=(CU13,))

    result = judged(tmp_path, {MEMBER: library}, requires=(requirement,))

    fact = "libnvJitLink.so.13 are not reached by the rpath of nvidia-cusolver<12.0.7"
    assert any(fact in line for line in told(result)) is is_lost


def test_lets_wheel_bring_what_nvidias_library_does_not_find(tmp_path: Path) -> None:
    sonames = ("libcusolverMg.so.12", "libcublas.so.13", "libcublasLt.so.13", "libnvJitLink.so.13")
    library = make_library(tmp_path / "made", *sonames, flags=(CU13,))
    requires = ("nvidia-cusolver", "nvidia-nvjitlink", "nvidia-cublas")

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []


def test_takes_framework_for_a_loader(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libtorch.so", "libc10.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch>=2.11",))

    assert told(result) == []
    assert supply_of(result, "libtorch.so").condition == "torch loads it before"


def test_takes_cuda_of_framework_for_brought(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.13", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch==2.11.0",))

    assert told(result) == []
    assert "torch" in supply_of(result, "libcudart.so.13").condition


def test_finds_framework_that_may_bring_other_cuda(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch>=2.10",))

    (finding,) = told(result)
    assert finding.startswith(f"warning: {MEMBER}: mixed CUDA majors: it works with CUDA 12, ")


def test_finds_framework_that_brings_other_cuda_only(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libtorch.so")

    result = judged(tmp_path, {MEMBER: library}, requires=("torch==2.11.0",))

    fact = "it works with CUDA 12, and the torch that the wheel requires brings CUDA 13"
    assert f"error: {MEMBER}: mixed CUDA majors: {fact}" in told(result)


def test_finds_two_majors_behind_one_library(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.12", "libcublas.so.13")

    result = judged(
        tmp_path, {MEMBER: library}, requires=("nvidia-cuda-runtime-cu12", "nvidia-cublas")
    )

    fact = "it needs libraries of CUDA 12 and CUDA 13"
    assert f"error: {MEMBER}: mixed CUDA majors: {fact}" in told(result)


def test_leaves_finding_to_pathfinder(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcublas.so.13")
    requires = ("cuda-pathfinder", 'nvidia-cublas; extra == "ctk"')

    result = judged(tmp_path, {MEMBER: library}, requires=requires)

    assert told(result) == []
    found = supply_of(result, "libcublas.so.13").condition
    assert found == "with the extra ctk, cuda-pathfinder loads it before"


def test_judges_alternatives_mildly(tmp_path: Path) -> None:
    files = {
        f"pkg/libtiny_cuda{major}.so": make_library(tmp_path / major, f"libcudart.so.{major}")
        for major in ("12", "13")
    }

    result = judged(tmp_path, dict(files))

    assert {finding.severity for finding in result.findings} == {"note"}
    assert result.majors == (12, 13)


def test_does_not_judge_other_accelerators(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libamdhip64.so.6")

    result = judged(tmp_path, {MEMBER: library})

    assert told(result) == []
    expected = "another accelerator's software"
    assert supply_of(result, "libamdhip64.so.6").supplier == expected


def test_takes_soname_of_two_majors_from_the_one_in_the_name(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../nvidia/curand/lib"
    library = make_library(tmp_path / "made", "libcurand.so.10", flags=(entry,))

    result = judged(
        tmp_path, {MEMBER: library}, name="pkg_cuda12x", requires=("nvidia-curand-cu12",)
    )

    assert told(result) == []


def test_does_not_count_requirement_for_another_system(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    requires = ("nvidia-cufft; sys_platform == 'win32'",)

    (finding, *_) = told(judged(tmp_path, {MEMBER: library}, requires=requires))

    fact = "libcufft.so.12 comes from nvidia-cufft, which isn't in Requires-Dist"
    assert finding.endswith(fact)


def test_does_not_miss_use_of_requirement_for_another_system(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")
    requires = ("nvidia-cufft; sys_platform == 'win32'",)

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []


def test_finds_requirement_that_nothing_uses(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    requires = ("nvidia-cufft", "nvidia-curand")

    result = judged(tmp_path, {MEMBER: library}, requires=requires)

    fact = "nvidia-curand is required, and no library of the wheel needs anything of it"
    assert told(result) == [f"note: METADATA: unused requirement: {fact}"]


@pytest.mark.parametrize(
    ("pattern", "is_dead"), [("libcufft.so", True), ("libcufft.so.*", False), ("libcufft*", False)]
)
def test_finds_exclude_that_matches_nothing(tmp_path: Path, pattern: str, *, is_dead: bool) -> None:
    library = make_library(tmp_path / "made", "libcufft.so.12", flags=(CU13,))
    wheel = write_wheel(
        tmp_path / "dist", {MEMBER: library}, name="pkg", tag=TAG, requires=("nvidia-cufft",)
    )

    found = told(audit_wheel(wheel, excludes=(pattern,)))

    assert any("it needs libcufft.so.12" in line for line in found) is is_dead
    assert any("dead exclude" in line for line in found) is is_dead


def test_lets_parents_rpath_serve_its_children(tmp_path: Path) -> None:
    inner = make_library(tmp_path / "inner", flags=("-Wl,-soname,libinner.so",))
    middle = make_library(tmp_path / "middle", "libinner.so", flags=("-Wl,-soname,libmiddle.so",))
    flags = ("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../pkg.libs")
    outer = make_library(tmp_path / "outer", "libmiddle.so", flags=flags)
    files: dict[str, Path | bytes] = {
        "pkg/ext.so": outer,
        "pkg.libs/libmiddle.so": middle,
        "pkg.libs/libinner.so": inner,
    }

    assert told(judged(tmp_path, files)) == []


def test_does_not_let_runpath_serve_children(tmp_path: Path) -> None:
    inner = make_library(tmp_path / "inner", flags=("-Wl,-soname,libinner.so",))
    middle = make_library(tmp_path / "middle", "libinner.so", flags=("-Wl,-soname,libmiddle.so",))
    flags = ("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/../pkg.libs")
    outer = make_library(tmp_path / "outer", "libmiddle.so", flags=flags)
    files: dict[str, Path | bytes] = {
        "pkg/ext.so": outer,
        "pkg.libs/libmiddle.so": middle,
        "pkg.libs/libinner.so": inner,
    }

    (finding,) = told(judged(tmp_path, files))

    assert "libinner.so is in the wheel and no rpath entry leads to it" in finding


def test_finds_copy_of_nvidias_library(tmp_path: Path) -> None:
    copy = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcudart-1a2b3c4d.so.13",))
    name = "pkg.libs/libcudart-1a2b3c4d.so.13.0.96"

    result = judged(tmp_path, {name: copy})

    fact = "a library that belongs to another wheel is copied in"
    assert told(result) == [f"warning: {name}: grafted library: {fact}"]


def test_finds_copy_of_drivers_library(tmp_path: Path) -> None:
    copy = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcuda.so.1",))

    (finding,) = told(judged(tmp_path, {"pkg.libs/libcuda-1a2b3c4d.so.1": copy}))

    assert finding.startswith("error: pkg.libs/libcuda-1a2b3c4d.so.1: grafted library: ")


def test_takes_nvidias_wheels_for_what_they_are(tmp_path: Path) -> None:
    library = make_library(tmp_path / "copy", flags=("-Wl,-soname,libcufft.so.12",))

    result = judged(tmp_path, {"nvidia/cu13/lib/libcufft.so.12": library}, name="nvidia_cufft")

    assert told(result) == []


def test_finds_function_that_oldest_driver_lacks(tmp_path: Path) -> None:
    code = "int cuMemcpyBatchAsync(void); int f(void) { return cuMemcpyBatchAsync(); }\n"
    library = make_library(tmp_path / "made", "libcuda.so.1", code=code)

    (finding,) = told(judged(tmp_path, {MEMBER: library}, name="pkg_cu12"))

    expected = (
        "it needs the driver of CUDA 12.8 (cuMemcpyBatchAsync), and says it runs with "
        "CUDA 12's oldest, 525.60.13"
    )
    assert finding == f"warning: {MEMBER}: driver: {expected}"


@pytest.mark.parametrize("function", ["cuMemcpyBatchAsync", "cuMemAlloc_v2"])
def test_lets_function_of_oldest_driver_pass(tmp_path: Path, function: str) -> None:
    code = f"int {function}(void); int f(void) {{ return {function}(); }}\n"
    library = make_library(tmp_path / "made", "libcuda.so.1", code=code)

    assert told(judged(tmp_path, {MEMBER: library}, name="pkg_cu13")) == []


def test_finds_data_that_stays_writable(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", flags=("-Wl,-z,norelro",))

    (finding,) = told(judged(tmp_path, {MEMBER: library}))

    assert finding.startswith(f"warning: {MEMBER}: relro: ")


def test_finds_metadata_that_index_refuses(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made")

    (finding,) = told(judged(tmp_path, {MEMBER: library}, requires=("not a requirement!",)))

    assert finding.startswith("warning: METADATA: metadata: ")


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


def test_lets_plain_python_wheel_pass(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"pkg/__init__.py": b""}, name="pkg", tag="py3-none-any")

    assert told(audit_wheel(wheel)) == []
