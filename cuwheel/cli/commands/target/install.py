"""The session `install`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cuwheel import pipeline
from cuwheel.attest.policy import read_policy
from cuwheel.cli.commands.build.build import build_parser
from cuwheel.cli.commands.report.attestations import add_statements_option, places_of
from cuwheel.cli.commands.report.pick import add_index_option, given_address, listed_addresses
from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import named_targets
from cuwheel.cli.target_jobs import requested_jobs
from cuwheel.cli.target_options import refuse_platform
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.diagnose.session import callers_environment
from cuwheel.errors import UsageError
from cuwheel.install.session import FALLBACKS, InstallOptions, install
from cuwheel.model.catalogue import load_catalogue, target_names
from cuwheel.model.target import declared_target
from cuwheel.paths import default_cache, given_path, project_folder, project_roots
from cuwheel.pypi.indexes import configured_indexes
from cuwheel.system.output.documents import Schema

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from cuwheel.install.session import Installed
    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target
    from cuwheel.system.console import Console

_ARTIFACT = ".zip"


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
    """The command line of the session."""
    parser = new_parser(
        "install", "Install the newest wheel of a target that fits an environment, and test it."
    )
    add = parser.add_argument
    add("targets", nargs="*", metavar="TARGET", help="the target, such as bitsandbytes-122")
    add(
        "--python",
        metavar="PATH|ENVIRONMENT",
        help="an interpreter, the folder of an environment, or a conda environment's name; "
        "default: the active environment, else the `python3` on PATH",
    )
    add_index_option(parser, "dist/ in the checkout, ", "; or a workflow's artifact, a zip")
    add(
        "--fallback",
        choices=FALLBACKS,
        default="fail",
        help="if no wheel fits, or it doesn't work: fail; requirement: install the recipe's "
        "release by name, if it has a wheel; build: build one; default: fail",
    )
    add(
        "--require-statement",
        action="store_true",
        help="refuse a wheel that has no provenance file",
    )
    add(
        "--policy",
        metavar="FILE",
        help="refuse a wheel that too few of these rebuilders rebuilt to the same bytes",
    )
    add_statements_option(parser)
    add(
        "--dist",
        metavar="DIR",
        help="folder of wheels, to which --fallback build writes one; default: dist/ in the "
        "checkout",
    )
    add("--work", metavar="DIR", help="work folder of a build; default: work/ in the checkout")
    add("--dry-run", action="store_true", help="print what would be done, and change nothing")
    add_report_options(
        parser,
        quiet="print only warnings and errors",
        verbose="print the install command",
        as_json="print what was done as JSON to standard output",
    )
    refuse_platform(
        parser,
        why="it installs into an environment of this machine, and tries it there",
        fix="run `nox -s install` on such a machine; here, `nox -s pick -- PROJECT --for "
        "platform=aarch64` says which wheel that would take",
    )
    return parser


def run_install(given: argparse.Namespace, console: Console) -> None:
    """Install a wheel."""
    refuse_none("install", "target", given.targets, target_names(load_catalogue(project_roots())))
    if len(given.targets) > 1:
        raise UsageError(
            "install takes exactly one target",
            why=f"{len(given.targets)} were given",
            fix=f"nox -s install -- {given.targets[0]}",
        )
    _check_policy_options(given)
    [(entry, tag)] = named_targets("install", given.targets)
    environ = callers_environment(os.environ)
    addresses, artifacts = _places(given, environ, console)
    target = _target(entry, tag)
    asked = InstallOptions(
        target=target,
        python=given.python,
        addresses=addresses,
        artifacts=artifacts,
        start=given_path("."),
        environ=environ,
        cache=default_cache(),
        fallback=given.fallback,
        needs_statement=given.require_statement,
        policy=read_policy(given_path(given.policy)) if given.policy else None,
        statements=places_of(given),
        is_dry=given.dry_run,
    )
    done = install(asked, console, partial(_build, entry, tag, given, console))
    _tell(done, console, is_dry=given.dry_run)
    if given.json:
        answer = InstallDocument(target=target.name, is_done=not given.dry_run, installed=done)
        console.answer(answer)


def _check_policy_options(given: argparse.Namespace) -> None:
    """See that a policy isn't passed by.

    Raises:
        UsageError: it would be, or statements are named for none.
    """
    if given.policy and given.fallback == "requirement":
        raise UsageError(
            "--policy and --fallback requirement can't be combined",
            why="no policy applies to what pip and uv install by name",
            fix="leave out the fallback, or use --fallback build",
        )
    if given.statements and not given.policy:
        raise UsageError(
            "--statements needs --policy",
            why="it says where to find the statements that a policy counts",
            fix="add --policy, or leave out --statements",
        )


def _target(entry: CatalogueEntry, tag: str) -> Target:
    if entry.recipe is None:  # pragma: no cover - find_target has refused it
        raise UsageError(f"{entry.name} could not be loaded", why=entry.fault)
    return declared_target(entry.recipe, toolkit_by_release(tag).release, "3.12", entry.root)


def _places(
    given: argparse.Namespace, environ: dict[str, str], console: Console
) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Addresses and artifacts to look in."""
    named = [one for one in given.index if not one.endswith(_ARTIFACT)]
    artifacts = tuple(given_path(one) for one in given.index if one.endswith(_ARTIFACT))
    for one in artifacts:
        if not one.is_file():
            raise UsageError(
                f"the file {one} doesn't exist",
                why="--index names it, relative to the folder in which nox was started",
                fix="give the downloaded zip of the artifact, or the folder unpacked from it",
            )
    if given.index:
        return tuple(map(given_address, named)), artifacts
    dist = given_path(given.dist) if given.dist else project_folder() / "dist"
    listed = listed_addresses(os.environ, console)
    own = (dist.as_uri(),) if dist.is_dir() else ()
    return (*own, *listed, *configured_indexes(environ)), ()


def _build(
    entry: CatalogueEntry, tag: str, given: argparse.Namespace, console: Console, python: Path
) -> Path:
    """Build the target for an environment's Python; the wheel."""
    words = [f"{entry.name}-{tag}", "--python", str(python)]
    for name in ("dist", "work"):
        words += [f"--{name}", getattr(given, name)] if getattr(given, name) else []
    [job] = requested_jobs(entry, tag, build_parser().parse(words), console)
    return job.workspace.dist / pipeline.make(job, keep_work=False).wheel


def _tell(done: Installed, console: Console, *, is_dry: bool) -> None:
    would = "would be installed" if is_dry else "installed"
    if done.how == "build" and is_dry:
        console.note(f"{done.what} would be built, then installed")
    elif done.was_there:
        console.note(f"{done.what} is already installed, with the same bytes")
    else:
        console.note(f"{done.what}: {would}" + f" from {done.source}" * bool(done.source))
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
        for one in done.trial.left_out:
            console.warn(f"not tested: {one}")
