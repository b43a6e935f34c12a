"""A memory cgroup of either version, made for the time of a measurement; that takes root."""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import UsageError

_CGROUPS = Path("/sys/fs/cgroup")
# Where its folder may be made, and the file that holds its limit: the kernel's documents
# admin-guide/cgroup-v1/memory and admin-guide/cgroup-v2.
_LIMITS = {
    1: (_CGROUPS / "memory", "memory.limit_in_bytes"),
    2: (_CGROUPS, "memory.max"),
}
_USES = {1: "memory.usage_in_bytes", 2: "memory.current"}
_COUNTS = ("memory.events", "memory.oom_control")
_TIME_LIMIT = 50  # tenths of a second until what was killed has left it


@dataclass(frozen=True, kw_only=True)
class Cgroup:
    """A cgroup with a limit of memory.

    Attributes:
        folder: of it.
        version: 1 or 2.
    """

    folder: Path
    version: int

    def within(self, words: Sequence[str | Path]) -> list[str]:
        """A command that runs inside."""
        entering = f'echo $$ > {shlex.quote(str(self.folder))}/cgroup.procs && exec "$@"'
        return ["/bin/sh", "-c", entering, "sh", *map(str, words)]

    def limit(self, size: int) -> None:
        """Set how many bytes its processes may have together."""
        (self.folder / _LIMITS[self.version][1]).write_text(str(size))

    @property
    def used(self) -> int:
        """Bytes, file cache that was read in it included."""
        return int((self.folder / _USES[self.version]).read_text())

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed in it when it ran out of memory."""
        for name in _COUNTS:
            path = self.folder / name
            text = path.read_text() if path.is_file() else ""
            if found := re.search(r"^oom_kill (\d+)", text, re.MULTILINE):
                return int(found[1])
        return 0


@contextlib.contextmanager
def limited(size: int) -> Iterator[Cgroup]:
    """A new cgroup, removed behind the block.

    Args:
        size: bytes that its processes may have together.

    Raises:
        UsageError: this machine lets nobody make one here.
    """
    made = _make()
    made.limit(size)
    try:
        yield made
    finally:
        _remove(made.folder)


def _make() -> Cgroup:
    reasons = []
    for version, (top, limit) in _LIMITS.items():
        folder = top / f"cuwheel-bench-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as problem:
            reasons.append(f"version {version}: {problem.strerror}")
            continue
        if (folder / limit).exists():
            return Cgroup(folder=folder, version=version)
        folder.rmdir()
        reasons.append(f"version {version}: no memory controller in {top}")
    raise UsageError(
        "no cgroup with a memory limit can be created here",
        why="\n".join(reasons),
        fix="run it as root, where the memory controller is delegated to this level",
    )


def _remove(folder: Path) -> None:
    for _ in range(_TIME_LIMIT):
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.1)
