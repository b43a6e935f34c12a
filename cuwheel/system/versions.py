"""Versions that no standard orders, such as those of drivers and of libraries' symbols."""

from __future__ import annotations

import re


def version_key(version: str) -> tuple[int, ...]:
    """The numbers in a version, to compare it by: `(3, 4, 30)`."""
    return tuple(map(int, re.findall(r"\d+", version)))
