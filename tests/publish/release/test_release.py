"""Output of `release`, and its notes."""

from __future__ import annotations

import io
import threading

import pytest
import rich.console

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import file_lock
from cuwheel.base.system.output.documents import as_line
from cuwheel.build.wheelhouse.facts import WheelFacts
from cuwheel.publish.release.folder import render_notes
from cuwheel.publish.release.record import FailedTarget, Release, ReleasedWheel
from cuwheel.publish.release.release import ReleaseDocument, print_release
from tests.support.documents import read_document
from tests.support.publish.releases import Project


def message(result: ReleaseDocument, **amount: bool) -> str:
    terminal = rich.console.Console(file=io.StringIO(), width=400)
    console = Console(terminal)
    for name, value in amount.items():
        setattr(console, name, value)
    print_release(result, terminal, console)
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def test_shows_little_or_much(project: Project) -> None:
    wheel = project.add()
    result = project.plan()

    quiet, usual, verbose = (
        message(result, **amount) for amount in ({"is_quiet": True}, {}, {"is_verbose": True})
    )

    assert quiet == f"{result.release.tag}: 1 wheel, the first release\n"
    assert wheel.name in usual
    assert f"with --publish it is written to {result.folder}" in usual
    assert "## Wheels" in verbose


def test_reports_that_nothing_is_new(project: Project) -> None:
    project.add()
    tag = project.publish().release.tag

    again = message(project.publish())
    planned = message(project.plan())

    assert f"nothing new since {tag}" in again
    assert f"nothing new since {tag}" in planned


def test_names_releases_there_are(project: Project) -> None:
    project.add()
    tag = project.publish().release.tag

    with pytest.raises(UsageError) as caught:
        project.publish(tag=f"{tag}.1")

    assert f'"{tag}"' in caught.value.why


def test_data_hold_all_that_is_known_of_a_wheel(project: Project) -> None:
    project.add("1.0+cu130")

    data = read_document(as_line(project.plan()), "release")

    assert (data["state"], data["missing"]) == ("planned", None)
    [wheel] = data["release"]["wheels"]
    assert wheel["entry"]["name"] == "toy-1.0+cu130-py3-none-any.whl"
    assert (wheel["change"], wheel["facts"]["drivers"]) == ("new package", [])


def test_two_at_once_make_one_release(project: Project) -> None:
    project.add()
    project.site.mkdir()
    with file_lock(project.site / ".release.lock"):
        result: list[ReleaseDocument] = []
        both = [threading.Thread(target=lambda: result.append(project.publish())) for _ in range(2)]
        for one in both:
            one.start()
    for one in both:
        one.join()

    assert sorted(one.state for one in result) == ["nothing new", "published"]
    assert len({one.release.tag for one in result}) == 1


def make_release(project: Project, **changes: object) -> Release:
    project.add("1.0+cu130")
    [wheel] = project.plan().release.wheels
    facts = WheelFacts(cuda=(13,), archs=("80", "90"), ptx=("90",), drivers=("580.65.06",))
    result = ReleasedWheel(entry=wheel.entry, facts=facts, change="new build", perf="passed on X")
    given: dict[str, object] = {
        "tag": "v2026-11-23",
        "date": "2026-11-23T10:00:00+00:00",
        "previous": "v2026-11-20",
        "commit": "",
        "wheels": (result,),
        **changes,
    }
    return Release(**given)  # type: ignore[arg-type]


def test_lists_each_wheel(project: Project) -> None:
    release = make_release(project)

    notes = render_notes(release, None)

    assert "1 wheel. New since v2026-11-20: 1 new build of a known wheel." in notes
    row = "| `toy` 1.0+cu130 | cu130 | 3 | torch==2.11.0 |  | 80, 90, 90 (PTX) | 580.65.06 |  |"
    assert f"| new build {row}" in notes
    assert f"SHA-256 `{release.wheels[0].entry.sha256}`" in notes
    assert "perf: passed on X" in notes
    assert "verify: not built again" in notes


def test_words_of_a_log_are_nothing_but_text(project: Project) -> None:
    failed = FailedTarget(
        target="toy-122",
        date="2026-11-22T10:00:00+00:00",
        what="it failed",
        why="<img src=x>\n# a heading | [link](x) \x1b[2J",
        fix="",
        anchor="build-failed",
    )

    notes = render_notes(make_release(project, failed=(failed,)), None)

    assert "1 wheel; 1 target failed." in notes
    assert r"because \<img src=x> # a heading \| \[link\](x) \\x1b\[2J" in notes
