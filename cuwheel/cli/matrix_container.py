"""A matrix whose cells are built in a container: how they stand is known in there alone.

A wheel's rebuild key names compilers, C library and Python of the machine that it was built on,
which here is the image. So the cuwheel outside writes down which builds it asks about, and one
inside answers for all of them.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.cli.target_jobs import requested_job
from cuwheel.errors import ContainerError
from cuwheel.matrix.executor import Result
from cuwheel.matrix.state import Cell, as_data, from_data, read_state, read_states
from cuwheel.model.catalogue import find_target, load_catalogue
from cuwheel.paths import project_roots
from cuwheel.system.files import write_atomically
from cuwheel.system.process import attach
from cuwheel.system.pythons import own_python
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from cuwheel.cli.container_build import Container
    from cuwheel.matrix.executor import Task
    from cuwheel.matrix.state import CellState
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Machine


@dataclass(frozen=True, kw_only=True)
class StatesInside:
    """Asks a cuwheel in a container how cells stand.

    Attributes:
        container: where they are built.
        options: of `build` for every cell: its folders, its archs.
        has_network: whether it may ask the package index.
        root: root folder of another kind of machine, where one is built for.
    """

    container: Container
    options: tuple[str, ...]
    has_network: bool
    root: Path | None = None

    def __call__(self, cells: Sequence[Cell]) -> tuple[CellState, ...]:
        """How they stand, in their order.

        Raises:
            ContainerError: the cuwheel inside can't say it.
        """
        asked = [cell for cell in cells if not cell.impossible]
        inside = {state.cell.id: state for state in self._ask(asked)} if asked else {}
        return tuple(read_state(cell) if cell.impossible else inside[cell.id] for cell in cells)

    def _ask(self, cells: Sequence[Cell]) -> tuple[CellState, ...]:
        workspace = cells[0].job.workspace
        work = workspace.work.parent
        work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=work, prefix="states-") as folder:
            path = Path(folder) / "states.json"
            words = [[*options_inside(cell), *self.options] for cell in cells]
            write_atomically(path, json.dumps(words))
            status = self.container.run(
                ("matrix", "--states", str(path)),
                read=(self.root,) if self.root else (),
                write=(work, workspace.dist),
                network=self.has_network,
            )
            if status:
                raise ContainerError(
                    "the state of the cells is unknown",
                    why=f"the cuwheel in {self.container.image.reference} exited with status "
                    f"{status}",
                    fix="read its output above; the same image has to work for a single build",
                )
            return from_data(cells, json.loads(read_text(path)))


def options_inside(cell: Cell) -> tuple[str, ...]:
    """Target and options of a cell for a cuwheel that another Python runs: its own is named."""
    python = () if "--python" in cell.options else ("--python", own_python().release)
    return (*cell.options, *python)


def answer_states(
    path: Path, parse: Callable[[Sequence[str]], argparse.Namespace], console: Console
) -> None:
    """Inside: replace the builds that a file lists by how they stand.

    Args:
        path: the file.
        parse: reads the command line of a build.
        console: of this session.
    """
    entries = load_catalogue(project_roots())
    machines: dict[tuple[str, ...], Machine] = {}

    def cell_of(words: Sequence[str]) -> Cell:
        given = parse([*words, "--dry-run"])  # nothing is installed to know it
        entry, tag = find_target(given.targets[0], entries)
        # Another machine's root folder is read for each Python.
        root = (given.platform, *given.python) if given.platform else ()
        read = (given.toolchain or tag, *root)
        known = machines.get(read)
        job = requested_job(entry, tag, given.python[0], given, console, machine=known)
        machines.setdefault(read, job.machine)
        return Cell(job=job, options=tuple(words))

    asked: list[list[str]] = json.loads(read_text(path))
    told: list[dict[str, Any]] = as_data(read_states(map(cell_of, asked)))
    write_atomically(path, json.dumps(told))


@dataclass(frozen=True)
class OneByOne:
    """An executor that runs each task here, on our own terminal, one after the other.

    Attributes:
        console: shows which.
    """

    console: Console

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        """Run them all and give each result as it ends."""
        for number, task in enumerate(tasks, 1):
            self.console.heading(f"{task.name} ({number} of {len(tasks)})")
            status = attach(task.command, env={**os.environ, **dict(task.environment)})
            yield Result(
                name=task.name, status=status, output="", where=platform.node(), attempts=1
            )
