"""What a cell asks of a machine is what its compiles were measured to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.matrix.resources import memory_of
from cuwheel.standalone.memory_gate.peaks import Peaks
from cuwheel.system.quantities import GIB
from tests.support.factories import make_job, make_target, make_workspace

if TYPE_CHECKING:
    from pathlib import Path

_CORES = 3


def test_recipe_says_it_where_nothing_was_measured(tmp_path: Path) -> None:
    job = make_job(make_target(memory_per_job=2 * GIB), make_workspace(tmp_path))

    assert memory_of(job, _CORES) == GIB + _CORES * 2 * GIB


def test_largest_measured_compiles_count_together(tmp_path: Path) -> None:
    job = make_job(make_target(memory_per_job=GIB), make_workspace(tmp_path))
    peaks = Peaks(str(job.workspace.cache / "memory"), job.target.recipe.name)
    for number, peak in enumerate((1, 5, 2, 4)):
        peaks.learn("cicc", f"kernel{number}.cu 90", peak * GIB)
    peaks.suspect("cicc", "killed.cu 90", 60 * GIB)  # nobody measured it to its end

    assert memory_of(job, _CORES) == GIB + (5 + 4 + 2) * GIB


def test_one_compile_has_room_however_small_the_known_ones_are(tmp_path: Path) -> None:
    job = make_job(make_target(memory_per_job=3 * GIB), make_workspace(tmp_path))
    Peaks(str(job.workspace.cache / "memory"), job.target.recipe.name).learn("cicc", "k.cu", 1)

    assert memory_of(job, _CORES) == GIB + 3 * GIB
