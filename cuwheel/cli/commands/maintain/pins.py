"""The sessions that move what is pinned: `new`, `outdated`, `bump`, `lock` and its checks."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError, suggest
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.build.drafts.new import DraftOptions, draft_recipe
from cuwheel.build.drafts.updates.bump import (
    BumpOptions,
    bump_framework,
    bump_recipe,
    print_bump,
)
from cuwheel.build.drafts.updates.outdated import OLD_LOCK, find_updates, print_updates
from cuwheel.build.locks.framework_fit import fit_specs
from cuwheel.build.locks.lock_jobs import COOLDOWN, file_jobs, lock_jobs, refuse_questions
from cuwheel.build.locks.resolve import find_faults, raise_if_faulty, resolve_locks, verify_locks
from cuwheel.build.recipe.catalogue import find_recipe, load_catalogue
from cuwheel.build.recipe.recipe import CXX_STANDARDS
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.cli.parser import Option, Parser, read_days, refuse_none
from cuwheel.cli.parser import new_parser as make_parser
from cuwheel.cli.target_choice import framework_of


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
    """Return the parser of the session `lock`."""
    return make_parser(
        "lock",
        "Resolve and pin with hashes.",
        {
            "names engine|dev|toolchain:130|host-compiler:gcc12|build:RECIPE|all+": "locks by name",
            "--framework torch==2.11.0": "also a lock for this framework, besides the recipe's own",
            "--cooldown DAYS": Option(
                f"ignore younger releases; default: {COOLDOWN}", read=read_days, default=COOLDOWN
            ),
            "--note TEXT": Option(
                "for conda and redist locks: where the index or manifest was from, for the lock",
                default="",
            ),
        },
    )


def run_lock(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Write locks."""
    entries = load_catalogue(caller.roots)
    jobs = lock_jobs(args.names, entries, framework_of(args.framework), roots=caller.roots)
    refuse_questions(jobs)  # before the index is read
    workspace = bare_workspace(console, caller)
    specs = fit_specs(jobs, workspace)
    resolve_locks(specs, workspace, cooldown=args.cooldown, note=args.note)
    console.print_durations()


def lock_check_parser() -> Parser:
    """Return the parser of the session `lock-check`."""
    return make_parser(
        "lock-check",
        "Fail when a lock doesn't match its input.",
        {
            "--quiet": "print only what is wrong",
            "--verbose": "name each lock",
            "--json": "print each lock's errors as JSON to standard output",
        },
    )


def run_lock_check(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Compare locks with their inputs."""
    jobs = lock_jobs(["all"], load_catalogue(caller.roots), roots=caller.roots)
    faults = find_faults(jobs)
    if args.json:
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
    """Return the parser of the session `lock-verify`."""
    return make_parser(
        "lock-verify",
        "Download all files of conda and redist locks and compare their hashes; look for those of "
        "Debian locks.",
        {
            "names 122|toolchain:122:redist|host-compiler:gcc12|python:312|all+": "locks by name",
            "--offline": "download nothing; compare what is in the cache",
            "--quiet": "print only warnings and errors",
            "--verbose": "name each file and its SHA-256",
            "--json": "print each lock's files as JSON to standard output",
        },
    )


def run_lock_verify(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Compare the files of locks with their hashes."""
    jobs = file_jobs(args.names, caller.roots)
    verified = verify_locks(jobs, bare_workspace(console, caller), offline=args.offline)
    if args.json:
        locks = (
            VerifiedLock(
                name=job.name,
                lock=job.lock,
                files=tuple(
                    LockedFile(url=package.url, size=package.size, sha256=package.sha256)
                    for package in packages
                ),
            )
            for job, packages in zip(jobs, verified, strict=True)
        )
        console.answer(LockVerifyDocument(locks=tuple(locks)))
    for packages in verified if console.is_verbose else ():
        for package in packages:
            console.note(f"  {package.sha256}  {package.file_name}")
    console.print_durations()


def new_parser() -> Parser:
    """Return the parser of the session `new`."""
    return make_parser(
        "new",
        "Draft a recipe from a package's source, on the package index or elsewhere.",
        {
            "name NAME": "the project's name on the index, such as torch-scatter; or its source: "
            "git+URL@COMMIT, an archive's address or path, a folder of the project",
            "--version V": "the release; default: the newest one with an sdist, or what the source "
            "states",
            "--maintainer HANDLE": Option("your GitHub handle", default=""),
            "--overwrite": "replace an existing recipe of this name",
        },
    )


def run_new(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Draft a recipe into the first project folder."""
    roots = caller.roots
    options = DraftOptions(
        project=args.name,
        version=args.version or "",
        maintainer=args.maintainer,
        overwrites=args.overwrite,
    )
    draft_recipe(options, roots[0], load_catalogue(roots), bare_workspace(console, caller))


def outdated_parser() -> Parser:
    """Return the parser of the session."""
    return make_parser(
        "outdated",
        "List upstreams, frameworks, toolkits and locks that are newer than what is pinned, and "
        "whether patches apply to upstream's newest source. Updates are not an error: scripts use "
        "--json.",
        {
            "names NAME*": "recipes; default: all",
            "--days N": Option(
                f"a lock is old after this many days; default: {OLD_LOCK}",
                read=read_days,
                default=OLD_LOCK,
            ),
            "--quiet": "print only what is newer",
            "--verbose": "list each lock with its age",
            "--json": "print JSON to standard output instead of a table",
        },
    )


def run_outdated(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Read the index, and print what is newer than the pins."""
    entries = load_catalogue(caller.roots)
    recipes = [find_recipe(name, entries) for name in args.names] or list(entries)
    updates = find_updates(entries, recipes, bare_workspace(console, caller), days=args.days)
    print_updates(updates, console, as_json=args.json)


def bump_parser() -> Parser:
    """Return the parser of the session."""
    return make_parser(
        "bump",
        "Update a recipe to another release of upstream: version, hash, patches, locks; or, with "
        "--framework, of its framework.",
        {
            "names NAME*": "recipes",
            "--to V": Option("the release; default: the newest with an sdist", default=""),
            "--framework torch==2.15.0": "take the recipe to this release of its framework: pin, "
            "CUDA release, lock; its own release stays",
            "--cxx-standard 20": Option(
                "with --framework: the oldest C++ from that release on", default=""
            ),
            "--require REQUIREMENT...": "with --framework: in place of the one of the same name; "
            "repeatable",
            "--dry-run": "show the changes, and change no file",
            "--keep-broken": "continue if a patch no longer applies; it stays as it is",
            "--uncommitted": "also change files with uncommitted changes",
            "--cooldown DAYS": Option(
                f"ignore younger releases of locked packages; default: {COOLDOWN}",
                read=read_days,
                default=COOLDOWN,
            ),
        },
        needs=dict.fromkeys(
            (("--cxx-standard", "--framework"), ("--require", "--framework")),
            "it is a change for a release of the framework",
        ),
        excludes={("--to", "--framework"): "with --framework the recipe's own release stays"},
    )


def run_bump(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Change recipes, one after the other, and print each change."""
    entries = load_catalogue(caller.roots)
    refuse_none("bump", "recipe", args.names, [entry.name for entry in entries])
    framework = framework_of(args.framework)
    if args.cxx_standard and args.cxx_standard not in CXX_STANDARDS:
        raise UsageError(
            f"--cxx-standard {args.cxx_standard} is not a C++ standard that nvcc has",
            why=suggest(args.cxx_standard, CXX_STANDARDS),
            fix="--cxx-standard 20",
        )
    options = BumpOptions(
        version=args.to,
        cxx_standard=args.cxx_standard,
        requires=tuple(args.require),
        keeps_broken=args.keep_broken,
        takes_uncommitted=args.uncommitted,
        is_trial=args.dry_run,
        cooldown=args.cooldown,
    )
    for name in args.names:
        entry = find_recipe(name, entries)
        workspace = bare_workspace(console, caller)
        if framework:
            bump = bump_framework(entry, framework, options, workspace)
        else:
            bump = bump_recipe(entry, options, workspace)
        if bump is None:
            console.note(f"{entry.name} already pins that release: nothing to do")
        else:
            print_bump(bump, is_trial=args.dry_run)
