from __future__ import annotations

import dataclasses
import hashlib
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import AuditError
from cuwheel.model.link import Link
from cuwheel.repair.tools import RepairTools
from cuwheel.stages.audit import audit
from cuwheel.stages.repair import repair
from cuwheel.toolchains.driver_stub import compile_driver_stub
from cuwheel.wheel.archive import pack, unpack_wheel
from tests.support.factories import (
    EPOCH,
    compile_cuda,
    compile_device_file,
    compile_library,
    make_job,
    make_target,
    make_workspace,
    save_built,
    write_wheel,
)

if TYPE_CHECKING:
    from cuwheel.workspace.records import Audit, RepairedWheel

_KERNEL = """
#include <string.h>
__global__ void twice(float *p) { p[threadIdx.x] *= 2; }
extern "C" void run(float *p) { twice<<<1, 1>>>(p); }
extern "C" void copy(char *to, const char *from, size_t size) { memcpy(to, from, size); }
"""
_CODE = 'const char *answer(void) { return "42"; }\n'
_LIBRARY = "tiny_cuda/libtiny.so"
_DIST_INFO = "tiny_cuda-1.2.3+cu130.dist-info"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, cuda_home: Path) -> RepairedWheel:
    """A repaired wheel that keeps its contract: one library, machine code for 90, cudart."""
    folder = tmp_path_factory.mktemp("good")
    source = folder / "twice.cu"
    source.write_text(_KERNEL)
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=shared", "-Xcompiler=-fno-builtin")
    library = compile_cuda(folder / "libtiny.so", cuda_home, source, *flags)
    workspace = make_workspace(folder)
    save_built(workspace, write_wheel(folder / "built", {_LIBRARY: library}))
    return repair(make_job(make_target(), workspace))


class _Plant:
    """Changes a good wheel, packs it soundly again, and audits it."""

    def __init__(self, good: RepairedWheel, folder: Path) -> None:
        self.good = good
        self.workspace = make_workspace(folder)
        self.folder = folder / "content"
        self.name = good.path.name
        self.private: tuple[str, ...] = ()
        self.folder.mkdir()
        unpack_wheel(good.path, self.folder)

    @property
    def library(self) -> Path:
        return self.folder / _LIBRARY

    def replace(self, file: str, old: str, new: str) -> None:
        path = self.folder / _DIST_INFO / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def set_rpath(self, *entries: str, file: str = _LIBRARY) -> None:
        scratch = self.workspace.folder("scratch")
        log = self.workspace.log("test")
        tools = RepairTools(owner="test", scratch=scratch, log=log, epoch=EPOCH)
        tools.set_rpath(self.folder / file, entries)

    def compile(self, member: str, *flags: str, code: str = _CODE) -> None:
        """Add a library without device code to the wheel."""
        source = self.folder.parent / "code.c"
        source.write_text(code)
        compile_library(self.folder / member, "gcc", "-fPIC", source, *flags)

    def compile_cubin(self, member: str, home: Path, arch: str) -> None:
        """Add a file of machine code for one arch to the wheel."""
        source = self.folder.parent / "kernel.cu"
        source.write_text("__global__ void twice(int *p) { *p *= 2; }\n")
        compile_device_file(self.folder / member, home, source, arch)

    def needing(self, member: str, soname: str) -> None:
        """Add a library that needs another."""
        self.folder.parent.joinpath("code.c").write_text(_CODE)
        source = self.folder.parent / "code.c"
        stub = self.folder.parent / soname
        compile_library(stub, "gcc", "-fPIC", source, f"-Wl,-soname,{soname}")
        compile_library(
            self.folder / member, "gcc", "-fPIC", source, "-Wl,--no-as-needed", str(stub)
        )

    def audit(self, **changes: Any) -> Audit:
        path = self.folder.parent / self.name
        pack(self.folder, path, epoch=EPOCH)
        return self.audit_file(path, **changes)

    def audit_file(self, path: Path, **changes: Any) -> Audit:
        save_built(self.workspace, path, private_paths=self.private)
        self.workspace.save("repair", dataclasses.replace(self.good, path=path))
        return audit(make_job(make_target(**changes), self.workspace))

    def refused(self, **changes: Any) -> list[str]:
        """The findings, one a line."""
        with pytest.raises(AuditError) as caught:
            self.audit(**changes)
        return [line.strip() for line in caught.value.why.splitlines()]


@pytest.fixture
def plant(good: RepairedWheel, tmp_path: Path) -> _Plant:
    return _Plant(good, tmp_path)


def _renamed(plant: _Plant, old: str, new: str) -> None:
    assert old in plant.name
    plant.name = plant.name.replace(old, new)


def test_passes_good_wheel(plant: _Plant) -> None:
    found = plant.audit()

    assert (found.archs, found.ptx_archs) == (("90",), ())


def test_tells_sha256_of_file_that_it_read(plant: _Plant) -> None:
    found = plant.audit()

    content = (plant.folder.parent / plant.name).read_bytes()
    assert found.sha256 == hashlib.sha256(content).hexdigest()


def test_tells_supplier_of_every_needed_library(plant: _Plant) -> None:
    suppliers = {soname: supplier for _, soname, supplier in plant.audit().suppliers}

    assert suppliers["libcudart.so.13"] == "nvidia-cuda-runtime (nvidia/cu13/lib)"
    assert suppliers["libc.so.6"] == "system"


def test_lists_all_breaches_together(plant: _Plant) -> None:
    plant.set_rpath("/opt/cuda/lib")
    plant.replace("METADATA", "Requires-Dist: nvidia-cuda-runtime>=13.0,<14\n", "")

    rules = {line.split(": ")[1] for line in plant.refused(archs=("80",), max_wheel_size=100)}

    assert rules == {"rpath", "needed library", "archs", "size"}


def test_finds_version_that_metadata_denies(plant: _Plant) -> None:
    plant.replace("METADATA", "1.2.3+cu130", "1.2.4+cu130")

    assert any("METADATA says tiny_cuda 1.2.4+cu130" in line for line in plant.refused())


def test_finds_other_dist_info_folder(plant: _Plant) -> None:
    (plant.folder / _DIST_INFO).rename(plant.folder / "tiny_cuda-1.2.3.dist-info")

    expected = "tiny_cuda-1.2.3.dist-info: name: its name doesn't match the wheel's file name"
    assert expected in plant.refused()


def test_finds_other_project(plant: _Plant) -> None:
    found = plant.refused(name="other-cuda")

    assert found == [f"{plant.name}: name: the project is tiny-cuda, the recipe's is other-cuda"]


def test_finds_version_that_is_not_the_targets(plant: _Plant) -> None:
    found = plant.refused(version="1.2.4")

    fact = "the version is 1.2.3+cu130, the target's is 1.2.4+cu130"
    assert found == [f"{plant.name}: version: {fact}"]


def test_lets_version_of_given_source_pass(plant: _Plant, tmp_path: Path) -> None:
    assert plant.audit(version="1.2.4", source_override=tmp_path)


def test_finds_name_that_is_no_wheels(plant: _Plant) -> None:
    plant.name = "tiny_cuda.whl"

    assert any("Invalid wheel filename" in line for line in plant.refused())


def test_finds_tag_that_wheel_file_denies(plant: _Plant) -> None:
    plant.replace("WHEEL", "cp311-cp311", "cp312-cp312")

    assert any("WHEEL: tag: the file name has cp311" in line for line in plant.refused())


def test_finds_wheel_that_calls_itself_pure(plant: _Plant) -> None:
    plant.replace("WHEEL", "Root-Is-Purelib: false", "Root-Is-Purelib: true")

    (line,) = plant.refused()

    assert line.startswith("WHEEL: tag: Root-Is-Purelib isn't false")


@pytest.mark.parametrize(
    ("python", "serves"), [("3.12", "each"), ("3.11t", "each"), ("3.11", "any")]
)
def test_finds_tag_for_other_python(plant: _Plant, python: str, serves: str) -> None:
    (line,) = plant.refused(python=python, serves=serves)

    assert "is not a tag for" in line


def test_lets_stable_abi_pass(plant: _Plant) -> None:
    _renamed(plant, "cp311-cp311", "cp39-abi3")
    plant.replace("WHEEL", "cp311-cp311", "cp39-abi3")

    assert plant.audit(python="3.12")


def test_finds_plain_linux_tag(plant: _Plant) -> None:
    tag = plant.good.platform_tag
    _renamed(plant, tag, "linux_x86_64")
    plant.replace("WHEEL", tag, "linux_x86_64")

    found = plant.refused()

    expected = "linux_x86_64 is not a manylinux tag that auditwheel knows"
    assert f"{plant.name}: platform tag: {expected}" in found


def test_finds_symbols_that_tag_does_not_promise(plant: _Plant) -> None:
    tag = plant.good.platform_tag
    _renamed(plant, tag, "manylinux_2_5_x86_64")
    plant.replace("WHEEL", tag, "manylinux_2_5_x86_64")

    found = plant.refused()

    fact = "it needs GLIBC_2.14 of libc.so.6, which manylinux_2_5_x86_64 doesn't guarantee"
    assert found == [f"{_LIBRARY}: platform tag: {fact}; manylinux_2_17_x86_64 does"]


def test_finds_library_of_other_machine(plant: _Plant) -> None:
    tag = plant.good.platform_tag
    other = "manylinux_2_28_aarch64"
    _renamed(plant, tag, other)
    plant.replace("WHEEL", tag, other)

    assert any(f"it is for EM_X86_64, the tag is {other}" in line for line in plant.refused())


def test_finds_library_that_nobody_supplies(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libnowhere.so.3")

    fact = "libnowhere.so.3 is neither in the wheel, nor on every system that its tag covers"
    assert plant.refused() == [f"tiny_cuda/ext.so: needed library: {fact}"]


def test_finds_cuda_library_of_other_major(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libcudart.so.12")

    fact = "libcudart.so.12 is a CUDA library that no component supplies"
    assert plant.refused() == [f"tiny_cuda/ext.so: needed library: {fact}"]


def test_takes_soname_of_two_majors_from_the_targets(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libcusparse.so.12")

    found = plant.refused(toolkit="12.8", link=Link("cudart", "cusparse"))

    fact = "libcusparse.so.12 is in nvidia/cusparse/lib, but no rpath entry points there"
    assert f"tiny_cuda/ext.so: needed library: {fact}" in found


def test_finds_library_of_later_cuda_in_wheel_for_earlier(plant: _Plant) -> None:
    found = plant.refused(toolkit="12.8")

    fact = "libcudart.so.13 is a CUDA library that no component supplies"
    assert f"{_LIBRARY}: needed library: {fact}" in found


def test_finds_rpath_to_folder_of_other_major(plant: _Plant) -> None:
    found = plant.refused(toolkit="12.8")

    fact = (
        "the entry $ORIGIN/../nvidia/cu13/lib points to a missing folder or one without libraries"
    )
    assert f"{_LIBRARY}: rpath: {fact}" in found


def test_finds_component_that_recipe_does_not_declare(plant: _Plant) -> None:
    (line,) = plant.refused(link=Link())

    assert 'libcudart.so.13 comes from "cudart", which the recipe doesn\'t declare' in line


@pytest.mark.parametrize("kept", ["", 'Requires-Dist: nvidia-cuda-runtime; extra == "cuda"\n'])
def test_finds_component_without_requirement(plant: _Plant, kept: str) -> None:
    plant.replace("METADATA", "Requires-Dist: nvidia-cuda-runtime>=13.0,<14\n", kept)

    (line,) = plant.refused()

    assert "nvidia-cuda-runtime, which isn't in Requires-Dist" in line


def test_finds_component_that_no_rpath_reaches(plant: _Plant) -> None:
    plant.set_rpath()

    (line,) = plant.refused()

    assert "libcudart.so.13 is in nvidia/cu13/lib, but no rpath entry points there" in line


def test_finds_neighbour_that_no_rpath_reaches(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libown.so.1")
    shutil.copy(plant.folder.parent / "libown.so.1", plant.folder / "tiny_cuda")

    fact = "libown.so.1 is in the wheel, but no rpath entry points to it"
    assert plant.refused() == [f"tiny_cuda/ext.so: needed library: {fact}"]


def test_lets_neighbour_on_rpath_pass(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libown.so.1")
    shutil.copy(plant.folder.parent / "libown.so.1", plant.folder / "tiny_cuda")
    plant.set_rpath("$ORIGIN", file="tiny_cuda/ext.so")

    assert ("tiny_cuda/ext.so", "libown.so.1", "wheel") in plant.audit().suppliers


def test_lets_driver_pass(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libcuda.so.1")

    found = plant.audit(link=Link("cudart", "driver"))

    assert ("tiny_cuda/ext.so", "libcuda.so.1", "driver") in found.suppliers


def test_finds_driver_that_recipe_does_not_declare(plant: _Plant) -> None:
    plant.needing("tiny_cuda/ext.so", "libcuda.so.1")

    fact = "libcuda.so.1 comes from the GPU's driver, which the recipe doesn't declare"
    assert plant.refused() == [f"tiny_cuda/ext.so: needed library: {fact}"]


def test_finds_copy_that_recipe_does_not_name(plant: _Plant) -> None:
    (plant.folder / "tiny_cuda.libs").mkdir()
    plant.compile("tiny_cuda.libs/libgomp-1a2b3c4d.so.1.0.0")

    fact = "it was copied from the build machine, and is not in the recipe's `bundles`"
    expected = f"tiny_cuda.libs/libgomp-1a2b3c4d.so.1.0.0: grafted library: {fact}"
    assert plant.refused() == [expected]
    assert plant.audit(link=Link("cudart", bundles=("libgomp",)))


@pytest.mark.parametrize("name", ["libcuda.so", "helper.so"])
def test_finds_stub_of_driver_under_any_name(plant: _Plant, name: str) -> None:
    (plant.folder / "tiny_cuda" / name).write_bytes(compile_driver_stub("13.0", Path("gcc")))

    [finding] = plant.refused()
    assert finding.startswith(f"tiny_cuda/{name}: grafted library: it belongs to the GPU's driver")


@pytest.mark.parametrize("entry", ["/usr/local/cuda/lib64", "$ORIGIN/../../../lib", "lib"])
def test_finds_rpath_out_of_site_packages(plant: _Plant, entry: str) -> None:
    plant.set_rpath("$ORIGIN/../nvidia/cu13/lib", entry)

    fact = f"the entry {entry} doesn't point to a folder below site-packages"
    assert plant.refused() == [f"{_LIBRARY}: rpath: {fact}"]


@pytest.mark.parametrize("entry", ["$ORIGIN/lib", "$ORIGIN/../torch/lib"])
def test_finds_rpath_to_nothing(plant: _Plant, entry: str) -> None:
    plant.set_rpath("$ORIGIN/../nvidia/cu13/lib", entry)

    assert plant.refused() == [
        (
            f"{_LIBRARY}: rpath: the entry {entry} points to a missing folder or one without "
            "libraries"
        )
    ]


def test_finds_grafted_cuda_library(plant: _Plant) -> None:
    plant.compile("tiny_cuda.libs/libcudart-1a2b3c4d.so.13.0.96")

    fact = "a library that belongs to another wheel is copied in"
    name = "tiny_cuda.libs/libcudart-1a2b3c4d.so.13.0.96"
    assert plant.refused() == [f"{name}: grafted library: {fact}"]


def test_finds_path_of_build_machine(plant: _Plant) -> None:
    plant.private = ("/work/of/build",)
    (plant.folder / "tiny_cuda" / "config.py").write_text("ROOT = '/work/of/build/src'\n")

    expected = "tiny_cuda/config.py: build path: it contains /work/of/build/src'"
    assert plant.refused() == [expected]


def test_finds_source_path_in_library(plant: _Plant) -> None:
    plant.compile("tiny_cuda/ext.so", code=_CODE.replace("42", "/home/someone/src/a.cu"))

    expected = "tiny_cuda/ext.so: build path: it contains /home/someone/src/a.cu"
    assert plant.refused() == [expected]


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"archs": ("80", "90")}, "it contains sm_90, the target requires sm_80 sm_90"),
        ({"archs": ("80",)}, "it contains sm_90, the target requires sm_80"),
        ({"ptx": "last"}, "it contains no compute, the target requires compute_90"),
    ],
    ids=["missing", "other", "ptx"],
)
def test_finds_other_archs(plant: _Plant, changes: dict[str, Any], fact: str) -> None:
    assert plant.refused(**changes) == [f"{_LIBRARY}: archs: {fact}"]


def test_finds_wheel_without_device_code(plant: _Plant) -> None:
    plant.compile(_LIBRARY)

    expected = "archs: no library contains device code, the target is for sm_90"
    assert plant.refused() == [f"{plant.name}: {expected}"]


def test_holds_device_files_to_the_archs_where_no_library_has_code(
    plant: _Plant, cuda_home: Path
) -> None:
    plant.compile(_LIBRARY)
    for arch in ("80", "90"):
        plant.compile_cubin(f"tiny_cuda/kernel.sm_{arch}.cubin", cuda_home, arch)

    found = plant.audit(archs=("80", "90"))

    assert found.archs == ("80", "90")
    expected = f"{plant.name}: archs: it contains sm_80 sm_90, the target requires sm_90"
    assert plant.refused() == [expected]


def test_finds_wheel_without_library(plant: _Plant) -> None:
    plant.library.unlink()

    assert f"{plant.name}: library: it contains no compiled library" in plant.refused()


def test_finds_executable_stack(plant: _Plant) -> None:
    plant.compile("tiny_cuda/ext.so", "-Wl,-z,execstack")

    assert plant.refused() == [
        "tiny_cuda/ext.so: executable stack: it requires an executable stack"
    ]


def test_finds_damaged_library(plant: _Plant) -> None:
    content = plant.library.read_bytes()
    (plant.folder / "tiny_cuda" / "ext.so").write_bytes(content[:300])

    (line,) = plant.refused()

    assert line.startswith("tiny_cuda/ext.so: library: not a valid ELF file")


def test_finds_wheel_over_budget(plant: _Plant) -> None:
    (line,) = plant.refused(max_wheel_size=1024)

    assert "the recipe allows 1.0 KiB" in line


def test_finds_wrong_record(plant: _Plant) -> None:
    plant.audit()
    path = plant.folder.parent / plant.name
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("tiny_cuda/late.py", b"")

    with pytest.raises(AuditError) as caught:
        plant.audit_file(path)

    assert caught.value.why == "tiny_cuda/late.py: archive: RECORD doesn't list it"


def test_finds_damaged_archive(plant: _Plant) -> None:
    path = plant.folder.parent / plant.name
    path.write_bytes(plant.good.path.read_bytes()[:2000])

    with pytest.raises(AuditError) as caught:
        plant.audit_file(path)

    assert "is damaged" in caught.value.why
