"""What happens to a build while it runs: a `git pull`, an upgrade, a stopped process, odd times."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import NotReproducibleError
from cuwheel.base.system.files import sha256_of_file
from tests.support.engine import PACKAGES, TIME_LIMIT, Engine, finish, make_engine
from tests.support.toolchains.small_toolchain import copy_project

pytestmark = pytest.mark.e2e

_NAME = "tiny-capi"


@pytest.fixture
def slow_source(tmp_path: Path) -> Path:
    """Return a package whose build leaves time to change something meanwhile."""
    source = tmp_path / "slow"
    shutil.copytree(PACKAGES / "tiny_capi", source)
    setup = source / "setup.py"
    setup.write_text(f"import time\ntime.sleep(5)\n{setup.read_text()}")
    return source


def wait_for_build(engine: Engine, child: subprocess.Popen[str]) -> None:
    """Wait until the package's own build runs."""
    deadline = time.monotonic() + TIME_LIMIT
    while time.monotonic() < deadline and child.poll() is None:
        if any(engine.work.glob("*/logs/build.log")):
            return
        time.sleep(0.1)
    raise AssertionError(f"no build began: {child.poll()}")


@pytest.mark.parametrize(
    "changed",
    ["recipes/tiny_capi.py", pytest.param("envs/build/tiny_capi.lock", marks=pytest.mark.nightly)],
)
def test_publishes_nothing_of_a_project_that_changed_meanwhile(
    changed: str, slow_source: Path, tmp_path: Path, shared_cache: Path
) -> None:
    project = copy_project(tmp_path / "project")
    engine = make_engine(tmp_path, project, shared_cache)
    with engine.start(_NAME, "--source", str(slow_source)) as child:
        wait_for_build(engine, child)
        with (project / changed).open("a") as stream:
            stream.write("# as `git pull` does\n")
        done = finish(child)

    assert done.status == NotReproducibleError.exit_code, done.output
    assert f"{changed.partition('/')[2].rpartition('/')[2]} changed while" in done.output
    assert engine.wheels() == []
    assert engine.build(_NAME, "--source", str(slow_source)).status == 0


def test_second_build_waits_for_one_that_is_stopped(slow_source: Path, engine: Engine) -> None:
    with engine.start(_NAME, "--source", str(slow_source)) as first:
        wait_for_build(engine, first)
        family = [psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)]
        for process in family:
            process.suspend()
        with engine.start(_NAME, "--source", str(slow_source)) as second:
            time.sleep(8)
            still_waits = second.poll() is None
            os.killpg(first.pid, signal.SIGCONT)
            for process in family:
                process.resume()
            ends = finish(first), finish(second)

    assert still_waits
    assert [done.status for done in ends] == [0, 0], ends
    assert "another cuwheel is building" in ends[1].output
    assert len(engine.wheels()) == 1


@pytest.mark.parametrize(
    "year",
    [pytest.param(1971, id="past", marks=pytest.mark.nightly), pytest.param(2100, id="future")],
)
def test_times_of_files_change_no_byte(year: int, tmp_path: Path, engine: Engine) -> None:
    """As after a clock that was wrong; ZIP archives hold no time before 1980 or after 2107."""
    source = tmp_path / "source"
    shutil.copytree(PACKAGES / "tiny_capi", source)
    assert engine.build(_NAME, "--source", str(source)).status == 0
    [usual] = [sha256_of_file(path) for path in engine.wheels()]
    at = (year - 1970) * 365.25 * 86400
    for path in (source, *source.rglob("*")):
        os.utime(path, (at, at))

    done = engine.build(_NAME, "--source", str(source), "--no-cache")

    assert done.status == 0, done.output
    assert [sha256_of_file(path) for path in engine.wheels()] == [usual]
