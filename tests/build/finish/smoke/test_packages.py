"""What is installed before the wheel is there, and what stays of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, LockError, SmokeError
from cuwheel.base.system.parallel import Stop, StoppedError
from cuwheel.build.finish.smoke.packages import take_ahead
from cuwheel.build.pipeline.stages.smoke import prepare, smoke
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.smoke_tests import save_wheel
from tests.support.factories import make_job


@pytest.fixture
def environment(workspace: Workspace) -> Path:
    return workspace.work.resolve() / "smoke" / "environment"


def test_wheel_is_installed_into_what_was_prepared(
    workspace: Workspace, target: Target, environment: Path
) -> None:
    job = make_job(target, workspace)
    prepare(job, Stop())
    prepared = environment.stat().st_ino
    [runtime] = environment.glob("lib/python*/site-packages/nvidia/cu13/lib/libcudart.so.13")
    save_wheel(workspace, "raise ValueError('kept')\n", requires=("nvidia-cuda-runtime==13.0.96",))

    with pytest.raises(SmokeError, match="kept"):
        smoke(job)

    assert environment.stat().st_ino == prepared
    assert runtime.is_file()


def test_queries_no_index_for_prepared_packages(
    workspace: Workspace, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv queries again after ten minutes; nothing answers here."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    job = make_job(target, workspace)
    prepare(job, Stop())
    save_wheel(workspace, "raise ValueError('kept')\n", requires=("nvidia-cuda-runtime==13.0.96",))

    with pytest.raises(SmokeError, match="kept"):
        smoke(job)


def test_reports_unlocked_package_though_prepared(workspace: Workspace, target: Target) -> None:
    job = make_job(target, workspace)
    prepare(job, Stop())
    save_wheel(workspace, "import pluggy\n", requires=("pluggy==1.5.0",))

    with pytest.raises(InstallError) as caught:
        smoke(job)

    assert "the recipe's lock doesn't have it" in caught.value.fix


def test_what_the_wheel_does_not_declare_is_taken_out(workspace: Workspace, target: Target) -> None:
    job = make_job(target, workspace)
    prepare(job, Stop())
    save_wheel(workspace, "import nvidia\n")

    with pytest.raises(SmokeError) as caught:
        smoke(job)

    assert "No module named 'nvidia'" in caught.value.why


def test_environment_that_a_wheel_was_in_is_made_again(
    workspace: Workspace, target: Target, environment: Path
) -> None:
    job = make_job(target, workspace)
    prepare(job, Stop())
    save_wheel(workspace, "raise ValueError\n")
    with pytest.raises(SmokeError):
        smoke(job)
    (environment / "left").touch()
    save_wheel(workspace, "raise ValueError\n")

    with pytest.raises(SmokeError):
        smoke(job)

    assert not (environment / "left").exists()


def test_other_lock_needs_another_environment(
    workspace: Workspace, target: Target, environment: Path
) -> None:
    job = make_job(target, workspace)
    prepare(job, Stop())
    target.smoke_lock.write_text(f"{target.smoke_lock.read_text()}\n")

    assert not take_ahead(environment, job)


def test_other_sandbox_needs_another_environment(
    workspace: Workspace, target: Target, environment: Path
) -> None:
    job = make_job(target, workspace)
    confined, free = (
        replace(job, machine=replace(job.machine, sandbox=kind)) for kind in ("unshare", "none")
    )
    prepare(confined, Stop())

    assert not take_ahead(environment, free)


def test_failed_preparation_leaves_nothing(
    workspace: Workspace, target: Target, environment: Path
) -> None:
    target.smoke_lock.write_text("--index-url http://elsewhere.invalid\n")

    with pytest.raises(LockError):
        prepare(make_job(target, workspace), Stop())

    assert not environment.parent.exists()


def test_stopped_preparation_leaves_nothing(
    workspace: Workspace, target: Target, environment: Path
) -> None:
    stop = Stop()
    stop.request()

    with pytest.raises(StoppedError):
        prepare(make_job(target, workspace), stop)

    assert not environment.parent.exists()
