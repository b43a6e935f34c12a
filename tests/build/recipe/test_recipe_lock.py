"""The locks of a recipe, and their requirements."""

from __future__ import annotations

from typing import Any

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.build.recipe.link import Link
from cuwheel.build.recipe.recipe import Framework, Smoke
from cuwheel.build.recipe.recipe_lock import RecipeLock, lock_of, locks_of
from tests.support.factories import make_recipe

_TORCH = Framework(name="torch", version="2.11.0")


def build_lock(**changes: Any) -> RecipeLock:
    recipe = make_recipe(**changes)
    return lock_of(recipe, "build", 13, recipe.framework_for("13.0"))


def smoke_lock(*requires: str, **changes: Any) -> RecipeLock:
    recipe = make_recipe(smoke=Smoke(imports=("p",), requires=requires), **changes)
    return lock_of(recipe, "smoke", 13, recipe.framework_for("13.0"))


_MAJORS = ("12.8", "13.0")
_LINK = Link("cudart", "cublas", "cublasLt")


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        (
            build_lock(requires=("wheel", "ninja"), framework=_TORCH),
            ("build", "ninja", "torch==2.11.0", "wheel"),
        ),
        (smoke_lock("numpy", link=_LINK), ("numpy", "nvidia-cublas", "nvidia-cuda-runtime")),
        (
            smoke_lock("numpy", toolkits=_MAJORS),
            ("numpy", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
        ),
        (
            smoke_lock("jax[cuda{cuda}]", toolkits=_MAJORS),
            ("jax[cuda13]", "nvidia-cuda-runtime"),
        ),
    ],
    ids=["frontend, framework", "what supplies libraries", "two majors", "one major"],
)
def test_holds_what_is_needed(lock: RecipeLock, requirements: tuple[str, ...]) -> None:
    assert lock.requirements == requirements


_JAX = Smoke(imports=("p",), requires=("jax[cuda{cuda}]",))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["build:tiny-cuda"]),
        (
            {"requires": ("cutensor-cu{cuda}",)},
            ["build:tiny-cuda:cu12", "build:tiny-cuda:cu13"],
        ),
        (
            {"smoke": _JAX},
            ["build:tiny-cuda", "smoke:tiny-cuda:cu12", "smoke:tiny-cuda:cu13"],
        ),
    ],
    ids=["one", "each major", "each major for the smoke test alone"],
)
def test_recipe_has_locks(changes: dict[str, Any], names: list[str]) -> None:
    recipe = make_recipe(toolkits=("12.4", *_MAJORS), **changes)

    assert [lock.name for lock in locks_of(recipe)] == names


def test_names_component_that_there_is_not() -> None:
    lock = smoke_lock("numpy", link=Link("cudaart"))

    with pytest.raises(UsageError) as caught:
        _ = lock.requirements

    assert 'did you mean "cudart"?' in caught.value.why


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
def test_names_fix_that_adds_a_package(lock: RecipeLock, way: str) -> None:
    assert lock.way_to_add("six") == f"{way} `{lock.command}`"


def test_names_framework_that_a_requirement_refuses() -> None:
    """It is pinned by the recipe: with torch<2.8 in `requires` nothing could be resolved."""
    fix = build_lock(framework=_TORCH).way_to_add("torch<2.8,>=2.7", "six")

    first, second = fix.split("; ")
    assert first == "add six to `requires` in recipes/tiny_cuda.py"
    assert second.startswith("declare a release that satisfies torch<2.8,>=2.7 in `framework`")
