"""What the session says of a release."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.errors import UsageError
from cuwheel.release.session import print_outcome, release_document
from cuwheel.system.console import Console
from cuwheel.system.files import file_lock
from cuwheel.system.output.documents import as_line
from tests.support.documents import read_document

if TYPE_CHECKING:
    from cuwheel.release.session import Outcome
    from tests.support.released import Project


def said(found: Outcome, **amount: bool) -> str:
    terminal = rich.console.Console(file=io.StringIO(), width=400)
    console = Console(terminal)
    for name, value in amount.items():
        setattr(console, name, value)
    print_outcome(found, terminal, console)
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


def test_says_little_or_much(project: Project) -> None:
    wheel = project.add()
    found = project.plan()

    quiet, usual, verbose = (
        said(found, **amount) for amount in ({"is_quiet": True}, {}, {"is_verbose": True})
    )

    assert quiet == f"{found.release.tag}: 1 wheel, the first release\n"
    assert wheel.name in usual
    assert f"with --publish it is written to {found.folder}" in usual
    assert "## Wheels" in verbose


def test_says_that_nothing_is_new(project: Project) -> None:
    project.add()
    tag = project.publish().release.tag

    again = said(project.publish())
    planned = said(project.plan())

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

    data = read_document(as_line(release_document(project.plan())), "release")

    assert (data["state"], data["missing"]) == ("planned", None)
    [wheel] = data["release"]["wheels"]
    assert wheel["entry"]["name"] == "toy-1.0+cu130-py3-none-any.whl"
    assert (wheel["change"], wheel["facts"]["drivers"]) == ("new package", [])


def test_two_at_once_make_one_release(project: Project) -> None:
    project.add()
    project.site.mkdir()
    with file_lock(project.site / ".release.lock"):
        found: list[Outcome] = []
        both = [threading.Thread(target=lambda: found.append(project.publish())) for _ in range(2)]
        for one in both:
            one.start()
    for one in both:
        one.join()

    assert sorted(one.state for one in found) == ["nothing new", "published"]
    assert len({one.release.tag for one in found}) == 1
