"""Run compiles of a package's build, several at once, inside the sandbox.

`python -ISB run_compiles.py FILE JOBS`. FILE has a line of JSON for each compile: its name, folder,
arguments and variables. Each compile's output is printed when it has ended. After the first failure
none is started; the exit status is that one's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Compiles:
    """The compiles of one run."""

    def __init__(self, compiles: list[dict[str, Any]]) -> None:
        self.status = 0
        self._compiles = compiles
        self._ended = 0
        self._lock = threading.Lock()

    def run(self, jobs: int) -> int:
        """Run them in their order, so many at once; return the first exit status that isn't 0."""
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self._run, self._compiles))
        return self.status

    def _run(self, compile_: dict[str, Any]) -> None:
        if self.status:
            return
        try:
            done = _start(compile_)
            output, status = done.stdout, done.returncode
        except (OSError, ValueError) as problem:  # such as a zero byte in a word
            output, status = f"it can't be started: {problem}\n".encode("utf-8", "replace"), 127
        with self._lock:
            self._ended += 1
            line = f"[{self._ended}/{len(self._compiles)}] {compile_['name']}\n"
            sys.stdout.buffer.write(line.encode("utf-8", "replace") + output)
            sys.stdout.flush()
            self.status = self.status or (status if status >= 0 else 128 - status)


def _start(compile_: dict[str, Any]) -> subprocess.CompletedProcess[bytes]:
    variables = [text.split("=", 1) for text in compile_["variables"]]
    return subprocess.run(  # noqa: S603 - the package's own
        compile_["arguments"],
        cwd=compile_["folder"],
        # What has no "=" is no variable to any program: only `execve` itself can pass it.
        env={pair[0]: pair[1] for pair in variables if pair[0] and len(pair) > 1},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def main(path: str, jobs: str) -> int:
    """Run the compiles of a file."""
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123 - as the launcher's scripts
        compiles = [json.loads(line) for line in stream]
    return Compiles(compiles).run(int(jobs))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
