"""Entries of an rpath, for libraries in wheels and on disk."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from cuwheel.check.linkage.search_path import relative_entry, resolve_entry


@pytest.mark.parametrize(
    ("library", "entry"),
    [
        ("pkg/a.so", "$ORIGIN/../nvidia/cu13/lib"),
        ("a.so", "$ORIGIN/nvidia/cu13/lib"),
        ("nvidia/cu13/lib/a.so", "$ORIGIN"),
    ],
)
def test_entry_leads_to_folder_and_back(library: str, entry: str) -> None:
    folder = PurePosixPath("nvidia/cu13/lib")

    assert relative_entry(PurePosixPath(library), folder) == entry
    assert resolve_entry(PurePosixPath(library), entry) == folder


def test_resolves_entry_in_braces() -> None:
    assert resolve_entry(PurePosixPath("pkg/a.so"), "${ORIGIN}/../b/") == PurePosixPath("b")


@pytest.mark.parametrize(
    "entry",
    ["/opt/lib", "lib", "$ORIGIN/../..", "$ORIGIN/../../x", "$ORIGIN/$LIB", "$ORIGINAL/x"],
)
def test_refuses_entry_that_leads_elsewhere(entry: str) -> None:
    assert resolve_entry(PurePosixPath("pkg/a.so"), entry) is None


@pytest.mark.parametrize(
    ("entry", "folder"),
    [("/opt/lib/", "/opt/lib"), ("$ORIGIN/../..", "/"), ("", None), ("lib", None)],
)
def test_resolves_entry_of_installed_library(entry: str, folder: str | None) -> None:
    path = resolve_entry(Path("/site/pkg/a.so"), entry)

    assert path == (Path(folder) if folder else None)
