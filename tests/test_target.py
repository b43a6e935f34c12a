from __future__ import annotations

from pathlib import Path

from cuwheel.recipe import Framework
from cuwheel.target import Target
from tests.factories import make_target

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


def test_local_version_without_framework() -> None:
    assert make_target().local_version == "cu130"


def test_lock_is_the_recipes() -> None:
    assert make_torch_target().lock == Path("project/envs/build/tiny_cuda.lock")


def test_other_framework_has_own_lock() -> None:
    lock = make_torch_target("2.12.1").lock

    assert lock == Path("project/envs/build/tiny_cuda-torch2.12.1.lock")


def test_embeds_ptx_of_last_arch() -> None:
    assert make_target(archs=("80", "90"), ptx="last").ptx_archs == ("90",)


def test_embeds_no_ptx_unless_asked() -> None:
    assert make_target(archs=("80", "90")).ptx_archs == ()


def test_smokes_with_lock_of_the_build(tmp_path: Path) -> None:
    target = make_target(root=tmp_path)

    assert target.smoke_lock == target.lock


def test_smokes_with_lock_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "envs" / "smoke" / "tiny_cuda.lock"
    own.parent.mkdir(parents=True)
    own.touch()

    assert make_target(root=tmp_path).smoke_lock == own
