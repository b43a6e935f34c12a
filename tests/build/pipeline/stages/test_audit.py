from __future__ import annotations

import dataclasses
import hashlib
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import AuditError
from cuwheel.base.formats.wheel.archive import pack, unpack_wheel
from cuwheel.base.formats.wheel.metadata import rename
from cuwheel.build.finish.repair.tools import RepairTools
from cuwheel.build.pipeline.stages.audit import audit
from cuwheel.build.pipeline.stages.repair import repair
from cuwheel.build.recipe.link import Link
from cuwheel.build.toolchains.driver_stub import compile_driver_stub
from cuwheel.build.workspace.records import Audit, RepairedWheel
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

_KERNEL = """
#include <string.h>
__global__ void twice(float *p) { p[threadIdx.x] *= 2; }
extern "C" void run(float *p) { twice<<<1, 1>>>(p); }
extern "C" void copy(char *to, const char *from, size_t size) { memcpy(to, from, size); }
"""
_CODE = 'const char *answer(void) { return "42"; }\n'
_LIBRARY = "tiny_cuda/libtiny.so"
_EXTENSION = "tiny_cuda/ext.so"
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

    def retag(self, old: str, new: str) -> None:
        """Give the wheel another tag, in its name and in WHEEL."""
        assert old in self.name
        self.name = self.name.replace(old, new)
        self.replace("WHEEL", old, new)

    def retag_platform(self, new: str) -> None:
        self.retag(self.good.platform_tag, new)

    def replace(self, file: str, old: str, new: str) -> None:
        path = self.folder / _DIST_INFO / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def set_rpath(self, *entries: str, file: str = _LIBRARY) -> None:
        scratch = self.workspace.folder("scratch")
        log = self.workspace.log("test")
        tools = RepairTools(owner="test", scratch=scratch, log=log, epoch=EPOCH)
        tools.set_rpath(self.folder / file, entries)

    def compile(self, member: str = _EXTENSION, *flags: str, code: str = _CODE) -> None:
        """Add a library without device code to the wheel."""
        source = self.folder.parent / "code.c"
        source.write_text(code)
        compile_library(self.folder / member, "gcc", "-fPIC", source, *flags)

    def compile_cubin(self, member: str, home: Path, arch: str) -> None:
        """Add a file of machine code for one arch to the wheel."""
        source = self.folder.parent / "kernel.cu"
        source.write_text("__global__ void twice(int *p) { *p *= 2; }\n")
        compile_device_file(self.folder / member, home, source, arch)

    def needing(self, soname: str, member: str = _EXTENSION) -> None:
        """Add a library that needs another."""
        self.folder.parent.joinpath("code.c").write_text(_CODE)
        source = self.folder.parent / "code.c"
        stub = self.folder.parent / soname
        compile_library(stub, "gcc", "-fPIC", source, f"-Wl,-soname,{soname}")
        compile_library(self.folder / member, "gcc", "-fPIC", source, "-Wl,--no-as-needed", stub)

    def add_neighbour(self) -> None:
        """Add a library, and one that needs it."""
        self.needing("libown.so.1")
        shutil.copy(self.folder.parent / "libown.so.1", self.folder / "tiny_cuda")

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


def test_records_archs_and_supplier_of_every_needed_library(plant: _Plant) -> None:
    plant.add_neighbour()
    plant.set_rpath("$ORIGIN", file=_EXTENSION)
    plant.retag("cp311-cp311", "cp39-abi3")

    result = plant.audit(python="3.12")

    content = (plant.folder.parent / plant.name).read_bytes()
    suppliers = {soname: supplier for _, soname, supplier in result.suppliers}
    assert result.sha256 == hashlib.sha256(content).hexdigest()
    assert (result.archs, result.ptx_archs) == (("90",), ())
    assert suppliers["libcudart.so.13"] == "nvidia-cuda-runtime (nvidia/cu13/lib)"
    assert (suppliers["libc.so.6"], suppliers["libown.so.1"]) == ("system", "wheel")


def test_lets_mark_of_given_source_pass(plant: _Plant) -> None:
    version = "1.2.3+cu130.source.h0123456789ab"
    rename(plant.folder, version=version)
    plant.name = plant.name.replace("1.2.3+cu130", version)

    assert plant.audit()


def test_lets_driver_pass(plant: _Plant) -> None:
    plant.needing("libcuda.so.1")

    result = plant.audit(link=Link("cudart", "driver"))

    assert (_EXTENSION, "libcuda.so.1", "driver") in result.suppliers


@pytest.mark.e2e
def test_finds_copy_that_recipe_does_not_name(plant: _Plant) -> None:
    (plant.folder / "tiny_cuda.libs").mkdir()
    plant.compile("tiny_cuda.libs/libgomp-1a2b3c4d.so.1.0.0")

    [line] = plant.refused()
    assert line.startswith("tiny_cuda.libs/libgomp-1a2b3c4d.so.1.0.0: grafted library: ")
    assert plant.audit(link=Link("cudart", bundles=("libgomp",)))


@pytest.mark.parametrize("name", ["libcuda.so", "helper.so"])
def test_finds_stub_of_driver_under_any_name(plant: _Plant, name: str) -> None:
    (plant.folder / "tiny_cuda" / name).write_bytes(compile_driver_stub("13.0", Path("gcc")))

    [finding] = plant.refused()
    assert finding.startswith(f"tiny_cuda/{name}: grafted library: it belongs to the GPU's driver")


def test_holds_device_files_to_the_archs_where_no_library_has_code(
    plant: _Plant, cuda_home: Path
) -> None:
    plant.compile(_LIBRARY)
    for arch in ("80", "90"):
        plant.compile_cubin(f"tiny_cuda/kernel.sm_{arch}.cubin", cuda_home, arch)

    assert plant.audit(archs=("80", "90")).archs == ("80", "90")
    [line] = plant.refused()
    assert line.startswith(f"{plant.name}: archs: it contains sm_80 sm_90, ")


@pytest.mark.parametrize(
    ("defect", "fact"), [("late", "late.py: archive: "), ("cut", "is damaged")]
)
def test_finds_archive_that_is_not_whole(defect: str, fact: str, plant: _Plant) -> None:
    plant.audit()
    path = plant.folder.parent / plant.name
    if defect == "cut":
        path.write_bytes(plant.good.path.read_bytes()[:2000])
    else:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("tiny_cuda/late.py", b"")

    with pytest.raises(AuditError) as caught:
        plant.audit_file(path)

    assert fact in caught.value.why


def _nothing(_: _Plant) -> None:
    """The wheel is good, but not for the target."""


def _write_private_path(plant: _Plant) -> None:
    plant.private = ("/work/of/build",)
    (plant.folder / "tiny_cuda" / "config.py").write_text("ROOT = '/work/of/build/src'\n")


def _damage_library(plant: _Plant) -> None:
    (plant.folder / _EXTENSION).write_bytes(plant.library.read_bytes()[:300])


def _rename_file(plant: _Plant) -> None:
    plant.name = "tiny_cuda.whl"


_RUNTIME = "Requires-Dist: nvidia-cuda-runtime>=13.0,<14\n"
_IN_EXTRA = 'Requires-Dist: nvidia-cuda-runtime; extra == "cuda"\n'
_RPATH = "$ORIGIN/../nvidia/cu13/lib"
_COPY = "tiny_cuda.libs/libcudart-1a2b3c4d.so.13.0.96"
_Defect = tuple[Any, dict[str, Any], str, str]
# Defect, changes of the target, beginning of the finding (file and rule; no file: the wheel's
# own), part of its fact.
_ALONE: dict[str, _Defect] = {
    "other project": (_nothing, {"name": "other-cuda"}, ": name", "is tiny-cuda"),
    "other version": (_nothing, {"version": "1.2.4"}, ": version", "1.2.4+cu130"),
    "pure": (
        lambda plant: plant.replace("WHEEL", "Purelib: false", "Purelib: true"),
        *({}, "WHEEL: tag", "Root-Is-Purelib"),
    ),
    "tag of other Python": (_nothing, {"python": "3.12"}, ": tag", "is not a tag for"),
    "tag with GIL": (_nothing, {"python": "3.11t"}, ": tag", "is not a tag for"),
    "tag of one Python": (_nothing, {"serves": "any"}, ": tag", "is not a tag for"),
    "tag without abi3": (_nothing, {"serves": "abi3"}, ": tag", "the stable ABI"),
    "new symbols": (
        lambda plant: plant.retag_platform("manylinux_2_5_x86_64"),
        *({}, f"{_LIBRARY}: platform tag", "GLIBC_2.14 of libc.so.6"),
    ),
    "no supplier": (
        lambda plant: plant.needing("libnowhere.so.3"),
        *({}, f"{_EXTENSION}: needed library", "libnowhere.so.3 is neither in the wheel"),
    ),
    "CUDA of other major": (
        lambda plant: plant.needing("libcudart.so.12"),
        *({}, f"{_EXTENSION}: needed library", "no component supplies"),
    ),
    "undeclared component": (
        *(_nothing, {"link": Link()}, f"{_LIBRARY}: needed library"),
        '"cudart", which the recipe doesn\'t declare',
    ),
    "undeclared driver": (
        lambda plant: plant.needing("libcuda.so.1"),
        *({}, f"{_EXTENSION}: needed library", "GPU's driver, which the recipe doesn't"),
    ),
    "no requirement": (
        lambda plant: plant.replace("METADATA", _RUNTIME, ""),
        *({}, f"{_LIBRARY}: needed library", "isn't in Requires-Dist"),
    ),
    "requirement in extra": (
        lambda plant: plant.replace("METADATA", _RUNTIME, _IN_EXTRA),
        *({}, f"{_LIBRARY}: needed library", "which only the extra"),
    ),
    "component without rpath": (
        lambda plant: plant.set_rpath(),
        *({}, f"{_LIBRARY}: needed library", "no rpath entry points there"),
    ),
    "neighbour without rpath": (
        lambda plant: plant.add_neighbour(),
        *({}, f"{_EXTENSION}: needed library", "no rpath entry points to it"),
    ),
    **{
        f"rpath {entry}": (
            lambda plant, entry=entry: plant.set_rpath(_RPATH, entry),
            *({}, f"{_LIBRARY}: rpath", f"the entry {entry} doesn't point to a folder below"),
        )
        for entry in ("/usr/local/cuda/lib64", "$ORIGIN/../../../lib", "lib")
    },
    **{
        f"rpath {entry}": (
            lambda plant, entry=entry: plant.set_rpath(_RPATH, entry),
            *({}, f"{_LIBRARY}: rpath", f"the entry {entry} points to a missing folder"),
        )
        for entry in ("$ORIGIN/lib", "$ORIGIN/../torch/lib")
    },
    "copied CUDA": (lambda plant: plant.compile(_COPY), {}, f"{_COPY}: grafted library", ""),
    "build path": (
        *(_write_private_path, {}, "tiny_cuda/config.py: build path"),
        "/work/of/build/src'",
    ),
    "source path": (
        lambda plant: plant.compile(code=_CODE.replace("42", "/home/someone/src/a.cu")),
        *({}, f"{_EXTENSION}: build path", "/home/someone/src/a.cu"),
    ),
    "missing arch": (
        *(_nothing, {"archs": ("80", "90")}, f"{_LIBRARY}: archs"),
        "sm_90, the target requires sm_80 sm_90",
    ),
    "other arch": (
        *(_nothing, {"archs": ("80",)}, f"{_LIBRARY}: archs"),
        "sm_90, the target requires sm_80",
    ),
    "missing PTX": (_nothing, {"ptx": "last"}, f"{_LIBRARY}: archs", "requires compute_90"),
    "no device code": (lambda plant: plant.compile(_LIBRARY), {}, ": archs", "no library"),
    "executable stack": (
        lambda plant: plant.compile(_EXTENSION, "-Wl,-z,execstack"),
        *({}, f"{_EXTENSION}: executable stack", ""),
    ),
    "damaged library": (_damage_library, {}, f"{_EXTENSION}: library", "not a valid ELF"),
    "over budget": (_nothing, {"max_wheel_size": 1024}, ": size", "allows 1.0 KiB"),
}
# These are found with others.
_AMONG: dict[str, _Defect] = {
    "other METADATA": (
        lambda plant: plant.replace("METADATA", "1.2.3+cu130", "1.2.4+cu130"),
        *({}, "", "METADATA says tiny_cuda 1.2.4+cu130"),
    ),
    "other dist-info": (
        lambda plant: (plant.folder / _DIST_INFO).rename(
            plant.folder / "tiny_cuda-1.2.3.dist-info"
        ),
        *({}, "tiny_cuda-1.2.3.dist-info: name", "doesn't match"),
    ),
    "invalid name": (_rename_file, {}, "", "Invalid wheel filename"),
    "other WHEEL": (
        lambda plant: plant.replace("WHEEL", "cp311-cp311", "cp312-cp312"),
        *({}, "WHEEL: tag", "the file name has cp311"),
    ),
    "plain linux tag": (
        lambda plant: plant.retag_platform("linux_x86_64"),
        *({}, ": platform tag", "linux_x86_64 is not a manylinux tag"),
    ),
    "other machine": (
        lambda plant: plant.retag_platform("manylinux_2_28_aarch64"),
        *({}, "", "it is for EM_X86_64, the tag is manylinux_2_28_aarch64"),
    ),
    "soname of two majors": (
        lambda plant: plant.needing("libcusparse.so.12"),
        {"toolkit": "12.8", "link": Link("cudart", "cusparse")},
        *(f"{_EXTENSION}: needed library", "no rpath entry points to nvidia/cusparse/lib"),
    ),
    "later CUDA": (
        *(_nothing, {"toolkit": "12.8"}, f"{_LIBRARY}: needed library"),
        "libcudart.so.13 is a CUDA library that no component supplies",
    ),
    "rpath of other major": (
        *(_nothing, {"toolkit": "12.8"}, f"{_LIBRARY}: rpath"),
        "$ORIGIN/../nvidia/cu13/lib points to a missing folder",
    ),
    "no library": (lambda plant: plant.library.unlink(), {}, ": library", "no compiled library"),
}


@pytest.mark.parametrize(
    ("act", "changes", "where", "fact"),
    [*_ALONE.values(), *_AMONG.values()],
    ids=[*_ALONE, *_AMONG],
)
def test_finds_defect(
    plant: _Plant, act: Callable[[_Plant], object], changes: dict[str, Any], where: str, fact: str
) -> None:
    act(plant)

    lines = plant.refused(**changes)

    start = f"{plant.name if where.startswith(':') else ''}{where}"
    assert any(line.startswith(start) and fact in line for line in lines)
    assert len(lines) == 1 or (act, changes, where, fact) in _AMONG.values()
