"""Processor time of compiles by arch, learned from event logs and kept next to the compile cache.

On a busy machine that differs much less than the time from start to end. A compile for which the
cache had a part teaches what the other parts took.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    for tool in events.tools:
        if cpu := min(max(tool.cpu, 0.0), _LARGEST):
            parts = seconds[tool.compile]
            parts[tool.arch] = round(parts.get(tool.arch, 0.0) + cpu, 3)
    done = [
        (key_of_compile(compile_.file, compile_.archs), seconds[compile_.id])
        for compile_ in events.compiles
        if compile_.file and not compile_.status and compile_.id in seconds
    ]
    if not done:
        return
    merged = known_seconds(path)
    for key, parts in done:
        if len(key) <= _LONGEST:
            merged[key] = {**merged.get(key, {}), **parts}
    try:
        write_atomically(path, json.dumps(dict([*merged.items()][-_MOST:])))
    except OSError:
        return


def known_seconds(path: Path) -> dict[str, dict[str, float]]:
    """Return the seconds of known compiles by arch; those for no arch, or for all, have none."""
    content = read_json(path) or {}
    known = {key: _parts(value) for key, value in content.items() if isinstance(value, dict)}
    return {key: parts for key, parts in known.items() if parts}


def _parts(content: dict[str, Any]) -> dict[str, float]:
    return {
        arch: float(value)
        for arch, value in content.items()
        if isinstance(value, int | float) and 0 < value <= _LARGEST
    }


def key_of_compile(file: str, archs: Iterable[str]) -> str:
    """Return the name under which the seconds of a compile are kept."""
    return " ".join((file, *archs))
