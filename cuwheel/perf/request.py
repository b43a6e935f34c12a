"""What `perf` is asked for, and whether the processes that were started can answer it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.errors import ProbeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cuwheel.perf.records import PerfRun
    from cuwheel.perf.worker import Place


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """Requests to make at once.

    Attributes:
        requests: how many, at each number of clients.
        most: clients at most; from one on.
        model: a name or folder; None: random weights.
    """

    requests: int
    most: int
    model: str | None


@dataclass(frozen=True, kw_only=True)
class PerfRequest:
    """What is asked for.

    Attributes:
        recipe: whose probe it is.
        probe: its file.
        new: where the package is measured.
        wheel: its file's name; empty: what is installed.
        sha256: of the wheel.
        old: where the wheel is that it is compared with; None: with none.
        past: an earlier run that it is compared with; None: with none.
        against: what messages call that.
        tolerance: a share of the time; None: as the gate has it.
        is_quick: only the quick cases, with fewer rounds.
        is_shared: others may compute on the GPU meanwhile.
        sweep: requests to make at once; None: none.
        log: gets what the probes say.
    """

    recipe: str
    probe: Path
    new: Place
    log: Path
    wheel: str = ""
    sha256: str = ""
    old: Place | None = None
    past: PerfRun | None = None
    against: str = ""
    tolerance: float | None = None
    is_quick: bool = False
    is_shared: bool = False
    sweep: SweepRequest | None = None


def check_probe(started: Mapping[str, Any], asked: PerfRequest) -> None:
    """See that the probe has what is asked for, before an hour is measured.

    Args:
        started: what the worker's script said when it started.
        asked: for what.

    Raises:
        UsageError: it has no case, or no requests to make.
    """
    quick = " that is quick" if asked.is_quick else ""
    if not any(one["is_quick"] or not asked.is_quick for one in started["cases"]):
        raise UsageError(
            f"the probe of {asked.recipe} has no case{quick}",
            why=f"`cases()` of {asked.probe.name} returns none",
            fix="omit --quick" if quick else f"add cases to {asked.probe}",
        )
    if asked.sweep and not started["sweeps"]:
        raise UsageError(
            f"--sweep: the probe of {asked.recipe} has no requests to make",
            why=f"{asked.probe.name} defines no `sweep`",
            fix="omit --sweep",
        )


def check_imports(
    started: Mapping[str, Any], others: Sequence[Mapping[str, Any]], asked: PerfRequest
) -> None:
    """See that each process imported the wheel that it was started for, on one GPU.

    Args:
        started: what the new wheel's worker said when it started.
        others: what those of the old wheel said.
        asked: for what.

    Raises:
        ProbeError: something else was imported, or the GPUs differ.
    """
    places = [asked.new, *([asked.old] if asked.old else [])]
    for place, facts in zip(places, (started, *others), strict=False):
        folder = place.folder or (Path(facts["site"]) if place.is_own else None)
        path = Path(facts["package"]).resolve()
        if folder and not path.is_relative_to(folder.resolve()):
            raise ProbeError(
                f"{place.name}: {facts['module']} was imported from {path}",
                why="that isn't the wheel's: the wheel doesn't contain the module, or a folder "
                "on sys.path comes before it",
                fix="give a wheel of the package that the probe is for; remove folders with "
                "such a module from PYTHONPATH",
            )
    if any(one["gpu"]["uuid"] != started["gpu"]["uuid"] for one in others):
        raise ProbeError(
            "the wheels were given two GPUs",
            why="each process uses the first GPU that is visible to it",
            fix="select one: CUDA_VISIBLE_DEVICES=0",
        )
