"""Why a wheel is made again, as a person reads it."""

from __future__ import annotations

import re

import pytest

from cuwheel.build.rebuild_key import changes

A, B = "a1" * 32, "b2" * 32


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("lock build", A, B, "the lock has changed"),
        ("patch 0001-x.patch", A, B, "the file has changed"),
        ("patch 0001-x.patch", "absent", A, "absent -> a1a1a1a1a1a1"),
        ("archs", "80 90", "90", "80 90 -> 90"),
        ("engine", f"0.1.0 {A}", f"0.1.0 {B}", "cuwheel's own code has changed"),
        ("engine", f"0.1.0 {A}", f"0.2.0 {B}", "cuwheel 0.1.0 -> 0.2.0"),
        (
            "recipe.source",
            f"Sdist(sha256='{A}')",
            f"Sdist(sha256='{B}')",
            "Sdist(sha256='a1a1a1a1a1a1') -> Sdist(sha256='b2b2b2b2b2b2')",
        ),
        ("source", f"/src/x {A}", f"/src/x {B}", "/src/x has different content"),
        ("source", A, B, "the recipe names a different one, a1a1a1a1a1a1 -> b2b2b2b2b2b2"),
        (
            "source",
            f"x-1.0.tar.gz {A}",
            f"x-1.1.tar.gz {B}",
            "x-1.1.tar.gz, given with --source, instead of x-1.0.tar.gz",
        ),
        ("source", A, f"/x {B}", "/x, given with --source, instead of what the recipe pins"),
        ("source", f"/x {A}", B, "what the recipe pins, instead of /x"),
    ],
)
def test_says_in_words_what_differs(name: str, old: str, new: str, told: str) -> None:
    [line] = changes({name: old}, {name: new})

    assert line == f"{name}: {told}"
    assert not re.search(r"[0-9a-f]{13}", line)
