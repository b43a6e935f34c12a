"""The session `index`."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from cuwheel import limits
from cuwheel.cli.parser import Parser, new_parser, size_argument
from cuwheel.cli.report_options import add_report_options
from cuwheel.cli.yank_options import add_yank_options, yanks_of
from cuwheel.errors import IndexCheckError, UsageError, naming_option
from cuwheel.fetch.urls import redact_url
from cuwheel.index.check.report import check_document, print_check
from cuwheel.index.check.result import CheckRequest
from cuwheel.index.check.rules import RULES
from cuwheel.index.check.session import check_indexes
from cuwheel.index.folder_index import write_index
from cuwheel.index.site import SiteRequest, write_site, yank_in_site
from cuwheel.index.yanks import yank
from cuwheel.paths import default_cache, given_path, project_folder
from cuwheel.system.output.documents import Schema
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.quantities import plural
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.publication import SIMPLE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cuwheel.index.check.result import CheckResult
    from cuwheel.index.check.rules import Rule
    from cuwheel.system.console import Console


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
    """The command line of the session."""
    parser = new_parser(
        "index", "Write the package index of a folder of wheels, or everything that a server needs."
    )
    add = parser.add_argument
    add(
        "--dist",
        action="append",
        metavar="DIR",
        help="a folder with wheels, repeatable with --to; default: dist/ in the checkout",
    )
    add(
        "--to",
        metavar="DIR",
        help="publish: write wheels, indexes and web pages, ready to be served",
    )
    add(
        "--base-url",
        default="",
        metavar="URL",
        help="with --to: where the wheels are, if elsewhere: the files of a release, a bucket",
    )
    add(
        "--address",
        default="",
        metavar="URL",
        help="with --to: where DIR is served, for the commands to copy; default: determined by "
        "the browser",
    )
    add(
        "--variants",
        action="store_true",
        help="with --to: also each wheel's variant (PEP 825, a draft), which installers that "
        "support variants choose by driver and GPU",
    )
    add_yank_options(parser)
    _add_check_options(parser)
    add_report_options(
        parser,
        quiet="print only warnings and errors",
        verbose="list each wheel of the index, and each violation of a rule",
        as_json="print what was written or found as JSON to standard output",
    )
    return parser


def _add_check_options(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--check",
        action="append",
        default=[],
        metavar="ADDRESS|DIR",
        help="check an existing index instead, of any project, repeatable: pages, files, hashes, "
        "METADATA, RECORD; docs/reference/index-check.md",
    )
    add(
        "--only",
        action="append",
        default=[],
        metavar="PROJECT",
        help="with --check: only this project, repeatable",
    )
    add(
        "--quick",
        action="store_true",
        help="with --check: read parts of wheels only, and verify no hashes",
    )
    add(
        "--snapshot",
        metavar="FILE",
        help="with --check: compare with the state saved before, then save the new one",
    )
    add(
        "--max-download",
        type=size_argument,
        metavar="SIZE",
        help="with --check: download at most this much, `500M`, `20G`; default: 64 GiB",
    )


def run_index(given: argparse.Namespace, console: Console) -> None:
    """Write the package index, or check one."""
    _check_belongs(given)
    if given.check:
        _run_check(given, console)
        return
    folders = tuple(map(given_path, given.dist)) if given.dist else (project_folder() / "dist",)
    _check(given, folders)
    if not given.to:
        yanked = _yank(given, lambda asked: yank(asked, folders), console)
        simple = write_index(folders[0])
        _tell(f"wrote {simple}", IndexDocument(index=simple, yanks=yanked), given, console)
        return
    site = SiteRequest(
        folders=folders,
        site=given_path(given.to),
        base_url=given.base_url,
        address=given.address,
        cache=default_cache(),
        has_variants=given.variants,
    )
    with naming_option("--to", site.site):
        yanked = _yank(given, lambda asked: yank_in_site(site, asked), console)
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
    _tell(text, replace(written, yanks=yanked), given, console)


def _run_check(given: argparse.Namespace, console: Console) -> None:
    """Check indexes.

    Raises:
        IndexCheckError: one has errors.
        UsageError: it is no index.
        DownloadError: one doesn't answer.
    """
    asked = CheckRequest(
        places=tuple(one if "://" in one else str(given_path(one)) for one in given.check),
        projects=tuple(given.only),
        is_quick=given.quick,
        snapshot=given_path(given.snapshot) if given.snapshot else None,
    )
    if given.max_download is not None:
        asked = replace(asked, max_download=given.max_download)
    result = check_indexes(asked, console)
    if given.json:
        console.answer(check_document(result))
    else:
        print_check(result, report_terminal(), console)
    if errors := result.count("error"):
        raise IndexCheckError(
            f"{', '.join(result.indexes)}: {plural(errors, 'error')}",
            why=f"{', '.join(one.code for one in RULES if _is_error(one, result))}: listed above",
            fix="follow the `to fix` lines there, and check again",
        )


def _check_belongs(given: argparse.Namespace) -> None:
    """See that nothing is said that would be passed over.

    Raises:
        UsageError: it would be.
    """
    writing = ("dist", "to", "base_url", "address", "variants", "yank", "reason", "unyank")
    checking = ("only", "quick", "snapshot", "max_download")
    if given.check and (other := _first_given(given, writing)):
        raise UsageError(
            f"--check writes nothing, and {other} is for writing",
            why="an existing index is checked as it is served",
            fix="write it first, then check it: nox -s index -- --check DIR",
        )
    if not given.check and (other := _first_given(given, checking)):
        raise UsageError(
            f"{other} is for --check, and nothing is to be checked",
            why="without --check an index is written",
            fix="choose what to check: nox -s index -- --check DIR",
        )
    for option, address in (("--base-url", given.base_url), ("--address", given.address)):
        if fault := _address_fault(address) if address else "":
            raise UsageError(
                f"{option} {redact_url(address)!r} is not the URL of a folder: {fault}",
                why="it is the first part of links for installers and people",
                fix="write https://HOST/PATH, spaces as %20",
            )


def _first_given(given: argparse.Namespace, names: Iterable[str]) -> str:
    """The first of some options that isn't at its default; empty where all are."""
    parser = index_parser()
    said = (name for name in names if getattr(given, name) != parser.get_default(name))
    return next((f"--{name.replace('_', '-')}" for name in said), "")


def _address_fault(address: str) -> str:
    """Why files can't stand at an address; empty where they can."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        return str(problem)
    if not address.isprintable() or " " in address:
        return "it contains a space or a control character"
    if parts.scheme not in {"http", "https"}:
        return "it doesn't begin with https:// or http://"
    if "?" in address or "#" in address:
        return "it contains a query or a fragment"
    return "" if host else "it has no host"


def _is_error(rule: Rule, result: CheckResult) -> bool:
    return rule.severity == "error" and bool(result.counts[rule.code])


def _yank(
    given: argparse.Namespace,
    act: Callable[[Mapping[str, str | None]], Mapping[str, tuple[str, ...]]],
    console: Console,
) -> ChangedYanks:
    """Withdraw wheels and take that back, as asked for; which ones."""
    asked = yanks_of(given)
    done = act(asked) if asked else {}
    for name, reason in asked.items():
        verb = "fixed" if reason is None else "withdrawn"
        console.note(f"{plural(len(done[name]), 'wheel')} {verb}: {', '.join(done[name])}")
    return ChangedYanks(
        withdrawn=tuple(done.get(given.yank, ())), good_again=tuple(done.get(given.unyank, ()))
    )


def _tell(text: str, written: IndexDocument, given: argparse.Namespace, console: Console) -> None:
    """Say what was written, of which wheels."""
    console.note(text)
    if not (console.is_verbose or given.json):
        return  # of many wheels the pages take as long to read as they took to write
    pages = [
        json.loads(read_text(path, limit=limits.INDEX_PAGE))
        for path in written.index.glob("*/index.json")
    ]
    wheels = sorted(one["filename"] for page in pages for one in page["files"])
    for name in wheels if console.is_verbose else ():
        console.note(f"  {name}")
    if given.json:
        console.answer(replace(written, wheels=tuple(wheels)))


def _check(given: argparse.Namespace, folders: tuple[Path, ...]) -> None:
    """See that what was asked for fits together.

    Raises:
        UsageError: it doesn't, or a folder isn't there.
    """
    if missing := [folder for folder in folders if given.dist and not folder.is_dir()]:
        raise UsageError(
            f"the folder {missing[0]} doesn't exist",
            why="--dist names it, relative to the folder in which nox was started",
            fix="give the folder with the wheels",
        )
    if len(folders) > 1 and not given.to:
        raise UsageError(
            "several folders can't share an index",
            why="without --to the index is written into the folder itself",
            fix="publish them together: -- --dist A --dist B --to DIR",
        )
    if (given.base_url or given.address or given.variants) and not given.to:
        raise UsageError(
            "--base-url, --address and --variants need --to",
            why="without --to the index links to the wheels next to it",
            fix="give the folder to write: -- --to DIR",
        )
    if given.base_url and given.variants:
        raise UsageError(
            "--variants writes wheels, and with --base-url the wheels are elsewhere",
            why="they are written next to the published ones",
            fix="publish without --base-url, upload the folder files/ to that URL, copy its "
            "wheels into --dist, then write the pages with --base-url",
        )
