"""Wheels for another kind of machine: its strip, its tag, and libraries of its system alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuwheel.base.errors import AuditError
from cuwheel.build.pipeline.stages.repair import repair
from cuwheel.build.recipe.link import Link
from cuwheel.build.recipe.platform import AARCH64
from cuwheel.build.workspace.records import RepairedWheel
from tests.support.build.repairs import CODE, elf_of
from tests.support.factories import (
    compile_library,
    make_job,
    make_target,
    make_workspace,
    save_built,
    write_wheel,
)
from tests.support.packages.foreign_platform import compile_arm64, write_root


def repair_arm64(folder: Path, library: Path) -> RepairedWheel:
    workspace = make_workspace(folder)
    files = {"tiny_cuda/libtiny.so": library}
    save_built(workspace, write_wheel(folder / "built", files, tag="cp311-cp311-linux_aarch64"))
    target = make_target(platform=AARCH64, link=Link(bundles=("libother",)))
    job = make_job(target, workspace)
    root = write_root(folder / "root", "/usr/lib/aarch64-linux-gnu")
    return repair(
        dataclasses.replace(job, machine=dataclasses.replace(job.machine, target_root=root))
    )


def linked(folder: Path, where: Path) -> Path:
    """A library that needs another one, which is there."""
    other = compile_arm64(where / "libother.so.1", "-Wl,-soname,libother.so.1")
    return compile_arm64(folder / "libtiny.so", "-g", "-Wl,--no-as-needed", other)


def test_copies_library_of_the_other_machine(tmp_path: Path) -> None:
    library = linked(tmp_path, tmp_path / "root/usr/lib/aarch64-linux-gnu")

    wheel = repair_arm64(tmp_path, library)

    [(copied, _)] = wheel.bundled
    elf = elf_of(wheel, "tiny_cuda/libtiny.so")
    assert (elf_of(wheel, copied).machine, elf.needed[0]) == ("EM_AARCH64", copied.split("/")[-1])
    assert elf.section(".symtab") is None
    assert wheel.platform_tag == "manylinux_2_17_aarch64"
    assert "GNU strip" in dict(wheel.tools)["strip"]


def test_takes_no_library_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = linked(tmp_path, tmp_path / "elsewhere")
    source = tmp_path / "own.c"
    source.write_text(CODE)
    compile_library(tmp_path / "own/libother.so.1", "gcc", "-fPIC", source)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "own"))

    with pytest.raises(AuditError, match="auditwheel") as caught:
        repair_arm64(tmp_path, library)

    assert "libother.so.1" in caught.value.why


def test_names_package_of_missing_strip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = compile_arm64(tmp_path / "libtiny.so")
    monkeypatch.setattr("cuwheel.build.finish.repair.tools.SYSTEM_PATH", str(tmp_path))

    with pytest.raises(AuditError, match="aarch64-linux-gnu-strip is missing") as caught:
        repair_arm64(tmp_path, library)

    assert caught.value.fix == "apt-get install binutils-aarch64-linux-gnu"
