from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

import pytest

from cuwheel.binaries.elf import read_elf
from cuwheel.errors import RepairError
from cuwheel.model.link import Bundled, External, Link, Static
from cuwheel.stages.repair import repair
from cuwheel.system import process
from cuwheel.toolchains.driver_stub import compile_driver_stub
from cuwheel.wheel.metadata import header
from cuwheel.workspace.records import Toolchain
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
from tests.support.repaired import CODE, MEMBER, elf_of, library_needing, metadata_of, repair_wheel

if TYPE_CHECKING:
    from cuwheel.workspace.records import RepairedWheel
    from cuwheel.workspace.workspace import Workspace


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


def _built_space(
    folder: Path, files: dict[str, bytes | Path], home: Path, *requires: str
) -> Workspace:
    """A workspace whose toolchain is the real one."""
    workspace = make_workspace(folder)
    save_built(workspace, write_wheel(folder / "built", files, requires=requires))
    made = dataclasses.replace(workspace.load("toolchain", Toolchain), home=home)
    workspace.save("toolchain", made)
    return workspace


def test_names_wheel_with_local_version_and_one_manylinux_tag(repaired: RepairedWheel) -> None:
    expected = f"tiny_cuda-1.2.3+cu130-cp311-cp311-{repaired.platform_tag}.whl"

    assert repaired.path.name == expected
    assert repaired.platform_tag.startswith("manylinux_2_")
    assert "." not in repaired.platform_tag


def test_sets_relative_runpath_in_place_of_absolute(repaired: RepairedWheel) -> None:
    elf = elf_of(repaired, MEMBER)

    assert (elf.runpath, elf.rpath) == (("$ORIGIN/../nvidia/cu13/lib",), ())


def test_leaves_no_trace_of_absolute_rpath(repaired: RepairedWheel, library: Path) -> None:
    with zipfile.ZipFile(repaired.path) as archive:
        content = archive.read(MEMBER)

    assert _LEFT_BY_BUILD.encode() in library.read_bytes()
    assert _LEFT_BY_BUILD.encode() not in content


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


def test_requires_wheel_of_linked_component(repaired: RepairedWheel) -> None:
    assert header(metadata_of(repaired), "requires-dist") == ("nvidia-cuda-runtime>=13.0,<14",)
    assert repaired.requires == ("nvidia-cuda-runtime>=13.0,<14",)
    assert repaired.external == ("libcudart.so.13",)


def test_records_tools(repaired: RepairedWheel) -> None:
    assert [name for name, _ in repaired.tools] == ["strip", "patchelf", "auditwheel", "zlib-ng"]
    assert all(version for _, version in repaired.tools)


def test_replaces_local_version_of_upstream(tmp_path: Path, library: Path) -> None:
    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, version="1.2.3+cu13torch2")

    assert header(metadata_of(wheel), "version") == ("1.2.3+cu130",)


def test_tags_wheel_for_every_python(tmp_path: Path, library: Path) -> None:
    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, serves="any")

    assert wheel.path.name.startswith("tiny_cuda-1.2.3+cu130-py3-none-manylinux_2_")


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


def test_refuses_components_that_recipe_does_not_declare(tmp_path: Path) -> None:
    library = library_needing(
        tmp_path, "ext.so", "libcudart.so.13", "libcublas.so.13", "libcufft.so.12"
    )

    with pytest.raises(RepairError) as caught:
        repair_wheel(tmp_path, {"pkg/ext.so": library})

    assert "pkg/ext.so needs libcublas.so.13 (component cublas)" in caught.value.why
    assert caught.value.fix == 'write link=Link("cudart", "cublas", "cufft")'


def test_refuses_driver_that_recipe_does_not_declare(tmp_path: Path) -> None:
    library = library_needing(tmp_path, "ext.so", "libcudart.so.13", "libcuda.so.1")

    with pytest.raises(RepairError) as caught:
        repair_wheel(tmp_path, {"pkg/ext.so": library})

    assert "pkg/ext.so needs libcuda.so.1 (of the GPU's driver)" in caught.value.why
    assert caught.value.fix == 'write link=Link("cudart", "driver")'


@pytest.mark.parametrize("name", ["libcuda.so.1", "helper.so"])
def test_refuses_stub_of_driver_that_the_build_copied(tmp_path: Path, name: str) -> None:
    stub = tmp_path / name
    stub.write_bytes(compile_driver_stub("13.0", Path("gcc")))

    with pytest.raises(RepairError, match="contains a library of NVIDIA's driver") as caught:
        repair_wheel(tmp_path, {f"pkg/{name}": stub}, link=Link("driver"))

    assert caught.value.why == f"pkg/{name} is named libcuda.so.1"


@pytest.mark.parametrize(
    ("toolkit", "soname"), [("13.0", "libcudart.so.12"), ("12.2", "libcudart.so.13")]
)
def test_refuses_cuda_library_of_other_major(tmp_path: Path, toolkit: str, soname: str) -> None:
    library = library_needing(tmp_path, "ext.so", soname)

    with pytest.raises(RepairError) as caught:
        repair_wheel(tmp_path, {"pkg/ext.so": library}, toolkit=toolkit)

    assert caught.value.why == f"pkg/ext.so needs {soname}, which no component supplies"
    assert caught.value.fix.startswith(f"build against a library of CUDA {toolkit[:2]}")


def test_strips_with_toolchains_own_program(tmp_path: Path, library: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    own = programs / "strip"
    own.write_text(
        '#!/bin/sh\ncase $1 in --version) echo own strip 1.0 ;; *) exec strip "$@" ;; esac\n'
    )
    own.chmod(0o755)

    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, programs=programs)

    assert wheel.tools[0] == ("strip", "own strip 1.0")
    assert elf_of(wheel, MEMBER).section(".symtab") is None


def test_names_toolchain_that_lacks_strip(tmp_path: Path, library: Path) -> None:
    (tmp_path / "programs").mkdir()

    with pytest.raises(RepairError) as caught:
        repair_wheel(tmp_path, {MEMBER: library}, programs=tmp_path / "programs")

    assert caught.value.fix == "add binutils to the toolchain's environment.yml"


def test_strips_before_it_sets_the_rpath(tmp_path: Path, library: Path) -> None:
    """To strip a file that patchelf has changed can break it: pypa/auditwheel#716."""
    programs, seen = tmp_path / "programs", tmp_path / "seen"
    programs.mkdir()
    (programs / "strip").write_text(
        f'#!/bin/sh\nfor file; do :; done\nreadelf -d "$file" >> {seen}\nexec strip "$@"\n'
    )
    (programs / "strip").chmod(0o755)

    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, programs=programs)

    assert seen.read_text().count(f"[{_LEFT_BY_BUILD}]") == 1
    assert "$ORIGIN" not in seen.read_text()
    assert elf_of(wheel, MEMBER).runpath == ("$ORIGIN/../nvidia/cu13/lib",)


def test_warns_of_component_that_nothing_needs(tmp_path: Path, library: Path) -> None:
    _, workspace = repair_wheel(tmp_path, {"pkg/libtiny.so": library}, link=Link("cudart", "cufft"))

    assert 'declares link "cufft", but no library of the wheel needs' in heard(workspace)


def test_writes_rpath_where_recipe_says_so(tmp_path: Path, library: Path) -> None:
    link = Link("cudart", mode=External(search="rpath"))

    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, link=link)

    elf = elf_of(wheel, MEMBER)
    assert (elf.rpath, elf.runpath) == (("$ORIGIN/../nvidia/cu13/lib",), ())


def test_puts_requirement_behind_extra(tmp_path: Path, library: Path) -> None:
    mode = External(extra="cuda{cuda}", local_extra="cuda{cuda}-local")

    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, link=Link("cudart", mode=mode))

    text = metadata_of(wheel)
    assert header(text, "requires-dist") == ('nvidia-cuda-runtime>=13.0,<14; extra == "cuda13"',)
    assert header(text, "provides-extra") == ("cuda13-local", "cuda13")


def test_takes_requirement_of_upstream_behind_extra(tmp_path: Path, library: Path) -> None:
    link = Link("cudart", mode=External(extra="cuda-pip"))
    requires = ("nvidia-cuda-runtime>=13", "numpy")

    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, requires=requires, link=link)

    found = header(metadata_of(wheel), "requires-dist")
    assert found == ("numpy", 'nvidia-cuda-runtime>=13.0,<14; extra == "cuda-pip"')


def test_gives_wheel_another_name(tmp_path: Path, library: Path) -> None:
    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, wheel_name="tiny-cuda{cuda}x")

    assert wheel.path.name.startswith("tiny_cuda13x-1.2.3+cu130-")
    assert header(metadata_of(wheel), "name") == ("tiny-cuda13x",)


def test_leaves_local_version_out(tmp_path: Path, library: Path) -> None:
    wheel, _ = repair_wheel(tmp_path, {MEMBER: library}, has_local_version=False)

    assert wheel.path.name.startswith("tiny_cuda-1.2.3-cp311-")


def test_copies_libraries_into_wheel(tmp_path: Path, library: Path, cuda_home: Path) -> None:
    workspace = _built_space(tmp_path, {MEMBER: library}, cuda_home)

    wheel = repair(make_job(make_target(mode=Bundled()), workspace))

    ((name, size),) = wheel.bundled
    (grafted,) = elf_of(wheel, MEMBER).runpath
    assert name.startswith("tiny_cuda.libs/libcudart-")
    with zipfile.ZipFile(wheel.path) as archive:
        assert size == archive.getinfo(name).file_size
    assert grafted == "$ORIGIN/../tiny_cuda.libs"
    assert header(metadata_of(wheel), "requires-dist") == ()
    assert "+cu130.bundled-" in wheel.path.name


def test_names_copied_library_in_bill_of_materials(
    tmp_path: Path, library: Path, cuda_home: Path
) -> None:
    workspace = _built_space(tmp_path, {MEMBER: library}, cuda_home)

    wheel = repair(make_job(make_target(mode=Bundled()), workspace))

    with zipfile.ZipFile(wheel.path) as archive:
        (sbom,) = (name for name in archive.namelist() if "cuwheel" in name and "/sboms/" in name)
        text = archive.read(sbom).decode()
    assert PurePosixPath(wheel.bundled[0][0]).name in text
    assert "of nvidia-cuda-runtime" in text
    assert "LicenseRef-NVIDIA-Proprietary" in text
    assert "libraries of NVIDIA:" in heard(workspace)


def test_links_archive_in_and_requires_nothing(tmp_path: Path, cuda_home: Path) -> None:
    source = tmp_path / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=static")
    library = compile_cuda(tmp_path / "libtiny.so", cuda_home, source, *flags)
    workspace = _built_space(tmp_path, {MEMBER: library}, cuda_home, "nvidia-cuda-runtime>=13")

    wheel = repair(make_job(make_target(mode=Static()), workspace))

    assert header(metadata_of(wheel), "requires-dist") == ()
    assert wheel.external == ()
    with zipfile.ZipFile(wheel.path) as archive:
        (sbom,) = (name for name in archive.namelist() if "cuwheel" in name and "/sboms/" in name)
        assert "libcudart_static.a" in archive.read(sbom).decode()


def test_refuses_static_wheel_that_needs_library(tmp_path: Path, library: Path) -> None:
    with pytest.raises(RepairError) as caught:
        repair_wheel(tmp_path, {MEMBER: library}, mode=Static())

    assert "libcudart.so.13, which its build should have linked statically" in caught.value.why


def test_refuses_damaged_library(tmp_path: Path, library: Path) -> None:
    with pytest.raises(RepairError, match=r"pkg/libtiny.so in the built wheel is damaged"):
        repair_wheel(tmp_path, {"pkg/libtiny.so": library.read_bytes()[:500]})


def test_names_missing_program(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuwheel.repair.tools.SYSTEM_PATH", str(tmp_path))

    with pytest.raises(RepairError, match="the program strip is missing") as caught:
        repair_wheel(tmp_path, {"pkg/libtiny.so": library})

    assert caught.value.fix == "apt-get install binutils"


def test_replaces_result_of_earlier_run(tmp_path: Path, library: Path) -> None:
    wheel, workspace = repair_wheel(tmp_path, {"pkg/libtiny.so": library})
    old = wheel.path.with_name("old.whl")
    old.touch()

    again = repair(make_job(make_target(), workspace))

    assert not old.exists()
    assert again == wheel


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
