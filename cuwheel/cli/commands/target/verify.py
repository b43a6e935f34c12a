"""The session `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import named_targets
from cuwheel.cli.target_jobs import requested_jobs
from cuwheel.cli.target_options import add_target_options, add_targets
from cuwheel.errors import CuwheelError, NotReproducibleError, UsageError
from cuwheel.model.catalogue import load_catalogue, target_names
from cuwheel.paths import given_path, project_folder, project_roots
from cuwheel.system.files import file_lock, remove_tree
from cuwheel.system.output.terminal import report_terminal
from cuwheel.verify.document import rebuild_document, verify_document
from cuwheel.verify.leftovers import tell_leftovers
from cuwheel.verify.published import check_is_of, read_published
from cuwheel.verify.rebuilds import Variation
from cuwheel.verify.record import VerifiedTarget, record
from cuwheel.verify.session import (
    raise_if_other,
    raise_if_unequal,
    verify,
    verify_against,
)
from cuwheel.verify.wheel_record import record_against, record_verified

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import rich.console

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job

    NamedTarget = tuple[CatalogueEntry, str]

_ALL = "all"


def verify_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "verify", "Build several times under varied conditions, and compare the wheels."
    )
    add_targets(
        parser,
        f"TARGET|{_ALL}",
        "; all: every target that can be built here, and record the results",
    )
    add_target_options(parser)
    parser.add_argument(
        "--against",
        metavar="WHEEL|PROVENANCE",
        help="build once with the inputs of this wheel or .provenance.json, and compare with it",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write the results to docs/reproducibility.md",
    )
    parser.add_argument(
        "--report",
        metavar="DIR",
        help="folder for verify/SHA256.json, for `release -- --require verify`; default: reports/",
    )
    add_report_options(
        parser,
        quiet="print only whether the bytes are the same, and if not, what differs",
        verbose="print each full SHA-256, and what each build varied",
        as_json="print the results to standard output, one JSON object per line",
    )
    return parser


def run_verify(given: argparse.Namespace, console: Console) -> None:
    """Build targets several times and compare; or one once, and compare with what is published."""
    takes_all = given.targets == [_ALL]
    known = target_names(load_catalogue(project_roots()))
    refuse_none("verify", "target", given.targets, (*known, _ALL))
    named = named_targets("verify", known if takes_all else given.targets)
    if given.against:
        _verify_against(named, given, console)
    elif len(named) == 1:
        for job in requested_jobs(*named[0], given, console):
            found = _verify(job, given, console)
            raise_if_unequal(found.verified, job.target.id)
    else:
        given.record = given.record or takes_all
        _verify_many(named, given, console, takes_all=takes_all)


def _verify_many(
    named: Sequence[NamedTarget], given: argparse.Namespace, console: Console, *, takes_all: bool
) -> None:
    """Verify them all, whatever becomes of one, then say what is wrong."""
    unequal: list[str] = []
    failed: list[CuwheelError] = []
    verified = 0
    for entry, tag in named:
        name = f"{entry.name}-{tag}"
        try:
            for job in requested_jobs(entry, tag, given, console):
                found = _verify(job, given, console)
                verified += 1
                unequal += [job.target.id] if found.verified.unequal else []
        except CuwheelError as error:
            console.warn(f"{name} is not verified: {error.what}; {_reason(error)}")
            failed.append(error)
    if unequal:
        raise NotReproducibleError(
            f"{len(unequal)} targets gave different bytes",
            why=", ".join(unequal),
            fix="the report of each is above",
        )
    # With `all`, some can't be built on this machine; what was named, or everything, has to be.
    if failed and not (takes_all and verified):
        raise failed[0]


def _reason(error: CuwheelError) -> str:
    """The build's own error where one is known, and the log that has all of it."""
    tail = [line.strip() for line in getattr(error, "tail", ())]
    said = [line for line in tail if line.startswith(("error:", "because"))]
    log = getattr(error, "log", None)
    return "; ".join([*said, *([f"the whole output is in {log}"] if log else [])]) or error.why


def _verify(job: Job, given: argparse.Namespace, console: Console) -> VerifiedTarget:
    workspace = job.workspace
    folder = workspace.work.parent / "verify" / job.target.id
    with _alone_in(folder, console):
        try:
            verified = verify(
                _words(given, job), folder, workspace.cache, console, _out(given, console)
            )
            if given.json:
                console.answer(verify_document(verified, job.target.id, folder))
        finally:
            tell_leftovers(folder, console)
    written = record_verified(verified, job.target.id, _reports(given))
    console.note(f"recorded: {written}")
    found = VerifiedTarget.of(job.target, verified)
    if given.record:
        record(found, project_folder())
    return found


def _reports(given: argparse.Namespace) -> Path:
    return given_path(given.report) if given.report else project_folder() / "reports"


def _out(given: argparse.Namespace, console: Console) -> rich.console.Console:
    """Where the report goes: not between data."""
    return console.terminal if given.json else report_terminal()


def _verify_against(
    named: Sequence[NamedTarget], given: argparse.Namespace, console: Console
) -> None:
    if len(named) > 1:
        raise UsageError(
            "--against compares exactly one target",
            why=f"{len(named)} were given",
            fix=f"nox -s verify -- {given.targets[0]} --against {given.against}",
        )
    [(entry, tag)] = named
    theirs = read_published(given_path(given.against))
    check_is_of(theirs, entry.name, tag)
    asked = verify_parser().parse(theirs.options)
    for option in ("python", "arch", "framework", "link", "toolchain", "platform"):
        if not getattr(given, option):
            setattr(given, option, getattr(asked, option))
    given.python = given.python[:1]
    [job] = requested_jobs(entry, tag, given, console)
    folder = job.workspace.work.parent / "verify" / job.target.id / "against"
    tag_words = ("--build-tag", str(theirs.build_tag)) if theirs.build_tag else ()
    how = Variation(
        name="again",
        says="same conditions, everything compiled",
        work=folder / "work",
        dist=folder / "dist",
        # The cache may hold the very objects of what was published.
        options=("--no-cache", *tag_words),
    )
    with _alone_in(folder.parent, console):
        remove_tree(folder)  # an earlier one would count as this wheel's build
        try:
            found = verify_against(_words(given, job), theirs, how, console, _out(given, console))
            written = record_against(found, job.target.id, _reports(given))
            console.note(f"recorded: {written}")
            if given.json:
                console.answer(rebuild_document(found, job.target.id, folder.parent))
        finally:
            tell_leftovers(folder.parent, console)
    raise_if_other(found)


def _alone_in(folder: Path, console: Console) -> AbstractContextManager[None]:
    def tell() -> None:
        console.note("another verification of this target is running; waiting for it")

    folder.parent.mkdir(parents=True, exist_ok=True)
    return file_lock(folder.with_name(f"{folder.name}.lock"), on_wait=tell)


def _words(given: argparse.Namespace, job: Job) -> list[str]:
    """What a build's command line has to say to mean the same target."""
    words = [job.target.name, "--python", str(job.python.path)]
    words += [word for arch in given.arch for word in ("--arch", arch)]
    for name in ("framework", "link", "toolchain", "platform"):
        words += [f"--{name}", getattr(given, name)] if getattr(given, name) else []
    words += ["--source", str(given_path(given.source))] if given.source else []
    words += ["--target-root", str(root)] if (root := job.settings.target_root) else []
    return words + ["--offline"] * given.offline + ["--any-driver"] * given.any_driver
