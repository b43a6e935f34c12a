"""A process that has tasks run by Slurm, for tests to kill; run with `python -m`.

Arguments: the folder, then `<name>=<seconds>` of each task. It prints each result as it comes, and
what becomes of jobs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cuwheel.lab.matrix.slurm_executor import SlurmExecutor
from tests.support.machines.slurm import make_task


def main(folder: Path, *tasks: str) -> None:
    executor = SlurmExecutor(
        folder=folder / "jobs", time_limit=5, interval=1.0, settle=2.0, note=_say
    )
    pairs = [task.split("=") for task in tasks]
    for result in executor.run([make_task(folder, name, seconds=float(s)) for name, s in pairs]):
        _say(f"result {result.name} {result.status}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
