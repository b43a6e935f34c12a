"""Files of a source folder that git tracks, compared with the commit; nothing is run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.build.inputs import checkouts
from cuwheel.build.inputs.checkouts import commit_of, read_checkout, tracked_files
from tests.support.factories import commit_all

_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize 4\n"


def git(folder: Path, *words: str | Path) -> None:
    settings = ("user.name=a", "user.email=a@b", "protocol.file.allow=always")
    options = [word for setting in settings for word in ("-c", setting)]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    subprocess.run(["git", "-C", folder, *options, *words], env=env, check=True)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    write(folder, setup="s", kernel="k")
    commit_all(folder)
    return folder


def changes(folder: Path) -> tuple[str, ...]:
    checkout = read_checkout(folder)
    assert checkout
    return checkout.changes


def names(folder: Path) -> list[str]:
    return sorted(map(str, tracked_files(folder) or ()))


def test_takes_only_what_git_tracks(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the checkout, and whatever worktree it names."""
    write(tree, **{".env": "SECRET=1", "staged": "s", ".gitignore": "ignored\n", "ignored": "i"})
    git(tree, "add", "staged")
    write(tree / "nested", file="f")
    commit_all(tree / "nested")
    write(tmp_path / "other", kernel="theirs")
    git(tree, "config", "core.worktree", tmp_path / "other")
    monkeypatch.setitem(checkouts._VARIABLES, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")

    assert names(tree) == ["kernel", "setup", "staged"]
    assert changes(tree) == ("staged",)
    assert commit_of(tree)


@pytest.mark.parametrize(
    "name", ["HEAD", "index", "config", "packed-refs", "refs/heads/x", "objects/info/alternates"]
)
def test_waits_for_no_fifo_of_git(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkouts, "_git", None)
    (tree / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(tree / ".git" / name)

    assert (commit_of(tree), tracked_files(tree), read_checkout(tree)) == ("", None, None)


def test_waits_for_no_fifo_of_a_worktree(tree: Path, tmp_path: Path) -> None:
    git(tree, "worktree", "add", "-q", tmp_path / "other")
    assert commit_of(tmp_path / "other") == commit_of(tree)
    (tree / ".git" / "config").unlink()
    os.mkfifo(tree / ".git" / "config")

    assert tracked_files(tmp_path / "other") is None


def _write(tree: Path) -> None:
    (tree / "kernel").write_text("other")


def _stage(tree: Path) -> None:
    _write(tree)
    git(tree, "add", "kernel")


def _remove(tree: Path) -> None:
    (tree / "kernel").unlink()


def _remove_staged(tree: Path) -> None:
    git(tree, "rm", "-q", "kernel")


def _make_executable(tree: Path) -> None:
    (tree / "kernel").chmod(0o755)


def _make_link(tree: Path) -> None:
    _remove(tree)
    (tree / "kernel").symlink_to("setup")


def _assume_unchanged(tree: Path) -> None:
    git(tree, "update-index", "--assume-unchanged", "kernel")
    _write(tree)


def _skip_worktree(tree: Path) -> None:
    git(tree, "update-index", "--skip-worktree", "kernel")
    _write(tree)


def _replace_commit(tree: Path) -> None:
    first = commit_of(tree)
    _stage(tree)
    git(tree, "commit", "-qm", "second")
    git(tree, "replace", first, "HEAD")
    git(tree, "reset", "-q", "--soft", first)


@pytest.mark.parametrize(
    "change",
    [
        *(_write, _stage, _remove, _remove_staged, _make_executable, _make_link),
        *(_assume_unchanged, _skip_worktree, _replace_commit),
    ],
)
def test_finds_change(change: Callable[[Path], None], tree: Path) -> None:
    change(tree)

    assert changes(tree) == ("kernel",)


def test_finds_what_a_sparse_checkout_leaves_out(tree: Path) -> None:
    (tree / "inner").mkdir()
    (tree / "inner" / "a").touch()
    commit_all(tree)

    git(tree, "sparse-checkout", "set", "--cone")

    assert changes(tree) == ("inner/a",)


def test_takes_lines_ends_for_unchanged(tree: Path) -> None:
    write(tree, **{".gitattributes": "kernel eol=crlf\n", "kernel": "a\nb\n"})
    commit_all(tree)

    (tree / "kernel").write_bytes(b"a\r\nb\r\n")

    assert changes(tree) == ()


@pytest.mark.parametrize(
    "config",
    [
        *("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
        *("diff.external", "core.sshCommand", "core.pager", "core.editor", "alias.ls-files"),
    ],
)
def test_runs_nothing_of_the_repository(config: str, tree: Path, tmp_path: Path) -> None:
    proof, script = tmp_path / "proof", tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    script.chmod(0o755)
    write(tree, **{".gitattributes": "* filter=evil diff=evil\n"})
    commit_all(tree)
    git(tree, "config", config, str(script))
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (tree / ".git" / "hooks" / hook).write_bytes(script.read_bytes())
        (tree / ".git" / "hooks" / hook).chmod(0o755)
    _write(tree)

    read_checkout(tree)
    tracked_files(tree)

    assert not proof.exists()


def test_fetches_nothing_for_a_partial_clone(tree: Path, tmp_path: Path) -> None:
    proof, clone = tmp_path / "proof", tmp_path / "clone"
    git(tree, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", tree.as_uri(), clone)
    git(clone, "read-tree", "HEAD")
    git(clone, "config", "remote.origin.url", f"ext::sh -c touch% {proof}")
    git(clone, "config", "protocol.ext.allow", "always")
    write(clone, setup="other", kernel="k")

    assert changes(clone) == ("setup",)
    assert not proof.exists()


def test_reads_worktree(tree: Path, tmp_path: Path) -> None:
    git(tree, "worktree", "add", "-q", tmp_path / "second")
    _write(tmp_path / "second")

    assert names(tmp_path / "second") == ["kernel", "setup"]
    assert changes(tmp_path / "second") == ("kernel",)


@pytest.fixture
def parent(tree: Path, tmp_path: Path) -> Path:
    """A checkout with `tree` as its submodule `sub`."""
    folder = tmp_path / "parent"
    write(folder, setup="s")
    commit_all(folder)
    git(folder, "submodule", "--quiet", "add", tree, "sub")
    git(folder, "commit", "-qm", "sub")
    return folder


def test_compares_submodule(parent: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", parent, "clone")
    assert changes(tmp_path / "clone") == ("sub (the submodule is missing)",)
    (parent / "sub" / "untracked").touch()
    assert names(parent) == [".gitmodules", "setup", "sub/kernel", "sub/setup"]
    assert changes(parent) == ()

    _write(parent / "sub")
    assert changes(parent) == ("sub/kernel",)
    git(parent / "sub", "commit", "-qam", "second")
    assert changes(parent) == ("sub (the submodule is at another commit)",)


def test_takes_nothing_behind_a_link(tree: Path, tmp_path: Path) -> None:
    write(tree / "inner", file="f")
    commit_all(tree)
    (tree / "inner").rename(tmp_path / "outside")
    (tree / "inner").symlink_to(tmp_path / "outside")

    assert names(tree) == ["kernel", "setup"]
    assert changes(tree) == ("inner/file",)


def test_reads_folder_inside_a_checkout(tree: Path) -> None:
    write(tree / "inner", file="f", other="o")
    git(tree, "add", "inner/file")

    assert names(tree / "inner") == ["file"]
    assert changes(tree / "inner") == ("file",)


def test_finds_pointers_of_git_lfs(tree: Path) -> None:
    sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"  # of "test"
    write(tree, kernel=_POINTER.format(sha256=sha256))
    commit_all(tree)
    pointer = read_checkout(tree)
    (tree / "kernel").write_text("test")

    content = read_checkout(tree)

    assert pointer
    assert content
    assert (pointer.pointers, content.pointers) == (("kernel",), ())
    assert (pointer.changes, content.changes) == ((), ())


@pytest.mark.parametrize("damage", ["no .git", "empty .git", "nothing tracked"])
def test_knows_nothing_of_folder_without_git(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    write(folder, setup="s")
    if damage == "empty .git":
        (folder / ".git").mkdir()
    if damage == "nothing tracked":
        git(folder, "init", "-q")

    assert tracked_files(folder) is None
    assert read_checkout(folder) is None
