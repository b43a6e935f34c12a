"""Which cells a change is about, by a real git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import UsageError
from cuwheel.matrix.changes import changed_files, is_about
from cuwheel.model.source import Folder
from tests.support.factories import make_target

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project in a folder of a repository, with one commit."""
    project = tmp_path / "repository" / "project"
    for name in ("recipes/tiny_cuda.py", "patches/tiny_cuda/0001-x.patch", "README.md"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n")
    _git(project.parent, "init", "-q")
    _commit(project.parent)
    return project


def _git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.invalid")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True)


def _commit(folder: Path) -> None:
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "one")


def test_names_what_differs_below_the_project(repository: Path) -> None:
    (repository / "recipes" / "tiny_cuda.py").write_text("two\n")
    (repository / "patches" / "tiny_cuda" / "0001-x.patch").unlink()
    (repository.parent / "elsewhere").write_text("new\n")
    _commit(repository.parent)

    found = changed_files(repository, "HEAD~1")

    assert sorted(found) == ["patches/tiny_cuda/0001-x.patch", "recipes/tiny_cuda.py"]


def test_unknown_commit_says_what_to_do(repository: Path) -> None:
    with pytest.raises(UsageError, match="since nosuch") as refused:
        changed_files(repository, "nosuch")

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
        ("cuwheel/pipeline.py", False),
    ],
)
def test_decides_by_what_a_wheel_is_made_from(file: str, *, expected: bool) -> None:
    target = make_target(source=Folder(path="samples/tiny"))

    assert is_about(target, (file,)) == expected
