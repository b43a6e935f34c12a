"""What a recipe's locks are made from, and which there are."""

from __future__ import annotations

from typing import Any

import pytest

from cuwheel.errors import UsageError
from cuwheel.model.link import Link
from cuwheel.model.recipe import Framework, Smoke
from cuwheel.model.recipe_lock import RecipeLock, lock_of, locks_of
from tests.support.factories import make_recipe

_TORCH = Framework(name="torch", version="2.11.0")


def build_lock(**changes: Any) -> RecipeLock:
    recipe = make_recipe(**changes)
    return lock_of(recipe, "build", 13, recipe.framework_for("13.0"))


def smoke_lock(*requires: str, **changes: Any) -> RecipeLock:
    recipe = make_recipe(smoke=Smoke(imports=("p",), requires=requires), **changes)
    return lock_of(recipe, "smoke", 13, recipe.framework_for("13.0"))


def names_of(**changes: Any) -> list[str]:
    return [lock.name for lock in locks_of(make_recipe(**changes))]


def test_build_lock_holds_frontend_and_framework() -> None:
    lock = build_lock(requires=("wheel", "ninja"), framework=_TORCH)

    assert lock.requirements == ("build", "ninja", "torch==2.11.0", "wheel")


def test_smoke_lock_holds_what_supplies_linked_libraries() -> None:
    lock = smoke_lock("numpy", link=Link("cudart", "cublas", "cublasLt"))

    assert lock.requirements == ("numpy", "nvidia-cublas", "nvidia-cuda-runtime")


def test_one_lock_for_two_majors_holds_what_supplies_both() -> None:
    lock = smoke_lock("numpy", toolkits=("12.8", "13.0"))

    assert lock.requirements == ("numpy", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")


def test_lock_of_one_major_holds_what_supplies_it() -> None:
    lock = smoke_lock("jax[cuda{cuda}]", toolkits=("12.8", "13.0"))

    assert lock.requirements == ("jax[cuda13]", "nvidia-cuda-runtime")


def test_names_component_that_there_is_not() -> None:
    lock = smoke_lock("numpy", link=Link("cudaart"))

    with pytest.raises(UsageError) as caught:
        _ = lock.requirements

    assert 'did you mean "cudart"?' in caught.value.why


def test_recipe_has_one_lock() -> None:
    assert names_of(toolkits=("12.8", "13.0")) == ["build:tiny-cuda"]


def test_recipe_has_lock_for_each_release_of_framework() -> None:
    newer = Framework(name="torch", version="2.15.0")

    locks = locks_of(
        make_recipe(
            toolkits=("13.0", "13.1", "13.2"),
            framework={"13.0": _TORCH, "13.1": _TORCH, "13.2": newer},
        )
    )

    assert [str(lock.path) for lock in locks] == [
        "envs/build/tiny_cuda-torch2.11.0.lock",
        "envs/build/tiny_cuda-torch2.15.0.lock",
    ]


def test_recipe_has_lock_for_each_major_that_a_requirement_names() -> None:
    names = names_of(toolkits=("12.4", "12.8", "13.0"), requires=("cutensor-cu{cuda}",))

    assert names == ["build:tiny-cuda:cu12", "build:tiny-cuda:cu13"]


def test_only_the_smoke_lock_may_be_for_each_major() -> None:
    smoke = Smoke(imports=("p",), requires=("jax[cuda{cuda}]",))

    names = names_of(toolkits=("12.8", "13.0"), smoke=smoke)

    assert names == ["build:tiny-cuda", "smoke:tiny-cuda:cu12", "smoke:tiny-cuda:cu13"]


def test_other_framework_has_lock_of_its_own() -> None:
    other = Framework(name="torch", version="2.12.0")

    lock = lock_of(make_recipe(framework=_TORCH, requires=("a-cu{cuda}",)), "build", 13, other)

    assert str(lock.path) == "envs/build/tiny_cuda-cu13-torch2.12.0.lock"
    assert lock.command == "nox -s lock -- build:tiny-cuda:cu13 --framework torch==2.12.0"


@pytest.mark.parametrize(
    ("lock", "way"),
    [
        (build_lock(), "add six to `requires` in recipes/tiny_cuda.py, then"),
        (smoke_lock("numpy"), "add six to `requires` of `smoke` in recipes/tiny_cuda.py, then"),
    ],
    ids=["build", "smoke"],
)
def test_says_how_to_add_a_package(lock: RecipeLock, way: str) -> None:
    assert lock.way_to_add("six") == f"{way} `{lock.command}`"
