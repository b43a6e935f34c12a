"""A probe in one process for each GPU: started, asked the same at the same time, answers merged.

Packages such as JAXMg 1.x want a process of its own for each GPU. The first process answers for
all: times are the longest, errors the largest, kernels those of all. Standard library only, Python
3.9 or newer.
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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from differences import (  # type: ignore[import-not-found]
    Difference,
    larger,
    worst,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOCAL = "127.0.0.1"
_GRACE = 45.0  # seconds that the others get when one of them has failed; they may wait for it
_LONGEST = 300.0  # seconds that the others may take longer than the first


class Seat(NamedTuple):
    """One process of several.

    Attributes:
        rank: its number, and that of its GPU, from 0.
        size: how many processes there are.
        address: where the first one can listen for the others: `127.0.0.1:40000`.
    """

    rank: int = 0
    size: int = 1
    address: str = ""


def free_address() -> str:
    """An address of this machine on which nobody listens."""
    with socket.socket() as found:
        found.bind((_LOCAL, 0))
        return f"{_LOCAL}:{found.getsockname()[1]}"


class Team:
    """The processes beside the first.

    Args:
        command: words that start one; its seat is put before the last ones.
        seat: of the first.
        answers: where the first one answers, for when it can't any more.
    """

    def __init__(self, command: Sequence[str], seat: Seat, answers: IO[str]) -> None:
        """Start them."""
        self._answers = answers
        self._overdue: list[threading.Timer] = []
        self._is_broken = False
        self._members = [
            self._start(command, seat._replace(rank=rank)) for rank in range(1, seat.size)
        ]

    def ask(self, line: str) -> None:
        """Give each of them a question; a process that is gone gives no answer."""
        for child, _ in self._members:
            _write(child.stdin, line)

    def merge(self, action: str, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer of all, from that of the first.

        Args:
            action: what was asked for.
            answer: of the first: `answer` or `failure`.
        """
        if self._is_broken:
            return answer if action == "libraries" else {"failure": _silence()}
        end = time.monotonic() + (_GRACE if "failure" in answer else _LONGEST)
        found = [answer]
        for child, lines in self._members:
            try:
                line = lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = ""
            if not line:
                self._is_broken = True  # a late answer would be taken for that of the next question
                child.kill()
            found.append(json.loads(line) if line else {"failure": _silence()})
        for timer in self._overdue:
            timer.cancel()
        self._overdue.clear()
        failed = [one for one in found if "failure" in one]
        if failed:
            return failed[0]
        return {"answer": merge_answers(action, [one["answer"] for one in found])}

    def _start(self, command: Sequence[str], seat: Seat) -> tuple[Any, queue.Queue[str]]:
        child = subprocess.Popen(  # noqa: S603 - this script again
            [command[0], command[1], f"--seat={json.dumps(seat)}", *command[2:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert child.stdout  # noqa: S101 - it was asked for as a pipe
            for line in child.stdout:
                if "failure" in json.loads(line):
                    self._expect(line)
                lines.put(line)
            self._expect(json.dumps({"failure": _silence()}))
            lines.put("")

        threading.Thread(target=read, daemon=True).start()
        return child, lines

    def _expect(self, line: str) -> None:
        """Answer for the first process if it hangs because another one failed."""
        timer = threading.Timer(_GRACE, self._give_up, [line])
        timer.daemon = True
        self._overdue.append(timer)
        timer.start()

    def _give_up(self, line: str) -> None:
        self._answers.write(f"{line.strip()}\n")
        self._answers.flush()
        os._exit(1)


def seat_of(arguments: list[str]) -> tuple[Seat | None, list[str]]:
    """The seat that this process was started with, None for the first one; the other arguments."""
    if arguments and arguments[0].startswith("--seat="):
        return Seat(*json.loads(arguments[0].partition("=")[2])), arguments[1:]
    return None, arguments


def start_team(count: int, arguments: Sequence[str], answers: IO[str]) -> tuple[Seat, Team]:
    """Start a process for each GPU but the first; the seat of this one.

    Args:
        count: GPUs.
        arguments: that the first process was started with.
        answers: where that one answers.
    """
    seat = Seat(0, count, free_address())
    script = str(Path(__file__).with_name("worker.py"))
    return seat, Team([sys.executable, script, *arguments], seat, answers)


def merge_answers(action: str, answers: Sequence[Any]) -> Any:
    """What all processes together have to say.

    Args:
        action: what was asked for.
        answers: of each process, that of the first GPU first.
    """
    first = answers[0]
    if action == "start":
        gpus = [gpu for one in answers for gpu in one["gpus"]]
        return {**first, "gpus": gpus, "free": min(one["free"] for one in answers)}
    if action == "sample":
        return [max(times) for times in zip(*answers)]
    if action == "ceilings":
        return {name: sum(one[name] for one in answers) for name in first}
    if action == "libraries":
        return sorted({path for one in answers for path in one})
    if action in {"prepare", "finish"}:
        return _merge_results(answers)
    return first


def _merge_results(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = dict(answers[0])
    if "error" in found:
        names = Difference._fields
        found.update(worst(Difference(*(one[name] for name in names)) for one in answers)._asdict())
    for name in ("seconds", "rival_seconds"):
        if name in found:
            found[name] = max(one[name] for one in answers)
    if found.get("rival_error") is not None:
        error = 0.0
        for one in answers:
            error = larger(error, one["rival_error"])
        found["rival_error"] = error
    if "kernels" in found:
        found["kernels"] = [kernel for one in answers for kernel in one["kernels"]]
        found["unread"] = next((one["unread"] for one in answers if one["unread"]), "")
    return found


def _write(stream: IO[str], line: str) -> None:
    with contextlib.suppress(OSError):
        stream.write(f"{line.strip()}\n")
        stream.flush()


def _silence() -> dict[str, str]:
    what = "the process of another GPU ended, or didn't answer in time"
    return {"kind": "failed", "what": what, "traceback": what}
