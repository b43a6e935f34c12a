"""The platforms and Pythons in table and page of the matrix."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
import rich.console

from cuwheel.build.recipe.platform import AARCH64, X86_64, Platform
from cuwheel.lab.matrix.state import CellState, read_states
from cuwheel.lab.matrix.table import print_states, write_page
from tests.support.factories import make_target, make_workspace
from tests.support.lab.matrices import make_cell


def states_of(folder: Path, *platforms: Platform) -> tuple[CellState, ...]:
    workspace = make_workspace(folder)
    targets = [make_target(platform=platform) for platform in platforms]
    return read_states(make_cell(target, workspace) for target in targets)


def shown(states: tuple[CellState, ...]) -> str:
    stream = io.StringIO()
    print_states(
        states, rich.console.Console(file=stream, width=200), states[0].cell.job.workspace.console
    )
    return stream.getvalue()


@pytest.mark.parametrize("others", [(), (X86_64,)])
def test_names_platform_of_foreign_wheels(others: tuple[Platform, ...], tmp_path: Path) -> None:
    states = states_of(tmp_path, AARCH64, *others)

    rows = [line.split() for line in shown(states).splitlines() if "tiny-cuda" in line]
    assert [row[4] for row in rows] == [platform.name for platform in (AARCH64, *others)]
    page = write_page(states, tmp_path, "now").read_text()
    assert "<th>platform</th>" in page
    assert "<td>linux_aarch64</td>" in page


def test_names_no_platform_of_native_wheels(tmp_path: Path) -> None:
    states = states_of(tmp_path, X86_64)

    assert "linux_x86_64" not in shown(states)
    assert "platform" not in write_page(states, tmp_path, "now").read_text().partition("<p>")[2]


def test_names_the_oldest_python_of_a_stable_abi(tmp_path: Path) -> None:
    """Also if another Python has built it."""
    target = make_target(platform=AARCH64, python="3.12", requires_python=">=3.10")
    recipe = dataclasses.replace(target.recipe, python="abi3")
    cell = make_cell(dataclasses.replace(target, recipe=recipe), make_workspace(tmp_path))

    assert "3.10 and later" in shown(read_states([cell]))
