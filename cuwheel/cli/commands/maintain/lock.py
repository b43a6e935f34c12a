"""The sessions `lock`, `lock-check` and `lock-verify`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import framework_of
from cuwheel.locks.framework_fit import fit_specs
from cuwheel.locks.jobs import COOLDOWN, conda_jobs, lock_jobs
from cuwheel.locks.resolve import find_faults, raise_if_faulty, resolve_locks, verify_locks
from cuwheel.locks.source_at_hand import warn_of_source
from cuwheel.model.catalogue import load_catalogue
from cuwheel.paths import project_folder, project_roots
from cuwheel.system.output.documents import Schema
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.conda.records import CondaPackage
    from cuwheel.system.console import Console


@dataclass(frozen=True, kw_only=True)
class CheckedLock:
    """A lock, compared with its input.

    Attributes:
        name: as `nox -s lock` takes it.
        lock: its file.
        faults: how it differs; empty: it matches.
    """

    name: str
    lock: Path
    faults: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LockCheckDocument:
    """What `lock-check --json` prints.

    Attributes:
        locks: all locks.
    """

    SCHEMA: ClassVar[Schema] = Schema("lock-check", "1.0")

    locks: tuple[CheckedLock, ...]


@dataclass(frozen=True, kw_only=True)
class LockedFile:
    """A file that a lock names, and that exists.

    Attributes:
        url: where it was downloaded.
        size: bytes.
        sha256: its hash, the same as in the lock.
    """

    url: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class VerifiedLock:
    """A lock whose files match its hashes.

    Attributes:
        name: as `nox -s lock` takes it.
        lock: its file.
        files: all files that it names.
    """

    name: str
    lock: Path
    files: tuple[LockedFile, ...]


@dataclass(frozen=True, kw_only=True)
class LockVerifyDocument:
    """What `lock-verify --json` prints.

    Attributes:
        locks: those given on the command line.
    """

    SCHEMA: ClassVar[Schema] = Schema("lock-verify", "1.0")

    locks: tuple[VerifiedLock, ...]


def lock_parser() -> Parser:
    """What the session `lock` understands."""
    parser = new_parser("lock", "Resolve and pin with hashes.")
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="engine|dev|toolchain:130|python:312|build:RECIPE|all",
        help="locks by name",
    )
    add(
        "--framework",
        metavar="torch==2.11.0",
        help="also a lock for this framework, besides the recipe's own",
    )
    add(
        "--cooldown",
        type=_days,
        default=COOLDOWN,
        metavar="DAYS",
        help=f"ignore younger releases; default: {COOLDOWN}",
    )
    add(
        "--note",
        default="",
        metavar="TEXT",
        help="for conda locks: where the channel's index came from, recorded in the lock",
    )
    return parser


def run_lock(given: argparse.Namespace, console: Console) -> None:
    """Write locks."""
    entries = load_catalogue(project_roots())
    jobs = lock_jobs(given.names, entries, framework_of(given.framework))
    workspace = bare_workspace(console)
    specs = fit_specs(jobs, workspace)
    resolve_locks(specs, workspace, cooldown=given.cooldown, note=given.note)
    warn_of_source(specs, console, project_folder() / "work")
    console.print_durations()


def lock_check_parser() -> Parser:
    """What the session `lock-check` understands."""
    parser = new_parser("lock-check", "Fail when a lock doesn't match its input.")
    add_report_options(
        parser,
        quiet="print only what is wrong",
        verbose="name each lock",
        as_json="print each lock's errors as JSON to standard output",
    )
    return parser


def run_lock_check(given: argparse.Namespace, console: Console) -> None:
    """Compare locks with their inputs."""
    jobs = lock_jobs(["all"], load_catalogue(project_roots()))
    faults = find_faults(jobs)
    if given.json:
        locks = (
            CheckedLock(name=job.name, lock=job.lock, faults=tuple(faults[job.command]))
            for job in jobs
        )
        console.answer(LockCheckDocument(locks=tuple(locks)))
    for job in jobs if console.is_verbose else ():
        console.note(f"  {job.name}: {', '.join(faults[job.command]) or 'matches its input'}")
    raise_if_faulty(faults)
    console.note(f"{len(jobs)} locks match their inputs")


def lock_verify_parser() -> Parser:
    """What the session `lock-verify` understands."""
    parser = new_parser(
        "lock-verify", "Download all files of conda locks and compare their hashes."
    )
    add = parser.add_argument
    add("names", nargs="+", metavar="122|python:312|all", help="locks by name")
    add("--offline", action="store_true", help="download nothing; compare what is in the cache")
    add_report_options(
        parser,
        quiet="print only warnings and errors",
        verbose="name each file and its SHA-256",
        as_json="print each lock's files as JSON to standard output",
    )
    return parser


def run_lock_verify(given: argparse.Namespace, console: Console) -> None:
    """Compare what conda locks name with what is there."""
    jobs = conda_jobs(given.names, project_roots())
    verified = verify_locks(jobs, bare_workspace(console), offline=given.offline)
    if given.json:
        locks = (
            VerifiedLock(name=job.name, lock=job.lock, files=tuple(map(_file, lock.packages)))
            for job, lock in zip(jobs, verified, strict=True)
        )
        console.answer(LockVerifyDocument(locks=tuple(locks)))
    for lock in verified if console.is_verbose else ():
        for package in lock.packages:
            console.note(f"  {package.sha256}  {package.file_name}")
    console.print_durations()


def _file(package: CondaPackage) -> LockedFile:
    return LockedFile(url=package.url, size=package.size, sha256=package.sha256)


def _days(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return int(text)
