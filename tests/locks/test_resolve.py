"""The lock stage with the real resolver and the real index."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import InstallError, LockError
from cuwheel.locks.jobs import PypiLockSpec
from cuwheel.locks.resolve import find_faults, raise_if_faulty, resolve_locks
from cuwheel.pypi.lock_file import pythons_of_lock, read_pins
from tests.support.factories import make_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    return make_workspace(tmp_path, cache=shared_cache)


@pytest.fixture
def job(tmp_path: Path) -> PypiLockSpec:
    source = tmp_path / "tiny.in"
    source.write_text("# why it is needed\ntomli\n")
    return PypiLockSpec(
        name="build:tiny", source=source, lock=tmp_path / "tiny.lock", python="3.10"
    )


def test_pins_everything_with_hashes(job: PypiLockSpec, workspace: Workspace) -> None:
    resolve_locks((job,), workspace)

    [pin] = read_pins(job.lock)
    assert len(pin.hashes) > 1


def test_lock_it_wrote_passes_the_check(job: PypiLockSpec, workspace: Workspace) -> None:
    resolve_locks((job,), workspace)

    raise_if_faulty(find_faults((job,)))


def test_notes_pythons_of_framework(job: PypiLockSpec, workspace: Workspace) -> None:
    resolve_locks((dataclasses.replace(job, pythons=("3.12", "3.13")),), workspace)

    assert pythons_of_lock(job.lock) == ("3.12", "3.13")
    raise_if_faulty(find_faults((job,)))


def test_names_no_path_and_no_address(job: PypiLockSpec, workspace: Workspace) -> None:
    resolve_locks((job,), workspace)

    assert re.search(r"https?://|/tmp/|/home/", job.lock.read_text()) is None


def test_leaves_out_what_is_younger_than_cooldown(job: PypiLockSpec, workspace: Workspace) -> None:
    """tomli's first release is of 2021-06-04; ten years of cooldown leave nothing."""
    with pytest.raises(InstallError):
        resolve_locks((job,), workspace, cooldown=3650)


def test_states_cooldown_in_header(job: PypiLockSpec, workspace: Workspace) -> None:
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
def test_check_says_what_is_wrong(
    change: object, fault: str, job: PypiLockSpec, workspace: Workspace
) -> None:
    resolve_locks((job,), workspace)
    assert callable(change)
    change(job)

    with pytest.raises(LockError) as caught:
        raise_if_faulty(find_faults((job,)))

    assert fault in caught.value.why
    assert caught.value.fix == "nox -s lock -- build:tiny"


def test_serves_all_pythons_in_one_file(job: PypiLockSpec, workspace: Workspace) -> None:
    job.lock.with_name("tiny.in").write_text('exceptiongroup; python_version < "3.11"\n')

    resolve_locks((job,), workspace)

    assert "python_full_version < '3.11'" in job.lock.read_text()
