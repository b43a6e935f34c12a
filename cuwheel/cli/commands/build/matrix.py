"""The session `matrix`."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.cli.cell_choice import cell_job_options, chosen_cells
from cuwheel.cli.commands.build.build import build_parser
from cuwheel.cli.container_build import (
    add_container_options,
    check_container_options,
    open_container,
)
from cuwheel.cli.matrix_container import OneByOne, StatesInside, answer_states
from cuwheel.cli.parser import Parser, new_parser, read_count
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import foreign_root_of, platform_of, target_root_of
from cuwheel.cli.target_jobs import requested_job
from cuwheel.cli.target_options import (
    add_arch,
    add_build_options,
    add_cuda_options,
    add_platforms,
    add_work_options,
)
from cuwheel.cross.target_root import no_root
from cuwheel.errors import CuwheelError
from cuwheel.locks.framework_fit import settle_framework
from cuwheel.matrix.building import build_cells, check_all_built
from cuwheel.matrix.distributed import build_distributed, task_of
from cuwheel.matrix.github import matrix_document
from cuwheel.matrix.page import write_page
from cuwheel.matrix.state import read_states
from cuwheel.matrix.table import print_states
from cuwheel.model.catalogue import find_target, load_catalogue
from cuwheel.paths import project_roots
from cuwheel.system.console import print_error
from cuwheel.system.output.terminal import report_terminal
from cuwheel.workspace.failure_record import write_failure
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cuwheel.matrix.executor import Executor
    from cuwheel.matrix.state import Cell, CellState
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace

    Reader = Callable[[Sequence[Cell]], tuple[CellState, ...]]


def matrix_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "matrix",
        "Show the state of each wheel that the recipes can make: package, CUDA, Python, "
        "framework. With `build`, build the missing and outdated ones.",
    )
    add = parser.add_argument
    add("action", nargs="?", choices=("show", "build"), default="show", help="default: show")
    add(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only cells with matching names, such as 'causal-conv1d-130-*' or '*-cp312-*'; "
        "repeatable",
    )
    add(
        "--cuda",
        action="append",
        default=[],
        metavar="13.0",
        help="CUDA releases, repeatable; default: the recipes' toolkits",
    )
    add(
        "--python",
        action="append",
        default=[],
        metavar="3.12",
        help="Python releases, repeatable; default: each that the recipe and its framework support",
    )
    add(
        "--framework",
        action="append",
        default=[],
        metavar="torch==2.11.0",
        help="frameworks, repeatable; default: the recipes', and those with a lock",
    )
    add(
        "--changed-since",
        metavar="COMMIT",
        help="only cells whose recipe, patches, source folder or locks changed in git since then",
    )
    add(
        "--keep-going",
        action="store_true",
        default=True,
        help="continue after a cell that failed; the default",
    )
    add(
        "--no-keep-going",
        dest="keep_going",
        action="store_false",
        help="stop at the first cell that fails",
    )
    add_report_options(
        parser,
        quiet="print cells that aren't built, and the number of cells in each state",
        verbose="print each full SHA-256",
        as_json="print the cells to build as a GitHub Actions matrix",
    )
    add(
        "--executor",
        choices=("local", "slurm"),
        default="local",
        help="where to build: on this machine, one cell after the other, or on a Slurm cluster "
        "with the same folders, many at once; default: local",
    )
    _add_cluster_options(parser)
    add_arch(parser)
    add_platforms(parser)
    add_cuda_options(parser)
    add_work_options(parser)
    add_build_options(parser)
    add_container_options(parser)
    # Of the cuwheel in a container: the file says which builds, and gets how they stand.
    add("--states", help=argparse.SUPPRESS)
    parser.set_defaults(source=None, no_cache=False, build_tag=None, replace=False)
    return parser


def _add_cluster_options(parser: Parser) -> None:
    """What `--executor slurm` asks for each cell."""
    add = parser.add_argument
    add(
        "--partition",
        default="",
        help="partition of the cluster; default: the cluster's own default",
    )
    add(
        "--cores",
        type=read_count,
        default=8,
        metavar="N",
        help="CPU cores for each cell; default: 8",
    )
    add(
        "--time-limit",
        type=read_count,
        default=300,
        metavar="MINUTES",
        help="time limit of each cell's job; default: 300",
    )
    add(
        "--retries",
        type=_count_or_none,
        default=2,
        metavar="N",
        help="how often to restart a cell whose node was lost; default: 2",
    )
    add(
        "--at-once",
        type=read_count,
        default=100,
        metavar="N",
        help="jobs that wait or run at the same time; default: 100",
    )


def run_matrix(given: argparse.Namespace, console: Console) -> None:
    """Show the matrix, or build it."""
    if given.states:
        answer_states(Path(given.states), build_parser().parse, console)
        return
    check_container_options(given)
    if given.action == "build":
        _check_root(given)
    cells = chosen_cells(given, console)
    if not cells:
        console.note(f"nothing that affects a wheel has changed since {given.changed_since}")
    read = _reader(cells, given, console)
    if given.json:
        console.answer(matrix_document(read(cells)))
        return
    if given.action == "build" and cells:
        _build(cells, read, given, console)
    else:
        print_states(read(cells), report_terminal(), console)


def _check_root(given: argparse.Namespace) -> None:
    """That one is named for each kind of machine: without it every cell would fail.

    Raises:
        TargetRootError: none is, or it is no folder.
    """
    root = target_root_of(given)
    for platform in map(platform_of, given.platform):
        if platform.is_foreign and not (root and root.is_dir()):
            raise no_root(root, platform)


def _reader(cells: tuple[Cell, ...], given: argparse.Namespace, console: Console) -> Reader:
    """What says how cells stand: the records in `dist/`, held against the machine that builds."""
    if not given.container or not cells:
        return read_states
    return StatesInside(
        container=open_container(given, console),
        options=tuple(_passed_on(given, cells[0].job.workspace)),
        has_network=not given.offline,
        root=foreign_root_of(given),
    )


def _build(
    cells: tuple[Cell, ...], read: Reader, given: argparse.Namespace, console: Console
) -> None:
    due = [state.cell for state in read(cells) if state.is_due]
    try:
        if due and (given.executor == "slurm" or given.container):
            _build_elsewhere(due, read, given, console)
        else:
            _build_here(due, given, console)
    finally:  # Ctrl-C among them
        states = read(cells)
        now = datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
        page = write_page(states, cells[0].job.workspace.dist, now)
        console.heading("matrix")
        print_states(states, report_terminal(), console)
        console.note(f"as a page: {page}")
    check_all_built(states)


def _build_here(due: list[Cell], given: argparse.Namespace, console: Console) -> None:
    entries = load_catalogue(project_roots())
    checked: dict[Path, Any] = {}

    def prepare(cell: Cell) -> Job:
        entry, tag = find_target(cell.options[0], entries)
        own = cell_job_options(given, cell.options, only_looks=False)
        settle_framework(cell.job.target, bare_workspace(console), offline=given.offline)
        python, machine = cell.job.target.python, cell.job.machine
        return requested_job(entry, tag, python, own, console, machine=machine, checked=checked)

    for _ in build_cells(due, prepare, console, keeps_going=given.keep_going):
        pass


def _build_elsewhere(
    due: list[Cell], read: Reader, given: argparse.Namespace, console: Console
) -> None:
    """Build each cell by a program of its own: in a container here, or on a cluster."""
    ready = _with_locks(due, given, console)
    if not ready:
        return
    workspace = due[0].job.workspace
    options = _passed_on(given, workspace)
    executor: Executor = OneByOne(console)
    if given.executor == "slurm":
        options.append("--json")
        executor = _cluster(given, workspace, console)
    if given.container:
        options += ["--container", given.container]
    if given.container_engine:
        options += ["--container-engine", given.container_engine]
    tasks = [task_of(cell, options, given.cores) for cell in ready]
    keeps_going = given.keep_going
    for _ in build_distributed(ready, tasks, executor, console, keeps_going=keeps_going, read=read):
        pass


def _cluster(given: argparse.Namespace, workspace: Workspace, console: Console) -> Executor:
    # Only a cluster's owner needs what submits jobs.
    from cuwheel.matrix.slurm_executor import SlurmExecutor  # noqa: PLC0415

    return SlurmExecutor(
        folder=workspace.work.parent / "slurm",
        partition=given.partition,
        time_limit=given.time_limit,
        retries=given.retries,
        at_once=given.at_once,
        tell=console.note,
    )


def _with_locks(due: list[Cell], given: argparse.Namespace, console: Console) -> list[Cell]:
    """The cells that there are locks for, which are made here: nodes would write one at once."""
    ready = []
    for cell in due:
        if _has_lock(cell, given, console):
            ready.append(cell)
        elif not given.keep_going:
            return []
    return ready


def _has_lock(cell: Cell, given: argparse.Namespace, console: Console) -> bool:
    try:
        settle_framework(cell.job.target, bare_workspace(console), offline=given.offline)
    except CuwheelError as error:
        write_failure(error, cell.job.workspace.dist, cell.id)
        print_error(error, console)
        return False
    return True


def _passed_on(given: argparse.Namespace, workspace: Workspace) -> list[str]:
    """The options of `build` that each cell's own run gets."""
    words = ["--work", str(workspace.work.parent), "--dist", str(workspace.dist)]
    words += ["--jobs", given.jobs, "--sandbox", given.sandbox]
    words += [word for arch in given.arch for word in ("--arch", arch)]
    root = foreign_root_of(given)
    words += ["--target-root", str(root)] if root else []
    flags = {"--offline": given.offline, "--any-driver": given.any_driver}
    return [*words, *(flag for flag, is_given in flags.items() if is_given)]


def _count_or_none(text: str) -> int:
    """A number from 0 on."""
    return 0 if text == "0" else read_count(text)
