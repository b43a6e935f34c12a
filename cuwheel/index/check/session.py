"""Indexes checked, and compared with what they offered before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cuwheel.errors import UsageError
from cuwheel.fetch.urls import is_local, local_path, redact_url
from cuwheel.index.check.index_walk import IndexWalk
from cuwheel.index.check.reading import Budget, Reader
from cuwheel.index.check.result import CheckResult
from cuwheel.index.check.snapshot import read_snapshot, write_snapshot
from cuwheel.system.parallel import Stop
from cuwheel.wheel.publication import SIMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.index.check.result import CheckRequest
    from cuwheel.index.check.snapshot import Projects
    from cuwheel.system.console import Console


def check_indexes(asked: CheckRequest, console: Console) -> CheckResult:
    """Check indexes, ours or others'.

    The snapshot is written where nothing that was published has changed or vanished; else it stays
    as it is, so that the next check finds it again.

    Raises:
        UsageError: a folder holds no index, or the snapshot can't be read.
        DownloadError: an index doesn't answer, or has no list of projects.
    """
    indexes: dict[str, str] = {}
    for name, url in _indexes(asked.places):
        indexes[name if name not in indexes else redact_url(url)] = url
    before = read_snapshot(asked.snapshot) if asked.snapshot else {}
    budget = Budget(asked.max_download)
    result = CheckResult(indexes=tuple(map(redact_url, indexes.values())))
    now: dict[str, Projects] = {}
    with tempfile.TemporaryDirectory(prefix="cuwheel-check-") as scratch:
        reader = Reader(
            scratch=Path(scratch),
            budget=budget,
            retry_policy=asked.retry_policy,
            stop=Stop(),
            console=console,
        )
        checked: set[int] = set()
        for name, url in indexes.items():
            walk = IndexWalk(
                name=name, url=url, asked=asked, result=result, checked=checked, console=console
            )
            now[name] = walk.check(reader, before.get(name))
    result.downloaded = budget.used
    if asked.snapshot and not (result.counts["changed"] or result.counts["vanished"]):
        write_snapshot(asked.snapshot, _merged(before, now))
    return result


def _merged(before: Mapping[str, Projects], now: Mapping[str, Projects]) -> dict[str, Projects]:
    """What was seen now, and what wasn't looked at."""
    return {name: {**before.get(name, {}), **now.get(name, {})} for name in {**before, **now}}


def _indexes(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Name and address of each index; the address has a slash at its end.

    Raises:
        UsageError: a folder holds none.
    """
    for place in places:
        if "://" in place and not is_local(place):
            url = f"{place.rstrip('/')}/"
            yield urlsplit(url).path.strip("/") or SIMPLE, url
            continue
        folder = local_path(place) if is_local(place) else Path(place)
        found = [*folder.glob(SIMPLE), *sorted(folder.glob(f"*/{SIMPLE}"))]
        is_index = any((folder / page).is_file() for page in ("index.html", "index.json"))
        if not found and not is_index:
            raise UsageError(
                f"{folder} is not an index",
                why=f"it contains neither index.html nor {SIMPLE}/",
                fix="give the folder that `nox -s index -- --to DIR` wrote, a folder simple/, "
                "or an address",
            )
        for one in found or [folder]:
            name = one.relative_to(folder).as_posix()
            yield (name if name != "." else folder.name), f"{one.absolute().as_uri()}/"
