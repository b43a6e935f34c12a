"""Tags are dates; a second release of a day gets a number."""

from __future__ import annotations

import datetime

import pytest

from cuwheel.release.tags import is_tag, next_tag, tag_order

DAY = datetime.date(2026, 11, 23)


@pytest.mark.parametrize(
    ("taken", "tag"),
    [
        ((), "v2026-11-23"),
        (("v2026-11-22", "v2026-11-22.1"), "v2026-11-23"),
        (("v2026-11-23",), "v2026-11-23.1"),
        (("v2026-11-23", "v2026-11-23.9", "v2026-11-23.10"), "v2026-11-23.11"),
    ],
)
def test_next_tag(taken: tuple[str, ...], tag: str) -> None:
    assert next_tag(DAY, taken) == tag


def test_sorts_by_number() -> None:
    tags = ["v2026-11-23.10", "v2026-11-23.9", "v2026-11-24", "v2026-11-23"]

    in_order = ["v2026-11-23", "v2026-11-23.9", "v2026-11-23.10", "v2026-11-24"]
    assert sorted(tags, key=tag_order) == in_order


@pytest.mark.parametrize("name", ["2026-11-23", "v2026-11-23.0", "v2026-11-23.part", "v1.0"])
def test_other_names_are_no_tags(name: str) -> None:
    assert not is_tag(name)
    with pytest.raises(ValueError, match="not the tag of a release"):
        tag_order(name)
