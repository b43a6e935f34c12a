"""Patches made by git, applied exactly or refused with a reason."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.system.files import list_tree
from tests.support.build.patched_sources import (
    BINARY,
    NAME,
    OTHER,
    OVERLAP,
    RENAME,
    SETUP,
    SYMLINK,
    Project,
    changed,
    make_diff,
    make_project,
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture
def diff(tmp_path: Path) -> Callable[..., bytes]:
    return make_diff(tmp_path)


def test_changes_file_as_git_does(project: Project, diff: Callable[..., bytes]) -> None:
    after = changed(3, 20, 38).replace(b"line 10\n", b"").replace(b"line 30\n", b"a\nb\nc\n")
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": after}))

    tree = project.apply()

    assert (tree.path / "setup.py").read_bytes() == after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\nb", b"a\nc"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"caf\xe9\nb\n", b"caf\xe9\nc\xff\n"),
        (b"a\x0cb\x85c\nd\n", b"a\x0cb\x85c\ne\n"),
        (b"a\n\nb\n", b"\n\n"),
        (b"", b"new\n"),
        (b"gone\n", b""),
        (b"-- a\n++ b\n", b"-- c\n++ d\n"),
    ],
    ids=[
        "crlf",
        "no newline at the end",
        "newline added",
        "newline removed",
        "no utf-8",
        "odd line ends",
        "empty lines",
        "was empty",
        "becomes empty",
        "lines like headers",
    ],
)
def test_changes_any_bytes(
    old: bytes, new: bytes, project: Project, diff: Callable[..., bytes]
) -> None:
    (project.tree / "setup.py").write_bytes(old)
    project.write(NAME, diff({"setup.py": old}, {"setup.py": new}, "--text"))

    tree = project.apply()

    assert (tree.path / "setup.py").read_bytes() == new


def test_makes_and_deletes_files(project: Project, diff: Callable[..., bytes]) -> None:
    old = {"setup.py": SETUP, "other.py": OTHER}
    project.write(NAME, diff(old, {"setup.py": SETUP, "new.py": b"new\n"}))

    tree = project.apply()

    assert [str(name) for name in list_tree(tree.path)] == ["new.py", "setup.py"]


def test_sets_execute_bit(project: Project) -> None:
    project.write(NAME, b"diff --git a/setup.py b/setup.py\nold mode 100644\nnew mode 100755\n")

    tree = project.apply()

    assert (tree.path / "setup.py").stat().st_mode & stat.S_IXUSR


def test_lists_all_hunks_that_do_not_apply(project: Project, diff: Callable[..., bytes]) -> None:
    old = {"setup.py": SETUP, "other.py": OTHER}
    new = {"setup.py": changed(3, 20, 38), "other.py": changed(20, content=OTHER)}
    project.write(NAME, diff(old, new))
    (project.tree / "setup.py").write_bytes(
        SETUP.replace(b"line 20\n", b"line twenty \n").replace(b"line 40\n", b"")
    )
    (project.tree / "other.py").write_bytes(OTHER.replace(b"text 18\n", b"text 18\r\n"))

    refusal = project.refusal()

    assert [line.partition("): ")[0] for line in refusal.why.split("\n           ")] == [
        "hunk 1 of other.py (@@ -17,7 +17,7 @@",
        "hunk 2 of setup.py (@@ -17,7 +17,7 @@",
        "hunk 3 of setup.py (@@ -35,6 +35,6 @@",
    ]
    assert r"line 18 should be 'text 18\n', but is 'text 18\r\n'" in refusal.why
    assert r"line 20 should be 'line 20\n', but is 'line twenty \n'" in refusal.why
    assert r"line 40 should be 'line 40\n', but the file has 39 lines" in refusal.why


def test_takes_no_offset(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(20)}))
    (project.tree / "setup.py").write_bytes(b"one more\n" + SETUP)

    refusal = project.refusal()

    assert "its lines are not at line 17 but at line 18" in refusal.why


@pytest.mark.parametrize("above", [b"", b"one more\n"])
def test_notices_when_upstream_has_change(
    above: bytes, project: Project, diff: Callable[..., bytes]
) -> None:
    project.write(NAME, diff({"setup.py": SETUP}, {"setup.py": changed(20)}))
    (project.tree / "setup.py").write_bytes(above + changed(20))

    refusal = project.refusal()

    assert "hunk 1 of setup.py (@@ -17,7 +17,7 @@): upstream already has this" in refusal.why


def test_notices_when_upstream_has_new_file(project: Project, diff: Callable[..., bytes]) -> None:
    project.write(NAME, diff({}, {"setup.py": SETUP}))

    refusal = project.refusal()

    assert refusal.why == "setup.py: upstream already has this change: the file is there"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Only words.\n",
        b"--- a/setup.py\n+++ b/setup.py\n@@ -1,2 +1,2 @@\n line 1\n line 2\n",
        b"--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-line 1\n+line 1\n",
    ],
    ids=["empty", "no diff", "context only", "same line"],
)
def test_refuses_patch_without_effect(content: bytes, project: Project) -> None:
    project.write(NAME, content)

    refusal = project.refusal()

    assert "has no effect" in refusal.what
    assert ("it holds no diff" in refusal.why) == (b"@@" not in content)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "leads out"),
        (b"--- /dev/null\n+++ b//tmp/x\n@@ -0,0 +1 @@\n+x\n", "leads out"),
        (b"--- setup.py\n+++ setup.py\n@@ -1 +1 @@\n-line 1\n+x\n", "need a leading folder"),
        (b"--- /tmp/a/x\n+++ /tmp/b/x\n@@ -1 +1 @@\n-line 1\n+x\n", "an absolute path"),
        (b"--- a/no.py\n+++ b/no.py\n@@ -1 +1 @@\n-line 1\n+x\n", "no such file"),
        (b"--- a/link.py\n+++ b/link.py\n@@ -1 +1 @@\n-line 1\n+x\n", "a symbolic link"),
        (b"--- a/up/x\n+++ b/up/x\n@@ -0,0 +1 @@\n+x\n", "a symbolic link"),
        (b"--- /dev/null\n+++ b/setup.py/x\n@@ -0,0 +1 @@\n+x\n", "vice versa"),
        (b"--- /dev/null\n+++ b/setup.py\n@@ -0,0 +1 @@\n+x\n", "already has it"),
        (
            b"--- a/setup.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n",
            "more lines than the patch removes",
        ),
        (b"--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-line 1\n+x\n+y\n", "longer than its"),
        (b"--- a/setup.py\n+++ b/setup.py\n@@ -1,3 +1 @@\n-line 1\n+x\n", "not a valid unified"),
        (b"--- a/setup.py\n+++ b/setup.py\n@@ -90,0 +91 @@\n+x\n", "adds lines after line 90"),
        (OVERLAP, "overlaps"),
        (RENAME, "a rename"),
        (BINARY, "a binary change"),
        (SYMLINK, "symbolic link or submodule"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_refuses_patch_it_cannot_apply(content: bytes, words: str, project: Project) -> None:
    (project.tree / "link.py").symlink_to("setup.py")
    (project.tree / "up").symlink_to(".")
    project.write(NAME, content)

    refusal = project.refusal()

    assert words in refusal.why
