"""Versions without a standard order: of drivers, of libraries' symbols, of Python builds."""

from __future__ import annotations

import re


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers in a version, to compare it by: `(3, 4, 30)`."""
    return tuple(map(int, re.findall(r"\d+", version)))


def plain_release(python: str) -> str:
    """Return `3.14` for the free-threaded `3.14t`, which has the same language and other wheels."""
    return python.removesuffix("t")
