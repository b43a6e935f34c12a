"""The matrix as a table and as a page: where wheels are for several kinds of machine, which."""

from __future__ import annotations

import dataclasses
import io
from typing import TYPE_CHECKING

import pytest
import rich.console

from cuwheel.matrix.page import write_page
from cuwheel.matrix.state import Cell, CellState, read_states
from cuwheel.matrix.table import print_states
from cuwheel.model.platform import AARCH64, X86_64, Platform
from tests.support.factories import make_job, make_target, make_workspace

if TYPE_CHECKING:
    from pathlib import Path


def states_of(folder: Path, *platforms: Platform) -> tuple[CellState, ...]:
    workspace = make_workspace(folder)
    jobs = [make_job(make_target(platform=platform), workspace) for platform in platforms]
    return read_states(Cell(job=job, options=(job.target.name,)) for job in jobs)


def shown(states: tuple[CellState, ...]) -> str:
    said = io.StringIO()
    print_states(
        states, rich.console.Console(file=said, width=200), states[0].cell.job.workspace.console
    )
    return said.getvalue()


@pytest.mark.parametrize("others", [(), (X86_64,)])
def test_names_platform_where_one_is_another_machines(
    others: tuple[Platform, ...], tmp_path: Path
) -> None:
    states = states_of(tmp_path, AARCH64, *others)

    rows = [line.split() for line in shown(states).splitlines() if "tiny-cuda" in line]
    assert [row[4] for row in rows] == [one.name for one in (AARCH64, *others)]
    page = write_page(states, tmp_path, "now").read_text()
    assert "<th>platform</th>" in page
    assert "<td>linux_aarch64</td>" in page


def test_names_no_platform_where_all_are_this_machines(tmp_path: Path) -> None:
    states = states_of(tmp_path, X86_64)

    assert "linux_x86_64" not in shown(states)
    assert "platform" not in write_page(states, tmp_path, "now").read_text().partition("<p>")[2]


def test_names_the_oldest_python_that_a_stable_abi_serves(tmp_path: Path) -> None:
    """Though a root folder's own one has built it."""
    target = make_target(platform=AARCH64, python="3.12", requires_python=">=3.10")
    recipe = dataclasses.replace(target.recipe, python="abi3")
    job = make_job(dataclasses.replace(target, recipe=recipe), make_workspace(tmp_path))

    assert "3.10 and later" in shown(read_states([Cell(job=job, options=())]))
