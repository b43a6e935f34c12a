"""Calls with a time limit, and probes: scripts that an interpreter runs, which write an answer.

A program that the kernel can't end (it waits for a lost GPU, or for a file server) can't be waited
for either. So each call has a daemon thread, which doesn't keep the process from ending.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from cuwheel.base.errors import CommandFailedError, CuwheelError, ResourceLimitError
from cuwheel.base.last_resort import limit_error
from cuwheel.base.paths import script
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import describe_end, run
from cuwheel.base.system.regular_files import parse_json, read_text

_ENVIRONMENT = script("check/diagnose/probes/environment.py")
Answer = TypeVar("Answer")
Other = TypeVar("Other")


class TimedCall(Generic[Answer]):
    """A call that runs in a thread of its own; one that is late, or fails, gives a reason."""

    def __init__(self, seconds: float, call: Callable[[], Answer]) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._call = call
        self._answer: list[Answer] = []
        self._fault = ""
        self._limit: CuwheelError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def answer(self, otherwise: Other) -> tuple[Answer | Other, str]:
        """Wait for the answer.

        Returns:
            The answer, and why there is none; empty where there is one.

        Raises:
            ResourceLimitError: the caller's own limits are too low for the call.
        """
        self._thread.join(max(0.0, self._end - time.monotonic()))
        if self._limit:
            raise self._limit
        if self._answer:
            return self._answer[0], ""
        return otherwise, self._fault or f"no answer within {self._seconds:.0f} s"

    def _run(self) -> None:
        try:
            self._answer.append(self._call())
        except ResourceLimitError as problem:
            self._limit = problem
        except CuwheelError as problem:
            self._fault = f"{problem.what}: {problem.why}" if problem.why else problem.what
        except Exception as problem:  # noqa: BLE001 - no broken machine may end the report
            self._fault = f"{type(problem).__name__}: {problem}"
            if not getattr(problem, "filename", None):  # a device's own error may be ENOMEM
                self._limit = limit_error(problem)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is other in a run of a probe.

    Attributes:
        seconds: that it may take.
        options: of the interpreter.
        request: the `changes` of the probe (experiment.py); without any it only records.
    """

    seconds: float = math.inf
    options: tuple[str, ...] = ()
    request: Mapping[str, object] = field(default_factory=dict)


class ProbePlace(Protocol):
    """A place where a program runs confined; `build.sandbox` has one."""

    def command_in(
        self, folder: Path, read: tuple[Path, ...], words: Iterable[str | Path]
    ) -> list[str]:
        """Return the command that runs a program there, started in `folder`, which it may write."""


def probe_environment(  # noqa: PLR0913 - what is other than usual comes last
    python: Path,
    request: Mapping[str, object],
    environ: Mapping[str, str],
    limit: float,
    place: ProbePlace | None = None,
    *,
    options: tuple[str, ...] = (),
) -> tuple[dict[str, Any], str, str]:
    """Run the probe of environments, as `run_probe`.

    Args:
        limit: seconds.
        place: where it runs; None: as any program of the caller.
        options: of the interpreter.
    """
    return run_probe([python, *options, _ENVIRONMENT, json.dumps(request)], environ, limit, place)


def run_probe(
    argv: Iterable[str | Path],
    environ: Mapping[str, str],
    limit: float,
    place: ProbePlace | None = None,
) -> tuple[dict[str, Any], str, str]:
    """Run a probe; the file for its answer becomes the last argument.

    Returns:
        The answer as far as it was written, what the probe printed, and why the answer isn't
        complete; empty if it is.
    """
    with temporary_folder() as folder:
        file = folder / "answer.json"
        argv = [*argv, file]
        if place:
            argv = place.command_in(folder, (_ENVIRONMENT.parent,), argv)
        try:
            done = run(argv, env=environ, cwd=folder, timeout=limit, check=False)
        except CommandFailedError as error:
            return {}, "", error.why
        try:
            answer: dict[str, Any] = parse_json(read_text(file), is_own=True)
        except (OSError, ValueError):
            answer = {}
    return answer, done.output, "" if answer.get("complete") else describe_end(done.status, limit)
