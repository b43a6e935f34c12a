"""The session `cache`."""

from __future__ import annotations

import argparse
import datetime
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import rich.markup
import rich.table

from cuwheel.cache.contents import read_cache
from cuwheel.cache.pruning import DAY, choose, preview, prune
from cuwheel.cli.parser import Parser, new_parser, size_argument
from cuwheel.cli.report_options import add_report_options
from cuwheel.errors import UsageError
from cuwheel.paths import default_cache
from cuwheel.pypi.uv import forget
from cuwheel.system.output.documents import Schema
from cuwheel.system.output.terminal import report_terminal
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.cache.contents import CacheContents, Entry
    from cuwheel.cache.pruning import Pruned
    from cuwheel.system.console import Console


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
    """The command line of the session."""
    parser = new_parser(
        "cache", "Show the cache's contents, and remove what is unused, also while builds run."
    )
    add = parser.add_argument
    add("--prune", action="store_true", help="remove what the next two options select")
    add(
        "--unused-for",
        type=_days,
        metavar="DAYS",
        help="entries that no build has used for this many days; 0: all that none uses now",
    )
    add(
        "--size",
        type=size_argument,
        metavar="20G",
        help="the entries unused for longest, until the whole cache has this size",
    )
    add("--dry-run", action="store_true", help="only print what --prune would remove")
    add_report_options(
        parser,
        quiet="print only its size",
        verbose="list every entry",
    )
    return parser


def run_cache(given: argparse.Namespace, console: Console) -> None:
    """Say what the cache holds, or remove some of it."""
    is_limited = given.unused_for is not None or given.size is not None
    if given.prune != is_limited:
        raise UsageError(
            "--prune needs --unused-for or --size" if given.prune else "--prune is missing",
            why="without a limit there is nothing to select"
            if given.prune
            else "nothing is removed without it",
            fix="nox -s cache -- --prune --unused-for 30, or nox -s cache -- --prune --size 20G",
        )
    folder = default_cache()
    with console.live(f"reading {folder}"):
        before = read_cache(folder)
    if not given.prune:
        if given.json:
            console.answer(_contents_document(before))
        else:
            _print_table(before, console)
        return
    seconds = None if given.unused_for is None else given.unused_for * DAY
    chosen = choose(before, time.time(), unused_for=seconds, size=given.size)
    if given.dry_run:
        done, after = preview(chosen), before
        _say_removed(done.removed, console, "would be removed")
    else:
        done, after = _prune(before, chosen, given.size, console)
    if given.json:
        pruned = CachePruneDocument(
            folder=after.folder,
            state="would be removed" if given.dry_run else "removed",
            entries=tuple(map(_cached, done.removed)),
            in_use=tuple(map(_cached, done.in_use)),
            size_before=before.size,
            size=after.size,
        )
        console.answer(pruned)


def _prune(
    before: CacheContents, chosen: Sequence[Entry], size: int | None, console: Console
) -> tuple[Pruned, CacheContents]:
    """Remove entries; what became of them, and what the cache holds now."""
    done = prune(chosen)
    _say_removed(done.removed, console, "removed")
    if done.in_use:
        names = ", ".join(one.path.name for one in done.in_use)
        console.note(f"a running build uses {names}: kept")
    after = read_cache(before.folder)
    if size is not None and after.size > size:
        # Its packages have a second name in each environment that has them, and that stays.
        forget((), cache=before.folder)
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
    return done, after


def _say_removed(entries: Sequence[Entry], console: Console, verb: str) -> None:
    for one in entries:
        console.note(f"{verb}: {one.kind.folder}/{one.path.name}  {show_size(one.size)}")
    if not entries:
        console.note(f"nothing {verb}: everything is in use, or was used since then")


def _cached(one: Entry) -> CachedEntry:
    return CachedEntry(kind=one.kind.folder, name=one.path.name, size=one.size, used=_day(one.used))


def _contents_document(contents: CacheContents) -> CacheDocument:
    kinds = {
        kind.folder or "other": CachedKind(
            size=size,
            entries=tuple(_cached(one) for one in contents.entries if one.kind == kind),
        )
        for kind, size in contents.sizes.items()
    }
    return CacheDocument(folder=contents.folder, size=contents.size, kinds=kinds)


def _print_table(contents: CacheContents, console: Console) -> None:
    terminal = report_terminal()
    if not console.is_quiet:
        terminal.print(_entry_table(contents) if console.is_verbose else _kind_table(contents))
        terminal.print()
    terminal.print(f"{contents.folder}: {show_size(contents.size)}", markup=False)


def _entry_table(contents: CacheContents) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("entry", overflow="fold")
    table.add_column("size", justify="right")
    table.add_column("used")
    for one in sorted(contents.entries, key=lambda one: (one.kind.folder, -one.size)):
        name = rich.markup.escape(f"{one.kind.folder}/{one.path.name}")
        table.add_row(name, show_size(one.size), _day(one.used))
    return table


def _kind_table(contents: CacheContents) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("folder", "size", "entries", "oldest use", "what"):
        table.add_column(heading, justify="right" if heading in {"size", "entries"} else "left")
    for kind, size in contents.sizes.items():
        if size:
            used = [one.used for one in contents.entries if one.kind == kind]
            count, oldest = (str(len(used)), _day(min(used))) if used else ("", "")
            table.add_row(kind.folder or "(others)", show_size(size), count, oldest, kind.what)
    return table


def _day(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc).date().isoformat()


def _days(text: str) -> float:
    """A number of days.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of days")
    return float(text)
