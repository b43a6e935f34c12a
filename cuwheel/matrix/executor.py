"""Where cells are built: on this machine, or on those of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Task:
    """A cell's build as a program to run somewhere.

    Attributes:
        name: the cell's target id, `causal-conv1d-130-cp312-torch2.11`.
        command: program and arguments; its standard output is one JSON object.
        environment: variables that it gets besides those of the caller.
        folder: where it starts: the checkout.
        cores: that it may use.
        memory: bytes; what was measured for it, or the recipe's guess.
        log: where its standard error goes.
    """

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    folder: Path
    cores: int
    memory: int
    log: Path


@dataclass(frozen=True, kw_only=True)
class Result:
    """A task that has ended.

    Attributes:
        name: of the task.
        status: exit status; negative for a signal, None where no machine brought it to an end.
        output: its standard output.
        where: host name of the machine that ended it.
        attempts: how often it was started, or given to a cluster.
    """

    name: str
    status: int | None
    output: str
    where: str
    attempts: int


class Executor(Protocol):
    """Runs tasks, several at once."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        """Run them all and give each result as it ends; leaving the loop ends what still runs."""
