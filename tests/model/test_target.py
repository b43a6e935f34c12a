from __future__ import annotations

import dataclasses
from pathlib import Path

from cuwheel.model.link import Bundled, External, Link, Static
from cuwheel.model.recipe import Framework, Smoke
from cuwheel.model.target import Target
from tests.support.factories import make_target

_TORCH = Framework(name="torch", version="2.11.0")


def make_torch_target(version: str = "2.11.0") -> Target:
    """A target whose recipe pins torch 2.11.0, compiled against this one."""
    target = make_target(framework=_TORCH, python="3.12", root=Path("project"))
    changed = Framework(name="torch", version=version)
    return Target(**{**target.__dict__, "framework": changed})


def test_id_names_all_that_decides() -> None:
    assert make_torch_target().id == "tiny-cuda-130-cp312-torch2.11"


def test_id_without_framework() -> None:
    assert make_target(python="3.10").id == "tiny-cuda-130-cp310"


def test_local_version_names_toolkit_and_framework() -> None:
    assert make_torch_target().local_version == "cu130torch2.11"


def test_local_version_names_no_framework_that_it_serves_by_stable_abi() -> None:
    target = make_target(framework=dataclasses.replace(_TORCH, serves=("2.13.0",)))

    assert target.local_version == "cu130"
    assert target.id.endswith("torch2.11")


def test_other_framework_of_stable_abi_is_named() -> None:
    stable = make_target(framework=dataclasses.replace(_TORCH, serves=("2.13.0",)))
    other = dataclasses.replace(stable, framework=Framework(name="torch", version="2.12.0"))

    assert other.local_version == "cu130torch2.12"


def test_serves_others_with_locks_of_their_own() -> None:
    framework = dataclasses.replace(_TORCH, serves=("2.13.0", "2.15.0"))

    served = make_target(framework=framework, root=Path("project")).served

    assert [str(one.smoke_lock) for one in served] == [
        "project/envs/build/tiny_cuda-torch2.13.0.lock",
        "project/envs/build/tiny_cuda-torch2.15.0.lock",
    ]


def test_local_version_without_framework() -> None:
    assert make_target().local_version == "cu130"


def test_lock_is_the_recipes() -> None:
    assert make_torch_target().lock == Path("project/envs/build/tiny_cuda.lock")


def test_other_framework_has_own_lock() -> None:
    lock = make_torch_target("2.12.1").lock

    assert lock == Path("project/envs/build/tiny_cuda-torch2.12.1.lock")


def test_lock_of_cuda_major_where_a_requirement_names_it() -> None:
    target = make_target(root=Path("project"), toolkit="12.8", requires=("cutensor-cu{cuda}",))

    assert target.lock == Path("project/envs/build/tiny_cuda-cu12.lock")


def test_wheel_is_named_as_the_recipe() -> None:
    assert make_target().project == "tiny-cuda"


def test_wheel_name_says_cuda_major() -> None:
    target = make_target(toolkit="12.8", wheel_name="tiny-cuda{cuda}x")

    assert target.project == "tiny-cuda12x"


def test_other_mode_stands_in_id_and_version() -> None:
    target = make_target(mode=Bundled())

    assert target.id == "tiny-cuda-130-cp311-bundled"
    assert target.local_version == "cu130.bundled"


def test_recipes_own_mode_stands_nowhere() -> None:
    target = make_target(link=Link("cudart", mode=Bundled()))

    assert (target.id, target.local_version) == ("tiny-cuda-130-cp311", "cu130")


def test_wheel_without_local_version_says_other_mode() -> None:
    assert make_target(has_local_version=False).local_version == ""
    assert make_target(has_local_version=False, mode=Static()).local_version == "static"


def test_wheel_without_local_version_says_other_framework() -> None:
    own = make_target(framework=_TORCH, has_local_version=False)
    newer = Framework(name="torch", version="2.12.0")

    assert own.local_version == ""
    assert dataclasses.replace(own, framework=newer).local_version == "cu130torch2.12"


def test_extra_is_filled_in_and_normalised() -> None:
    mode = External(extra="CUDA{cuda}_pip", local_extra="cuda{cuda}.local")
    target = make_target(link=Link("cudart", mode=mode))

    assert (target.extra, target.local_extra) == ("cuda13-pip", "cuda13-local")


def test_copies_need_no_extra() -> None:
    assert make_target(mode=Bundled()).extra == ""


def test_mode_decides_size() -> None:
    assert make_target(max_wheel_size=1).max_wheel_size == 1
    assert make_target(max_wheel_size=1, mode=Bundled(max_wheel_size=2)).max_wheel_size == 2


def test_embeds_ptx_of_last_arch() -> None:
    assert make_target(archs=("80", "90"), ptx="last").ptx_archs == ("90",)


def test_embeds_ptx_of_last_arch_that_newer_gpus_run() -> None:
    assert make_target(archs=("80", "90", "90a", "100f"), ptx="last").ptx_archs == ("90",)


def test_embeds_no_ptx_unless_asked() -> None:
    assert make_target(archs=("80", "90")).ptx_archs == ()


def test_smokes_with_lock_of_the_build() -> None:
    target = make_target(root=Path("project"))

    assert target.smoke_lock == target.lock


def test_smokes_with_lock_of_its_own() -> None:
    smoke = Smoke(imports=("tiny_cuda",), requires=("numpy",))

    target = make_target(root=Path("project"), smoke=smoke)

    assert target.smoke_lock == Path("project/envs/smoke/tiny_cuda.lock")
