"""Commits of a clone that are its user's, and their files for one build without any program's."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from cuwheel.base.errors import CommandFailedError, UsageError
from cuwheel.base.system import process
from cuwheel.build.inputs.checkouts import commit_of
from cuwheel.publish.rebuild import commits
from cuwheel.publish.rebuild.commits import checked_out, is_at_hand, projects_in, why_not_at_hand
from tests.support.machines.clones import commit_all, git

FORK = ("remote", "add", "fork", "https://fork.invalid/x")
ORIGIN = ("remote", "add", "origin", "https://origin.invalid/x")


@pytest.fixture
def loose(clone: Path) -> str:
    """A commit of a proposed change: its objects are here, and no ref has it."""
    git(clone, "checkout", "--quiet", "--detach")
    (clone / "x.py").write_text("others")
    commit = commit_all(clone)
    git(clone, "checkout", "--quiet", "main")
    return commit


@pytest.mark.parametrize(
    "ref",
    [
        *("refs/pull/7/head", "refs/pull/7/merge", "refs/merge-requests/7/head"),
        *("refs/remotes/fork/main", "refs/remotes/origin/main", "refs/remotes/main"),
        *("refs/stash", "refs/notes/commits", "refs/original/refs/heads/main", "refs/bisect/bad"),
        *("refs/replace/" + "1" * 40, "refs/worktree/x", "refs/changes/01/1/1", "refs/headsx/y"),
        *("refs/prefetch/remotes/origin/main", "refs/namespaces/n/refs/heads/main"),
    ],
)
def test_ref_that_others_write_does_not_count(ref: str, clone: Path, loose: str) -> None:
    git(clone, "update-ref", ref, loose)

    assert not is_at_hand(loose)
    assert ref in why_not_at_hand(loose)


@pytest.mark.parametrize("ref", ["refs/heads/own", "refs/heads/-x", "refs/tags/v1"])
@pytest.mark.parametrize("after", ["gc", "pack-refs --all", "status"])
def test_own_branches_and_tags_count(ref: str, after: str, clone: Path, loose: str) -> None:
    git(clone, "update-ref", ref, loose)
    git(clone, *after.split())

    assert is_at_hand(loose)


@pytest.mark.parametrize(
    "fetch", ["fetch . refs/pull/7/head:x", "fetch . refs/pull/7/head", "status"]
)
def test_branch_that_a_fetch_has_made_does_not_count(fetch: str, clone: Path, loose: str) -> None:
    git(clone, "update-ref", "refs/pull/7/head", loose)
    git(clone, *fetch.split())
    if not fetch.endswith(":x"):
        git(clone, "branch", "x", "FETCH_HEAD" if "fetch" in fetch else "refs/pull/7/head")

    assert not is_at_hand(loose)
    assert "refs/heads/x" in why_not_at_hand(loose)
    git(clone, "branch", "reviewed", loose)
    assert is_at_hand(loose)


def test_annotated_tag_of_a_tag_counts(clone: Path, loose: str) -> None:
    git(clone, "tag", "--annotate", "--message", "x", "inner", loose)
    git(clone, "tag", "--annotate", "--message", "x", "outer", "inner")
    git(clone, "tag", "--delete", "inner")

    assert is_at_hand(loose)
    assert not is_at_hand(git(clone, "rev-parse", "outer").strip())  # which is no commit


def test_named_remote_counts_and_no_other(clone: Path, loose: str) -> None:
    for words in (ORIGIN, FORK):
        git(clone, *words)
    git(clone, "update-ref", "refs/remotes/origin/main", loose)

    assert not is_at_hand(loose, ["fork"])
    assert is_at_hand(loose, ["origin"])
    for name in ("*", "orig*", "origin/main", "-origin", ""):
        with pytest.raises(UsageError, match="no remote"):
            is_at_hand(loose, [name])


@pytest.mark.parametrize("place", ["clone", "user"])
@pytest.mark.parametrize(
    ("refspec", "ref"),
    [
        ("+refs/pull/*/head:refs/remotes/origin/pr/*", "refs/remotes/origin/pr/7"),
        ("+refs/pull/*/head:refs/heads/pr/*", "refs/heads/pr/7"),
        ("refs/pull/7/head:seven", "refs/heads/seven"),
        ("+refs/*:refs/*", "refs/heads/other"),
    ],
)
def test_proposed_change_that_a_fetch_brings_does_not_count(  # noqa: PLR0913, PLR0917 - fixtures
    place: str,
    refspec: str,
    ref: str,
    clone: Path,
    loose: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The refspec is in the clone's settings or, as many write it, in the user's."""
    git(clone, *ORIGIN)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    settings = clone / ".git" / "config" if place == "clone" else tmp_path / ".gitconfig"
    with settings.open("a") as stream:
        stream.write(f'[remote "origin"]\n\tfetch = {refspec}\n')
    git(clone, "update-ref", ref, loose)

    assert not is_at_hand(loose)
    named = is_at_hand(loose, ["origin"])
    assert named == (ref == "refs/heads/other")  # of a mirror, it is a branch of the remote


@pytest.mark.parametrize(
    ("key", "value"), [("merge", "refs/pull/7/head"), ("remote", "https://fork.invalid/x")]
)
def test_branch_of_a_proposed_change_does_not_count(
    key: str, value: str, clone: Path, loose: str
) -> None:
    """As `gh pr checkout` makes it."""
    git(clone, "branch", "seven", loose)
    git(clone, "config", f"branch.seven.{key}", value)

    assert not is_at_hand(loose)


def test_tag_counts_only_where_no_unnamed_remote_can_have_brought_it(
    clone: Path, loose: str
) -> None:
    git(clone, "tag", "v1", loose)
    git(clone, *ORIGIN)
    assert is_at_hand(loose)
    git(clone, *FORK)

    assert not is_at_hand(loose)
    assert not is_at_hand(loose, ["origin"])
    assert is_at_hand(loose, ["origin", "fork"])
    git(clone, "config", "remote.fork.tagOpt", "--no-tags")
    assert is_at_hand(loose)


def test_symbolic_ref_lends_nothing(clone: Path, loose: str) -> None:
    git(clone, "update-ref", "refs/pull/7/head", loose)
    git(clone, "symbolic-ref", "refs/heads/own", "refs/pull/7/head")

    assert not is_at_hand(loose)


def test_detached_head_and_reflogs_do_not_count(clone: Path, loose: str, tmp_path: Path) -> None:
    git(clone, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), loose)
    git(clone, "checkout", "--quiet", "--detach", loose)

    assert not is_at_hand(loose)


def test_history_that_replacements_and_grafts_make_up_does_not_count(
    clone: Path, loose: str
) -> None:
    """Both would make a branch contain what it doesn't."""
    own = commit_of(clone)
    tree = git(clone, "rev-parse", f"{own}^{{tree}}").strip()
    child = git(clone, "commit-tree", tree, "-p", loose, "-m", "x").strip()
    git(clone, "replace", own, child)
    grafts = clone / ".git" / "info" / "grafts"
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{own} {loose}\n")
    assert loose in git(clone, "log", "--format=%H", "main")  # git itself believes them

    assert not is_at_hand(loose)
    assert is_at_hand(own)


def test_objects_of_an_alternate_do_not_count(clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "--quiet", clone, other], check=True)
    (other / "x.py").write_text("theirs")
    theirs = commit_all(other)
    (clone / ".git" / "objects" / "info" / "alternates").write_text(f"{other}/.git/objects\n")

    assert git(clone, "cat-file", "-t", theirs) == "commit\n"
    assert not is_at_hand(theirs)


@pytest.mark.parametrize("name", ["", "main", "HEAD", "-h", "0" * 40, "0" * 39])
def test_only_a_whole_commit_is_one(name: str, clone: Path) -> None:
    git(clone, "update-ref", "refs/heads/" + "0" * 39 + "1", "main")

    assert not is_at_hand(name)
    assert not is_at_hand(commit_of(clone)[:12])
    assert not is_at_hand("0" * 39 + "1")


def test_folder_without_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "ROOT", tmp_path)

    assert commit_of(tmp_path) == ""
    assert not is_at_hand("0" * 40)
    assert "no branch or tag" in why_not_at_hand("0" * 40)


def test_checks_out_an_older_commit_for_a_while(clone: Path, tmp_path: Path) -> None:
    first = commit_of(clone)
    (clone / "x.py").write_text("second")
    commit_all(clone)
    before = git(clone, "for-each-ref") + git(clone, "worktree", "list")

    with checked_out(first, tmp_path / "a" / "checkout") as root:
        assert (root / "x.py").read_text() == "first"
        assert commit_of(root) == first

    assert not root.exists()
    assert git(clone, "for-each-ref") + git(clone, "worktree", "list") == before


def test_checks_out_from_a_linked_worktree(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = tmp_path / 'li"nked'
    git(clone, "worktree", "add", "--detach", "--quiet", str(linked))
    monkeypatch.setattr("cuwheel.publish.rebuild.commits.ROOT", linked)

    with checked_out(commit_of(clone), tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "first"


def test_replaces_what_a_killed_run_left(clone: Path, tmp_path: Path) -> None:
    (tmp_path / "checkout" / ".git").mkdir(parents=True)

    with checked_out(commit_of(clone), tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "first"


@pytest.mark.parametrize("where", ["clone", "user"])
def test_runs_nothing_that_settings_name(
    where: str, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither hooks nor filters, file monitors, or what fetches what is missing."""
    (clone / ".gitattributes").write_text("*.py filter=evil diff=evil merge=evil\n")
    (clone / ".gitmodules").write_text('[submodule "s"]\n\tpath = s\n\turl = ext::touch%20x\n')
    commit = commit_all(clone)
    settings = clone / ".git" / "config" if where == "clone" else tmp_path / ".gitconfig"
    ran = f"touch {tmp_path}/ran; cat"
    hook = tmp_path / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with settings.open("a") as stream:
        stream.write(
            f'[core]\n\tfsmonitor = "{ran}"\n\tsshCommand = "{ran}"\n\thooksPath = {hook.parent}\n'
            f'[filter "evil"]\n\tsmudge = "{ran}"\n\tclean = "{ran}"\n\trequired = true\n'
            f"[init]\n\ttemplateDir = {tmp_path}\n[submodule]\n\trecurse = true\n"
        )
    monkeypatch.setenv("HOME", str(tmp_path))

    with checked_out(commit, tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "first"

    assert not (tmp_path / "ran").exists()


def test_checks_out_what_the_commit_holds_not_its_replacement(clone: Path, tmp_path: Path) -> None:
    first = commit_of(clone)
    (clone / "x.py").write_text("evil")
    git(clone, "replace", first, commit_all(clone))

    with checked_out(first, tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "first"


@pytest.mark.usefixtures("clone")
@pytest.mark.parametrize("name", ["-", "--help", "0" * 40])
def test_commit_that_is_not_there_leaves_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError), checked_out(name, tmp_path / "checkout"):
        pass

    assert not (tmp_path / "checkout").exists()


def cloned(clone: Path, folder: Path, option: str) -> Path:
    """A clone of two commits that lacks something of the first."""
    (clone / "x.py").write_text("second")
    commit_all(clone)
    git(clone, "config", "uploadpack.allowFilter", "true")
    git(clone, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder.parent, "clone", "--quiet", option, clone.as_uri(), str(folder))
    return folder


def test_takes_the_commits_of_a_shallow_clone(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit_of(clone)
    shallow = cloned(clone, tmp_path / "shallow", "--depth=1")
    monkeypatch.setattr(commits, "ROOT", shallow)

    with checked_out(commit_of(shallow), tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "second"
    assert "--unshallow" in commits.why_not_at_hand(first)


def test_fix_fetches_what_a_partial_clone_lacks(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = commit_of(clone)
    partial = cloned(clone, tmp_path / "partial", "--filter=blob:none")
    monkeypatch.setattr(commits, "ROOT", partial)
    with pytest.raises(UsageError) as caught, checked_out(first, tmp_path / "checkout"):
        pass
    assert not (tmp_path / "checkout").exists()

    process.run(shlex.split(caught.value.fix.split("`")[1]), env=os.environ)

    with checked_out(first, tmp_path / "checkout") as root:
        assert (root / "x.py").read_text() == "first"


def test_takes_projects_of_the_checkout_along(clone: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"

    assert projects_in(there, (clone / "small", tmp_path / "own", clone)) == (
        there / "small",
        tmp_path / "own",
        there,
    )
