from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from cuwheel.base.errors import LockError, RecipeError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.locks.lock_jobs import (
    LockSpec,
    check_target_lock,
    file_jobs,
    lock_jobs,
    refuse_questions,
)
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Framework, Smoke
from tests.support.factories import make_recipe, make_target

_TORCH = Framework(name="torch", version="2.11.0")
_NEWER = Framework(name="torch", version="2.12.0")


@pytest.mark.parametrize("name", ["build:detectron2", "smoke:detectron2"])
def test_lock_of_a_missing_recipe_reports_how_to_get_one(name: str, tmp_path: Path) -> None:
    entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=make_recipe())

    with pytest.raises(UsageError) as caught:
        lock_jobs([name], (entry,))

    assert caught.value.why == "there is no recipe of detectron2"
    assert "`nox -s new -- detectron2`" in caught.value.fix


@pytest.fixture
def entries(tmp_path: Path) -> tuple[CatalogueEntry, ...]:
    """One recipe with a framework, one without, one that can't be loaded."""
    with_torch = make_recipe(name="with-torch", framework=_TORCH, requires_python=">=3.11,<3.14")
    return (
        CatalogueEntry(root=tmp_path, name="broken", recipe=None, fault="x"),
        CatalogueEntry(root=tmp_path, name="plain", recipe=make_recipe(name="plain")),
        CatalogueEntry(root=tmp_path, name="with-torch", recipe=with_torch),
    )


def only(jobs: tuple[LockSpec, ...]) -> LockSpec:
    [job] = jobs
    return job


def test_all_means_every_lock(entries: tuple[CatalogueEntry, ...]) -> None:
    names = {job.name for job in lock_jobs(["all"], entries)}

    twelve = itertools.product(("121", "122", "124", "128"), ("conda", "redist"))
    toolchains = {f"toolchain:{tag}:{provider}" for tag, provider in twelve}
    toolchains |= {f"toolchain:{tag}:redist" for tag in (118, 120, 123, 125, 126, 129)}
    thirteen = {f"toolchain:13{minor}:pypi" for minor in range(6)} | {"toolchain:130:conda"}
    thirteen |= {
        "toolchain:118:pypi",
        "toolchain:124:pypi",
    }  # libraries for the compilers from Debian
    debian = {
        *("toolchain:118:debian", "toolchain:124:debian"),
        *("host-compiler:gcc10", "host-compiler:gcc12"),
    }
    pythons = {f"python:{tag}" for tag in ("310", "311", "312", "313")}
    recipes = {"build:plain", "build:with-torch"}
    engine = {
        *(
            "clients",
            "engine",
            "dev",
            "lock",
            "mcp",
            "nox",
            "perf",
            "report",
            "sigstore",
            "site",
            "twine",
        )
    }
    assert names == engine | toolchains | thirteen | debian | pythons | recipes


@pytest.mark.parametrize(
    ("tag", "kinds"), [("130", ["pypi"]), ("122", ["conda"]), ("124", ["pypi", "debian"])]
)
def test_name_without_provider_means_the_default(
    tag: str, kinds: list[str], entries: tuple[CatalogueEntry, ...]
) -> None:
    names = [job.name for job in lock_jobs([f"toolchain:{tag}"], entries)]

    assert names == [f"toolchain:{tag}:{kind}" for kind in kinds]


@pytest.mark.parametrize("name", ["122", "toolchain:122"])
def test_bare_tag_is_a_toolchain(name: str) -> None:
    jobs = file_jobs([name], (ROOT,))

    assert [(job.name, job.command) for job in jobs] == [
        ("toolchain:122:conda", "nox -s lock -- toolchain:122:conda"),
        ("toolchain:122:redist", "nox -s lock -- toolchain:122:redist"),
    ]


def test_only_locks_of_files_can_be_verified() -> None:
    with pytest.raises(UsageError) as caught:
        file_jobs(["toolchain:130:pypi"], (ROOT,))

    assert caught.value.why == 'did you mean "toolchain:130:conda"?'


def test_lock_of_own_project_counts_first(tmp_path: Path) -> None:
    folder = tmp_path / "envs" / "cuda122"
    folder.mkdir(parents=True)
    (folder / "environment.yml").touch()

    [job, _] = file_jobs(["122"], (tmp_path, ROOT))

    assert job.source == folder / "environment.yml"


@pytest.mark.parametrize("name", ["build:with_torch", "build:WITH-TROCH"])
def test_names_nearest_lock(name: str, entries: tuple[CatalogueEntry, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        lock_jobs([name], entries)

    assert caught.value.why == 'did you mean "build:with-torch"?'


def test_names_lock_of_several_frameworks_once(tmp_path: Path) -> None:
    recipe = make_recipe(toolkits=("13.0", "13.2"), framework={"13.0": _TORCH, "13.2": _NEWER})
    entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=recipe)

    with pytest.raises(UsageError) as caught:
        lock_jobs(["nosuch"], (entry,))

    assert caught.value.fix.split(", ").count("build:tiny-cuda") == 1


def test_lock_of_recipe_is_in_its_project(
    entries: tuple[CatalogueEntry, ...], tmp_path: Path
) -> None:
    job = only(lock_jobs(["build:with-torch"], entries))

    assert job.lock == tmp_path / "envs" / "build" / "with_torch.lock"
    assert (job.command, job.python) == ("nox -s lock -- build:with-torch", "3.11")
    assert lock_jobs(["build:with-torch"], entries, _TORCH) == (job,)


def test_other_framework_gets_own_lock(entries: tuple[CatalogueEntry, ...]) -> None:
    job = only(lock_jobs(["build:with-torch"], entries, _NEWER))

    assert job.lock.name == "with_torch-torch2.12.0.lock"
    assert job.input_text == "build\nsetuptools\ntorch==2.12.0\n"
    assert job.command == "nox -s lock -- build:with-torch --framework torch==2.12.0"


def test_name_means_lock_of_each_framework(tmp_path: Path) -> None:
    declared = {"13.0": _TORCH, "13.2": _NEWER}
    recipe = make_recipe(toolkits=("13.0", "13.2"), framework=declared)
    entries = (CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=recipe),)

    jobs = lock_jobs(["build:tiny-cuda"], entries)
    newer = lock_jobs(["build:tiny-cuda"], entries, _NEWER)

    names = ["tiny_cuda-torch2.11.0.lock", "tiny_cuda-torch2.12.0.lock"]
    assert [job.lock.name for job in jobs] == names
    assert [job.lock.name for job in newer] == names[1:]


def test_knows_locks_that_are_kept_for_other_releases(tmp_path: Path) -> None:
    folder = tmp_path / "envs" / "build"
    folder.mkdir(parents=True)
    (folder / "tiny_cuda-torch2.12.0.lock").touch()
    entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=make_recipe(framework=_TORCH))

    jobs = lock_jobs(["build:tiny-cuda"], (entry,))

    assert [job.lock.name for job in jobs] == ["tiny_cuda.lock", "tiny_cuda-torch2.12.0.lock"]
    assert jobs[1].command == "nox -s lock -- build:tiny-cuda --framework torch==2.12.0"


@pytest.mark.parametrize("name", ["build:plain", "engine", "toolchain:130"])
def test_refuses_framework_where_there_is_none(
    entries: tuple[CatalogueEntry, ...], name: str
) -> None:
    with pytest.raises(UsageError, match="--framework can't be used with"):
        lock_jobs([name], entries, _NEWER)


def test_recipe_may_have_lock_for_smoke(tmp_path: Path) -> None:
    recipe = make_recipe(smoke=Smoke(imports=("tiny_cuda",), requires=("numpy",)))
    entry = CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=recipe)

    job = only(lock_jobs(["smoke:tiny-cuda"], (entry,)))

    assert job.lock == tmp_path / "envs" / "smoke" / "tiny_cuda.lock"
    assert job.input_text == "numpy\nnvidia-cuda-runtime\n"


@pytest.fixture
def by_major(tmp_path: Path) -> CatalogueEntry:
    """A recipe with a lock for each major release of CUDA."""
    recipe = make_recipe(
        toolkits=("12.8", "13.0"), requires=("cutensor-cu{cuda}",), framework=_TORCH
    )
    return CatalogueEntry(root=tmp_path, name="tiny-cuda", recipe=recipe)


def test_name_without_major_means_all_of_them(by_major: CatalogueEntry) -> None:
    jobs = lock_jobs(["build:tiny-cuda"], (by_major,))

    assert [job.name for job in jobs] == ["build:tiny-cuda:cu12", "build:tiny-cuda:cu13"]
    assert [job.lock.name for job in jobs] == ["tiny_cuda-cu12.lock", "tiny_cuda-cu13.lock"]


def test_lock_for_one_cuda_major_can_be_named(by_major: CatalogueEntry) -> None:
    job = only(lock_jobs(["build:tiny-cuda:cu13"], (by_major,), _NEWER))

    assert job.lock == by_major.root / "envs" / "build" / "tiny_cuda-cu13-torch2.12.0.lock"


def test_reports_which_locks_a_recipe_has(entries: tuple[CatalogueEntry, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        lock_jobs(["with-torch"], entries)

    assert caught.value.fix.startswith("nox -s lock -- build:with-torch")


@pytest.mark.parametrize("name", ["build:a-one", "smoke:a_one", "a-one"])
def test_reports_that_the_recipe_is_broken(name: str, tmp_path: Path) -> None:
    entry = CatalogueEntry(root=tmp_path, name="a_one", recipe=None, fault="SyntaxError: line 6")

    with pytest.raises(RecipeError) as caught:
        lock_jobs([name], (entry,))

    assert "SyntaxError: line 6" in caught.value.why


def test_names_all_locks_that_are_missing_at_once(tmp_path: Path) -> None:
    target = make_target(root=tmp_path, smoke=Smoke(imports=("x",), requires=("scipy",)))

    with pytest.raises(LockError) as caught:
        check_target_lock(target)

    name = target.recipe.name
    assert caught.value.fix == f"nox -s lock -- build:{name} smoke:{name}"
    assert "2 locks can't be used" in caught.value.what


def test_refuses_to_lock_an_open_question(tmp_path: Path) -> None:
    recipe = make_recipe(requires=("numpy", "?op_builder"))
    entry = CatalogueEntry(root=tmp_path, name=recipe.name, recipe=recipe)

    with pytest.raises(RecipeError) as caught:
        refuse_questions(lock_jobs([f"build:{recipe.name}"], (entry,)))

    assert "op_builder" in caught.value.why
    assert recipe.module in caught.value.fix
