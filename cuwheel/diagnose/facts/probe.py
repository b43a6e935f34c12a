"""Run the script that an environment's own interpreter answers questions with."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.errors import CommandFailedError
from cuwheel.standalone import script
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping


_SCRIPT = script("probes/environment.py")
_KILLED = -9


def ask_probe(
    python: Path, question: Mapping[str, object], environ: Mapping[str, str], limit: float
) -> tuple[dict[str, Any], str, str]:
    """Ask one question.

    Args:
        python: the interpreter.
        question: as the script takes it.
        environ: what it is to see.
        limit: seconds.

    Returns:
        The answer as far as it came, what was said beside it, and why it isn't complete.
    """
    with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
        written = Path(folder, "answer.json")
        try:
            done = run(
                [python, _SCRIPT, json.dumps(question), written],
                env=environ,
                cwd=Path(folder),
                timeout=limit,
                check=False,
            )
        except CommandFailedError as error:
            return {}, "", error.why
        try:
            answer: dict[str, Any] = json.loads(read_text(written))
        except (OSError, ValueError):
            answer = {}
    if answer.get("complete"):
        return answer, done.output, ""
    if done.status == _KILLED:
        return answer, done.output, f"no answer within {limit:.0f} s"
    how = f"signal {-done.status}" if done.status < 0 else f"status {done.status}"
    return answer, done.output, f"it ended with {how}"
