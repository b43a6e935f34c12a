"""The session `install`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.build.pipeline import pipeline
from cuwheel.build.pipeline.summary import Summary
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.target import declared_target
from cuwheel.build.workspace.request import BuildRequest, choices
from cuwheel.check.cuda.toolkits import toolkit_by_release
from cuwheel.check.diagnose.diagnose import callers_environment
from cuwheel.cli.commands.attestations import STATEMENTS, places_of
from cuwheel.cli.commands.pick import SOURCES, index_option
from cuwheel.cli.parser import ENVIRONMENT, Option, Parser, new_parser
from cuwheel.cli.picking import chosen_sources, given_address, listed_addresses
from cuwheel.cli.target_choice import (
    build_options,
    folder_of,
    named_targets,
    request_of,
    requested_jobs,
)
from cuwheel.publish.install.install import FALLBACKS, Installed, InstallOptions, install
from cuwheel.publish.rebuild.attest.policy import read_policy


@dataclass(frozen=True, kw_only=True)
class InstallDocument:
    """What `install --json` prints.

    Attributes:
        target: recipe and toolkit.
        is_done: true: it was installed; false: it would be, with `--dry-run`.
        installed: what, and how.
    """

    SCHEMA: ClassVar[Schema] = Schema("install", "1.0")

    target: str
    is_done: bool
    installed: Installed


def install_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "install",
        "Install the newest wheel of a target that fits an environment, and test it.",
        {
            "targets TARGET*": "the target, such as bitsandbytes-122",
            **ENVIRONMENT,
            **index_option("dist/ in the project, "),
            **SOURCES,
            f"--fallback {choices(FALLBACKS)}": Option(
                "if no wheel fits, or it doesn't work: fail; requirement: install the "
                "recipe's release by name, if it has a wheel; build: build one; default: fail",
                default="fail",
            ),
            "--require-statement": "refuse a wheel that has no provenance file",
            "--policy FILE": "refuse a wheel that too few of these rebuilders rebuilt to the same "
            "bytes",
            **STATEMENTS,
            "--dist DIR": "folder of wheels, to which --fallback build writes one; default: dist/ "
            "in the project",
            "--work DIR": "work folder of a build; default: work/ in the project",
            "--dry-run": "print what would be done, and change nothing",
            **build_options("any_driver", "jobs", "sandbox"),
            "--quiet": "print only warnings and errors",
            "--verbose": "print the install command",
            "--json": "print what was done as JSON to standard output",
        },
        needs={
            ("--statements", "--policy"): "it says where to find the statements that a policy "
            "counts"
        },
    )


def run_install(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Install a wheel."""
    named = named_targets("install", args.targets, caller)
    if len(named) > 1:
        raise UsageError(
            "install takes exactly one target",
            why=f"{len(named)} were given",
            fix=f"nox -s install -- {args.targets[0]}",
        )
    [(entry, tag)] = named
    if args.policy and args.fallback == "requirement":
        raise UsageError(
            "--policy and --fallback requirement can't be combined",
            why="nobody has rebuilt what is installed by its name",
            fix="leave out the fallback, or use --fallback build",
        )
    environ = callers_environment(caller.environ)
    if entry.recipe is None:  # pragma: no cover - find_target has refused it
        raise UsageError(f"{entry.name} could not be loaded", why=entry.fault)
    target = declared_target(entry.recipe, toolkit_by_release(tag).release, "3.12", entry.root)
    options = InstallOptions(
        target=target,
        python=args.python,
        addresses=_addresses(args, environ, console, caller),
        sources=chosen_sources(args, caller),
        start=caller.path("."),
        environ=environ,
        caller=caller,
        fallback=args.fallback,
        needs_statement=args.require_statement,
        policy=read_policy(caller.path(args.policy)) if args.policy else None,
        statements=places_of(args, caller),
        is_dry=args.dry_run,
        sandbox=args.sandbox,
    )
    request = request_of(args, caller, targets=(f"{entry.name}-{tag}",), python=(), json=False)
    done = install(options, console, partial(_build, named[0], request, console, caller))
    _print_done(done, console, is_dry=args.dry_run)
    if args.json:
        answer = InstallDocument(target=target.name, is_done=not args.dry_run, installed=done)
        console.answer(answer)


def _addresses(
    args: argparse.Namespace, environ: dict[str, str], console: Console, caller: Caller
) -> tuple[str, ...]:
    if args.index:
        return tuple(given_address(caller, text) for text in args.index)
    dist = folder_of(args.dist, caller, "dist")
    listed = listed_addresses(caller, console)
    built = (dist.as_uri(),) if dist.is_dir() else ()
    return (*built, *listed, *configured_indexes(environ))


def _build(
    named: tuple[CatalogueEntry, str],
    request: BuildRequest,
    console: Console,
    caller: Caller,
    python: Path,
) -> Path:
    """Build the target for an environment's Python; return the wheel."""
    request = replace(request, python=(str(python),))
    [job] = requested_jobs(*named, request, console, caller)
    summary = cast("Summary", pipeline.make(job))  # of all stages
    return job.workspace.dist / summary.wheel


def _print_done(done: Installed, console: Console, *, is_dry: bool) -> None:
    if done.how == "build" and is_dry:
        console.note(f"{done.what} would be built, then installed")
    elif done.was_there:
        console.note(f"{done.what} is already installed, with the same bytes")
    else:
        source = f" from {done.source}" * bool(done.source)
        console.note(f"{done.what}: {'would be ' * is_dry}installed{source}")
    if done.because:
        console.note(f"by --fallback {done.how}, because {done.because}")
    if done.statement:
        console.note(f"its provenance matches; built by {done.statement.builder}")
    elif done.sha256:
        console.note("it has no provenance: how it was built is unknown")
    if done.rebuilt_by:
        console.note(f"rebuilt to the same bytes by {', '.join(done.rebuilt_by)}")
    if console.is_verbose and done.command:
        console.note(f"command: {done.command}")
    if done.trial:
        console.note(f"tested: imported {', '.join(done.trial.imported) or 'nothing'}")
        for name in done.trial.left_out:
            console.warn(f"not tested: {name}")
