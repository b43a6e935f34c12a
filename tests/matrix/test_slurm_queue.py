from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import SlurmError
from cuwheel.matrix.slurm_queue import Job, check_slurm

if TYPE_CHECKING:
    from pathlib import Path


def test_names_the_programs_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SlurmError) as caught:
        check_slurm("")

    assert "sbatch, squeue, scancel, sinfo, srun not found" in caught.value.what
    assert "--executor local" in caught.value.fix


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "PartitionTimeLimit", "PartitionTimeLimit"),
        ("PENDING", "Resources", ""),
        ("PENDING", "Priority", ""),
        ("RUNNING", "None", ""),
    ],
)
def test_tells_waiting_for_ever_from_waiting_in_turn(
    state: str, reason: str, expected: str
) -> None:
    job = Job(id="1", state=state, node="", reason=reason, comment="")

    assert job.waits_for == expected
