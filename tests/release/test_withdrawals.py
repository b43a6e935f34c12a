from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import UsageError
from cuwheel.index.yanks import read_yanks

if TYPE_CHECKING:
    from tests.support.released import Project

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
    assert "Withdrawn" not in (done.folder / "notes.md").read_text()  # the release before told it


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
