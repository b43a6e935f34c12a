from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pytest

from cuwheel.base.errors import AuditError
from cuwheel.base.formats.binaries.elf import read_elf
from cuwheel.base.formats.wheel.metadata import header
from cuwheel.base.system import process
from cuwheel.build.pipeline.stages.repair import repair
from cuwheel.build.recipe.link import Bundled, External, Link, Static
from cuwheel.build.toolchains.driver_stub import compile_driver_stub
from cuwheel.build.workspace.records import RepairedWheel, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.repairs import (
    CODE,
    MEMBER,
    elf_of,
    library_needing,
    metadata_of,
    repair_wheel,
)
from tests.support.factories import (
    compile_cuda,
    compile_library,
    heard,
    make_job,
    make_target,
    make_workspace,
    save_built,
    write_wheel,
)

_KERNEL = """
__global__ void twice(float *p) { p[threadIdx.x] *= 2; }
extern "C" int driver(void) { int v = 0; cudaDriverGetVersion(&v); return v >= 0; }
extern "C" void run(float *p) { twice<<<1, 1>>>(p); }
"""
_LEFT_BY_BUILD = "/left/by/the/build/lib"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, cuda_home: Path) -> Path:
    """Device code, linked to libcudart.so, with an absolute rpath as many builds leave it."""
    folder = tmp_path_factory.mktemp("library")
    source = folder / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=shared")
    return compile_cuda(
        folder / "libtiny.so", cuda_home, source, *flags, f"-Xlinker=-rpath={_LEFT_BY_BUILD}"
    )


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory, library: Path) -> RepairedWheel:
    wheel, _ = repair_wheel(tmp_path_factory.mktemp("repaired"), {MEMBER: library})
    return wheel


def _workspace_with(
    folder: Path, files: dict[str, bytes | Path], home: Path, *requires: str
) -> Workspace:
    """Return a workspace with the real toolchain."""
    workspace = make_workspace(folder)
    save_built(workspace, write_wheel(folder / "built", files, requires=requires))
    toolchain = dataclasses.replace(workspace.load("toolchain", Toolchain), home=home)
    workspace.save("toolchain", toolchain)
    return workspace


def test_makes_library_relocatable_and_names_what_it_requires(
    repaired: RepairedWheel, library: Path
) -> None:
    elf = elf_of(repaired, MEMBER)
    with zipfile.ZipFile(repaired.path) as archive:
        content = archive.read(MEMBER)

    expected = f"tiny_cuda-1.2.3+cu130-cp311-cp311-{repaired.platform_tag}.whl"
    assert repaired.path.name == expected
    assert repaired.platform_tag.startswith("manylinux_2_")
    assert "." not in repaired.platform_tag
    assert (elf.runpath, elf.rpath) == (("$ORIGIN/../nvidia/cu13/lib",), ())
    assert _LEFT_BY_BUILD.encode() in library.read_bytes()
    assert _LEFT_BY_BUILD.encode() not in content
    assert header(metadata_of(repaired), "requires-dist") == ("nvidia-cuda-runtime>=13.0,<14",)
    assert repaired.requires == ("nvidia-cuda-runtime>=13.0,<14",)
    assert repaired.external == ("libcudart.so.13",)
    assert [name for name, _ in repaired.tools] == ["strip", "patchelf", "auditwheel", "zlib-ng"]
    assert all(version for _, version in repaired.tools)


def test_leaves_no_trace_of_rpath_that_nothing_needs(tmp_path: Path) -> None:
    source = tmp_path / "answer.c"
    source.write_text(CODE)
    rpath = f"-Wl,-rpath,{_LEFT_BY_BUILD}"
    library = compile_library(tmp_path / "ext.so", "gcc", "-fPIC", source, rpath)

    wheel, _ = repair_wheel(tmp_path, {"ext.so": library}, link=Link())

    with zipfile.ZipFile(wheel.path) as archive:
        assert _LEFT_BY_BUILD.encode() not in archive.read("ext.so")
    assert elf_of(wheel, "ext.so").search_path == ()


def test_strips_symbols_and_keeps_device_code(repaired: RepairedWheel, library: Path) -> None:
    with library.open("rb") as stream:
        before, code_before = read_elf(stream), _device_code(stream)
    with zipfile.ZipFile(repaired.path) as archive, archive.open(MEMBER) as stream:
        after, code_after = read_elf(stream), _device_code(stream)

    assert before.section(".symtab")
    assert after.section(".symtab") is None
    assert code_before == code_after


def _device_code(stream: IO[bytes]) -> bytes:
    section = read_elf(stream).section(".nv_fatbin")
    assert section
    stream.seek(section.offset)
    return stream.read(section.size)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"version": "1.2.3+cu13torch2"}, "tiny_cuda-1.2.3+cu130-cp311-"),
        ({"serves": "any"}, "tiny_cuda-1.2.3+cu130-py3-none-manylinux_2_"),
        ({"wheel_name": "tiny-cuda{cuda}x"}, "tiny_cuda13x-1.2.3+cu130-"),
        ({"has_local_version": False}, "tiny_cuda-1.2.3-cp311-"),
    ],
)
def test_names_wheel_as_the_recipe_declares(
    tmp_path: Path, library: Path, changes: dict[str, Any], start: str
) -> None:
    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, **changes)

    name, version, _ = start.split("-", 2)
    text = metadata_of(wheel)
    assert wheel.path.name.startswith(start)
    assert header(text, "name")[0].replace("-", "_") == name
    assert header(text, "version") == (version,)


def test_grafts_library_that_few_systems_have(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "openmp.c"
    source.write_text("#include <omp.h>\nint threads(void) { return omp_get_max_threads(); }\n")
    flags = ("-fopenmp", "-Wl,--no-as-needed", cuda_home / "lib64" / "libcudart.so.13")
    library = compile_library(tmp_path / "ext.so", "gcc", "-fPIC", source, *flags)
    link = Link("cudart", bundles=("libgomp",))

    wheel, _ = repair_wheel(tmp_path, {"pkg/ext.so": library}, link=link)

    elf = elf_of(wheel, "pkg/ext.so")
    assert any(soname.startswith("libgomp-") for soname in elf.needed)
    assert set(elf.runpath) == {"$ORIGIN/../tiny_cuda.libs", "$ORIGIN/../nvidia/cu13/lib"}


def test_gives_same_bytes_for_same_wheel(tmp_path: Path, repaired: RepairedWheel) -> None:
    workspace = make_workspace(tmp_path)
    save_built(workspace, _built_copy(repaired, tmp_path))
    before = os.umask(0o077)
    try:
        again = repair(make_job(make_target(), workspace))
    finally:
        os.umask(before)

    assert again.sha256 == repaired.sha256


def _built_copy(repaired: RepairedWheel, folder: Path) -> Path:
    built = repaired.path.parents[2] / "built"
    copied = shutil.copytree(built, folder / "elsewhere")
    return next(Path(copied).glob("*.whl"))


def test_makes_library_that_loads_from_site_packages(
    tmp_path: Path, cuda_home: Path, repaired: RepairedWheel
) -> None:
    with zipfile.ZipFile(repaired.path) as archive:
        archive.extractall(tmp_path)
    nvidia = tmp_path / "nvidia" / "cu13" / "lib"
    nvidia.mkdir(parents=True)
    shutil.copy(cuda_home / "lib64" / "libcudart.so.13", nvidia)
    code = (
        f"import ctypes; print(ctypes.CDLL('{tmp_path}/tiny_cuda/libtiny.so').driver());"
        "print(*(line for line in open('/proc/self/maps') if 'libcudart' in line))"
    )

    done = process.run([sys.executable, "-I", "-c", code], env={"PATH": os.defpath})

    assert done.output.startswith("1\n")
    assert str(nvidia / "libcudart.so.13") in done.output


_NOT_SUPPLIED = "which no component supplies"


@pytest.mark.parametrize(
    ("sonames", "toolkit", "why", "fix"),
    [
        (
            *(("libcublas.so.13", "libcufft.so.12"), "13.0", "(component cublas)"),
            'write link=Link("cudart", "cublas", "cufft")',
        ),
        (
            *(("libcuda.so.1",), "13.0", "(of the GPU's driver)"),
            'write link=Link("cudart", "driver")',
        ),
        (("libcudart.so.12",), "13.0", _NOT_SUPPLIED, "build against a library of CUDA 13"),
        (("libcudart.so.13",), "12.2", _NOT_SUPPLIED, "build against a library of CUDA 12"),
    ],
)
def test_refuses_libraries_that_recipe_does_not_declare(
    tmp_path: Path, sonames: tuple[str, ...], toolkit: str, why: str, fix: str
) -> None:
    library = library_needing(tmp_path, "ext.so", *sonames)

    with pytest.raises(AuditError) as caught:
        repair_wheel(tmp_path, {"pkg/ext.so": library}, toolkit=toolkit)

    assert f"pkg/ext.so needs {sonames[0]}" in caught.value.why
    assert why in caught.value.why
    assert caught.value.fix.startswith(fix)


@pytest.mark.parametrize("name", ["libcuda.so.1", "helper.so"])
def test_refuses_stub_of_driver_that_the_build_copied(tmp_path: Path, name: str) -> None:
    stub = tmp_path / name
    stub.write_bytes(compile_driver_stub("13.0", Path("gcc")))

    with pytest.raises(AuditError, match="contains a library of NVIDIA's driver") as caught:
        repair_wheel(tmp_path, {f"pkg/{name}": stub}, link=Link("driver"))

    assert caught.value.why == f"pkg/{name} is named libcuda.so.1"


def test_strips_with_toolchains_own_program_before_it_sets_the_rpath(
    tmp_path: Path, library: Path
) -> None:
    """To strip a file that patchelf has changed can break it: pypa/auditwheel#716."""
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    with pytest.raises(AuditError) as caught:
        repair_wheel(tmp_path / "none", {MEMBER: library}, programs=programs)
    (programs / "strip").write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo own strip 1.0 && exit\n"
        f'for file; do :; done\nreadelf -d "$file" >> {log}\nexec strip "$@"\n'
    )
    (programs / "strip").chmod(0o755)

    wheel, _ = repair_wheel(tmp_path / "own", {MEMBER: library}, programs=programs)

    assert caught.value.fix == "add binutils to the toolchain's environment.yml"
    assert wheel.tools[0] == ("strip", "own strip 1.0")
    assert log.read_text().count(f"[{_LEFT_BY_BUILD}]") == 1
    assert "$ORIGIN" not in log.read_text()
    assert elf_of(wheel, MEMBER).runpath == ("$ORIGIN/../nvidia/cu13/lib",)


def test_warns_of_component_that_nothing_needs(tmp_path: Path, library: Path) -> None:
    _, workspace = repair_wheel(tmp_path, {"pkg/libtiny.so": library}, link=Link("cudart", "cufft"))

    assert 'declares link "cufft", but no library of the wheel needs' in heard(workspace)


def test_writes_rpath_where_recipe_declares_it(tmp_path: Path, library: Path) -> None:
    link = Link("cudart", mode=External(search="rpath"))

    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, link=link)

    elf = elf_of(wheel, MEMBER)
    assert (elf.rpath, elf.runpath) == (("$ORIGIN/../nvidia/cu13/lib",), ())


def test_puts_requirements_behind_extra(tmp_path: Path, library: Path) -> None:
    """Upstream's own on the same project too."""
    mode = External(extra="cuda{cuda}", local_extra="cuda{cuda}-local")
    requires = ("nvidia-cuda-runtime>=13", "numpy")

    wheel, _ = repair_wheel(
        tmp_path, {MEMBER: library}, requires=requires, link=Link("cudart", mode=mode)
    )

    text = metadata_of(wheel)
    required = ("numpy", 'nvidia-cuda-runtime>=13.0,<14; extra == "cuda13"')
    assert header(text, "requires-dist") == required
    assert header(text, "provides-extra") == ("cuda13-local", "cuda13")


def test_copies_libraries_into_wheel(tmp_path: Path, library: Path, cuda_home: Path) -> None:
    workspace = _workspace_with(tmp_path, {MEMBER: library}, cuda_home)

    wheel = repair(make_job(make_target(mode=Bundled()), workspace))

    ((name, size),) = wheel.bundled
    assert name.startswith("tiny_cuda.libs/libcudart-")
    with zipfile.ZipFile(wheel.path) as archive:
        assert size == archive.getinfo(name).file_size
        (sbom,) = (name for name in archive.namelist() if "cuwheel" in name and "/sboms/" in name)
        bill = archive.read(sbom).decode()
    assert elf_of(wheel, MEMBER).runpath == ("$ORIGIN/../tiny_cuda.libs",)
    assert header(metadata_of(wheel), "requires-dist") == ()
    assert "+cu130.bundled-" in wheel.path.name
    for part in (
        PurePosixPath(name).name,
        "of nvidia-cuda-runtime",
        "LicenseRef-NVIDIA-Proprietary",
    ):
        assert part in bill
    assert "libraries of NVIDIA:" in heard(workspace)


@pytest.mark.e2e
def test_links_archive_in_and_requires_nothing(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=static")
    library = compile_cuda(tmp_path / "libtiny.so", cuda_home, source, *flags)
    workspace = _workspace_with(tmp_path, {MEMBER: library}, cuda_home, "nvidia-cuda-runtime>=13")

    wheel = repair(make_job(make_target(mode=Static()), workspace))

    assert header(metadata_of(wheel), "requires-dist") == ()
    assert wheel.external == ()
    with zipfile.ZipFile(wheel.path) as archive:
        (sbom,) = (name for name in archive.namelist() if "cuwheel" in name and "/sboms/" in name)
        assert "libcudart_static.a" in archive.read(sbom).decode()


def test_refuses_static_wheel_that_needs_library(tmp_path: Path, library: Path) -> None:
    with pytest.raises(AuditError) as caught:
        repair_wheel(tmp_path, {MEMBER: library}, mode=Static())

    assert "libcudart.so.13, which its build should have linked statically" in caught.value.why


def test_refuses_damaged_library(tmp_path: Path, library: Path) -> None:
    with pytest.raises(AuditError, match=r"pkg/libtiny.so in the built wheel is damaged"):
        repair_wheel(tmp_path, {"pkg/libtiny.so": library.read_bytes()[:500]})


def test_names_missing_program(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.build.finish.repair.tools.SYSTEM_PATH", str(tmp_path))

    with pytest.raises(AuditError, match="the program strip is missing") as caught:
        repair_wheel(tmp_path, {"pkg/libtiny.so": library})

    assert caught.value.fix == "apt-get install binutils"


def test_gives_next_build_tag_where_other_bytes_are_published(
    tmp_path: Path, library: Path
) -> None:
    """The same bytes as the newest keep its name; others get the next number."""
    first, _ = repair_wheel(tmp_path / "first", {MEMBER: library})
    dist = tmp_path / "second" / "dist"
    dist.mkdir(parents=True)
    shutil.copy(first.path, dist)
    same, _ = repair_wheel(tmp_path / "second", {MEMBER: library})
    shutil.rmtree(tmp_path / "second" / "work")
    other, workspace = repair_wheel(
        tmp_path / "second", {MEMBER: library, "tiny_cuda/new.py": b"NEW = True\n"}
    )
    shutil.copy(other.path, dist)
    shutil.rmtree(tmp_path / "second" / "work")

    again, _ = repair_wheel(tmp_path / "second", {MEMBER: library})

    names = [first.path.name.replace("-cp311-cp311", f"{tag}-cp311-cp311") for tag in ("-1", "-2")]
    assert (same.path.name, same.sha256) == (first.path.name, first.sha256)
    assert [other.path.name, again.path.name] == names
    assert "gets the build tag 1" in heard(workspace)
    with zipfile.ZipFile(again.path) as archive:
        text = archive.read("tiny_cuda-1.2.3+cu130.dist-info/WHEEL").decode()
    assert header(text, "build") == ("2",)
