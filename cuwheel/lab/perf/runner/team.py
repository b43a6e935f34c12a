"""A probe in one process for each GPU: each call goes to all at once, and answers are merged.

Packages such as JAXMg 1.x need a process for each GPU. The first process answers for all: times are
the longest, errors the largest, kernels those of all. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from differences import (  # type: ignore[import-not-found]
    OutputDifference,
    larger,
    worst,
)

_LOCAL = "127.0.0.1"
_GRACE = 45.0  # seconds for the others when one of them has failed; they may wait for it
_LONGEST = 300.0  # seconds that the others may take longer than the first


class Seat(NamedTuple):
    """One process of several.

    Attributes:
        rank: number of the process and its GPU, from 0.
        address: at which the first one can listen for the others: `127.0.0.1:40000`.
    """

    rank: int = 0
    size: int = 1
    address: str = ""


class Team:
    """The processes besides the first; their seat precedes the arguments of the command."""

    def __init__(self, command: Sequence[str], seat: Seat, answers: IO[str]) -> None:
        """Start the processes."""
        self._answers = answers
        self._overdue: list[threading.Timer] = []
        self._is_broken = False
        self._members = [
            self._start(command, seat._replace(rank=rank)) for rank in range(1, seat.size)
        ]

    def send(self, line: str) -> None:
        """Send a call to each of them; a process that has ended gives no answer."""
        for child, _ in self._members:
            with contextlib.suppress(OSError):
                child.stdin.write(f"{line.strip()}\n")
                child.stdin.flush()

    def merge(self, action: str, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of all, given the first one's: `answer` or `failure`."""
        if self._is_broken:
            return answer if action == "libraries" else {"failure": _silence()}
        end = time.monotonic() + (_GRACE if "failure" in answer else _LONGEST)
        answers = [answer]
        for child, lines in self._members:
            try:
                line = lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = ""
            if not line:
                self._is_broken = True  # a late answer would be taken for that of the next call
                child.kill()
            answers.append(json.loads(line) if line else {"failure": _silence()})
        for timer in self._overdue:
            timer.cancel()
        self._overdue.clear()
        failed = next((part for part in answers if "failure" in part), None)
        return failed or {"answer": merge_answers(action, [part["answer"] for part in answers])}

    def _start(self, command: Sequence[str], seat: Seat) -> tuple[Any, queue.Queue[str]]:
        child = subprocess.Popen(  # noqa: S603 - this script again
            [command[0], command[1], f"--seat={json.dumps(seat)}", *command[2:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert child.stdout  # noqa: S101 - it is a pipe
            for line in child.stdout:
                if "failure" in json.loads(line):
                    self._expect(line)
                lines.put(line)
            self._expect(json.dumps({"failure": _silence()}))
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        return child, lines

    def _expect(self, line: str) -> None:
        """Print this answer if the first process hangs because another one failed."""
        timer = threading.Timer(_GRACE, self._give_up, [line])
        timer.daemon = True
        self._overdue.append(timer)
        timer.start()

    def _give_up(self, line: str) -> None:
        self._answers.write(f"{line.strip()}\n")
        self._answers.flush()
        os._exit(1)


def seat_of(arguments: list[str]) -> tuple[Seat | None, list[str]]:
    """Return the seat of this process, None for the first one, and the other arguments."""
    if arguments and arguments[0].startswith("--seat="):
        return Seat(*json.loads(arguments[0].partition("=")[2])), arguments[1:]
    return None, arguments


def start_team(count: int, arguments: Sequence[str], answers: IO[str]) -> tuple[Seat, Team]:
    """Start a process for each GPU but the first, and return the seat of this one."""
    with socket.socket() as free:
        free.bind((_LOCAL, 0))
        seat = Seat(0, count, f"{_LOCAL}:{free.getsockname()[1]}")
    script = str(Path(__file__).with_name("worker.py"))
    return seat, Team([sys.executable, script, *arguments], seat, answers)


def merge_answers(action: str, answers: Sequence[Any]) -> Any:
    """Return the merged answer of all processes."""
    first = answers[0]
    if action == "start":
        gpus = [gpu for answer in answers for gpu in answer["gpus"]]
        return {**first, "gpus": gpus, "free": min(answer["free"] for answer in answers)}
    if action == "sample":
        return [max(times) for times in zip(*answers)]
    if action == "ceilings":
        return {name: sum(answer[name] for answer in answers) for name in first}
    if action in {"prepare", "finish"}:
        return _merge_results(answers)
    if action == "libraries":
        return sorted({path for answer in answers for path in answer})
    return min(answers) if action == "free" else first


def _merge_results(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    merged = dict(answers[0])
    if "error" in merged:
        names = OutputDifference._fields
        merged.update(
            worst(
                OutputDifference(*(answer[name] for name in names)) for answer in answers
            )._asdict()
        )
    for name in ("seconds", "rival_seconds", "differing", "difference", "leak", "peak"):
        if name in merged:
            merged[name] = max(answer[name] for answer in answers)
    if "digest" in merged:
        merged["digest"] = " ".join(answer["digest"] for answer in answers)
    if merged.get("rival_error") is not None:
        error = 0.0
        for answer in answers:
            error = larger(error, answer["rival_error"])
        merged["rival_error"] = error
    if "kernels" in merged:
        merged["kernels"] = [kernel for answer in answers for kernel in answer["kernels"]]
        merged["unread"] = next((answer["unread"] for answer in answers if answer["unread"]), "")
    return merged


def _silence() -> dict[str, str]:
    what = "the process of another GPU ended, or didn't answer in time"
    return {"kind": "failed", "what": what, "traceback": what}
