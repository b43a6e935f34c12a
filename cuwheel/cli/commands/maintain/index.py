"""The session `index`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from cuwheel.base import limits
from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError, WheelIndexError, naming_option
from cuwheel.base.fetch.urls import credentials_of, redact_url
from cuwheel.base.formats.wheel.publication import SIMPLE, published_texts
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.build.wheelhouse.entries import METADATA
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.wheelhouse.yanks import yank
from cuwheel.build.workspace.masking import refuse_secrets, refuse_secrets_in_wheels
from cuwheel.cli.parser import Option, Options, Parser, existing, new_parser, size_argument
from cuwheel.publish.index.check.report import check_document, print_check
from cuwheel.publish.index.check.walk import CheckRequest, check_indexes
from cuwheel.publish.index.site import SiteRequest, write_site, yank_in_site

YANK: Options = {
    "--yank FILE|NAME==VERSION": "yank wheels: installers only use them where they are pinned",
    "--reason TEXT": Option(
        "with --yank: the reason, shown to users who pinned the wheel", default=""
    ),
    "--unyank FILE|NAME==VERSION": "undo --yank",
}
_WHY_REASON = "installers show the reason to users who pinned the wheel"
YANK_NEEDS = {("--reason", "--yank"): _WHY_REASON, ("--yank", "--reason"): _WHY_REASON}
_CHECKING = ("--only", "--quick", "--snapshot", "--max-download")
_PUBLISHING = ("--base-url", "--address", "--replace-broader", "--variants")
_WRITING = ("--dist", "--to", *_PUBLISHING, "--yank", "--unyank")


@dataclass(frozen=True, kw_only=True)
class ChangedYanks:
    """Wheels that were yanked or unyanked.

    Attributes:
        withdrawn: file names of those that `--yank` yanked.
        good_again: file names of those that `--unyank` unyanked.
    """

    withdrawn: tuple[str, ...] = ()
    good_again: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IndexDocument:
    """What `index --json` prints of an index that was written.

    Attributes:
        index: its folder, `…/simple`.
        site: the folder given with `--to`; null: the index was written next to the wheels.
        wheels: file names of all wheels in it.
        added: how many wheels are new in the site.
        variants: how many variants of wheels were written.
        cuda: tags of the CUDA releases that have an index of their own.
        yanks: which wheels were yanked or unyanked.
    """

    SCHEMA: ClassVar[Schema] = Schema("index", "1.0")

    index: Path
    site: Path | None = None
    wheels: tuple[str, ...] = ()
    added: int = 0
    variants: int = 0
    cuda: tuple[str, ...] = ()
    yanks: ChangedYanks = ChangedYanks()


def index_parser() -> Parser:
    """Return the parser of the session."""
    why_check, why_to = "without it an index is written", "without it links lead to wheels beside"
    return new_parser(
        "index",
        "Write the package index of a folder of wheels, or everything that a server needs.",
        {
            "--dist DIR...": "a folder with wheels, repeatable with --to; default: dist/ in the "
            "checkout",
            "--to DIR": "publish: write wheels, indexes and web pages, ready to be served",
            "--base-url URL": Option(
                "with --to: where the wheels are, if elsewhere: the files of a release, a bucket",
                default="",
            ),
            "--address URL": Option(
                "with --to: where DIR is served, for the commands to copy; default: "
                "determined by the browser",
                default="",
            ),
            "--replace-broader": "with --to: publish a wheel even if DIR has one of its version "
            "that serves more GPUs, Pythons or systems; installers then prefer the new one",
            "--variants": "with --to: also each wheel's variant (PEP 825, a draft), which "
            "installers that support variants choose by driver and GPU",
            **YANK,
            "--check ADDRESS|DIR...": "check an existing index instead, of any project, "
            "repeatable: pages, files, hashes, METADATA, RECORD; docs/reference/index-check.md",
            "--only PROJECT...": "with --check: only this project, repeatable",
            "--quick": "with --check: read parts of wheels only, and verify no hashes",
            "--snapshot FILE": "with --check: compare with the state saved before, then save the "
            "new one",
            "--max-download SIZE": Option(
                "with --check: download at most this much, `500M`, `20G`; default: 64 GiB",
                read=size_argument,
            ),
            "--quiet": "print only warnings and errors",
            "--verbose": "list each wheel of the index, and each violation of a rule",
            "--json": "print what was written or found as JSON to standard output",
        },
        needs={
            **YANK_NEEDS,
            **{(option, "--check"): why_check for option in _CHECKING},
            **{(option, "--to"): why_to for option in _PUBLISHING},
        },
        excludes={
            **{("--check", option): "an existing index is checked as it is" for option in _WRITING},
            ("--base-url", "--variants"): "variants are written next to the published wheels, "
            "which are elsewhere: publish without --base-url, upload files/ to that URL, copy its "
            "wheels into --dist, then write the pages with --base-url",
        },
    )


def yanks_of(args: argparse.Namespace) -> dict[str, str | None]:
    """Return the reason of each wheel to yank, None for those to unyank."""
    if args.yank and args.yank == args.unyank:
        raise UsageError(
            f"--yank and --unyank were both given for {args.yank}",
            why="a wheel is either yanked or not",
            fix="leave out one of them",
        )
    pairs = ((args.yank, args.reason), (args.unyank, None))
    return {name: reason for name, reason in pairs if name}


def check_addresses(args: argparse.Namespace) -> None:
    """Raise a UsageError unless `--base-url` and `--address` are URLs of public folders."""
    for option, address in (("--base-url", args.base_url), ("--address", args.address)):
        if fault := _address_fault(address) if address else "":
            raise UsageError(
                f"{option} {redact_url(address)!r} is not the URL of a folder: {fault}",
                why="it is the first part of links for installers and people",
                fix="write https://HOST/PATH, spaces as %20",
            )


def _address_fault(address: str) -> str:
    """Return the reason why an address can't be a folder's; empty if it can."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        return str(problem)
    if not address.isprintable() or " " in address:
        return "it contains a space or a control character"
    if parts.scheme not in {"http", "https"}:
        return "it doesn't begin with https:// or http://"
    if any(credentials_of(address)):
        return "it contains a user or a password, which everyone could read"
    if "?" in address or "#" in address:
        return "it contains a query or a fragment"
    return "" if host else "it has no host"


def run_index(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Write the package index, or check one."""
    check_addresses(args)
    if args.check:
        _run_check(args, console, caller)
        return
    folders = tuple(map(caller.path, args.dist)) if args.dist else (caller.project / "dist",)
    for folder in folders if args.dist else ():
        existing(folder, "--dist", "give the folder with the wheels", is_folder=True)
    if len(folders) > 1 and not args.to:
        raise UsageError(
            "several folders can't share an index",
            why="without --to the index is written into the folder itself",
            fix="publish them together: -- --dist A --dist B --to DIR",
        )
    if not args.to:
        yanked = _yank(args, lambda reasons: yank(reasons, folders), console)
        _refuse_secrets(folders[0])
        simple = write_index(folders[0])
        _print_written(f"wrote {simple}", IndexDocument(index=simple, yanks=yanked), args, console)
        return
    site = SiteRequest(
        folders=folders,
        site=caller.path(args.to),
        base_url=args.base_url,
        address=args.address,
        cache=caller.cache,
        replaces_broader=args.replace_broader,
        has_variants=args.variants,
    )
    with naming_option("--to", site.site):
        yanked = _yank(args, lambda reasons: yank_in_site(site, reasons), console)
        with console.live("index"):
            done = write_site(site)
    text = (
        f"{site.site}: {plural(done.wheels, 'wheel')}, {done.added} of them new; simple/ and "
        f"{', '.join(f'{tag}/simple/' for tag in done.cuda) or 'no index for one CUDA release'}"
    )
    if done.variants:
        text += f"; {plural(done.variants, 'variant')}"
    written = IndexDocument(
        index=site.site / SIMPLE,
        site=site.site,
        added=done.added,
        variants=done.variants,
        cuda=tuple(done.cuda),
    )
    _print_written(text, replace(written, yanks=yanked), args, console)


def _refuse_secrets(dist: Path) -> None:
    """Refuse secrets in statements, and in wheels that no index or build has read yet."""
    wheels = tuple(dist.glob("*.whl"))
    refuse_secrets(published_texts(wheels))
    refuse_secrets_in_wheels(
        wheel for wheel in wheels if not wheel.with_name(f"{wheel.name}{METADATA}").exists()
    )


def _run_check(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Check indexes; raise a WheelIndexError for errors."""
    request = CheckRequest(
        places=tuple(text if "://" in text else str(caller.path(text)) for text in args.check),
        projects=tuple(args.only),
        is_quick=args.quick,
        snapshot=caller.path(args.snapshot) if args.snapshot else None,
    )
    if args.max_download is not None:
        request = replace(request, max_download=args.max_download)
    result = check_indexes(request, console)
    if args.json:
        console.answer(check_document(result))
    else:
        print_check(result, report_terminal(), console)
    if errors := result.count("error"):
        broken = (rule.code for rule in result.broken_rules() if rule.severity == "error")
        raise WheelIndexError(
            f"{', '.join(result.indexes)}: {plural(errors, 'error')}",
            why=f"{', '.join(broken)}: listed above",
            fix="follow the `to fix` lines there, and check again",
        )


def _yank(
    args: argparse.Namespace,
    act: Callable[[Mapping[str, str | None]], Mapping[str, tuple[str, ...]]],
    console: Console,
) -> ChangedYanks:
    """Yank and unyank wheels; return their names."""
    reasons = yanks_of(args)
    done = act(reasons) if reasons else {}
    for name, reason in reasons.items():
        verb = "fixed" if reason is None else "withdrawn"
        console.note(f"{plural(len(done[name]), 'wheel')} {verb}: {', '.join(done[name])}")
    return ChangedYanks(
        withdrawn=tuple(done.get(args.yank, ())), good_again=tuple(done.get(args.unyank, ()))
    )


def _print_written(
    text: str, written: IndexDocument, args: argparse.Namespace, console: Console
) -> None:
    console.note(text)
    if not (console.is_verbose or args.json):
        return  # reading the pages of many wheels takes as long as writing them
    pages = [
        parse_json(read_text(path, limit=limits.INDEX_PAGE))
        for path in written.index.glob("*/index.json")
    ]
    wheels = sorted(file["filename"] for page in pages for file in page["files"])
    for name in wheels if console.is_verbose else ():
        console.note(f"  {name}")
    if args.json:
        console.answer(replace(written, wheels=tuple(wheels)))
