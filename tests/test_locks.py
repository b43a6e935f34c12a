from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.catalogue import Entry
from cuwheel.errors import UsageError
from cuwheel.locks import LockJob, lock_jobs
from cuwheel.recipe import Framework
from tests.factories import make_recipe

if TYPE_CHECKING:
    from pathlib import Path

_TORCH = Framework(name="torch", version="2.11.0")
_NEWER = Framework(name="torch", version="2.12.0")


@pytest.fixture
def entries(tmp_path: Path) -> tuple[Entry, ...]:
    """One recipe with a framework, one without, one that can't be loaded."""
    folder = tmp_path / "envs" / "build"
    folder.mkdir(parents=True)
    (folder / "with_torch.in").write_text("build\ntorch==2.11.0\n")
    with_torch = make_recipe(name="with-torch", framework=_TORCH, requires_python=">=3.11,<3.14")
    return (
        Entry(root=tmp_path, name="broken", recipe=None, fault="x"),
        Entry(root=tmp_path, name="plain", recipe=make_recipe(name="plain")),
        Entry(root=tmp_path, name="with-torch", recipe=with_torch),
    )


def only(jobs: tuple[LockJob, ...]) -> LockJob:
    [job] = jobs
    return job


def test_all_stands_for_every_lock(entries: tuple[Entry, ...]) -> None:
    names = {job.name for job in lock_jobs(["all"], entries)}

    assert names == {"engine", "dev", "toolchain:130", "build:plain", "build:with-torch"}


def test_names_nearest_lock(entries: tuple[Entry, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        lock_jobs(["build:with_torch"], entries)

    assert caught.value.why == 'did you mean "build:with-torch"?'


def test_lock_of_recipe_stands_in_its_project(entries: tuple[Entry, ...], tmp_path: Path) -> None:
    job = only(lock_jobs(["build:with-torch"], entries))

    assert job.lock == tmp_path / "envs" / "build" / "with_torch.lock"
    assert job.command == "nox -s lock -- build:with-torch"


def test_lock_serves_oldest_python_of_recipe(entries: tuple[Entry, ...]) -> None:
    assert only(lock_jobs(["build:with-torch"], entries)).python == "3.11"


def test_own_framework_changes_nothing(entries: tuple[Entry, ...]) -> None:
    names = ["build:with-torch"]

    assert lock_jobs(names, entries, _TORCH) == lock_jobs(names, entries)


def test_other_framework_gets_own_lock(entries: tuple[Entry, ...]) -> None:
    job = only(lock_jobs(["build:with-torch"], entries, _NEWER))

    assert job.lock.name == "with_torch-torch2.12.0.lock"
    assert job.wanted == "build\ntorch==2.12.0\n"
    assert job.command == "nox -s lock -- build:with-torch --framework torch==2.12.0"


@pytest.mark.parametrize("name", ["build:plain", "engine", "toolchain:130"])
def test_refuses_framework_where_there_is_none(entries: tuple[Entry, ...], name: str) -> None:
    with pytest.raises(UsageError, match="--framework doesn't go with"):
        lock_jobs([name], entries, _NEWER)
