"""Wheels repaired as the stage does it."""

from __future__ import annotations

import dataclasses
import zipfile
from pathlib import Path
from typing import Any

from cuwheel.base.formats.binaries.elf import Elf, read_elf
from cuwheel.build.pipeline.stages.repair import repair
from cuwheel.build.workspace.records import RepairedWheel, Toolchain
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import (
    compile_library,
    make_job,
    make_target,
    make_workspace,
    save_built,
    write_wheel,
)

MEMBER = "tiny_cuda/libtiny.so"
CODE = "int answer(void) { return 42; }\n"


def repair_wheel(
    folder: Path,
    files: dict[str, bytes | Path],
    requires: tuple[str, ...] = (),
    version: str = "1.2.3",
    programs: Path | None = None,
    **changes: Any,
) -> tuple[RepairedWheel, Workspace]:
    workspace = make_workspace(folder)
    wheel = write_wheel(folder / "built", files, requires=requires, version=version)
    save_built(workspace, wheel)
    made = dataclasses.replace(workspace.load("toolchain", Toolchain), programs=programs)
    workspace.save("toolchain", made)
    return repair(make_job(make_target(**changes), workspace)), workspace


def library_needing(folder: Path, name: str, *sonames: str) -> Path:
    """A library that needs these sonames, each supplied by a stub when it is linked."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "answer.c"
    source.write_text(CODE)
    stubs = [
        compile_library(folder / soname, "gcc", "-fPIC", source, f"-Wl,-soname,{soname}")
        for soname in sonames
    ]
    return compile_library(folder / name, "gcc", "-fPIC", source, "-Wl,--no-as-needed", *stubs)


def elf_of(wheel: RepairedWheel, member: str) -> Elf:
    with zipfile.ZipFile(wheel.path) as archive, archive.open(member) as stream:
        return read_elf(stream)


def metadata_of(wheel: RepairedWheel) -> str:
    with zipfile.ZipFile(wheel.path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        return archive.read(name).decode()
