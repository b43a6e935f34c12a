"""Processes that tests leave behind: found, ended and named."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

_GRACE = 1.0  # seconds for one that is just ending


def own_children() -> frozenset[int]:
    """Process ids of what this process started and hasn't waited for: `children` in proc(5)."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(
            FileNotFoundError, ProcessLookupError
        ):  # its thread has just ended
            found.update(map(int, path.read_text().split()))
    return frozenset(found)


def end_families(pids: Iterable[int]) -> list[str]:
    """End processes with all that they started; gives the command lines of those that ran."""
    return _end(process for pid in pids for process in _family(pid))


def end_all_of(folder: Path) -> list[str]:
    """End every process that names a folder in its command line or works in it; as above."""
    return _end(one for one in psutil.process_iter() if belongs_to(one, str(folder)))


def _family(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        yield from (first, *first.children(recursive=True))


def belongs_to(process: psutil.Process, folder: str) -> bool:
    """Whether a process names a folder in its command line or works in it."""
    # Not where the name goes on to the left: that is a folder of another run's, in its TMPDIR.
    named = re.compile(rf"(?<![\w./-]){re.escape(folder)}/")
    with contextlib.suppress(psutil.Error):
        return named.search(" ".join((*process.cmdline(), f"{process.cwd()}/"))) is not None
    return False


def _end(processes: Iterable[psutil.Process]) -> list[str]:
    _, left = psutil.wait_procs(list(processes), timeout=_GRACE)
    said = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            said.append(" ".join(process.cmdline())[:200] or process.name())
            process.kill()
    psutil.wait_procs(left, timeout=_GRACE)
    return said
