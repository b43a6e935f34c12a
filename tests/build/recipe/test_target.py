from __future__ import annotations

import dataclasses
import os
import platform
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.caller import Caller
from cuwheel.base.paths import ROOT
from cuwheel.build.recipe.catalogue import load_catalogue
from cuwheel.build.recipe.cells import cell_ids, is_cell
from cuwheel.build.recipe.link import Bundled, External, Link, Static
from cuwheel.build.recipe.platform import AARCH64, PLATFORMS, X86_64, own_platform
from cuwheel.build.recipe.recipe import Framework, Smoke
from cuwheel.build.recipe.target import Target
from tests.support.factories import make_target

_TORCH = Framework(name="torch", version="2.11.0")


def make_torch_target(version: str = "2.11.0") -> Target:
    """Return a target of a recipe that pins torch 2.11.0, compiled against this release."""
    target = make_target(framework=_TORCH, python="3.12", root=Path("project"))
    changed = Framework(name="torch", version=version)
    return Target(**{**target.__dict__, "framework": changed})


def other_framework(framework: Framework, **changes: Any) -> Target:
    """Return a target of a recipe with this framework, compiled against torch 2.12.0."""
    target = make_target(framework=framework, **changes)
    return dataclasses.replace(target, framework=Framework(name="torch", version="2.12.0"))


_STABLE = dataclasses.replace(_TORCH, serves=("2.13.0",))


@pytest.mark.parametrize(
    ("target", "name", "local_version"),
    [
        (make_torch_target(), "tiny-cuda-130-cp312-torch2.11", "cu130torch2.11"),
        (make_target(python="3.10"), "tiny-cuda-130-cp310", "cu130"),
        (make_target(framework=_STABLE), "tiny-cuda-130-cp311-torch2.11", "cu130"),
        (other_framework(_STABLE), "tiny-cuda-130-cp311-torch2.12", "cu130torch2.12"),
        (make_target(mode=Bundled()), "tiny-cuda-130-cp311-bundled", "cu130.bundled"),
        (make_target(link=Link("cudart", mode=Bundled())), "tiny-cuda-130-cp311", "cu130"),
        (make_target(has_local_version=False), "tiny-cuda-130-cp311", ""),
        (
            make_target(has_local_version=False, mode=Static()),
            *("tiny-cuda-130-cp311-static", "static"),
        ),
        (
            make_target(framework=_TORCH, has_local_version=False),
            *("tiny-cuda-130-cp311-torch2.11", ""),
        ),
        (
            other_framework(_TORCH, has_local_version=False),
            *("tiny-cuda-130-cp311-torch2.12", "cu130torch2.12"),
        ),
    ],
    ids=lambda value: "" if isinstance(value, Target) else value,
)
def test_id_and_local_version_name_what_decides(
    target: Target, name: str, local_version: str
) -> None:
    assert (target.id, target.local_version) == (name, local_version)


def test_serves_others_with_locks_of_their_own() -> None:
    framework = dataclasses.replace(_TORCH, serves=("2.13.0", "2.15.0"))

    served = make_target(framework=framework, root=Path("project")).served

    assert [str(other.smoke_lock) for other in served] == [
        "project/envs/build/tiny_cuda-torch2.13.0.lock",
        "project/envs/build/tiny_cuda-torch2.15.0.lock",
    ]


_ROOT: dict[str, Any] = {"root": Path("project")}
_SMOKE = Smoke(imports=("tiny_cuda",), requires=("numpy",))


@pytest.mark.parametrize(
    ("target", "lock", "smoke_lock"),
    [
        (make_torch_target(), "build/tiny_cuda.lock", "build/tiny_cuda.lock"),
        (make_torch_target("2.12.1"), *("build/tiny_cuda-torch2.12.1.lock",) * 2),
        (
            make_target(toolkit="12.8", requires=("cutensor-cu{cuda}",), **_ROOT),
            *("build/tiny_cuda-cu12.lock",) * 2,
        ),
        (make_target(smoke=_SMOKE, **_ROOT), "build/tiny_cuda.lock", "smoke/tiny_cuda.lock"),
    ],
    ids=["the recipe's", "other framework", "by CUDA major", "smoke test's own"],
)
def test_names_its_locks(target: Target, lock: str, smoke_lock: str) -> None:
    envs = Path("project/envs")

    assert (target.lock, target.smoke_lock) == (envs / lock, envs / smoke_lock)


@pytest.mark.parametrize(
    ("changes", "project"),
    [({}, "tiny-cuda"), ({"wheel_name": "tiny-cuda{cuda}x", "toolkit": "12.8"}, "tiny-cuda12x")],
)
def test_project_is_the_recipe_or_the_wheel_name(changes: dict[str, Any], project: str) -> None:
    assert make_target(**changes).project == project


def test_extra_is_filled_in_and_normalised() -> None:
    mode = External(extra="CUDA{cuda}_pip", local_extra="cuda{cuda}.local")
    target = make_target(link=Link("cudart", mode=mode))

    assert (target.extra, target.local_extra) == ("cuda13-pip", "cuda13-local")
    assert make_target(mode=Bundled()).extra == ""


def test_mode_decides_size() -> None:
    assert make_target(max_wheel_size=1).max_wheel_size == 1
    assert make_target(max_wheel_size=1, mode=Bundled(max_wheel_size=2)).max_wheel_size == 2


@pytest.mark.parametrize(
    ("archs", "ptx", "embedded"),
    [
        (("80", "90"), "last", ("90",)),
        (("80", "90", "90a", "100f"), "last", ("90",)),  # newer GPUs don't run that of the others
        (("80", "90"), "none", ()),
    ],
)
def test_embeds_ptx_of_last_plain_arch(
    archs: tuple[str, ...], ptx: str, embedded: tuple[str, ...]
) -> None:
    assert make_target(archs=archs, ptx=ptx).ptx_archs == embedded


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({}, True),
        ({"archs": ("75",)}, True),
        *(({"python": python}, False) for python in ("3.7", "3.99", "3.14t")),
        ({"mode": Static()}, False),
    ],
)
def test_is_a_cell_of_the_matrix(changes: dict[str, Any], *, is_one: bool) -> None:
    assert is_cell(make_target(**changes)) is is_one


def test_framework_is_a_cell_once_it_has_a_lock(tmp_path: Path) -> None:
    target = make_target(root=tmp_path, framework=_TORCH)
    other = dataclasses.replace(target, framework=Framework(name="torch", version="2.12.0"))
    before = is_cell(other)
    locks = tmp_path / "envs" / "build"
    locks.mkdir(parents=True)

    (locks / f"{target.recipe.folder}-torch2.12.0.lock").touch()

    assert (before, is_cell(other)) == (False, True)


def test_every_recipe_has_cells() -> None:
    entries = load_catalogue((ROOT, *Caller(os.environ).roots))

    names = cell_ids(entries)

    targets = {target for entry in entries for target in entry.target_names}
    assert targets <= {name.partition("-cp3")[0] for name in names}


def test_other_machine_has_programs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    this = own_platform()
    other = AARCH64 if this == X86_64 else X86_64

    assert tuple(PLATFORMS) == ("linux_x86_64", "linux_aarch64")
    assert (this.machine, this.is_foreign, this.tool_prefix) == (platform.machine(), False, "")
    assert (other.is_foreign, other.tool_prefix) == (True, f"{other.triplet}-")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert own_platform() is X86_64
