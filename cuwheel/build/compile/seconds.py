"""Processor time of compiles, learned from event logs and kept next to the compile cache.

On a busy machine that differs much less than the time from start to end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.regular_files import read_json
from cuwheel.build.compile.events import Events

_MOST = 20_000  # compiles of one recipe
_LONGEST = 1 << 10  # characters of a source's name and its archs
_LARGEST = 1e7  # seconds; a build's code could write any number into its log


def learn_seconds(path: Path, events: Events) -> None:
    """Add the compiles that ran to those of earlier builds.

    A full disk, or one without write access, is no reason for a build to fail.
    """
    seconds: Counter[str] = Counter()
    for tool in events.tools:
        seconds[tool.compile] += min(max(tool.cpu, 0.0), _LARGEST)  # type: ignore[assignment]
    done = {
        key_of_compile(compile_.file, compile_.archs): round(seconds[compile_.id], 3)
        for compile_ in events.compiles
        if compile_.file and not compile_.status and seconds[compile_.id]
    }
    kept = {key: value for key, value in done.items() if len(key) <= _LONGEST}
    if not kept:
        return
    merged = {**known_seconds(path), **kept}
    try:
        write_atomically(path, json.dumps(dict([*merged.items()][-_MOST:])))
    except OSError:
        return


def known_seconds(path: Path) -> dict[str, float]:
    """Return the seconds of known compiles: the sum over their programs."""
    content = read_json(path) or {}
    return {
        key: float(value)
        for key, value in content.items()
        if isinstance(value, int | float) and 0 < value <= _LARGEST
    }


def key_of_compile(file: str, archs: Iterable[str]) -> str:
    """Return the name under which the seconds of a compile are kept."""
    return " ".join((file, *archs))
