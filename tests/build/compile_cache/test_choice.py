from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.compile_cache.choice import (
    check_compile_cache,
    choose_compile_cache,
    serve_remote_cache,
)
from cuwheel.paths import ROOT
from cuwheel.system.process import run
from tests.support.factories import heard, make_job, make_target, make_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import Job

_REMOTE = "file:/nowhere/at/all"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(make_target(), make_workspace(tmp_path))


def test_keeps_compiles_where_the_caller_says(job: Job, tmp_path: Path) -> None:
    chosen = choose_compile_cache(
        job, tmp_path, {"PATH": "", "CUWHEEL_COMPILE_CACHE": f"{tmp_path}/fast"}
    )

    assert chosen.cache.name == "sccache"
    assert chosen.paths.cache_folder == tmp_path / "fast" / job.target.recipe.name
    assert (chosen.paths.program_folder / "sccache").exists()
    assert heard(job.workspace) == ""


def test_goes_without_a_folder_that_cant_be_used(job: Job, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    asked = {"PATH": "", "CUWHEEL_COMPILE_CACHE": f"{tmp_path}/file/compiles"}

    chosen = choose_compile_cache(job, tmp_path, {**asked, "CUWHEEL_REMOTE_CACHE": _REMOTE})

    assert (chosen.cache.name, chosen.remote) == ("", None)
    assert "can't be used, so everything is compiled: Not a directory" in heard(job.workspace)


def test_asks_no_cache_where_none_is_wanted(tmp_path: Path) -> None:
    job = make_job(make_target(), make_workspace(tmp_path), reuse=False)

    chosen = choose_compile_cache(job, tmp_path, {"CUWHEEL_REMOTE_CACHE": _REMOTE})

    assert (chosen.cache.name, chosen.remote) == ("", None)


def test_tells_what_is_wrong_before_the_build(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_REMOTE_CACHE", "memcached://box")

    [problem] = check_compile_cache(job)

    assert "its scheme is memcached" in problem.why


@pytest.mark.parametrize(("said", "expected"), [("", True), ("on", True), ("off", False)])
def test_direct_mode_is_on_unless_it_is_off(
    *, said: str, expected: bool, job: Job, tmp_path: Path
) -> None:
    chosen = choose_compile_cache(job, tmp_path, {"PATH": "", "CUWHEEL_DIRECT_MODE": said})

    assert chosen.has_direct_mode == expected


def test_refuses_what_says_neither(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUWHEEL_DIRECT_MODE", "no")

    [problem] = check_compile_cache(job)

    assert problem.what == "CUWHEEL_DIRECT_MODE has to be on or off, not no"


def test_serves_the_remote_cache_while_the_block_lasts(job: Job, tmp_path: Path) -> None:
    asked = {"PATH": "", "CUWHEEL_REMOTE_CACHE": f"file:{tmp_path}/shared"}
    chosen = choose_compile_cache(job, tmp_path, asked)

    with serve_remote_cache(chosen, job.workspace):
        assert (tmp_path / "relay.sock").is_socket()

    assert not (tmp_path / "relay.sock").exists()


def test_loads_no_library_without_a_remote_cache() -> None:
    code = (
        "import sys, cuwheel.__main__, cuwheel.stages.build\n"
        "print(sorted({'obstore', 'redis'} & sys.modules.keys()))"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}

    done = run([sys.executable, "-c", code], env=env)

    assert done.output == "[]\n"
