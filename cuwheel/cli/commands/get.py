"""The session `get`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from cuwheel.base.caller import Caller
from cuwheel.base.errors import (
    InstallError,
    InterpreterNotFoundError,
    UsageError,
    naming_option,
)
from cuwheel.base.formats.binaries.archs import archs_for
from cuwheel.base.system.console import Console
from cuwheel.base.system.folders.output_folder import check_writable
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.pythons import Interpreter, find_python
from cuwheel.base.system.quantities import plural
from cuwheel.build.pipeline import pipeline
from cuwheel.build.pipeline.build_advice import best_target, build_advice, can_build
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.target import Target
from cuwheel.check.diagnose.diagnose import callers_environment
from cuwheel.check.pick.stack_report import StackDocument, stack_lines
from cuwheel.cli.commands.pick import SOURCES, index_option, packages_option
from cuwheel.cli.parser import Option, Parser, new_parser
from cuwheel.cli.picking import lock_file, stack_request
from cuwheel.cli.target_choice import build_options, folder_of, request_of, requested_jobs
from cuwheel.publish.stack.get import LOCK_NAME, GetOptions, LoadProof, folder_exists, get_stack
from cuwheel.publish.stack.stack import FoundStack, StackRequest, search_stack

_PYTHONS = tuple(f"3.{minor}" for minor in range(9, 17))


@dataclass(frozen=True, kw_only=True)
class GetDocument:
    """What `get --json` prints.

    Attributes:
        folder: of the environment; empty: nothing was made, by `--dry-run`.
        stack: what was chosen.
        built: targets that were built for it.
        proofs: the import of each package.
    """

    SCHEMA: ClassVar[Schema] = Schema("get", "1.2")

    folder: str
    stack: StackDocument
    built: tuple[str, ...]
    proofs: tuple[LoadProof, ...]


def get_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "get",
        "Make an environment of the newest Python, torch and CUDA for which all packages have a "
        "wheel; build those that are missing.",
        {
            **packages_option(),
            "--python PYTHON": "release or path of the interpreter; default: the newest of this "
            "machine for which all have a wheel",
            "--to DIR": Option("folder of the new environment; default: .venv", default=".venv"),
            **index_option("dist/ in the project, "),
            **SOURCES,
            "--pre": "also consider pre-releases",
            "--lock FILE": f"where to write the lock; default: {LOCK_NAME} in the environment",
            "--yes": "build missing wheels without a question",
            "--dry-run": "print what would be installed and built, and change nothing",
            "--dist DIR": "folder of wheels, to which builds write; default: dist/ in the project",
            "--work DIR": "work folder of builds; default: work/ in the project",
            **build_options("any_driver", "jobs", "sandbox"),
            "--quiet": "print only warnings and errors",
            "--verbose": "list each index with what it has",
            "--json": "print what was done as JSON to standard output",
        },
    )


def run_get(args: argparse.Namespace, console: Console, caller: Caller) -> int:
    """Choose, build, install and import."""
    folder = caller.path(args.to)
    if os.path.lexists(folder):
        raise folder_exists(folder)
    lock = folder / LOCK_NAME
    if not args.dry_run:
        lock = lock_file(args, caller) if args.lock else lock
        with naming_option("--to", folder):
            check_writable(folder)
    interpreters = _interpreters(args.python, caller)
    wanted = stack_request(args, console, caller)
    request = replace(wanted, python=None, pythons=tuple(interpreters))
    entries = load_catalogue(caller.roots)
    run = _Run(args, request, entries, console, caller)
    found = run.search()
    built: tuple[str, ...] = ()
    if found.fit and found.fit.missing and not args.dry_run:
        built = run.build(found)
        found = run.search()
    if not args.quiet and not args.json:
        _print_stack(found.report, console)
    if args.dry_run:
        return run.answer(GetDocument(folder="", stack=found.report, built=(), proofs=()))
    if found.lock is None or found.fit is None:
        raise _no_stack(found.report)
    options = GetOptions(
        folder=folder,
        python=interpreters[found.fit.cell.python].path,
        lock=lock,
        projects=tuple(request.wanted),
        environ=run.environ,
        sandbox=args.sandbox,
    )
    with naming_option("--lock", lock), naming_option("--to", folder):
        proofs = get_stack(found.lock, options, entries, console, caller)
    _print_proofs(proofs, folder, console, caller)
    document = GetDocument(folder=str(folder), stack=found.report, built=built, proofs=proofs)
    return run.answer(document)


@dataclass(frozen=True)
class _Run:
    args: argparse.Namespace
    request: StackRequest
    entries: tuple[CatalogueEntry, ...]
    console: Console
    caller: Caller

    @property
    def environ(self) -> dict[str, str]:
        """The variables of the caller's own programs."""
        return callers_environment(self.caller.environ)

    @property
    def dist(self) -> Path:
        """The folder of built wheels."""
        return folder_of(self.args.dist, self.caller, "dist")

    def search(self) -> FoundStack:
        """Search the stack, among the wheels of builds too."""
        advise = partial(build_advice, self.entries, self.dist)
        uri, request = self.dist.as_uri(), self.request
        if self.dist.is_dir():
            indexes = (*request.indexes, uri) if request.indexes else ()
            request = replace(request, listed=(uri, *request.listed), indexes=indexes)
        with self.console.live("examining machine and indexes"):
            cache, builds = self.caller.cache, partial(can_build, self.entries)
            return search_stack(request, self.environ, cache, advise, builds)

    def build(self, found: FoundStack) -> tuple[str, ...]:
        """Build the missing wheels, after a question; return their targets."""
        fit = found.fit
        missing = {package.project: package for package in fit.missing} if fit else {}
        targets = {
            name: best_target(self.entries, self.request.wanted[name], fit.machine)
            for name in missing
            if fit and name in self.request.wanted
        }
        if unknown := [name for name in missing if targets.get(name) is None]:
            raise _no_stack(found.report, f"no recipe builds {', '.join(unknown)}")
        known = [target for target in targets.values() if target]
        self._ask(found.report)
        archs = fit.machine.archs if fit else ()
        return tuple(self._build_target(target, archs) for target in known)

    def _ask(self, report: StackDocument) -> None:
        packages = report.stack.missing if report.stack else ()
        for package in packages:
            self.console.note(f"{package.project}: {package.why}; {package.advice}")
        if self.args.yes:
            return
        question = f"build {plural(len(packages), 'wheel')}? [y/N] "
        if sys.stdin.isatty() and sys.stderr.isatty():
            print(question, end="", file=sys.stderr, flush=True)  # noqa: T201 - a question
            if sys.stdin.readline().strip().lower() in {"y", "yes"}:
                return
        raise _no_stack(report, "builds weren't confirmed", fix="--yes builds what is missing")

    def _build_target(self, target: Target, archs: tuple[str, ...]) -> str:
        """Build for this machine's GPUs; for all of the recipe where they aren't known."""
        name = target.recipe.name
        entry = next(item for item in self.entries if item.recipe and item.recipe.name == name)
        tag = target.toolkit.tag
        request = request_of(
            self.args,
            self.caller,
            targets=(f"{entry.name}-{tag}",),
            python=(target.python,),
            arch=archs_for(archs, target.archs),
            json=False,
        )
        for job in requested_jobs(entry, tag, request, self.console, self.caller):
            pipeline.make(job)
        return target.name

    def answer(self, document: GetDocument) -> int:
        """Print the document if it is wanted; return the exit code."""
        if self.args.json:
            self.console.answer(document)
        return 0 if document.stack.is_complete else 1


def _interpreters(wanted: str | None, caller: Caller) -> dict[str, Interpreter]:
    """Return the interpreters to choose among, by release.

    Raises:
        InterpreterNotFoundError: there is no such one.
        UsageError: it is free-threaded.
    """
    if wanted:
        interpreter = find_python(wanted, caller.environ)
        if interpreter.release.endswith("t"):
            raise UsageError(
                f"--python {wanted} has no global lock",
                why="uv resolves several packages for a CPython with one",
                fix="name another Python, or leave out --python",
            )
        return {".".join(interpreter.version.split(".")[:2]): interpreter}
    interpreters = {}
    for release in _PYTHONS:
        try:
            interpreters[release] = find_python(release, caller.environ)
        except InterpreterNotFoundError:  # noqa: PERF203 - each may be missing
            continue
    return interpreters


def _no_stack(report: StackDocument, why: str = "", fix: str = "") -> InstallError:
    stack = report.stack
    reasons = [f"{package.project}: {package.why}" for package in stack.missing] if stack else []
    conflict = [stack.conflict] if stack and stack.conflict else []
    where = "" if report.all_answered else " on the indexes that answered"
    names = " ".join(report.requirements)
    return InstallError(
        f"no Python, torch and CUDA has a wheel of each package{where}",
        why="; ".join([*([why] if why else []), *conflict, *reasons]) or f"torch has none{where}",
        fix=fix or f"`nox -s pick -- {names}` says more, and what builds the missing ones",
        anchor="no-fitting-wheel",
    )


def _print_stack(report: StackDocument, console: Console) -> None:
    terminal = report_terminal()
    for line in stack_lines(report, "", is_quiet=False, is_verbose=console.is_verbose):
        terminal.print(line, soft_wrap=True, markup=False, highlight=False)


def _print_proofs(
    proofs: Iterable[LoadProof], folder: Path, console: Console, caller: Caller
) -> None:
    for proof in proofs:
        suppliers = dict.fromkeys(supplier for _, supplier in proof.libraries)
        loaded = f"; its libraries are from {', '.join(suppliers)}" if suppliers else ""
        if proof.left_out:
            console.warn(f"{proof.project} wasn't imported: {proof.left_out}")
        else:
            console.note(f"imported {', '.join(proof.imported)}{loaded}")
    programs = shlex.quote(f"{caller.shown(folder)}/bin")
    console.note(f"to use it: `source {programs}/activate`")
    console.note(f"it has no pip: `{programs}/python -m ensurepip` adds it")
