"""Build what the matrix lacks, one cell after the other on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel import pipeline
from cuwheel.errors import CellsFailedError, CuwheelError
from cuwheel.matrix.state import read_state
from cuwheel.system.console import print_error
from cuwheel.system.quantities import plural
from cuwheel.workspace.failure_record import write_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cuwheel.matrix.state import Cell, CellState
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job


def build_cells(
    due: Sequence[Cell],
    prepare: Callable[[Cell], Job],
    console: Console,
    *,
    keeps_going: bool,
) -> Iterator[CellState]:
    """Build cells; each fills the machine, so one at a time.

    Those that share kernels (one recipe, toolkit and framework for several Pythons) come one after
    the other as they are given: the second takes the first one's out of the compile cache.

    Args:
        due: what to build.
        prepare: makes a cell's build ready: its Python and its lock, where they are missing.
        console: shows how it goes.
        keeps_going: build the others although one has failed.

    Yields:
        How each one stands then.
    """
    for number, cell in enumerate(due, 1):
        console.durations.clear()
        console.heading(f"{cell.id} ({number} of {len(due)})")
        error = _build(cell, prepare, console)
        yield read_state(cell)
        if error and not keeps_going:
            return


def _build(cell: Cell, prepare: Callable[[Cell], Job], console: Console) -> CuwheelError | None:
    dist = cell.job.workspace.dist
    try:
        job = prepare(cell)
    except CuwheelError as error:
        write_failure(error, dist, cell.id)
        return _told(error, console)
    try:
        summary = pipeline.make(job, keep_work=False)
    except CuwheelError as error:
        return _told(error, console)
    console.note(f"{summary.wheel}  {summary.sha256}")
    return None


def _told(error: CuwheelError, console: Console) -> CuwheelError:
    print_error(error, console)
    return error


def check_all_built(states: Sequence[CellState]) -> None:
    """See that no cell of a matrix failed.

    Raises:
        CellsFailedError: some did.
    """
    failed = [one for one in states if one.kind == "failed"]
    if not failed:
        return
    raise CellsFailedError(
        f"{len(failed)} of {plural(len(states), 'cell')} failed",
        why="\n".join(f"{one.cell.id}: {one.detail}" for one in failed),
        fix="see the table and the log of each; the same command then builds only these",
    )
