"""A probe in the interpreter that has the package: started, asked, ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psutil

from cuwheel.errors import GpuError, ProbeError
from cuwheel.standalone import script
from cuwheel.system.process import open_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.sandbox.confinement import Confinement
    from cuwheel.system.process import Conversation

_WORKER = "perf/worker.py"
_TAIL = 6  # lines of a traceback that an error shows
_START = 300.0  # seconds for an import of a framework on a slow disk
_LONGEST = 600.0  # seconds of one answer
_GONE = 20.0  # seconds that the driver gets to free the GPU memory of processes that have ended
# Of variables: the package's code runs here, and what it prints is in the report's folder.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY|^AWS_|^SSH_|^GPG_|^UV_|^PIP_", re.IGNORECASE
)


class OutOfGpuMemoryError(Exception):
    """A case ran out of GPU memory; the process goes on."""


class CaseFailedError(Exception):
    """A case's call or its reference raised; the process goes on.

    Attributes:
        what: the exception, one line.
        is_wrong: the call gave something of another shape.
    """

    def __init__(self, what: str, *, is_wrong: bool) -> None:
        super().__init__(what)
        self.what = what
        self.is_wrong = is_wrong


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a package is measured.

    Attributes:
        python: the interpreter.
        folder: of packages that come before all others there; None: what is installed counts.
        is_own: the environment was made for the wheel: the caller's packages stay out.
        name: what messages call it: `the new wheel`.
        confinement: what the package's code sees; None: all that the caller does.
    """

    python: Path
    folder: Path | None
    name: str
    is_own: bool = False
    confinement: Confinement | None = None


class Worker:
    """A probe that runs elsewhere.

    Args:
        conversation: with its process.
        place: where it runs.
        log: gets what it says besides.
    """

    def __init__(self, conversation: Conversation, place: Place, log: Path) -> None:
        self._pid = conversation.pid
        self.place = place
        self.log = log
        self._conversation = conversation

    @property
    def pids(self) -> frozenset[int]:
        """Its process and all below: in a sandbox the probe is a child of what makes that."""
        return frozenset({self._pid, *(one.pid for one in self.family())})

    def family(self) -> list[psutil.Process]:
        """Its process and all below, those of other GPUs among them; empty: it has ended."""
        try:
            first = psutil.Process(self._pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def ask(self, action: str, *, timeout: float = _LONGEST, **question: object) -> Any:
        """Have something done; what it answers.

        Args:
            action: a method of the worker's script.
            timeout: seconds.
            question: its arguments.

        Raises:
            GpuError: there is no GPU, or too little of its memory for more than a case.
            OutOfGpuMemoryError: a case ran out of it.
            CaseFailedError: a case raised.
            ProbeError: it raised elsewhere, died, or didn't answer.
        """
        try:
            line = self._conversation.ask(json.dumps({"do": action, **question}), timeout=timeout)
        except TimeoutError as problem:
            raise self._error(action, question, str(problem)) from None
        if line is None:
            status = self._conversation.status()
            raise self._error(action, question, f"its process ended with status {status}")
        try:
            answer = json.loads(line)
        except ValueError:
            why = f"its interpreter printed {line[:80]!r} instead of an answer"
            raise self._error(action, question, why) from None
        if failure := answer.get("failure"):
            self._raise(action, question, failure)
        return answer["answer"]

    def start(self) -> dict[str, Any]:
        """GPU, framework, package and cases, as the worker's script has them."""
        found: dict[str, Any] = self.ask("start", timeout=_START)
        return found

    def _raise(self, action: str, question: dict[str, object], failure: dict[str, str]) -> None:
        if failure["kind"] == "no GPU":
            raise GpuError(
                f"{self.place.name} can't be measured: there is no GPU for it",
                why=failure["what"],
                fix="nox -s diagnose shows what this machine has; without a GPU, `nox -s smoke "
                "-- TARGET` still imports the wheel",
            )
        if failure["kind"] == "memory":
            if "case" in question:
                raise OutOfGpuMemoryError(failure["what"])
            raise GpuError(
                f"{self.place.name}: {action}: too little GPU memory",
                why=failure["what"],
                fix="free some (`nvidia-smi` lists the processes), or use a larger GPU",
            )
        last = failure["traceback"].strip().splitlines()[-_TAIL:]
        if "case" not in question:
            raise self._error(action, question, "\n".join(last))
        raise CaseFailedError(failure["what"], is_wrong=failure["kind"] == "wrong")

    def _error(self, action: str, question: dict[str, object], why: str) -> ProbeError:
        what = question.get("case") or action
        return ProbeError(
            f"{self.place.name}: {what}: the probe failed",
            why=why,
            fix=f"the full output is in {self.log}; if an import failed, run `nox -s smoke`; if "
            "a call failed, the package or its probe is at fault",
        )


@contextlib.contextmanager
def start_worker(place: Place, probe: Path, log: Path) -> Iterator[Worker]:
    """Start a probe; its process ends with the block, and those that it has started.

    Args:
        place: where.
        probe: the recipe's, in `recipes/perf/`.
        log: gets what it says besides its answers.

    Raises:
        ProbeError: its interpreter can't be started.
    """
    folders = [place.folder] if place.folder else []
    command: list[str | Path] = [place.python, script(_WORKER), probe.absolute(), *folders]
    if place.confinement:
        scripts = (script(_WORKER).parent, probe.absolute())
        confined = replace(place.confinement, read=(*place.confinement.read, *scripts))
        command = [*confined.command(command)]
    try:
        # The user's own environment: a conda one may need its variables.
        with open_conversation(command, env=_environment(place), log=log) as conversation:
            worker = Worker(conversation, place, log)
            try:
                yield worker
            finally:
                family = worker.family()
        # Until then NVML counts their memory, as that of strangers.
        psutil.wait_procs(family, timeout=_GONE)
    except OSError as problem:
        if problem.filename is None:
            raise
        raise ProbeError(
            f"{place.name}: {place.python} can't be started",
            why=str(problem.strerror),
            fix="give the interpreter of an environment: -- --python /path/to/bin/python",
        ) from None


def _environment(place: Place) -> dict[str, str]:
    """The caller's, without what the engine's bootstrap has set and without what looks secret."""
    own = ("PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8")
    found = {
        name: value
        for name, value in os.environ.items()
        if name not in own and not _SECRET.search(name)
    }
    found["PYTHONUNBUFFERED"] = "1"
    if place.confinement and place.confinement.is_sandboxed:
        found |= {"HOME": str(place.confinement.folder), "TMPDIR": "/tmp"}  # noqa: S108 - its own
    if place.is_own:
        return {**found, "PYTHONNOUSERSITE": "1"}
    callers = os.environ.get("CUWHEEL_CALLERS_PYTHONPATH", "")
    return {**found, "PYTHONPATH": callers} if callers else found
