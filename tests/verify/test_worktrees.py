"""Commits of a clone: which of them are its own, and their files for one build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import CommandFailedError
from cuwheel.sources.checkouts import commit_of
from cuwheel.verify import worktrees
from cuwheel.verify.worktrees import checked_out, is_at_hand, projects_in
from tests.support.clones import git

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is taken for this checkout."""
    root = tmp_path / "clone"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "x.py").write_text("first")
    monkeypatch.setattr(worktrees, "ROOT", root)
    commit(root)
    return root


def commit(root: Path) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "x")
    return commit_of(root)


def test_checks_out_an_older_commit_for_a_while(clone: Path, tmp_path: Path) -> None:
    first = commit_of(clone)
    (clone / "x.py").write_text("second")
    commit(clone)

    with checked_out(first, tmp_path / "a" / "checkout") as root:
        assert (root / "x.py").read_text() == "first"
        assert commit_of(root) == first

    assert not root.exists()
    assert git(clone, "worktree", "list").count("\n") == 1


def test_goes_on_behind_a_killed_one(clone: Path, tmp_path: Path) -> None:
    git(clone, "worktree", "add", "--detach", "--quiet", str(tmp_path / "checkout"))

    with checked_out(commit_of(clone), tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "first"


def test_runs_no_hook(clone: Path, tmp_path: Path) -> None:
    hook = clone / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)

    with checked_out(commit_of(clone), tmp_path / "checkout"):
        pass

    assert not (tmp_path / "ran").exists()


def test_commit_that_no_branch_holds_is_not_ours(clone: Path) -> None:
    """Such as one of a proposed change, which is anybody's."""
    git(clone, "checkout", "--quiet", "--detach")
    (clone / "x.py").write_text("somebody's")
    loose = commit(clone)
    git(clone, "checkout", "--quiet", "main")

    assert not is_at_hand(loose)
    git(clone, "tag", "known", loose)
    assert is_at_hand(loose)


@pytest.mark.parametrize("name", ["", "0" * 40])
@pytest.mark.usefixtures("clone")
def test_commit_that_is_not_there_is_not_at_hand(name: str, tmp_path: Path) -> None:
    assert not is_at_hand(name)
    with pytest.raises(CommandFailedError), checked_out(name or "-", tmp_path / "checkout"):
        pass


def test_folder_without_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worktrees, "ROOT", tmp_path)

    assert commit_of(tmp_path) == ""
    assert not is_at_hand("0" * 40)


def test_takes_projects_of_the_checkout_along(clone: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"

    assert projects_in(there, (clone / "small", tmp_path / "own", clone)) == (
        there / "small",
        tmp_path / "own",
        there,
    )
