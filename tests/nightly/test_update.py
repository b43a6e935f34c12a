"""A checkout is taken to its remote's commit, and nothing of it is ever lost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from cuwheel.nightly.update import commit_of, update_checkout
from cuwheel.system.process import run
from tests.support.factories import commit_all
from tests.support.nights import make_recorder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "recipe.py").write_text("one\n")
    commit_all(folder)
    return folder


@pytest.fixture
def checkout(tmp_path: Path, upstream: Path) -> Path:
    run(["git", "clone", "-q", upstream, tmp_path / "checkout"], env=os.environ)
    return tmp_path / "checkout"


def test_takes_the_newer_commit(tmp_path: Path, upstream: Path, checkout: Path) -> None:
    (upstream / "recipe.py").write_text("two\n")
    newer = commit_all(upstream)
    recorder = make_recorder(tmp_path / "run")

    assert update_checkout(checkout, recorder)

    [step] = recorder.run.steps
    assert step.state == "passed"
    assert step.detail.endswith(f" to {newer[:12]}")
    assert recorder.run.commit == commit_of(checkout) == newer


def test_says_what_was_changed_here(tmp_path: Path, checkout: Path) -> None:
    (checkout / "recipe.py").write_text("mine\n")
    recorder = make_recorder(tmp_path / "run")

    assert not update_checkout(checkout, recorder)

    [step] = recorder.run.steps
    assert step.state == "passed"
    assert step.detail == "nothing new; changed here: recipe.py"


def test_refuses_what_would_lose_a_change(tmp_path: Path, upstream: Path, checkout: Path) -> None:
    (upstream / "recipe.py").write_text("two\n")
    commit_all(upstream)
    (checkout / "recipe.py").write_text("mine\n")
    recorder = make_recorder(tmp_path / "run")

    assert not update_checkout(checkout, recorder)

    [step] = recorder.run.steps
    assert step.state == "failed"
    assert "would be overwritten" in step.detail
    assert (checkout / "recipe.py").read_text() == "mine\n"


def test_refuses_to_merge(tmp_path: Path, upstream: Path, checkout: Path) -> None:
    for folder, name in ((upstream, "theirs"), (checkout, "ours")):
        (folder / name).write_text(name)
        commit_all(folder)
    recorder = make_recorder(tmp_path / "run")

    assert not update_checkout(checkout, recorder)

    assert recorder.run.steps[0].detail == "status 128: Not possible to fast-forward, aborting."


def test_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == ""
