"""The sessions that build again and compare: `verify` own targets, `rebuild` published wheels."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import rich.console

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import CuwheelError, NotReproducibleError, UsageError, naming_option
from cuwheel.base.formats.signing_keys import SigningKey, make_signing_key, read_signing_key
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import file_lock
from cuwheel.base.system.folders.output_folder import check_output, claim, make_empty
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.regular_files import read_regular
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue, target_names
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.request import OF_RUN, OF_TARGET
from cuwheel.build.workspace.workspace import SCRATCH_FOLDER, bare_workspace
from cuwheel.cli.parser import Parser, new_parser, refuse_none
from cuwheel.cli.target_choice import (
    TARGETS,
    build_options,
    folder_of,
    named_targets,
    read_request,
    request_of,
    requested_jobs,
)
from cuwheel.publish.rebuild.attest.policy import line_of
from cuwheel.publish.rebuild.attest.sigstore import Sigstore
from cuwheel.publish.rebuild.builds import Variation, variations
from cuwheel.publish.rebuild.documents import (
    leftovers_of,
    print_leftovers,
    rebuild_document,
    record_target,
    record_verification,
)
from cuwheel.publish.rebuild.published import (
    check_is_of,
    fetch_published,
    is_address,
    read_published,
)
from cuwheel.publish.rebuild.rebuild import RebuildRequest, rebuild_published, sign_verification
from cuwheel.publish.rebuild.verify import (
    Verified,
    raise_if_other,
    raise_if_unequal,
    verify,
    verify_against,
)

NamedTarget = tuple[CatalogueEntry, str]

_ALL = "all"
# Options that a published wheel's provenance states.
_STATED = ("python", "arch", "framework", "link", "toolchain", "host_compiler", "platform")


def verify_parser() -> Parser:
    """Return the parser of the session."""
    text = TARGETS["targets TARGET*"]
    return new_parser(
        "verify",
        "Build several times under varied conditions, and compare the wheels.",
        {
            f"targets TARGET|{_ALL}*": f"{text}; all: every target that can be built here, and "
            "record the results",
            **build_options(*OF_TARGET, *(name for name in OF_RUN if name != "dist")),
            "--against WHEEL|PROVENANCE": "build once with the inputs of this wheel or "
            ".provenance.json, and compare with it",
            "--record": "write the results to docs/reproducibility.md",
            "--report DIR": "folder for verify/SHA256.json, for `release -- --require verify`; "
            "default: reports/",
            "--quiet": "print only whether the bytes are the same, and if not, what differs",
            "--verbose": "print each full SHA-256, and what each build varied",
            "--json": "print the results to standard output, one JSON object per line",
        },
    )


def run_verify(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Build targets several times and compare; or one once, and compare with what is published."""
    takes_all = args.targets == [_ALL]
    known = target_names(load_catalogue(caller.roots))
    refuse_none("verify", "target", args.targets, (*known, _ALL))
    named = named_targets("verify", known if takes_all else args.targets, caller)
    if args.against:
        _verify_against(named, args, console, caller)
    elif len(named) == 1:
        for job in requested_jobs(*named[0], request_of(args, caller), console, caller):
            raise_if_unequal(_verify(job, args, console, caller), job.target.id)
    else:
        args.record = args.record or takes_all
        _verify_many(named, args, console, caller, takes_all=takes_all)


def _verify_many(
    named: Sequence[NamedTarget],
    args: argparse.Namespace,
    console: Console,
    caller: Caller,
    *,
    takes_all: bool,
) -> None:
    """Verify all targets even if some fail, then raise an error for those."""
    unequal: list[str] = []
    failed: list[CuwheelError] = []
    verified = 0
    for entry, tag in named:
        try:
            for job in requested_jobs(entry, tag, request_of(args, caller), console, caller):
                result = _verify(job, args, console, caller)
                verified += 1
                unequal += [job.target.id] if result.unequal else []
        except CuwheelError as error:  # noqa: PERF203 - each is reported
            console.warn(f"{entry.name}-{tag} is not verified: {error.what}; {_reason(error)}")
            failed.append(error)
    if unequal:
        raise NotReproducibleError(
            f"{len(unequal)} targets gave different bytes",
            why=", ".join(unequal),
            fix="the report of each is above",
        )
    # With `all`, some may not be buildable on this machine; named targets have to be.
    if failed and not (takes_all and verified):
        raise failed[0]


def _reason(error: CuwheelError) -> str:
    """Return the build's own error, if it is known, and its log."""
    tail = [line.strip() for line in getattr(error, "tail", ())]
    errors = [line for line in tail if line.startswith(("error:", "because"))]
    log = getattr(error, "log", None)
    return "; ".join([*errors, *([f"the whole output is in {log}"] if log else [])]) or error.why


def _verify(job: Job, args: argparse.Namespace, console: Console, caller: Caller) -> Verified:
    workspace, name = job.workspace, job.target.id
    folder = workspace.work.parent / "verify" / name
    with _alone_in(folder, console):
        ways = variations(folder, workspace.caller, args.sandbox)
        verified = verify(_build_argv(job), ways, folder, console, _out(args, console))
        if args.json:
            console.answer(replace(verified, target=name, left=leftovers_of(folder)))
    written = record_verification(verified, name, folder_of(args.report, caller, "reports"))
    console.note(f"recorded: {written}")
    if args.record:
        sandboxes = [way.sandbox for way in ways[:2]]
        record_target(job.target, verified, sandboxes, caller.project)
    return verified


def _out(args: argparse.Namespace, console: Console) -> rich.console.Console:
    """Return the console of the report, which mustn't mix with data."""
    return console.terminal if args.json else report_terminal()


def _verify_against(
    named: Sequence[NamedTarget], args: argparse.Namespace, console: Console, caller: Caller
) -> None:
    if len(named) > 1:
        raise UsageError(
            "--against compares exactly one target",
            why=f"{len(named)} were given",
            fix=f"nox -s verify -- {args.targets[0]} --against {args.against}",
        )
    [(entry, tag)] = named
    theirs = read_published(caller.path(args.against))
    check_is_of(theirs, entry.name, tag)
    given, stated = request_of(args, caller), read_request(theirs.request.argv(), caller)
    values = {name: getattr(given, name) or getattr(stated, name) for name in _STATED}
    request = replace(given, **{**values, "python": values["python"][:1]})
    [job] = requested_jobs(entry, tag, request, console, caller)
    folder = job.workspace.work.parent / "verify" / job.target.id / "against"
    build_tag = ("--build-tag", str(theirs.build_tag)) if theirs.build_tag else ()
    how = Variation(
        name="again",
        description="same conditions, everything compiled",
        work=folder / "work",
        dist=folder / "dist",
        sandbox=args.sandbox,
        caller=caller,
        options=("--no-cache", *build_tag),  # the cache may hold objects of the published wheel
    )
    with _alone_in(folder.parent, console):
        make_empty(folder, SCRATCH_FOLDER)  # an earlier one would count as this wheel's build
        result = verify_against(_build_argv(job), theirs, how, console, _out(args, console))
        written = record_verification(
            result, job.target.id, folder_of(args.report, caller, "reports")
        )
        console.note(f"recorded: {written}")
        if args.json:
            console.answer(rebuild_document(result, job.target.id, folder.parent))
    raise_if_other(result)


@contextlib.contextmanager
def _alone_in(folder: Path, console: Console) -> Iterator[None]:
    """Hold the lock of a verification's folder, and print then what is left in it."""
    message = "another verification of this target is running; waiting for it"
    lock = folder.with_name(f"{folder.name}.lock")
    with file_lock(lock, on_wait=lambda: console.note(message)):
        try:
            yield
        finally:
            print_leftovers(folder, console)


def _build_argv(job: Job) -> tuple[str, ...]:
    """Return a build's command line for the same target."""
    request = replace(job.settings, targets=(job.target.name,), python=(str(job.python.path),))
    return request.argv("targets", *OF_TARGET, "offline", "any_driver", "jobs")


def rebuild_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "rebuild",
        "Rebuild a published wheel from the inputs in its provenance, compare, and sign the "
        "result.",
        {
            "published WHEEL|STATEMENT|ADDRESS?": "a wheel, its .provenance.json, or the URL of "
            "either",
            "--key FILE": "private key (PEM, ed25519 or ECDSA) to sign the result with",
            "--sigstore": "sign with the identity of this CI job, through Sigstore; the entry is "
            "public",
            "--trust-config FILE": "trust_config.json of a Sigstore other than the public one",
            "--new-key FILE": "create a private key for --key, print its line for policies, then "
            "stop",
            "--to DIR": "folder for the signed statement; default: the wheel's folder; of an "
            "address, the working directory",
            "--source DIR|ARCHIVE": "the source, if the provenance says that the wheel was built "
            "with --source",
            "--here": "build with this checkout, whatever the differences",
            "--remote NAME...": "a remote of this clone whose branches may contain the wheel's "
            "commit, repeatable; default: only your own branches and tags count",
            **build_options("jobs", "sandbox", "target_root", "work", "offline", "any_driver"),
            "--quiet": "print only whether the bytes are the same, and if not, what differs",
            "--verbose": "print each full SHA-256",
            "--json": "print the result to standard output as one JSON object",
        },
        needs={("--trust-config", "--sigstore"): "it selects the Sigstore to sign with"},
        excludes={
            ("--sigstore", "--key"): "a statement is signed either with a key or with an identity",
            ("--sigstore", "--offline"): "an identity signs on a server",
        },
    )


def run_rebuild(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Build a published wheel again; or make the key that signs such rebuilds."""
    if args.new_key:
        with naming_option("--new-key", path := caller.path(args.new_key)):
            key = make_signing_key(path)
        print(line_of(path.stem, key.public))  # noqa: T201 - to be put into a file
        return
    if not args.published:
        raise UsageError(
            "nox -s rebuild -- needs a published wheel",
            why="give its file, its .provenance.json, or the URL of either",
            fix="nox -s rebuild -- dist/NAME.whl",
        )
    # Before an hour's build.
    signer = _signer(args, console, caller)
    if args.to:
        _check_folder(caller.path(args.to), is_signed=signer is not None)
    work = (caller.path(args.work).resolve() if args.work else caller.project / "work") / "rebuild"
    check_output(work, SCRATCH_FOLDER)
    with file_lock(work / ".lock", on_wait=lambda: console.note("another rebuild is running")):
        _rebuild(args, signer, work, console, caller)


def _rebuild(
    args: argparse.Namespace,
    signer: SigningKey | Sigstore | None,
    work: Path,
    console: Console,
    caller: Caller,
) -> None:
    claim(work, SCRATCH_FOLDER)
    if is_address(args.published):
        named = fetch_published(args.published, work / "published", console)
        to = caller.path(args.to or ".")
    else:
        named = caller.path(args.published)
        to = caller.path(args.to) if args.to else named.parent
    request = request_of(args, caller)
    rebuild = RebuildRequest(
        theirs=read_published(named, ""),
        caller=caller,
        folder=work,
        options=request.argv("jobs", "offline", "any_driver"),
        source=request.source,
        target_root=request.target_root,
        is_here=args.here,
        sandbox=request.sandbox,
        remotes=tuple(args.remote),
    )
    out = console.terminal if args.json else report_terminal()
    try:
        result = rebuild_published(rebuild, console, out)
    finally:
        print_leftovers(work, console)
    record_verification(result, "", caller.project / "reports")
    written = sign_verification(result, signer, to) if signer else None
    if written:
        console.note(f"signed: {written}")
    else:
        console.note(
            "nothing is signed: use --key FILE, --sigstore, or make a key with --new-key FILE"
        )
    if args.json:
        console.answer(rebuild_document(result, rebuild.theirs.wheel_name, work, written))
    raise_if_other(result)


def _check_folder(folder: Path, *, is_signed: bool) -> None:
    """Raise an error if no statement can be written to the folder of `--to`."""
    if not is_signed:
        raise UsageError(
            "--to has no effect without a key",
            why="it is the folder of the signed statement, and nothing is signed without a key",
            fix="add --key or --sigstore, or leave out --to; --new-key FILE makes a key",
        )
    with naming_option("--to", folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def _signer(
    args: argparse.Namespace, console: Console, caller: Caller
) -> SigningKey | Sigstore | None:
    """Return the signer of the statement; None: it isn't signed."""
    if args.key:
        with naming_option("--key", path := caller.path(args.key)):
            return read_signing_key(path)
    if not args.sigstore:
        return None
    config = caller.path(args.trust_config) if args.trust_config else None
    if config:
        with naming_option("--trust-config", config):
            read_regular(config, limit=limits.JSON)
    signer = Sigstore(trust_config=config, workspace=bare_workspace(console, caller))
    signer.check()
    return signer
