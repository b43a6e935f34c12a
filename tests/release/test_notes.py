"""The notes of a release, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.index.facts import WheelFacts
from cuwheel.release.notes import render_notes
from cuwheel.release.record import FailedTarget, Release, ReleasedWheel

if TYPE_CHECKING:
    from tests.support.released import Project


def make_release(project: Project, **changes: object) -> Release:
    project.add("1.0+cu130")
    [wheel] = project.plan().release.wheels
    facts = WheelFacts(cuda=(13,), archs=("80", "90"), ptx=("90",), drivers=("580.65.06",))
    made = ReleasedWheel(entry=wheel.entry, facts=facts, change="new build", perf="passed on X")
    given: dict[str, object] = {
        "tag": "v2026-11-23",
        "date": "2026-11-23T10:00:00+00:00",
        "previous": "v2026-11-20",
        "commit": "",
        "wheels": (made,),
        **changes,
    }
    return Release(**given)  # type: ignore[arg-type]


def test_tells_each_wheel(project: Project) -> None:
    release = make_release(project)

    notes = render_notes(release, None)

    assert "1 wheel. New since v2026-11-20: 1 new build of a known wheel." in notes
    row = "| `toy` 1.0+cu130 | cu130 | 3 | torch==2.11.0 | 80, 90, 90 (PTX) | 580.65.06 |  |"
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
