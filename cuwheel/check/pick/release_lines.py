"""Releases as people write them: `2.9.1` is one release, `2.9` any of its line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

Share = Literal["all", "some", "none"]
"""How many of the releases that are meant meet a requirement."""

_LINE = re.compile(r"\d+\.\d+")
_NEWEST = 99999  # the last part of a line's newest release, which isn't known


def newest_of(release: str) -> str:
    """Return a release as new as any of its line; one of three parts as it is."""
    return f"{release}.{_NEWEST}" if _LINE.fullmatch(release) else release


def share_that_meets(release: str, required: SpecifierSet) -> Share:
    """Return how many releases meet a requirement: that one, or those of its line."""
    if not _LINE.fullmatch(release):
        return "all" if required.contains(release, prereleases=True) else "none"
    meet = {required.contains(each, prereleases=True) for each in _releases_of(release, required)}
    return "some" if len(meet) > 1 else "all" if True in meet else "none"


def _releases_of(line: str, required: SpecifierSet) -> Iterator[str]:
    """Yield the first and the newest release of a line, and those that a requirement names."""
    yield from (f"{line}.0", newest_of(line))
    for specifier in required:
        with contextlib.suppress(InvalidVersion):  # `===` takes any text
            named = Version(specifier.version.removesuffix(".*"))
            if not named.is_prerelease and SpecifierSet(f"=={line}.*").contains(named):
                yield from (str(named), f"{named.base_version}.0.0.1")  # and one after it
