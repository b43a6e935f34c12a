"""A release, read again from its file; its tag."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.publish.release.record import next_tag, read_releases, tag_order
from tests.support.documents import read_document
from tests.support.publish.releases import Project


def test_lists_releases_by_time(project: Project) -> None:
    tags = []
    for version in ("1.0", "2.0", "3.0"):
        project.add(version)
        tags.append(project.publish().release.tag)

    assert [one.tag for one in read_releases(project.site)] == tags
    assert tags[-1].endswith(".2")


def test_keeps_to_its_schema(project: Project) -> None:
    wheel = project.add()
    project.measure(wheel)

    result = project.publish()

    data = read_document((result.folder / "release.json").read_text(), "release-record")
    assert data["wheels"][0]["perf"].startswith("passed")


_DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another form": lambda data: data.update(schema_version="7.0"),
    "another document": lambda data: data.update(schema="perf"),
    "no wheels": lambda data: data.pop("wheels"),
    "a name that leads elsewhere": lambda data: data["wheels"][0]["entry"].update(
        name="../toy-1.0-py3-none-any.whl"
    ),
    "a hash that leads elsewhere": lambda data: data["wheels"][0]["entry"].update(
        sha256="../../elsewhere"
    ),
    "a toolkit that leads elsewhere": lambda data: data["wheels"][0]["entry"].update(
        toolkit="/../../../elsewhere"
    ),
    "no name": lambda data: data["wheels"][0]["entry"].pop("name"),
    "another type": lambda data: data["wheels"][0]["entry"].update(size="large"),
    "no dict": lambda data: data.update(wheels=[7]),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_refuses_a_damaged_record(damage: str, project: Project) -> None:
    project.add()
    path = project.publish().folder / "release.json"
    data = json.loads(path.read_text())
    _DAMAGES[damage](data)
    path.write_text(json.dumps(data))

    with pytest.raises(UsageError, match="not the record of a release"):
        project.publish()


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
    assert sorted(tags, key=lambda tag: tag_order(tag) or ()) == in_order


@pytest.mark.parametrize("name", ["2026-11-23", "v2026-11-23.0", "v2026-11-23.part", "v1.0"])
def test_other_names_are_no_tags(name: str) -> None:
    assert tag_order(name) is None
