"""The session `matrix`.

A wheel's rebuild key names compilers, C library and Python of the machine that it was built on. In
a container that is the image, so a cuwheel in it reads the states of cells.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import SandboxError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.machine import usable_cores
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.recipe.catalogue import find_target, load_catalogue
from cuwheel.build.recipe.platform import PLATFORMS
from cuwheel.build.sandbox.containers.engine import Container
from cuwheel.build.toolchains.cross.target_root import no_root
from cuwheel.build.workspace.job import Machine
from cuwheel.build.workspace.request import MOST_SHARDS, OF_RUN, BuildRequest, choices, read_count
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.cli.cell_choice import CellChooser
from cuwheel.cli.container_build import (
    CONTAINER_NEEDS,
    container_of,
    read_folders,
    request_inside,
)
from cuwheel.cli.parser import Option, Parser, new_parser
from cuwheel.cli.target_choice import (
    build_options,
    platform_of,
    read_request,
    request_of,
    requested_job,
)
from cuwheel.lab.matrix.building import (
    Executor,
    LocalExecutor,
    ReadStates,
    build_cells,
    check_all_built,
    lock_cells,
)
from cuwheel.lab.matrix.github import matrix_document
from cuwheel.lab.matrix.state import Cell, CellState, as_data, from_data, read_state, read_states
from cuwheel.lab.matrix.table import print_states, write_page

_MINUTE = 60.0  # seconds


def matrix_parser() -> Parser:
    """Return the parser of the session."""
    platforms = f"--platform {choices(PLATFORMS)}..."
    return new_parser(
        "matrix",
        "Show the state of each wheel that the recipes can make: package, CUDA, Python, "
        "framework. With `build`, build the missing and outdated ones.",
        {
            "action {show,build}?": Option("default: show", default="show"),
            "--only PATTERN...": "only cells with matching names, such as 'causal-conv1d-130-*' or "
            "'*-cp312-*'; repeatable",
            "--cuda 13.0...": "CUDA releases, repeatable; default: the recipes' toolkits",
            "--python 3.12...": "Python releases, repeatable; default: each that the recipe and "
            "its framework support",
            "--framework torch==2.11.0...": "frameworks, repeatable; default: the recipes', and "
            "those with a lock",
            "--changed-since COMMIT": "only cells whose recipe, patches, source folder or locks "
            "changed in git since then",
            "--keep-going": "continue after a cell that failed; the default",
            "--no-keep-going": "stop at the first cell that fails",
            "--quiet": "print cells that aren't built, and the number of cells in each state",
            "--verbose": "print each full SHA-256",
            "--json": "print the cells to build as a GitHub Actions matrix",
            "--executor {local,slurm}": Option(
                "where to build: on this machine, one cell after the other, or on a Slurm "
                "cluster with the same folders, many at once; default: local",
                default="local",
            ),
            "--partition PARTITION": Option(
                "partition of the cluster; default: the cluster's own default", default=""
            ),
            "--cores N": Option("CPU cores for each cell; default: 8", read=read_count, default=8),
            "--time-limit MINUTES": Option(
                "time limit of each cell's job; default: 300", read=read_count, default=300
            ),
            "--retries N": Option(
                "how often to restart a cell whose node was lost; default: 2",
                read=_count_or_none,
                default=2,
            ),
            "--at-once N": Option(
                "jobs that wait or run at the same time; default: 100", read=read_count, default=100
            ),
            "--shards N": Option(
                "jobs that first compile for each cell, each a share; its own job follows and "
                "finds their objects; default: 1, which is none",
                read=_read_shards,
                default=1,
            ),
            "--shard-above MINUTES": Option(
                "also print jobs for shards of the builds that take longer, by recorded times; "
                "default: none",
                read=read_count,
            ),
            **build_options("arch"),
            platforms: "the machines that wheels are for, repeatable; default: this one's kind",
            **build_options("target_root", "link", "toolchain", "host_compiler", *OF_RUN),
            **build_options("container", "container_engine"),
            # For containers: the file lists builds, and gets their states.
            "--states FILE": argparse.SUPPRESS,
        },
        needs={
            **CONTAINER_NEEDS,
            ("--shard-above", "--json"): "shards are jobs of the printed matrix",
            ("--shards", "--executor"): "on one machine shards save no time: use --executor slurm",
        },
        excludes={
            ("--shards", "--container"): "in a container objects depend on the work folder, and "
            "each shard has another one"
        },
    )


def run_matrix(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Show the matrix, or build it."""
    if args.states:
        answer_states(Path(args.states), console, caller)
        return
    chooser = chooser_of(args, console, caller)
    request = chooser.request
    if args.action == "build":
        _check_root(args.platform, request)
    cells = chooser.cells()
    if not cells:
        console.note(f"nothing that affects a wheel has changed since {args.changed_since}")
    read: ReadStates = read_states
    if request.container and cells:
        container = container_of(request, console, caller)
        read = StatesInside(container=container, has_network=not request.offline)
    if args.json:
        longest = args.shard_above * _MINUTE if args.shard_above else None
        console.answer(
            matrix_document(read(cells), longest=longest, cores=usable_cores(caller.environ))
        )
    elif args.action == "build" and cells:
        _build(cells, read, args, console)
    else:
        print_states(read(cells), report_terminal(), console)


def chooser_of(args: argparse.Namespace, console: Console, caller: Caller) -> CellChooser:
    """Return the choice of cells of a command line."""
    of_cells = {"python": (), "framework": None, "platform": None}
    return CellChooser(
        request=request_of(args, caller, **of_cells, verbose=False, json=False),
        console=console,
        caller=caller,
        only=tuple(args.only),
        cuda=tuple(args.cuda),
        python=tuple(args.python),
        frameworks=tuple(args.framework),
        platforms=tuple(args.platform),
        changed_since=args.changed_since,
    )


def _check_root(platforms: list[str], request: BuildRequest) -> None:
    """Raise an error unless each foreign platform has a root folder: every cell would fail."""
    root = request.target_root
    for platform in map(platform_of, platforms):
        if platform.is_foreign and not (root and root.is_dir()):
            raise no_root(root, platform)


def _build(
    cells: tuple[Cell, ...], read: ReadStates, args: argparse.Namespace, console: Console
) -> None:
    due = [state.cell for state in read(cells) if state.is_due]
    keeps_going, workspace = not args.no_keep_going, cells[0].job.workspace
    try:
        if ready := lock_cells(due, console, keeps_going=keeps_going):
            executor = _executor(args, workspace)
            for _ in build_cells(
                *(ready, args.cores, executor, console),
                keeps_going=keeps_going,
                read=read,
                shards=args.shards,
            ):
                pass
    finally:  # Ctrl-C among them
        states = read(cells)
        now = datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
        page = write_page(states, workspace.dist, now)
        console.heading("matrix")
        print_states(states, report_terminal(), console)
        console.note(f"as a page: {page}")
    check_all_built(states)


def _executor(args: argparse.Namespace, workspace: Workspace) -> Executor:
    """Return the executor of `--executor`; a cluster's has a folder for its jobs."""
    if args.executor == "local":
        return LocalExecutor(workspace.console, workspace.environ)
    # Only a cluster's owner needs the library that submits jobs.
    from cuwheel.lab.matrix.slurm_executor import SlurmExecutor  # noqa: PLC0415

    return SlurmExecutor(
        folder=workspace.work.parent / "slurm",
        partition=args.partition,
        time_limit=args.time_limit,
        retries=args.retries,
        at_once=args.at_once,
        note=workspace.console.note,
    )


def _read_shards(text: str) -> int:
    count = read_count(text)
    if count > MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"{text} is more than {MOST_SHARDS} shards")
    return count


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else read_count(text)


@dataclass(frozen=True, kw_only=True)
class StatesInside:
    """A reader of cells' states that runs a cuwheel in a container."""

    container: Container
    has_network: bool

    def __call__(self, cells: Iterable[Cell]) -> tuple[CellState, ...]:
        """Return the states of cells, in their order."""
        cells = tuple(cells)
        possible = [cell for cell in cells if not cell.impossible]
        inside = {state.cell.id: state for state in self._read(possible)} if possible else {}
        return tuple(read_state(cell) if cell.impossible else inside[cell.id] for cell in cells)

    def _read(self, cells: Sequence[Cell]) -> tuple[CellState, ...]:
        requests = [request_inside(cell.request) for cell in cells]
        workspace = cells[0].job.workspace
        work = workspace.work.parent.resolve()
        work.mkdir(parents=True, exist_ok=True)
        with temporary_folder(work) as folder:
            path = folder / "states.json"
            write_atomically(path, json.dumps([request.argv() for request in requests]))
            status = self.container.run(
                ("matrix", "--states", str(path)),
                read=dict.fromkeys(path for request in requests for path in read_folders(request)),
                write=(work, workspace.dist.resolve()),
                network=self.has_network,
            )
            if status:
                raise SandboxError(
                    "the state of the cells is unknown",
                    why=f"the cuwheel in {self.container.image.reference} exited with status "
                    f"{status}",
                    fix="read its output above; the same image has to work for a single build",
                )
            return from_data(cells, parse_json(read_text(path), is_own=True))


def answer_states(path: Path, console: Console, caller: Caller) -> None:
    """Replace, inside, the builds that a file lists by their states."""
    entries = load_catalogue(caller.roots)
    machines: dict[tuple[str, ...], Machine] = {}

    def cell_of(argv: Sequence[str]) -> Cell:
        request = replace(
            read_request(argv, caller), dry_run=True
        )  # nothing is installed to know it
        entry, tag = find_target(request.targets[0], entries)
        return Cell(job=requested_job(entry, tag, request, console, caller, machines=machines))

    builds: list[list[str]] = parse_json(read_text(path), is_own=True)
    write_atomically(path, json.dumps(as_data(read_states(map(cell_of, builds)))))
