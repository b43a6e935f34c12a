"""What a release would hold, what may not be in it, and what is withdrawn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import PolicyError, PublishedWheelError, UsageError
from cuwheel.build.wheelhouse.yanks import read_yanks, yank
from tests.support.packages.toy_wheel import add_wheel
from tests.support.publish.releases import Project


def changes(project: Project) -> dict[str, str]:
    return {str(wheel.entry.version): wheel.change for wheel in project.plan().release.wheels}


def test_shows_what_each_wheel_is_to_earlier_ones(project: Project) -> None:
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

    assert [wheel.change for wheel in project.plan().release.wheels] == ["new build"]


def test_of_unreleased_builds_takes_the_newest(project: Project) -> None:
    project.add()
    other = add_wheel(project.dist.parent / "more", "1.0+cu130", content="# other\n")
    newest = other.rename(project.dist / "toy-1.0+cu130-1-py3-none-any.whl")

    result = project.plan()

    assert [wheel.entry.name for wheel in result.release.wheels] == [newest.name]
    assert result.superseded == ("toy-1.0+cu130-py3-none-any.whl",)


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


def test_reports_that_there_is_nothing(project: Project) -> None:
    with pytest.raises(UsageError, match="nothing to release"):
        project.plan()


def test_names_folder_that_is_not_there(project: Project, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="doesn't exist"):
        project.publish(folders=(tmp_path / "gone",))

    assert not project.site.exists()


_MARKED = "1.0+cu130.source.h0123456789ab"


def test_refuses_wheels_of_given_sources(project: Project) -> None:
    project.add("1.0+cu130")
    marked = project.add(_MARKED)

    with pytest.raises(PolicyError) as caught:
        project.plan()

    assert marked.name in caught.value.why
    assert "--given-source" in caught.value.fix


def test_takes_wheels_of_given_sources_deliberately(project: Project) -> None:
    project.add(_MARKED)

    [wheel] = project.plan(takes_marked=True).release.wheels

    assert str(wheel.entry.version) == _MARKED


_GITHUB = "https://github.com/me/it/releases/download"
_WHY = "wrong on sm_120"


def page(project: Project) -> str:
    return (project.site / "simple" / "toy" / "index.html").read_text()


def forget_all_but_records(project: Project) -> None:
    """As on a machine of GitHub Actions: of the releases before it gets the records alone."""
    records = {path: path.read_text() for path in project.site.glob("releases/*/release.json")}
    for folder in (project.site, project.folder / "cache"):
        shutil.rmtree(folder)
    for wheel in project.dist.glob("*"):
        wheel.unlink()
    for path, text in records.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)


@pytest.mark.parametrize("options", [{}, {"base_url": _GITHUB}], ids=["folder", "elsewhere"])
def test_withdraws_without_a_new_wheel(options: dict[str, Any], project: Project) -> None:
    wheel = project.add()
    project.publish(**options)

    planned = project.plan(yanks={"toy==1.0+cu130": _WHY}, **options)
    done = project.publish(yanks={"toy==1.0+cu130": _WHY}, **options)
    again = project.publish(**options)

    assert (planned.state, done.state, again.state) == ("planned", "published", "nothing new")
    assert done.release.withdrawn == ((wheel.name, _WHY),)
    assert f"- `{wheel.name}`: wrong on sm\\_120" in (done.folder / "notes.md").read_text()
    assert f'data-yanked="{_WHY}"' in page(project)
    assert read_yanks(project.dist) == read_yanks(project.site / "files") == {wheel.name: _WHY}


def test_machine_that_has_records_alone_knows_what_is_withdrawn(project: Project) -> None:
    wheel = project.add()
    project.publish(base_url=_GITHUB)
    forget_all_but_records(project)
    project.publish(base_url=_GITHUB, yanks={wheel.name: _WHY})
    forget_all_but_records(project)
    project.add("2.0+cu130")

    done = project.publish(base_url=_GITHUB)

    assert done.release.withdrawn == ((wheel.name, _WHY),)
    assert page(project).count("data-yanked") == 1
    assert "Withdrawn" not in (done.folder / "notes.md").read_text()  # it was before


@pytest.mark.parametrize("has_list", [True, False], ids=["list", "records alone"])
def test_what_is_good_again_stays_good(has_list: bool, project: Project) -> None:  # noqa: FBT001
    wheel = project.add()
    project.publish(base_url=_GITHUB)
    project.publish(base_url=_GITHUB, yanks={wheel.name: _WHY})
    if not has_list:
        forget_all_but_records(project)

    done = project.publish(base_url=_GITHUB, yanks={wheel.name: None})
    project.add("2.0+cu130")
    last = project.publish(base_url=_GITHUB)

    assert f"- `{wheel.name}`: no longer withdrawn" in (done.folder / "notes.md").read_text()
    assert (done.release.withdrawn, last.release.withdrawn) == ((), ())
    assert "data-yanked" not in page(project)


def test_refuses_what_was_never_released(project: Project) -> None:
    project.add()
    project.publish()
    project.add("2.0+cu130")

    with pytest.raises(UsageError, match=r"has no wheel toy==2\.0"):
        project.publish(yanks={"toy==2.0+cu130": _WHY})

    assert [path.name for path in (project.site / "releases").iterdir()] == [
        project.plan().release.previous
    ]
