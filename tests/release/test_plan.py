"""What a release would hold, and what may not be in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import PublishedWheelError, UsageError
from cuwheel.index.yanks import yank
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.released import Project


def changes(project: Project) -> dict[str, str]:
    return {str(one.entry.version): one.change for one in project.plan().release.wheels}


def test_says_what_each_wheel_is_to_earlier_ones(project: Project) -> None:
    project.add("1.0+cu130")
    assert changes(project) == {"1.0+cu130": "new package"}
    project.publish()

    project.add("1.0+cu132")
    project.add("2.0+cu130")

    assert changes(project) == {"1.0+cu132": "new wheel", "2.0+cu130": "new version"}


def test_new_build_of_known_wheel(project: Project) -> None:
    project.add("1.0+cu130")
    project.publish()
    other = project.add("1.0+cu130", content="# other\n")
    other.rename(other.with_name("toy-1.0+cu130-1-py3-none-any.whl"))

    assert [one.change for one in project.plan().release.wheels] == ["new build"]


def test_of_unreleased_builds_takes_the_newest(project: Project) -> None:
    project.add()
    other = add_wheel(project.dist.parent / "more", "1.0+cu130", content="# other\n")
    newest = other.rename(project.dist / "toy-1.0+cu130-1-py3-none-any.whl")

    found = project.plan()

    assert [one.entry.name for one in found.release.wheels] == [newest.name]
    assert found.superseded == ("toy-1.0+cu130-py3-none-any.whl",)


def test_leaves_withdrawn_wheels_out(project: Project) -> None:
    project.add("1.0")
    bad = project.add("2.0")
    yank({bad.name: "crashes"}, (project.dist,))

    assert set(changes(project)) == {"1.0"}


def test_refuses_other_bytes_under_a_released_name(project: Project) -> None:
    project.add()
    first = project.publish().release.wheels[0].entry.sha256
    project.add(content="# other\n")

    with pytest.raises(PublishedWheelError) as caught:
        project.publish()

    assert first in caught.value.why
    assert "v20" in caught.value.why
    assert "--build-tag 1" in caught.value.fix
    assert len([*(project.site / "releases").iterdir()]) == 1


def test_refuses_other_bytes_under_a_name_of_the_site(project: Project) -> None:
    (project.site / "files").mkdir(parents=True)
    add_wheel(project.folder / "other", "1.0+cu130", content="# other\n").rename(
        project.site / "files" / "toy-1.0+cu130-py3-none-any.whl"
    )
    project.add()

    with pytest.raises(PublishedWheelError, match="1 of 1 wheels"):
        project.plan()


def test_says_that_there_is_nothing(project: Project) -> None:
    with pytest.raises(UsageError, match="nothing to release"):
        project.plan()


def test_names_folder_that_is_not_there(project: Project, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="doesn't exist"):
        project.publish(folders=(tmp_path / "gone",))

    assert not project.site.exists()
