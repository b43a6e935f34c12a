"""A source in a workspace, and patches that git makes for it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.errors import SourceError
from cuwheel.base.system import process
from cuwheel.base.system.files import sha256_of_tree
from cuwheel.build.pipeline.stages.patch import patch
from cuwheel.build.recipe.source import Patch
from cuwheel.build.workspace.records import SourceTree
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import EPOCH, make_job, make_target, make_workspace

NAME = "0001-change.patch"
SETUP = "".join(f"line {number}\n" for number in range(1, 41)).encode()
OTHER = SETUP.replace(b"line", b"text")

OVERLAP = b"""--- a/setup.py
+++ b/setup.py
@@ -1 +1 @@
-line 1
+x
@@ -1 +1 @@
-line 1
+y
"""
RENAME = b"""diff --git a/setup.py b/new.py
similarity index 100%
rename from setup.py
rename to new.py
"""
BINARY = b"""diff --git a/x.png b/x.png
index 123..456 100644
Binary files a/x.png and b/x.png differ
"""
SYMLINK = b"""diff --git a/x b/x
new file mode 120000
--- /dev/null
+++ b/x
@@ -0,0 +1 @@
+/etc/passwd
\\ No newline at end of file
"""


@dataclasses.dataclass(kw_only=True)
class Project:
    """A source in a workspace, and the patches of its recipe."""

    workspace: Workspace
    root: Path
    tree: Path

    def write(self, name: str, content: bytes) -> None:
        """Add a patch."""
        folder = self.root / "patches" / "tiny_cuda"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    def apply(self, *names: str) -> SourceTree:
        """Run the stage with a recipe that names these patches."""
        named = tuple(Patch(file=name, why="a test") for name in names or (NAME,))
        return patch(make_job(make_target(root=self.root, patches=named), self.workspace))

    def refusal(self) -> SourceError:
        """Run the stage, which must refuse the one patch and leave nothing."""
        before = sha256_of_tree(self.workspace.work)
        with pytest.raises(SourceError) as caught:
            self.apply()
        assert NAME in caught.value.what
        assert sha256_of_tree(self.workspace.work) == before
        return caught.value


def make_project(tmp_path: Path) -> Project:
    """A source of two files, unpacked."""
    workspace = make_workspace(tmp_path)
    tree = workspace.folder("source") / "tiny_cuda-1.2.3"
    tree.mkdir(parents=True, exist_ok=True)
    (tree / "setup.py").write_bytes(SETUP)
    (tree / "other.py").write_bytes(OTHER)
    record = SourceTree(path=tree, origin="here", sha256="0" * 64, epoch=EPOCH, pinned=True)
    workspace.save("source", record)
    return Project(workspace=workspace, root=tmp_path / "project", tree=tree)


def make_diff(tmp_path: Path) -> Callable[..., bytes]:
    """Have git say what leads from one set of files to another."""

    def make(old: dict[str, bytes], new: dict[str, bytes], *options: str) -> bytes:
        folder = tmp_path / "repository"
        folder.mkdir()

        def git(*words: str) -> str:
            env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull}
            return process.run(["git", *words], env=env, cwd=folder).output.strip()

        def save(files: dict[str, bytes]) -> str:
            for path in folder.glob("[!.]*"):
                path.unlink()
            for name, content in files.items():
                (folder / name).write_bytes(content)
            git("add", "-A")
            return git("write-tree")

        git("init", "-q")
        result = folder / ".git" / "diff"  # what the runner returns is decoded
        git("diff", f"--output={result}", *options, save(old), save(new))
        return result.read_bytes()

    return make


def changed(*numbers: int, content: bytes = SETUP) -> bytes:
    for number in numbers:
        content = content.replace(b" %d\n" % number, b" %d changed\n" % number)
    return content
