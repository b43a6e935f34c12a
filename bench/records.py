"""What a benchmark measured: turns and rows, the arithmetic of ratios, and JSON that keeps them."""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import datetime
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.machine import usable_cores
from cuwheel.build.workspace.serialization import from_json

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # columns idle and iowait of its first line: proc_stat(5)
_GIB = 1 << 30
_ENDING = 1.0  # seconds
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h


@dataclass(frozen=True, kw_only=True)
class Meanwhile:
    """What the machine did while something was measured.

    Attributes:
        seconds: by the clock.
        others: cores that other processes took, on average.
        load_before: the machine's load average of the last minute.
        load_after: likewise.
    """

    seconds: float
    others: float
    load_before: float
    load_after: float


class Watch:
    """Takes the time of a block, and what else the machine did then.

    bubblewrap doesn't wait for what it starts, so that would count as the work of others. Orphans
    come to this process meanwhile, and are waited for: prctl(2).
    """

    def __init__(self) -> None:
        _adopt_orphans(1)
        self._load = os.getloadavg()[0]
        self._others = _busy() - _own()
        self._started = time.monotonic()

    def stop(self) -> Meanwhile:
        """What it was."""
        seconds = time.monotonic() - self._started
        _adopt_orphans(0)
        _wait_for_orphans()
        others = max(0.0, _busy() - _own() - self._others)
        return Meanwhile(
            seconds=seconds,
            others=others / seconds,
            load_before=self._load,
            load_after=os.getloadavg()[0],
        )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One run of one way to build.

    Attributes:
        build: seconds of the package's own build; 0 where it didn't run.
        whole: seconds from the command's start to its end.
        others: as in `Meanwhile`, as the loads are.
        load_before: load average.
        load_after: load average.
        cache: what the compile cache did, in words; empty where there was none.
        sha256: of the wheel; empty where it isn't comparable with ours.
        cicc: how often it ran, whole or its front end alone; None where nobody counted.
        ptxas: likewise.
        taken: PTX files and cubins that an earlier compile had made.
    """

    build: float
    whole: float
    others: float
    load_before: float
    load_after: float
    cache: str = ""
    sha256: str = ""
    cicc: int | None = None
    ptxas: int | None = None
    taken: int | None = None

    @classmethod
    def of(cls, meanwhile: Meanwhile, *, build: float, cache: str = "", sha256: str = "") -> Turn:
        """A turn that was watched as a whole."""
        return cls(
            build=build,
            whole=meanwhile.seconds,
            others=meanwhile.others,
            load_before=meanwhile.load_before,
            load_after=meanwhile.load_after,
            cache=cache,
            sha256=sha256,
        )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to build, and its turns.

    Attributes:
        name: of the way.
        turns: in order.
        failed: why there are no more of them; empty where nothing failed.
    """

    name: str
    turns: tuple[Turn, ...] = ()
    failed: str = ""

    @property
    def build(self) -> float:
        """Median seconds of the package's own build."""
        return statistics.median(turn.build for turn in self.turns)

    @property
    def whole(self) -> float:
        """Median seconds of the command."""
        return statistics.median(turn.whole for turn in self.turns)

    @property
    def others(self) -> float:
        """Cores that others took, at the worst of its turns."""
        return max(turn.others for turn in self.turns)


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a way ought to reach.

    Attributes:
        figure: `build` or `whole`, of which it speaks.
        most: the most that it may be: a share of another way's, or seconds.
        of: that other way; empty for seconds.
    """

    figure: str
    most: float
    of: str = ""

    def reached(self, row: Row, rows: Mapping[str, Row]) -> float | None:
        """What the way came to, in the goal's own measure; None where it can't be said.

        Args:
            row: of the way.
            rows: of all ways, by name.
        """
        if not row.turns:
            return None
        value: float = getattr(row, self.figure)
        if not self.of:
            return value
        other = rows.get(self.of)
        if other is None or not other.turns:
            return None
        beside: float = getattr(other, self.figure)
        return value / beside


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where and when it was measured.

    Attributes:
        date: ISO 8601.
        processor: in its own words.
        cores: that the benchmark may use.
        memory: bytes.
        kernel: its release.
        python: that ran the benchmark.
    """

    date: str
    processor: str
    cores: int
    memory: int
    kernel: str
    python: str

    @property
    def says(self) -> str:
        """It in one line."""
        memory = f"{self.memory / _GIB:.0f} GiB"
        return f"{self.cores} hardware threads of {self.processor}, {memory}, Linux {self.kernel}"


def this_machine() -> Machine:
    """This machine, now."""
    return Machine(
        date=today(),
        processor=_processor(),
        cores=usable_cores(os.environ),
        memory=psutil.virtual_memory().total,
        kernel=platform.release(),
        python=platform.python_version(),
    )


def today() -> str:
    """ISO 8601."""
    return datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()


def write_record(path: Path, settings: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
    """Keep what was measured so far; a later call replaces it.

    Args:
        path: of the JSON; its folder is made.
        settings: what was asked for.
        rows: records by name.
    """
    content = {
        "machine": dataclasses.asdict(this_machine()),
        "settings": dict(settings),
        "rows": [dataclasses.asdict(row) for row in rows.values()],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def read_record(path: Path) -> dict[str, Any]:
    """What `write_record` kept: `machine`, `settings` and `rows`, the rows as they are in JSON.

    Raises:
        OSError: it can't be read.
        ValueError: it is no JSON.
    """
    content: dict[str, Any] = json.loads(path.read_text())
    content["machine"] = from_json(Machine, content["machine"])
    return content


def build_rows(content: Mapping[str, Any]) -> dict[str, Row]:
    """The rows of a record of builds, by name."""
    return {
        row["name"]: Row(
            name=row["name"],
            turns=tuple(Turn(**turn) for turn in row["turns"]),
            failed=row["failed"],
        )
        for row in content["rows"]
    }


@contextlib.contextmanager
def watched() -> Iterator[list[Meanwhile]]:
    """Measure a block; the list holds what it was, behind the block."""
    found: list[Meanwhile] = []
    watch = Watch()
    try:
        yield found
    finally:
        found.append(watch.stop())


def _busy() -> float:
    """Seconds that all cores have worked, for whomever; a virtual machine's stolen ones too."""
    ticks = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1:9]]
    worked = sum(ticks) - sum(ticks[column] for column in _IDLE)
    return worked / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Seconds that this process and those that it has waited for have worked."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _adopt_orphans(adopts: int) -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, adopts, 0, 0, 0)


def _wait_for_orphans() -> None:
    """A block leaves no child of its own behind; an orphan is about to end, or is no concern."""
    deadline = time.monotonic() + _ENDING
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0] or time.monotonic() < deadline:
            time.sleep(0.005)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
