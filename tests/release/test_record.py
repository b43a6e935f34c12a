"""What a release is, read again from its file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import UsageError
from cuwheel.release.record import read_releases
from tests.support.documents import read_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.released import Project


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

    found = project.publish()

    data = read_document((found.folder / "release.json").read_text(), "release-record")
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
