"""Differences planted in real device code: each has to be found, and its cause named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.device_code import code_of_element, elements_of, find_fatbins
from cuwheel.base.system import process
from cuwheel.publish.rebuild.compare.differences import DifferenceData
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import write_wheel

_SOURCE = """
#ifndef FACTOR
#define FACTOR 2.5f
#endif
#ifndef OP
#define OP *
#endif
__device__ const char *stamp = __DATE__ " " __TIME__;
__device__ const char *file = __FILE__;
__global__ void scale(float *p, int n) { for (int i = 0; i < n; ++i) p[i] = p[i] OP FACTOR; }
__global__ void other(double *p, const char **q) { *p *= 2; q[0] = stamp; q[1] = file; }
namespace { __global__ void hidden(float *p) { p[0] += 1; } }
void *entry() { return (void *)hidden; }
"""
# No external symbol: nvcc then puts its process number into the module id.
_STATIC = """
namespace {
__global__ void hidden(float *p) { p[0] += 1; }
struct Start { Start() { hidden<<<1, 1>>>(nullptr); } } start;
}
"""
# Makes every cause but the planted one impossible.
_STABLE = ("-frandom-seed=k", "-objtemp", "-Xcudafe", "--orig_src_path_name=/src/k.cu")
_ARCHS = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]")
_ONE = _ARCHS[1:]
_EPOCH = 1_700_000_000
_SCALE = "_Z5scalePfi"


class _Nvcc:
    """Compiles the source in a folder of its own for each; what was compiled once is kept."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self._folder = folder
        self._made: dict[tuple[object, ...], Path] = {}

    def __call__(  # noqa: PLR0913 - everything that a test varies
        self,
        *flags: str,
        place: str = "same",
        kind: str = "-fatbin",
        code: str = _SOURCE,
        epoch: int = _EPOCH,
        archs: tuple[str, ...] = _ARCHS,
        stable: tuple[str, ...] = _STABLE,
        home: Path | None = None,
        run: int = 0,
    ) -> Path:
        key = (flags, place, kind, code, epoch, archs, stable, home, run)
        if key not in self._made:
            folder = self._folder / place
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "k.cu").write_text(code)
            output = self._folder / f"{len(self._made)}.out"
            nvcc = (home or self.home) / "bin" / "nvcc"
            linked = ("-Xcompiler=-fPIC", "-cudart=none") if kind == "-shared" else ()
            words = (*stable, *archs, *linked, *flags, folder / "k.cu", "-o", output)
            env = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": str(epoch)}
            process.run([nvcc, "-ccbin=g++", kind, *words], env=env)
            self._made[key] = output
        return self._made[key]


@pytest.fixture(scope="module")
def nvcc(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> _Nvcc:
    return _Nvcc(cuda_home, tmp_path_factory.mktemp("nvcc"))


def _compare(folder: Path, a: Path, b: Path, member: str = "pkg/k.fatbin") -> list[DifferenceData]:
    """What two wheels with one file each differ in, without what merely follows."""
    wheels = [write_wheel(folder / name, {member: path}) for name, path in (("a", a), ("b", b))]
    result = [
        difference for difference in compare(*wheels).differences if difference.member == member
    ]
    return [one for one in result if not one.is_consequence]


def _causes(differences: Iterable[DifferenceData]) -> set[str]:
    return {key for difference in differences for key in difference.causes or ("unknown",)}


def _codes(differences: Iterable[DifferenceData]) -> set[str]:
    return {difference.code for difference in differences}


def test_names_time_in_text_of_kernel(nvcc: _Nvcc, tmp_path: Path) -> None:
    result = _compare(tmp_path, nvcc(), nvcc(epoch=_EPOCH + 86_399))

    assert _causes(result) == {"build-time"}
    assert _codes(result) == {"SASS sm_80", "SASS sm_90", "PTX compute_90"}
    (text,) = (one for one in result if one.code == "SASS sm_80")
    assert (text.a, text.b) == ("Nov 14 2023 22:13:20", "Nov 15 2023 22:13:19")
    assert text.part == ".nv.global.init"


def test_names_other_level_of_ptxas_for_one_arch(nvcc: _Nvcc, tmp_path: Path) -> None:
    home = _home_with_ptxas(nvcc.home, tmp_path / "home")

    result = _compare(tmp_path, nvcc(), nvcc(home=home))

    assert _causes(result) == {"ptxas-options"}
    assert _codes(result) == {"SASS sm_80"}
    (note,) = (one for one in result if one.part == ".note.nv.tkinfo")
    assert (note.a, note.b) == ("-arch sm_80 -m 64", "-O 1 -arch sm_80 -m 64")
    assert any(one.kernel == _SCALE and "instructions" in one.fact for one in result)


def _home_with_ptxas(home: Path, folder: Path) -> Path:
    """The toolkit, with a ptxas that optimises less for sm_80; nvcc finds it next to itself."""
    (folder / "bin").mkdir(parents=True)
    for path in home.iterdir():
        if path.name != "bin":
            (folder / path.name).symlink_to(path)
    for path in (home / "bin").iterdir():
        if path.name != "ptxas":
            (folder / "bin" / path.name).symlink_to(path)
    ptxas = folder / "bin" / "ptxas"
    real = home / "bin" / "ptxas"
    ptxas.write_text(
        f'#!/bin/sh\ncase "$*" in *sm_80*) exec {real} "$@" -O1 ;; *) exec {real} "$@" ;; esac\n'
    )
    ptxas.chmod(0o755)
    return folder


def test_distinguishes_constant_from_instruction(nvcc: _Nvcc, tmp_path: Path) -> None:
    constant = _compare(tmp_path / "1", nvcc(), nvcc("-DFACTOR=3.5f"))
    instruction = _compare(tmp_path / "2", nvcc(), nvcc("-DOP=+"))

    facts = {one.code: one.fact for one in constant}
    assert all(one.kernel == _SCALE for one in (*constant, *instruction))
    assert "differ, only in an immediate value" in facts["SASS sm_80"]
    assert "differ, only in an immediate value" in facts["SASS sm_90"]
    assert facts["PTX compute_90"].endswith("differ, only in constants")
    assert {one.fact.rpartition(" differ")[2] for one in instruction} == {""}
    assert _causes((*constant, *instruction)) == {"unknown"}


@pytest.mark.e2e
def test_distinguishes_linked_kernels_by_their_path(nvcc: _Nvcc, tmp_path: Path) -> None:
    def link(changed: str) -> Path:
        folder = tmp_path / changed
        objects: list[Path] = []
        folder.mkdir()
        for place, number in (("rdc/a", changed), ("rdc/b", "7")):
            code = _STATIC.replace("+= 1", f"+= {number}")
            built = nvcc("-rdc=true", kind="-c", code=code, place=place, stable=_STABLE[:2])
            objects.append(folder / f"{built.stem}.o")
            objects[-1].symlink_to(built)
        linked = folder / "k.cubin"
        command = (nvcc.home / "bin" / "nvcc", "-ccbin=g++", "-dlink", "-cubin", "-arch=sm_90")
        process.run([*command, *objects, "-o", linked], env={"PATH": os.environ["PATH"]})
        return linked

    (difference,) = _compare(tmp_path, link("2"), link("3"), "pkg/k.cubin")

    assert difference.kernel.endswith("6hiddenEPf")
    assert difference.fact.endswith("differ, only in an immediate value")


def test_names_path_in_text_and_in_module_id(nvcc: _Nvcc, tmp_path: Path) -> None:
    seeded = _STABLE[:2]
    one, other = (nvcc(place=place, stable=seeded, archs=_ONE) for place in ("same", "other/one"))

    result = _compare(tmp_path, one, other)

    assert {one.causes for one in result} == {("build-path",), ("module-path",)}
    for difference in result:
        mark = "_GLOBAL__N__" if difference.causes == ("module-path",) else "/same/k.cu"
        assert mark in difference.a
    assert _codes(result) == {"SASS sm_90", "PTX compute_90"}


@pytest.mark.e2e
def test_names_process_in_symbols_of_library(nvcc: _Nvcc, tmp_path: Path) -> None:
    one, other = (
        nvcc(kind="-shared", code=_STATIC, stable=_STABLE[2:], archs=_ONE, run=run)
        for run in (1, 2)
    )

    result = _compare(tmp_path, one, other, "pkg/k.so")

    sections = {
        key: {one.section for one in result if key in one.causes} for key in _causes(result)
    }
    assert sections == {
        "temporary-name": {".strtab"},
        "module-process": {".nv_fatbin", ".rodata", ".strtab"},
    }


def test_names_line_information(nvcc: _Nvcc, tmp_path: Path) -> None:
    result = _compare(tmp_path, nvcc(archs=_ONE), nvcc("-lineinfo", archs=_ONE))

    assert _causes(result) == {"line-information"}
    assert ".note.nv.tkinfo" in {one.part for one in result}


def test_names_split_compile(nvcc: _Nvcc, tmp_path: Path) -> None:
    result = _compare(tmp_path, nvcc(archs=_ONE), nvcc("-split-compile=3", archs=_ONE))

    assert _causes(result) == {"split-compile"}


def test_names_archs(nvcc: _Nvcc, tmp_path: Path) -> None:
    result = _compare(tmp_path, nvcc(), nvcc(archs=_ONE))

    assert [(one.code, one.causes) for one in result] == [("SASS sm_80", ("archs",))]


def test_names_compression_of_equal_code(nvcc: _Nvcc, tmp_path: Path) -> None:
    result = _compare(tmp_path, nvcc(), nvcc("--compress-mode=speed"))

    (difference,) = result
    assert difference.code == "PTX compute_90"
    assert difference.causes == ("fatbin-compression",)
    assert "zstd" in difference.fact
    assert "LZ4" in difference.fact


def test_finds_kernel_in_packed_code(nvcc: _Nvcc, tmp_path: Path) -> None:
    one = nvcc("--compress-mode=size")
    other = nvcc("--compress-mode=size", "-DFACTOR=3.5f")

    result = _compare(tmp_path, one, other)

    assert {(one.code, one.kernel) for one in result} == {
        (code, _SCALE) for code in ("SASS sm_80", "SASS sm_90", "PTX compute_90")
    }


def test_compares_what_lies_around_fat_binaries(nvcc: _Nvcc, tmp_path: Path) -> None:
    content = nvcc(archs=_ONE).read_bytes()
    files = [tmp_path / name for name in ("a", "b")]
    for path, text in zip(files, (b"/a/x.cu", b"/b/x.cu"), strict=True):
        path.write_bytes(b"head \xff" + content + text + bytes(1))

    (difference,) = _compare(tmp_path / "wheels", files[0], files[1], "pkg/data.bin")

    assert (difference.a, difference.b) == ("/a/x.cu", "/b/x.cu")
    assert difference.causes == ("build-path",)


def _bare(fatbin: Path, folder: Path) -> dict[str, Path]:
    """The elements of a fat binary, each as a file of its own."""
    folder.mkdir()
    files = {}
    with fatbin.open("rb") as stream:
        for element in elements_of(stream, find_fatbins(stream)):
            files[element.name] = folder / element.name
            files[element.name].write_bytes(code_of_element(stream, element))
    return files


def test_reads_bare_ptx_and_cubin(nvcc: _Nvcc, tmp_path: Path) -> None:
    one = _bare(nvcc(), tmp_path / "one")
    other = _bare(nvcc("-DFACTOR=3.5f"), tmp_path / "other")

    (ptx,) = _compare(tmp_path / "ptx", one["PTX compute_90"], other["PTX compute_90"], "k.ptx")
    (sass,) = _compare(tmp_path / "sass", one["SASS sm_90"], other["SASS sm_90"], "k.cubin")

    assert ptx.kernel == sass.kernel == _SCALE
    assert sass.code == "SASS sm_90"


def test_reports_damaged_code(nvcc: _Nvcc, tmp_path: Path) -> None:
    content = bytearray(nvcc("--compress-mode=speed").read_bytes())
    content[-40:-8] = bytes(32)
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)

    (difference,) = _compare(tmp_path, nvcc("--compress-mode=speed"), damaged)

    assert difference.code == "PTX compute_90"
    assert difference.causes == ()
