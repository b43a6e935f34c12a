"""The lock stage with the real resolver and the real index."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import InstallError, LockError
from cuwheel.locks.jobs import LockJob
from cuwheel.locks.resolve import check_locks, lock
from cuwheel.pypi.lock_file import read_pins
from tests.support.factories import make_space

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.workspace import Workspace


@pytest.fixture
def space(tmp_path: Path, shared_cache: Path) -> Workspace:
    return make_space(tmp_path, cache=shared_cache)


@pytest.fixture
def job(tmp_path: Path) -> LockJob:
    source = tmp_path / "tiny.in"
    source.write_text("# why it is needed\ntomli\n")
    return LockJob(name="build:tiny", source=source, lock=tmp_path / "tiny.lock", python="3.10")


def test_pins_everything_with_hashes(job: LockJob, space: Workspace) -> None:
    lock((job,), space)

    [pin] = read_pins(job.lock)
    assert len(pin.hashes) > 1


def test_lock_it_wrote_passes_the_check(job: LockJob, space: Workspace) -> None:
    lock((job,), space)

    check_locks((job,))


def test_names_no_path_and_no_address(job: LockJob, space: Workspace) -> None:
    lock((job,), space)

    assert re.search(r"https?://|/tmp/|/home/", job.lock.read_text()) is None


def test_leaves_out_what_is_younger_than_cooldown(job: LockJob, space: Workspace) -> None:
    """tomli's first release is of 2021-06-04; ten years of cooldown leave nothing."""
    with pytest.raises(InstallError):
        lock((job,), space, cooldown=3650)


def test_states_cooldown_in_header(job: LockJob, space: Workspace) -> None:
    lock((job,), space, cooldown=30)

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
    change: object, fault: str, job: LockJob, space: Workspace
) -> None:
    lock((job,), space)
    assert callable(change)
    change(job)

    with pytest.raises(LockError) as caught:
        check_locks((job,))

    assert fault in caught.value.why
    assert caught.value.fix == "nox -s lock -- build:tiny"


def test_serves_all_pythons_in_one_file(job: LockJob, space: Workspace) -> None:
    job.source.write_text('exceptiongroup; python_version < "3.11"\n')

    lock((job,), space)

    assert "python_full_version < '3.11'" in job.lock.read_text()
