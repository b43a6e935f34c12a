"""The GitHub matrix holds only due cells, and a change affects cells by their inputs."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.build.compile.cache.compile_cache import compiles_folder
from cuwheel.build.pipeline.package_build.shard_plan import seconds_path
from cuwheel.build.recipe.source import Folder
from cuwheel.lab.matrix.github import MAX_JOBS, changed_files, is_about, matrix_document
from cuwheel.lab.matrix.state import KINDS, CellState, Kind
from tests.support.factories import commit_all, make_target, make_workspace
from tests.support.lab.matrices import make_cell


def _state(folder: Path, kind: Kind) -> CellState:
    target = make_target(python="3.12")
    cell = make_cell(target, make_workspace(folder), framework="torch==2.13.0")
    return CellState(cell=cell, kind=kind)


def test_names_what_a_job_passes_on(tmp_path: Path) -> None:
    [item] = matrix_document([_state(tmp_path, "missing")]).include

    assert dataclasses.asdict(item) == {
        "id": "tiny-cuda-130-cp312",
        "target": "tiny-cuda-130",
        "python": "3.12",
        "options": "tiny-cuda-130 --python 3.12 --framework torch==2.13.0",
        "cache": "tiny-cuda-130",
    }


def test_leaves_out_what_needs_no_build(tmp_path: Path) -> None:
    document = matrix_document(_state(tmp_path, kind) for kind in KINDS)

    assert len(document.include) == len(KINDS) - 2


def test_refuses_more_than_a_run_may_have(tmp_path: Path) -> None:
    many = [_state(tmp_path, "missing")] * (MAX_JOBS + 1)

    assert len(matrix_document(many[1:]).include) == MAX_JOBS
    with pytest.raises(UsageError, match="257 cells have to be built"):
        matrix_document(many)


def test_long_build_gets_shards_by_the_time_of_its_last_one(tmp_path: Path) -> None:
    state = dataclasses.replace(_state(tmp_path, "outdated"), seconds=9000.0)

    document = matrix_document([state], longest=3600.0)

    assert [shard.id for shard in document.shards] == [
        f"tiny-cuda-130-cp312.shard-{number}" for number in (1, 2, 3)
    ]
    assert document.shards[2].options == f"{document.include[0].options} --shard 3/3"
    assert {shard.cell for shard in document.shards} == {document.include[0].id}


def test_build_that_was_never_measured_gets_none(tmp_path: Path) -> None:
    assert not matrix_document([_state(tmp_path, "missing")], longest=1.0).shards


def test_known_compiles_tell_the_time_of_a_build(tmp_path: Path) -> None:
    state = _state(tmp_path, "missing")
    job = state.cell.job
    path = seconds_path(
        compiles_folder(job.workspace, job.workspace.environ) / job.target.recipe.name
    )
    path.parent.mkdir(parents=True)
    path.write_text('{"a.cu 90": {"90": 4000}, "b.cu 90": {"90": 4000}}')

    assert len(matrix_document([state], longest=3600.0, cores=1).shards) == 3
    assert not matrix_document([state], longest=3600.0, cores=4).shards


def test_refuses_more_shards_than_a_run_may_have(tmp_path: Path) -> None:
    state = dataclasses.replace(_state(tmp_path, "outdated"), seconds=1e6)

    with pytest.raises(UsageError, match="shards have to compile"):
        matrix_document([state], longest=60.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project in a folder of a repository, with one commit."""
    project = tmp_path / "repository" / "project"
    for name in ("recipes/tiny_cuda.py", "patches/tiny_cuda/0001-x.patch", "README.md"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n")
    commit_all(project.parent)
    return project


def test_waits_for_no_fifo_of_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GIT", 0.2)
    (repository.parent / ".git" / "HEAD").unlink()
    os.mkfifo(repository.parent / ".git" / "HEAD")

    with pytest.raises(UsageError):
        changed_files(repository, "HEAD~1", Caller(os.environ))


def test_lists_changes_in_the_project(repository: Path) -> None:
    (repository / "recipes" / "tiny_cuda.py").write_text("two\n")
    (repository / "patches" / "tiny_cuda" / "0001-x.patch").unlink()
    (repository.parent / "elsewhere").write_text("new\n")
    commit_all(repository.parent)

    files = changed_files(repository, "HEAD~1", Caller(os.environ))

    assert sorted(files) == ["patches/tiny_cuda/0001-x.patch", "recipes/tiny_cuda.py"]


def test_refuses_an_unknown_commit(repository: Path) -> None:
    with pytest.raises(UsageError, match="since nosuch") as refused:
        changed_files(repository, "nosuch", Caller(os.environ))

    assert "nosuch" in refused.value.why


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("recipes/tiny_cuda.py", True),
        ("recipes/tiny_cuda_more.py", False),
        ("patches/tiny_cuda/0001-x.patch", True),
        ("patches/tiny_cuda_more/0001-x.patch", False),
        ("envs/build/tiny_cuda.lock", True),
        ("envs/build/tiny_cuda-torch2.13.0.lock", True),
        ("envs/build/tiny_cuda_more.lock", False),
        ("envs/smoke/tiny_cuda-cu13.lock", True),
        ("recipes/smoke/tiny_cuda.py", True),
        ("envs/cuda130/pypi.lock", True),
        ("envs/cuda131/pypi.lock", False),
        ("samples/tiny/kernel.cu", True),
        ("README.md", False),
        ("cuwheel/build/pipeline/pipeline.py", False),
    ],
)
def test_decides_by_the_inputs_of_a_wheel(file: str, *, expected: bool) -> None:
    target = make_target(source=Folder(path="samples/tiny"))

    assert is_about(target, (file,)) == expected
