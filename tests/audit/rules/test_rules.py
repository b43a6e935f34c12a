"""The audit's rules, each with the defect planted that it is there for, and what it lets pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.audit.verdict import audit_wheel
from tests.support.factories import compile_library, write_wheel
from tests.support.planted import CODE, CU13, MEMBER, TAG, judged, make_library, rewrite, told

if TYPE_CHECKING:
    from pathlib import Path

_LIBS = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../pkg.libs"
_MODULE = "void *PyInit_ext(void) { return 0; }\n"
_STRING = '#include <string>\nstd::string f(int n) { return std::to_string(n) + "!"; }\n'


def make_chain(folder: Path, flag: str) -> dict[str, Path | bytes]:
    """A module that needs a library that needs a library that needs a last one."""
    names = ("liblast.so", "libthird.so", "libsecond.so")
    files: dict[str, Path | bytes] = {}
    for name, needed in zip(names, ((), names[:1], names[1:2]), strict=True):
        made = make_library(folder / name[:-3], *needed, flags=(f"-Wl,-soname,{name}",))
        files[f"pkg.libs/{name}"] = made
    files["pkg/ext.so"] = make_library(folder / "ext", "libsecond.so", flags=(flag,))
    return files


def test_lets_rpath_serve_whole_chain(tmp_path: Path) -> None:
    assert told(judged(tmp_path, make_chain(tmp_path, _LIBS))) == []


def test_does_not_let_runpath_serve_chain(tmp_path: Path) -> None:
    runpath = _LIBS.replace("disable", "enable")

    found = told(judged(tmp_path, make_chain(tmp_path, runpath)))

    fact = "libthird.so is in the wheel and no rpath entry leads to it"
    assert f"warning: pkg.libs/libsecond.so: needed library: {fact}" in found


def test_judges_part_of_wheel_mildly(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/libpart.so": make_library(tmp_path / "part", "libcufft.so.12", flags=(CU13,)),
        "pkg/libmain.so": make_library(tmp_path / "main"),
    }

    fact = "libcufft.so.12 comes from nvidia-cufft, which isn't in Requires-Dist"
    assert told(judged(tmp_path, files)) == [f"warning: pkg/libpart.so: needed library: {fact}"]


def test_judges_whole_wheel_hard_beside_program(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "pkg/libmain.so": make_library(tmp_path / "main", "libcufft.so.12", flags=(CU13,)),
        "pkg/bin/tool": make_library(tmp_path / "tool"),
    }

    assert judged(tmp_path, files).verdict == "error"


def test_tells_framework_that_is_not_required_once(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libc10.so", "libtorch.so", "libcudart.so.13")

    fact = "libc10.so, libtorch.so come from torch, which isn't in Requires-Dist"
    found = told(judged(tmp_path, {MEMBER: library}))
    assert found == [f"error: {MEMBER}: needed library: {fact}"]


def test_takes_library_for_its_namesakes(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libtiny_dep.so", "libunder.so.3")

    found = told(judged(tmp_path, {MEMBER: library}, requires=("libtiny-dep-cu13==1.*",)))

    seems = "libtiny_dep.so seems to come from libtiny-dep-cu13, of whose wheel nothing is known"
    is_not = "libunder.so.3 isn't in the wheel; what libtiny-dep-cu13 requires isn't known here"
    assert found == [
        f"note: {MEMBER}: needed library: {seems} here",
        f"note: {MEMBER}: needed library: {is_not}",
    ]


def test_does_not_take_known_component_for_namesake(tmp_path: Path) -> None:
    entry = "-Wl,-rpath,$ORIGIN/../nvidia/cudnn/lib"
    library = make_library(tmp_path / "made", "libcudnn.so.9", "libnvinfer.so.10", flags=(entry,))

    found = told(judged(tmp_path, {MEMBER: library}, requires=("nvidia-cudnn-cu13",)))

    assert any("error" in line and "libnvinfer.so.10 is neither" in line for line in found)


def test_takes_library_that_framework_loads(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libgomp.so.1")

    (finding,) = told(judged(tmp_path, {MEMBER: library}, requires=("torch>=2.11",)))

    assert finding.startswith(f"note: {MEMBER}: needed library: libgomp.so.1 is neither")
    assert finding.endswith("torch loads it before")


def test_finds_cuda_library_that_no_wheel_has(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcublas.so.9")

    fact = "libcublas.so.9 is a CUDA library that no component supplies"
    found = told(judged(tmp_path, {MEMBER: library}, requires=("torch>=2.11",)))
    assert found == [f"error: {MEMBER}: needed library: {fact}"]


def test_finds_what_wheel_of_nvidia_does_not_require(tmp_path: Path) -> None:
    """As in cutensor-cu13 2.8.1: installed alone it can't be loaded."""
    flags = ("-Wl,-soname,libcutensor.so.2", "-Wl,-rpath,$ORIGIN/../../nvidia/cu13/lib")
    library = make_library(tmp_path / "made", "libcublasLt.so.13", flags=flags)

    found = told(judged(tmp_path, {"cutensor/lib/libcutensor.so.2": library}, name="cutensor_cu13"))

    fact = "libcublasLt.so.13 comes from nvidia-cublas, which isn't in Requires-Dist"
    assert found == [f"warning: cutensor/lib/libcutensor.so.2: needed library: {fact}"]


@pytest.mark.parametrize(
    ("requirement", "is_lost"),
    [
        ("cuda-toolkit[nvrtc]==13.*", True),
        ("cuda-toolkit[nvrtc]==13.0.2", True),
        ("cuda-toolkit[nvrtc]==13.4.3", False),
        ("nvidia-cuda-nvrtc>=13.1", False),
    ],
)
def test_asks_whether_required_nvrtc_finds_its_builtins(
    tmp_path: Path, requirement: str, *, is_lost: bool
) -> None:
    library = make_library(tmp_path / "made", "libnvrtc.so.13", flags=(CU13,))

    found = told(judged(tmp_path, {MEMBER: library}, requires=(requirement,)))

    assert any("nvidia-cuda-nvrtc<13.1" in line for line in found) is is_lost


@pytest.mark.parametrize("loader", ["cuda-pathfinder", "torch==2.11.0"])
def test_lets_loader_bring_builtins(tmp_path: Path, loader: str) -> None:
    library = make_library(tmp_path / "made", "libnvrtc.so.13", flags=(CU13,))
    requires = ("cuda-toolkit[nvrtc]==13.*", loader)

    assert told(judged(tmp_path, {MEMBER: library}, requires=requires)) == []


@pytest.mark.parametrize(
    ("name", "requires", "severity"),
    [
        ("pkg.libs/libcudart-1a2b3c4d.so.13.0.96", (), "warning"),
        ("pkg.libs/libcudart.1a2b3c4d.so.13", (), "warning"),
        ("pkg/cuda/libcudart.so.13", ("nvidia-cuda-runtime",), "warning"),
        ("pkg/cuda/libcudart.so.13", (), "note"),
    ],
    ids=["auditwheel", "script", "second", "meant"],
)
def test_finds_copied_library(
    tmp_path: Path, name: str, requires: tuple[str, ...], severity: str
) -> None:
    copy = make_library(tmp_path / "copy")

    found = told(judged(tmp_path, {name: copy}, requires=requires))

    fact = "a library that belongs to another wheel is copied in"
    assert f"{severity}: {name}: grafted library: {fact}" in found


@pytest.mark.parametrize(
    ("builtins", "is_torn"),
    [("libnvrtc-builtins-5e6f7081.so.12.6.85", True), ("libnvrtc-builtins.so.12.6", False)],
)
def test_finds_copy_that_misses_what_it_opens(
    tmp_path: Path, builtins: str, *, is_torn: bool
) -> None:
    """As in cumm-cu126 0.8.2: NVRTC fails to open its builtins under the name they got."""
    copy = make_library(tmp_path / "copy")
    nvrtc = "pkg.libs/libnvrtc-1a2b3c4d.so.12.6.85"

    found = told(judged(tmp_path, {nvrtc: copy, f"pkg.libs/{builtins}": copy}))

    fact = "it opens libnvrtc-builtins.so.12.* by name, and no file of the wheel is called so"
    assert (f"error: {nvrtc}: grafted library: {fact}" in found) is is_torn


def test_finds_other_cuda_than_name_says(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", "libcudart.so.13", flags=(CU13,))
    wheel = {"name": "pkg_cu12", "requires": ("nvidia-cuda-runtime",)}

    fact = "it needs CUDA 13, and the wheel's name says CUDA 12"
    found = told(judged(tmp_path, {MEMBER: library}, **wheel))
    assert found == [f"error: {MEMBER}: mixed CUDA majors: {fact}"]


def test_takes_cuda_of_driver_from_what_library_needs(tmp_path: Path) -> None:
    code = "int cuMemcpyBatchAsync(void); int f(void) { return cuMemcpyBatchAsync(); }\n"
    library = make_library(tmp_path / "made", "libcuda.so.1", "libcudart.so.12", code=code)

    found = told(judged(tmp_path, {MEMBER: library}))

    assert any("warning" in line and "CUDA 12's oldest, 525.60.13" in line for line in found)


@pytest.mark.parametrize(
    ("tag", "is_found"),
    [("cp310-abi3", True), ("py3-none", True), ("cp312-cp312", True), ("cp310-cp310", False)],
)
def test_finds_module_for_another_python(tmp_path: Path, tag: str, *, is_found: bool) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    name = "pkg/ext.cpython-310-x86_64-linux-gnu.so"

    found = told(judged(tmp_path, {name: library}, tag=f"{tag}-manylinux_2_39_x86_64"))

    fact = "Python 3.10 alone can import it, and the tag is"
    assert any(f"warning: {name}: tag: {fact}" in line for line in found) is is_found


def test_lets_modules_for_several_pythons_pass(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", code=_MODULE)
    files: dict[str, Path | bytes] = {
        f"pkg/ext.cpython-3{minor}-x86_64-linux-gnu.so": library for minor in (11, 12)
    }

    assert told(judged(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("written", "severity"),
    [("py3-none-linux_x86_64", "note"), ("cp312-cp312-linux_x86_64", "error")],
)
def test_tells_tags_that_differ(tmp_path: Path, written: str, severity: str) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: make_library(tmp_path / "made")}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "content", "WHEEL", TAG, written)

    (finding,) = told(audit_wheel(wheel))

    assert finding == f"{severity}: WHEEL: tag: the file name says {TAG}, WHEEL says {written}"


def test_notes_library_in_pure_wheel(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {MEMBER: make_library(tmp_path / "made")}, name="pkg", tag=TAG)
    rewrite(wheel, tmp_path / "content", "WHEEL", "Purelib: false", "Purelib: true")

    (finding,) = told(audit_wheel(wheel))

    assert finding.startswith("note: WHEEL: tag: Root-Is-Purelib isn't false")


def test_lets_licence_file_of_old_metadata_pass(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {}, name="pkg", tag="py3-none-any")
    old = "Metadata-Version: 2.4\n"
    new = "Metadata-Version: 2.1\nLicense-File: LICENSE\n"
    rewrite(wheel, tmp_path / "content", "METADATA", old, new)

    assert told(audit_wheel(wheel)) == []


def test_finds_symbols_of_newer_compiler(tmp_path: Path) -> None:
    source = tmp_path / "code.cpp"
    source.write_text(_STRING)
    library = compile_library(tmp_path / "libmade.so", "g++", "-fPIC", source)

    found = told(judged(tmp_path, {MEMBER: library}, tag="py3-none-manylinux2014_x86_64"))

    (finding,) = (line for line in found if "GLIBCXX" in line)
    assert finding.startswith(f"error: {MEMBER}: platform tag: it needs GLIBCXX_3.4.")
    assert "of libstdc++.so.6, which manylinux_2_17_x86_64 doesn't have; manylinux_2_" in finding


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

    fact = "the loader has to write its code"
    found = told(judged(tmp_path, {MEMBER: library}))
    assert f"error: {MEMBER}: text relocations: {fact}" in found


def test_finds_stack_that_runs_code(tmp_path: Path) -> None:
    library = make_library(tmp_path / "made", flags=("-Wl,-z,execstack",))

    found = told(judged(tmp_path, {MEMBER: library}))

    assert found == [f"error: {MEMBER}: executable stack: it requires one"]


def test_notes_path_of_build_machine(tmp_path: Path) -> None:
    code = f'const char *where(void) {{ return "/home/someone/src/a.cu"; }}\n{CODE}'
    library = make_library(tmp_path / "made", code=code)

    found = told(judged(tmp_path, {MEMBER: library}))

    assert found == [f"note: {MEMBER}: build path: it holds /home/someone/src/a.cu"]
