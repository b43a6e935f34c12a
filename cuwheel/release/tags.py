"""Tags of releases: `v2026-11-23`, and `v2026-11-23.1` for a second one on that day."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime
    from collections.abc import Collection

_TAG = re.compile(r"v(\d{4}-\d\d-\d\d)(?:\.([1-9]\d*))?")


def is_tag(text: str) -> bool:
    """Whether a name has the form of a release's tag."""
    return _TAG.fullmatch(text) is not None


def tag_order(tag: str) -> tuple[str, int]:
    """What sorts tags by time: `.10` comes behind `.9`.

    Raises:
        ValueError: it is no tag.
    """
    found = _TAG.fullmatch(tag)
    if found is None:
        raise ValueError(f"{tag} is not the tag of a release")
    return found[1], int(found[2] or 0)


def next_tag(day: datetime.date, taken: Collection[str]) -> str:
    """The tag of one more release.

    Args:
        day: in UTC.
        taken: the tags that there are.
    """
    first = f"v{day.isoformat()}"
    numbers = [number for date, number in map(tag_order, taken) if date == day.isoformat()]
    return f"{first}.{max(numbers) + 1}" if numbers else first
