"""Clones of this repository, each with a cuwheel of its own, as two people have them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.paths import ROOT
from tests.support.engine import Outcome
from tests.support.toolchains.small_toolchain import copy_project

_GIT = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
_NEEDED = ("cuwheel", "envs")
PROJECT = "small"  # folder of a clone: the project of the tiny packages


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *_GIT, "-C", str(folder), *words], check=True, capture_output=True, text=True
    ).stdout


def commit_all(folder: Path) -> str:
    """Commit everything in a repository; gives the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")
    return git(folder, "rev-parse", "HEAD").strip()


def copy_checkout(folder: Path) -> Path:
    """Copy the files of this checkout, whether they are committed or not."""
    for name in git(ROOT, "ls-files", "-co", "--exclude-standard", "-z").split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@dataclass(frozen=True, kw_only=True)
class Clone:
    """A checkout with the engine and the small project, and a cache.

    Attributes:
        root: of the checkout.
        cache: what its cuwheel uses.
    """

    root: Path
    cache: Path

    @property
    def project(self) -> Path:
        return self.root / PROJECT

    def run(self, *words: str | Path) -> Outcome:
        """Run its cuwheel, as nox does."""
        done = subprocess.run(
            [sys.executable, "-m", "cuwheel", *map(str, words)],
            env={
                **os.environ,
                "PYTHONPATH": str(self.root),
                "CUWHEEL_CACHE": str(self.cache),
                "CUWHEEL_PROJECT": str(self.project),
                "CUWHEEL_INVOKED_FROM": str(self.root.parent),
                "COLUMNS": "200",
            },
            cwd=self.root,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return Outcome(status=done.returncode, output=done.stdout)

    def commit(self, message: str) -> str:
        """Commit everything; gives the commit."""
        git(self.root, "add", "--all", "--force")
        git(self.root, "commit", "--quiet", "--message", message)
        return git(self.root, "rev-parse", "HEAD").strip()

    def cloned(self, root: Path, cache: Path) -> Clone:
        """Another person's clone of it."""
        subprocess.run(["git", "clone", "--quiet", self.root, root], check=True)
        return Clone(root=root, cache=cache)


def first_clone(root: Path, cache: Path) -> Clone:
    """This checkout as it stands, as a repository of its own; nothing is committed yet."""
    for name in _NEEDED:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, root / name, ignore=ignore)
    copy_project(root / PROJECT)
    git(root, "init", "--quiet", "--initial-branch=main")
    return Clone(root=root, cache=cache)
