"""Patches made by git, checked on newer sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.build.inputs.patch_health import PatchHealth, check_patches
from cuwheel.build.inputs.patches import try_patch
from tests.support.build.patched_sources import NAME, OTHER, SETUP, changed, make_diff

_SHORTER = SETUP.replace(b"line 9\n", b"")


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., PatchHealth]:
    """Try a patch, made from `old` to `new`, on a source of other files."""
    diff_of = make_diff(tmp_path)

    def run(old: dict[str, bytes], new: dict[str, bytes], source: dict[str, bytes]) -> PatchHealth:
        tree = tmp_path / "tree"
        tree.mkdir()
        for name, content in source.items():
            (tree / name).write_bytes(content)
        [health] = check_patches({NAME: diff_of(old, new)}, tree)
        return health

    return run


def setup(content: bytes) -> dict[str, bytes]:
    return {"setup.py": content}


def test_applies_as_it_is(check: Callable[..., PatchHealth], tmp_path: Path) -> None:
    health = check(setup(SETUP), setup(changed(20)), setup(SETUP))

    assert (health.state, health.details) == ("applies", ())
    assert (tmp_path / "tree" / "setup.py").read_bytes() == changed(20)


def test_writes_moved_patch_again(check: Callable[..., PatchHealth], tmp_path: Path) -> None:
    above, between = b"more\n" * 7, SETUP.replace(b"line 20\n", b"")
    new = changed(3, 35).replace(b"line 4\n", b"line 4\nadded\n")

    health = check(setup(SETUP), setup(new), setup(above + between))

    assert health.state == "offset"
    assert health.details == (
        "hunk 1 of setup.py (@@ -1,7 +1,8 @@): 7 lines down",
        "hunk 2 of setup.py (@@ -32,7 +33,7 @@): 6 lines down",
    )
    assert (tmp_path / "tree" / "setup.py").read_bytes() == above + new.replace(b"line 20\n", b"")


def test_moved_patch_differs_in_headers_alone(
    check: Callable[..., PatchHealth], tmp_path: Path
) -> None:
    diff = make_diff(tmp_path / "again")
    (tmp_path / "again").mkdir()
    before = diff(setup(SETUP), setup(changed(20))).splitlines()

    after = check(setup(SETUP), setup(changed(20)), setup(b"one\n" + SETUP)).content.splitlines()

    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        (b"@@ -17,7 +17,7 @@ line 16", b"@@ -18,7 +18,7 @@ line 16")
    ]


def test_moved_patch_applies_exactly(check: Callable[..., PatchHealth], tmp_path: Path) -> None:
    old = SETUP.replace(b"line 1\n", b"")
    health = check(setup(SETUP), setup(changed(9, 30) + b"end\n"), setup(old))
    (tmp_path / "tree" / "setup.py").write_bytes(old)

    again = try_patch(health.content, tmp_path / "tree")

    assert again.problems == []
    assert again.content("setup.py") == changed(9, 30).replace(b"line 1\n", b"") + b"end\n"


@pytest.mark.parametrize(
    ("old", "new", "source"),
    [
        (setup(SETUP), setup(changed(20)), setup(b"more\n" + changed(20))),
        (
            setup(SETUP),
            setup(SETUP.replace(b"line 9\n", b"")),
            setup(SETUP.replace(b"line 9\n", b"")),
        ),
        ({}, {"new.py": b"new\n"}, {"new.py": b"new\n"}),
        ({**setup(SETUP), "old.py": b"old\n"}, setup(SETUP), setup(SETUP)),
    ],
    ids=["changed", "lines removed", "file added", "file deleted"],
)
def test_sees_that_upstream_has_the_change(
    old: dict[str, bytes],
    new: dict[str, bytes],
    source: dict[str, bytes],
    check: Callable[..., PatchHealth],
) -> None:
    assert check(old, new, source).state == "obsolete"


def test_names_hunks_that_do_not_fit(check: Callable[..., PatchHealth], tmp_path: Path) -> None:
    source = b"more\n" + changed(20).replace(b"line 35\n", b"line thirty-five\n")

    health = check(setup(SETUP), setup(changed(5, 20, 36)), setup(source))

    moved, upstreams, broken = health.details
    assert health.state == "broken"
    assert moved.endswith("its lines are not at line 2 but at line 3")
    assert upstreams == "hunk 2 of setup.py (@@ -17,7 +17,7 @@): upstream already has this change"
    assert r"line 36 should be 'line 35\n', but is 'line thirty-five\n'" in broken
    assert (tmp_path / "tree" / "setup.py").read_bytes() == source


def test_reports_that_the_file_is_gone(check: Callable[..., PatchHealth]) -> None:
    health = check(setup(SETUP), setup(changed(5)), {"other.py": OTHER})

    assert health.state == "broken"
    assert health.details == ("setup.py: the source has no such file",)


def test_tries_each_patch_on_the_ones_before_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "setup.py").write_bytes(SETUP)
    patches = {
        "0001": make_diff(tmp_path / "a")(setup(SETUP), setup(b"new\n" + SETUP)),
        "0002": make_diff(tmp_path / "b")(setup(SETUP), setup(changed(20))),
    }

    states = [health.state for health in check_patches(patches, tree)]

    assert states == ["applies", "offset"]


@pytest.mark.parametrize("content", [b"", b"no patch\n", b"--- a/x\n+++ b/x\n@@ -1,3 +1 @@\n-a\n"])
def test_calls_what_is_no_patch_broken(content: bytes, tmp_path: Path) -> None:
    [health] = check_patches({NAME: content}, tmp_path)

    assert health.state == "broken"
    assert health.details
