"""The platforms and Pythons in table and page of the matrix."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
import rich.console

from cuwheel.build.recipe.platform import AARCH64, X86_64, Platform
from cuwheel.lab.matrix.state import CellState, read_states
from cuwheel.lab.matrix.table import print_states, write_page
from tests.support.factories import make_target, make_workspace
from tests.support.golden import Golden
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
    assert '<th scope="col">platform</th>' in page
    assert "<td>linux_aarch64</td>" in page


def test_names_no_platform_of_native_wheels(tmp_path: Path) -> None:
    states = states_of(tmp_path, X86_64)

    assert "linux_x86_64" not in shown(states)
    assert "platform" not in write_page(states, tmp_path, "now").read_text().partition("<p>")[2]


@pytest.fixture
def every_kind(tmp_path: Path) -> tuple[CellState, ...]:
    """A cell in each state; one of them for a stable ABI that another Python has built."""
    workspace = make_workspace(tmp_path)
    target = make_target(python="3.12", requires_python=">=3.10")
    stable = dataclasses.replace(target, recipe=dataclasses.replace(target.recipe, python="abi3"))
    cells = [make_cell(stable, workspace), *[make_cell(target, workspace)] * 4]
    built: dict[str, Any] = {
        "date": "2026-11-23T02:30:00+00:00",
        "wheel": "tiny_cuda-1.2.3+cu130-cp310-abi3-linux_x86_64.whl",
        "sha256": "0123456789abcdef" * 4,
        "size": 123_456,
        "seconds": 75.5,
    }
    return (
        CellState(cell=cells[0], kind="built", detail="12 of 12 compiles cached", **built),
        CellState(cell=cells[1], kind="outdated", detail="archs: 80 -> 90 and 1 more", **built),
        CellState(
            cell=cells[2],
            kind="failed",
            detail="the build <failed>",
            date="2026-11-23T02:31:00+00:00",
            anchor="build-failed",
            log="tiny cuda.log",
        ),
        CellState(cell=cells[3], kind="missing"),
        CellState(cell=cells[4], kind="impossible", detail="torch has no wheel for Python 3.9"),
    )


def test_prints_every_kind_of_cell(every_kind: tuple[CellState, ...], golden: Golden) -> None:
    golden.check("matrix/table.txt", shown(every_kind))


def test_page_has_every_kind_of_cell(
    every_kind: tuple[CellState, ...], tmp_path: Path, golden: Golden
) -> None:
    page = write_page(every_kind, tmp_path, "2026-11-23 03:00 UTC").read_text()

    golden.check("matrix/page.html", page)
