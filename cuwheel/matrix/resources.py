"""What a cell's build takes of a machine: what was measured of its compiles, else what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.standalone.memory_gate.peaks import known_peaks
from cuwheel.system.quantities import GIB

if TYPE_CHECKING:
    from cuwheel.workspace.job import Job

_BESIDE = GIB  # bytes: the engine, the build backend with PyTorch, the compile cache


def memory_of(job: Job, cores: int) -> int:
    """Bytes for a build with so many compiles at once.

    Where compiles of the recipe were measured before, by whatever build that shares this cache:
    the largest ones together. Where they weren't: what the recipe says of one, for each. With less
    than it takes, the memory gate lets fewer compiles run at once (docs/adr/0017).

    Args:
        job: the build.
        cores: compiles at once.
    """
    one = job.target.recipe.memory_per_job
    learned = known_peaks(str(job.workspace.cache / "memory"), job.target.recipe.name)
    known = [peak for peak, *_ in learned]
    return _BESIDE + (max(one, sum(known[:cores])) if known else one * cores)
