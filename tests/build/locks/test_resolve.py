"""The lock stage with the real resolver and the real index."""

from __future__ import annotations

import dataclasses
import datetime
import re
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, LockError, RecipeError
from cuwheel.build.environments.lock_file import pythons_of_lock, read_pins
from cuwheel.build.locks.lock_jobs import LockSpec, spec_of
from cuwheel.build.locks.resolve import (
    find_faults,
    raise_if_faulty,
    resolve_locks,
)
from cuwheel.build.recipe.recipe_lock import locks_of
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import make_recipe, make_workspace


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    return make_workspace(tmp_path, cache=shared_cache)


@pytest.fixture
def job(tmp_path: Path) -> LockSpec:
    source = tmp_path / "tiny.in"
    source.write_text("# why it is needed\ntomli\n")
    return LockSpec(name="build:tiny", source=source, lock=tmp_path / "tiny.lock", python="3.10")


def test_pins_everything_with_hashes(job: LockSpec, workspace: Workspace) -> None:
    resolve_locks((job,), workspace)

    [pin] = read_pins(job.lock)
    assert len(pin.hashes) > 1
    assert re.search(r"https?://|/tmp/|/home/", job.lock.read_text()) is None


def test_never_resolves_an_open_question(tmp_path: Path, workspace: Workspace) -> None:
    recipe = make_recipe(requires=("?op_builder",))
    [declared, *_] = locks_of(recipe)

    with pytest.raises(RecipeError):
        resolve_locks((spec_of(declared, tmp_path),), workspace)

    assert not (tmp_path / declared.path).exists()


def test_notes_pythons_of_framework(job: LockSpec, workspace: Workspace) -> None:
    resolve_locks((dataclasses.replace(job, pythons=("3.12", "3.13")),), workspace)

    assert pythons_of_lock(job.lock) == ("3.12", "3.13")
    raise_if_faulty(find_faults((job,)))


def test_leaves_out_what_is_younger_than_cooldown(job: LockSpec, workspace: Workspace) -> None:
    """tomli's first release is of 2021-06-04; ten years of cooldown leave nothing."""
    with pytest.raises(InstallError):
        resolve_locks((job,), workspace, cooldown=3650)


def test_states_cooldown_in_header(job: LockSpec, workspace: Workspace) -> None:
    resolve_locks((job,), workspace, cooldown=30)

    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    assert f"uploaded before {today - datetime.timedelta(days=30)}" in job.lock.read_text()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda job: job.source.write_text("tomli\niniconfig\n"), "its input has changed"),
        (lambda job: job.lock.write_text(job.lock.read_text() + "six==1\n"), "edited by hand"),
        (lambda job: job.lock.unlink(), "it is missing"),
    ],
    ids=["input changed", "edited", "missing"],
)
def test_check_reports_what_is_wrong(
    change: object, fault: str, job: LockSpec, workspace: Workspace
) -> None:
    resolve_locks((job,), workspace)
    assert callable(change)
    change(job)

    with pytest.raises(LockError) as caught:
        raise_if_faulty(find_faults((job,)))

    assert fault in caught.value.why
    assert caught.value.fix == "nox -s lock -- build:tiny"


def test_serves_all_pythons_in_one_file(job: LockSpec, workspace: Workspace) -> None:
    job.lock.with_name("tiny.in").write_text('exceptiongroup; python_version < "3.11"\n')

    resolve_locks((job,), workspace)

    assert "python_full_version < '3.11'" in job.lock.read_text()
