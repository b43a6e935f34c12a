"""The session `rebuild`."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.attest.keys import make_signing_key, read_signing_key
from cuwheel.attest.policy import line_of
from cuwheel.attest.sigstore import Sigstore
from cuwheel.cli.parser import Parser, new_parser
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.target_choice import target_root_of
from cuwheel.cli.target_options import add_target_root, add_work_options
from cuwheel.errors import UsageError, naming_option
from cuwheel.paths import given_path, project_folder
from cuwheel.sandbox.backends import KINDS
from cuwheel.system.files import file_lock
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.regular_files import read_regular
from cuwheel.verify.address import fetch_published, is_address
from cuwheel.verify.document import rebuild_document
from cuwheel.verify.leftovers import tell_leftovers
from cuwheel.verify.published import read_published
from cuwheel.verify.rebuilding import RebuildRequest, rebuild_published, sign_verification
from cuwheel.verify.session import raise_if_other
from cuwheel.verify.wheel_record import record_against

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from cuwheel.attest.keys import SigningKey
    from cuwheel.system.console import Console


def rebuild_parser() -> Parser:
    """The command line of the session."""
    parser = new_parser(
        "rebuild",
        "Rebuild a published wheel from the inputs in its provenance, compare, and sign the "
        "result.",
    )
    add = parser.add_argument
    add(
        "published",
        nargs="?",
        metavar="WHEEL|STATEMENT|ADDRESS",
        help="a wheel, its .provenance.json, or the URL of either",
    )
    add("--key", metavar="FILE", help="private key (PEM, ed25519 or ECDSA) to sign the result with")
    add(
        "--sigstore",
        action="store_true",
        help="sign with the identity of this CI job, through Sigstore; the entry is public",
    )
    add(
        "--trust-config",
        metavar="FILE",
        help="trust_config.json of a Sigstore other than the public one",
    )
    add(
        "--new-key",
        metavar="FILE",
        help="create a private key for --key, print its line for policies, then stop",
    )
    add(
        "--to",
        metavar="DIR",
        help="folder for the signed statement; default: the wheel's folder, or where nox was "
        "started",
    )
    add(
        "--source",
        metavar="DIR|ARCHIVE",
        help="the source, if the provenance says that the wheel was built with --source",
    )
    add(
        "--here",
        action="store_true",
        help="build with this checkout, whatever the differences",
    )
    add("--jobs", default="auto", metavar="N|auto", help="compiles at once")
    add("--sandbox", choices=("auto", *KINDS), default="auto", help="as for a build")
    add_target_root(parser)
    add_work_options(parser)
    add_report_options(
        parser,
        quiet="print only whether the bytes are the same, and if not, what differs",
        verbose="print each full SHA-256",
        as_json="print the result to standard output as one JSON object",
    )
    return parser


def run_rebuild(given: argparse.Namespace, console: Console) -> None:
    """Build somebody's wheel again; or make the key that signs what such builds give."""
    if given.new_key:
        _make_key(given_path(given.new_key))
        return
    if not given.published:
        raise UsageError(
            "nox -s rebuild -- needs a published wheel",
            why="give its file, its .provenance.json, or the URL of either",
            fix="nox -s rebuild -- dist/NAME.whl",
        )
    # All that can be wrong with what was given is said before an hour's build.
    signer = _signer(given, console)
    if given.to:
        _check_folder(given_path(given.to), is_signed=signer is not None)
    work = (
        given_path(given.work).resolve() if given.work else project_folder() / "work"
    ) / "rebuild"
    work.mkdir(parents=True, exist_ok=True)
    with file_lock(work / ".lock", on_wait=lambda: console.note("another rebuild is running")):
        _rebuild(given, signer, work, console)


def _rebuild(
    given: argparse.Namespace, signer: SigningKey | Sigstore | None, work: Path, console: Console
) -> None:
    if is_address(given.published):
        named = fetch_published(given.published, work / "published", console)
        to = given_path(given.to or ".")
    else:
        named = given_path(given.published)
        to = given_path(given.to) if given.to else named.parent
    asked = RebuildRequest(
        theirs=read_published(named, ""),
        folder=work,
        options=_options(given),
        source=given_path(given.source) if given.source else None,
        target_root=target_root_of(given),
        is_here=given.here,
    )
    out = console.terminal if given.json else report_terminal()
    try:
        found = rebuild_published(asked, console, out)
    finally:
        tell_leftovers(work, console)
    record_against(found, "", project_folder() / "reports")
    written = sign_verification(found, signer, to) if signer else None
    if written:
        console.note(f"signed: {written}")
    else:
        console.note(
            "nothing is signed: use --key FILE, --sigstore, or make a key with --new-key FILE"
        )
    if given.json:
        console.answer(rebuild_document(found, asked.theirs.wheel_name, work, written))
    raise_if_other(found)


def _check_folder(folder: Path, *, is_signed: bool) -> None:
    """See that a statement can be written where `--to` says.

    Raises:
        UsageError: there will be none.
        FileAccessError: it can't.
        DiskFullError: no space is left there.
    """
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


def _make_key(path: Path) -> None:
    """Write a new key, and say how a policy names it."""
    with naming_option("--new-key", path):
        made = make_signing_key(path)
    print(line_of(path.stem, made.public))  # noqa: T201 - to be put into a file


def _read_key(path: Path) -> SigningKey:
    with naming_option("--key", path):
        return read_signing_key(path)


def _signer(given: argparse.Namespace, console: Console) -> SigningKey | Sigstore | None:
    """Who signs; None: nobody.

    Raises:
        UsageError: the options don't go together, or the key is none.
        SigstoreError: this job has no identity, or the service isn't known.
    """
    if given.sigstore and (given.key or given.offline):
        other = "--key" if given.key else "--offline"
        raise UsageError(
            f"--sigstore and {other} can't be combined",
            why="a statement is signed either with a key or with an identity"
            if given.key
            else "an identity signs on a server",
            fix=f"leave out {other} or --sigstore",
        )
    if given.trust_config and not given.sigstore:
        raise UsageError(
            "--trust-config needs --sigstore",
            why="it selects the Sigstore to sign with",
            fix="add --sigstore, or leave out --trust-config",
        )
    if given.key:
        return _read_key(given_path(given.key))
    if not given.sigstore:
        return None
    config = given_path(given.trust_config) if given.trust_config else None
    if config:
        with naming_option("--trust-config", config):
            read_regular(config, limit=limits.JSON)
    signer = Sigstore(trust_config=config, console=console)
    signer.check()
    return signer


def _options(given: argparse.Namespace) -> tuple[str, ...]:
    flags = ("--offline",) * given.offline + ("--any-driver",) * given.any_driver
    return ("--jobs", given.jobs, "--sandbox", given.sandbox, *flags)
