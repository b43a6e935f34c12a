"""The session `cache`."""

from __future__ import annotations

import argparse
import datetime
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import rich.markup
import rich.table

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.documents import Schema
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.quantities import show_size
from cuwheel.build.environments.uv import forget
from cuwheel.build.workspace.cache_contents import (
    DAY,
    CacheContents,
    CacheEntry,
    Pruned,
    choose,
    prune,
    read_cache,
)
from cuwheel.build.workspace.workspace import Workspace, bare_workspace
from cuwheel.cli.parser import JSON_TEXT, Option, Parser, new_parser, size_argument
from cuwheel.cli.target_choice import build_options, folder_of
from cuwheel.lab.profile.misses import describe_count, describe_misses, explain_misses

_KIND_TITLES = ("folder", "size", "entries", "oldest use", "what")


@dataclass(frozen=True, kw_only=True)
class CachedEntry:
    """An entry of the cache, which is removed as a whole.

    Attributes:
        kind: folder of the cache that it is in; empty: in none that cuwheel knows.
        name: of its file or folder.
        size: bytes.
        used: the day of its last use, `2026-11-23`.
    """

    kind: str
    name: str
    size: int
    used: str


@dataclass(frozen=True, kw_only=True)
class CachedKind:
    """A folder of the cache.

    Attributes:
        size: bytes.
        entries: its contents.
    """

    size: int
    entries: tuple[CachedEntry, ...]


@dataclass(frozen=True, kw_only=True)
class CacheDocument:
    """What `cache --json` prints.

    Attributes:
        folder: the cache.
        size: bytes, of the whole cache.
        kinds: by folder; `other`: what is in no folder that cuwheel knows.
    """

    SCHEMA: ClassVar[Schema] = Schema("cache", "1.0")

    folder: Path
    size: int
    kinds: dict[str, CachedKind]


@dataclass(frozen=True, kw_only=True)
class CachePruneDocument:
    """What `cache --prune --json` prints.

    Attributes:
        folder: the cache.
        state: whether the entries were removed.
        entries: what was or would be removed.
        in_use: what stays because a running build uses it.
        size_before: bytes of the cache before that.
        size: bytes of the cache now.
    """

    SCHEMA: ClassVar[Schema] = Schema("cache-prune", "1.0")

    folder: Path
    state: Literal["removed", "would be removed"]
    entries: tuple[CachedEntry, ...]
    in_use: tuple[CachedEntry, ...]
    size_before: int
    size: int


def cache_parser() -> Parser:
    """Return the parser of the session."""
    return new_parser(
        "cache",
        "Show the cache's contents, and remove what is unused, also while builds run; or show why "
        "compiles of the last build ran.",
        {
            "report {why}?": "why: what differed from the nearest compile in the compile cache",
            "target TARGET?": "the build's recipe and toolkit, such as causal-conv1d-130; default: "
            "the last build's",
            "--prune": "remove what the next two options select",
            "--unused-for DAYS": Option(
                "entries that no build has used for this many days; 0: all that none uses now",
                read=_days,
            ),
            "--size 20G": Option(
                "the entries unused for longest, until the whole cache has this size",
                read=size_argument,
            ),
            "--dry-run": "only print what --prune would remove",
            **build_options("work"),
            "--quiet": "print only its size, or the number of compiles",
            "--verbose": "list every entry, or every difference",
            "--json": JSON_TEXT,
        },
    )


def run_cache(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    """Print what the cache holds, or remove some of it, or say why compiles ran."""
    is_limited = args.unused_for is not None or args.size is not None
    if args.report:
        if args.prune or is_limited or args.dry_run:
            raise UsageError(
                "why and the options of --prune can't be combined",
                why="one explains the last build, the others remove what builds left",
                fix="leave out one of them",
            )
        _explain(args, console, caller)
        return
    if args.prune != is_limited:
        raise UsageError(
            "--prune needs --unused-for or --size" if args.prune else "--prune is missing",
            why="without a limit there is nothing to select"
            if args.prune
            else "nothing is removed without it",
            fix="nox -s cache -- --prune --unused-for 30, or nox -s cache -- --prune --size 20G",
        )
    folder = caller.cache
    with console.live(f"reading {folder}"):
        before = read_cache(folder)
    if args.prune:
        _prune(before, args, console, caller)
    elif args.json:
        console.answer(_contents_document(before))
    else:
        _print_table(before, console)


def _explain(args: argparse.Namespace, console: Console, caller: Caller) -> None:
    document = explain_misses(folder_of(args.work, caller, "work"), args.target or "")
    if args.json:
        console.answer(document)
        return
    verbose = console.is_verbose
    lines = describe_misses(document, is_verbose=verbose)
    for line in [describe_count(document)] if console.is_quiet else lines:
        report_terminal().print(line, markup=False)


def _prune(
    before: CacheContents, args: argparse.Namespace, console: Console, caller: Caller
) -> None:
    """Remove what the options select, or print what would be removed."""
    seconds = None if args.unused_for is None else args.unused_for * DAY
    chosen = choose(before, time.time(), unused_for=seconds, size=args.size)
    done, after = prune(chosen, dry_run=args.dry_run), before
    state: Literal["removed", "would be removed"] = (
        "would be removed" if args.dry_run else "removed"
    )
    for entry in done.removed:
        console.note(f"{state}: {entry.kind.folder}/{entry.path.name}  {show_size(entry.size)}")
    if not done.removed:
        console.note(f"nothing {state}: everything is in use, or was used since then")
    if not args.dry_run:
        after = _free(before, done, args.size, bare_workspace(console, caller))
    if args.json:
        pruned = CachePruneDocument(
            folder=after.folder,
            state=state,
            entries=tuple(map(_cached, done.removed)),
            in_use=tuple(map(_cached, done.in_use)),
            size_before=before.size,
            size=after.size,
        )
        console.answer(pruned)


def _free(
    before: CacheContents, done: Pruned, size: int | None, workspace: Workspace
) -> CacheContents:
    """Remove uv's packages too where a size requires it; return the cache's contents then."""
    console = workspace.console
    if done.in_use:
        names = ", ".join(entry.path.name for entry in done.in_use)
        console.note(f"a running build uses {names}: kept")
    after = read_cache(before.folder)
    if size is not None and after.size > size:
        # Environments hold hard links to its packages, which stay.
        forget((), workspace)
        after = read_cache(before.folder)
        console.note(
            "uv's unpacked packages were removed too: the next environment downloads what it needs"
        )
    console.note(f"{show_size(before.size - after.size)} freed, {show_size(after.size)} left")
    if size is not None and after.size > size:
        console.warn(
            f"that is more than {show_size(size)}: the rest is in use, was used today, or is the "
            "compile cache, whose limit is CUWHEEL_COMPILE_CACHE_SIZE"
        )
    return after


def _cached(entry: CacheEntry) -> CachedEntry:
    return CachedEntry(
        kind=entry.kind.folder, name=entry.path.name, size=entry.size, used=_day(entry.used)
    )


def _contents_document(contents: CacheContents) -> CacheDocument:
    kinds = {
        kind.folder or "other": CachedKind(
            size=size,
            entries=tuple(_cached(entry) for entry in contents.entries if entry.kind == kind),
        )
        for kind, size in contents.sizes.items()
    }
    return CacheDocument(folder=contents.folder, size=contents.size, kinds=kinds)


def _print_table(contents: CacheContents, console: Console) -> None:
    """Print a row for each folder, or with `--verbose` for each entry."""
    terminal = report_terminal()
    titles = ("entry", "size", "used") if console.is_verbose else _KIND_TITLES
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in titles:
        is_number = title in {"size", "entries"}
        table.add_column(title, justify="right" if is_number else "left", overflow="fold")
    for row in _entry_rows(contents) if console.is_verbose else _kind_rows(contents):
        table.add_row(*map(rich.markup.escape, row))
    if not console.is_quiet:
        terminal.print(table)
        terminal.print()
    terminal.print(f"{contents.folder}: {show_size(contents.size)}", markup=False)


def _entry_rows(contents: CacheContents) -> Iterator[tuple[str, ...]]:
    for entry in sorted(contents.entries, key=lambda item: (item.kind.folder, -item.size)):
        name = f"{entry.kind.folder}/{entry.path.name}"
        yield name, show_size(entry.size), _day(entry.used)


def _kind_rows(contents: CacheContents) -> Iterator[tuple[str, ...]]:
    for kind, size in contents.sizes.items():
        used = [entry.used for entry in contents.entries if entry.kind == kind]
        count, oldest = (str(len(used)), _day(min(used))) if used else ("", "")
        if size:
            yield kind.folder or "(others)", show_size(size), count, oldest, kind.what


def _day(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc).date().isoformat()


def _days(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return float(text)
