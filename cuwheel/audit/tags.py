"""Tags of a wheel, as the rules ask for them and findings show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.tags import Tag


def minor_of(tag: Tag) -> int | None:
    """12 of `cp312-cp312`; None where a tag promises more than one Python."""
    minor = tag.interpreter.removeprefix("cp3")
    return int(minor) if minor.isdigit() and tag.abi.startswith(tag.interpreter) else None


def oldest_minor(tags: Iterable[Tag]) -> int | None:
    """10 where `cp310-abi3` is the oldest Python that tags name; None where none names one."""
    minors = (tag.interpreter.removeprefix("cp3") for tag in tags)
    return min((int(minor) for minor in minors if minor.isdigit()), default=None)


def list_tags(tags: Iterable[Tag]) -> str:
    """`cp312-cp312-manylinux_2_28_x86_64`; `none` where there are none."""
    return ", ".join(sorted(map(str, tags))) or "none"
