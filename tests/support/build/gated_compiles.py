"""Compilers that only take memory, and the memory gate as a build calls it, for tests."""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base import free_memory
from cuwheel.base.free_memory import Memory
from cuwheel.base.system import process
from cuwheel.build.compile.memory.peaks import Peaks
from cuwheel.build.compile.memory.service import serve_memory
from cuwheel.build.compile.toolkit_view import copy_scripts

MIB = 1 << 20
PYTHON = Path(sys.executable).resolve()

# hog SOURCE MIB GROW_MS HOLD: grow to so much memory, hold it for so many milliseconds or until a
# file is there, end with status 0.
_HOG = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    int mib = atoi(words[2]), grow = atoi(words[3]), done;
    char *memory = malloc((size_t)mib << 20);
    for (done = 0; done < mib; done++) {
        memset(memory + ((size_t)done << 20), 1, 1 << 20);
        usleep(1000 * grow / mib);
    }
    if (words[4][0] == '/')
        while (access(words[4], F_OK)) usleep(5000);
    else
        usleep(1000 * atoi(words[4]));
    return memory[((size_t)mib << 20) - 1] - 1;
}
"""


def limit_memory(folder: str, budget: int) -> Callable[[], Memory]:
    """Return `read_memory` where the programs of a folder have a limit, as that of a cgroup."""

    def taken(process: Path) -> int:
        try:
            if (process / "exe").readlink().is_relative_to(folder):
                return int((process / "statm").read_text().split()[1]) << 12
        except (OSError, IndexError):
            pass
        return 0

    look = free_memory.read_memory

    def limited() -> Memory:
        memory = look()
        memory.pressed = False
        if budget:
            used = sum(map(taken, Path("/proc").glob("[0-9]*")))
            whole = budget + (64 << 20)
            memory.levels.append(free_memory.MemoryLimit("test", whole, whole - used))
        return memory

    return limited


# As the stub that a build's shims start, with that limit.
_STUB = f"""
from __future__ import annotations
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from cuwheel.base import free_memory
from cuwheel.build.compile.memory_gate import gate
{inspect.getsource(limit_memory)}
free_memory.read_memory = limit_memory(sys.argv[2], int(sys.argv[3]))
sys.exit(gate.main(sys.argv[4], sys.argv[5:]))
"""


@functools.cache
def gate_folder() -> Path:
    """Return a folder with the gate's scripts, as a build's launcher has them."""
    folder = Path(tempfile.mkdtemp(prefix="gate-"))
    atexit.register(shutil.rmtree, folder)
    copy_scripts(folder)
    return folder


@functools.cache
def _compiled_hog() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "hog.c")
        source.write_text(_HOG)
        command = ("cc", "-O1", "-o", source.with_suffix(""), source)
        process.run(command, env={"PATH": os.environ["PATH"]})
        return source.with_suffix("").read_bytes()


@dataclass(frozen=True, kw_only=True)
class Gated:
    """A folder with programs, and what their gate shares and writes.

    Attributes:
        folder: of the test.
        budget: bytes that all hogs together may take; 0: as many as the machine has.
        variables: more of them for the gate.
        shared: folder that several builds share; None: one in `folder`.
    """

    folder: Path
    budget: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    shared: Path | None = None

    @property
    def programs(self) -> Path:
        return self.folder / "programs"

    @property
    def memory(self) -> Path:
        return self.shared or self.folder / "memory"

    @property
    def socket(self) -> Path:
        return self.folder / "memory.sock"

    @contextlib.contextmanager
    def served(self, *, jobs: int = 16, per_job: int = 2048 * MIB) -> Iterator[Gated]:
        """Serve the gates as the engine does, until the block ends."""
        with pytest.MonkeyPatch.context() as patch:
            limited = limit_memory(str(self.folder), self.budget)
            patch.setattr("cuwheel.build.compile.memory.queue.read_memory", limited)
            with serve_memory(
                self.socket, self.memory, "tiny", jobs=jobs, per_job=per_job, warn=pytest.fail
            ):
                yield self

    @property
    def go(self) -> Path:
        """The file for which hogs may be told to wait."""
        return self.folder / "go"

    @property
    def ledger(self) -> Path:
        """The folder of entries."""
        (folder,) = self.memory.glob("gated-*")
        return folder

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.defpath,
            "CUWHEEL_MEMORY": str(self.socket),
            "CUWHEEL_EVENTS": str(self.folder / "events.jsonl"),
            **self.variables,
        }

    def program(self, tool: str, text: str) -> Path:
        """A shell script of a compiler's name."""
        path = self.programs / tool
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)
        return path

    def hog(self, tool: str = "cicc") -> Path:
        """A compiler that takes what memory it is told to."""
        path = self.programs / tool
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(_compiled_hog())
            path.chmod(0o755)
        return path

    def source(self, name: str) -> Path:
        path = self.folder / f"{name}.ii"
        path.touch()
        return path

    def command(self, program: Path, *words: str | Path) -> list[str]:
        stub = self.folder / "stub.py"
        stub.write_text(_STUB)
        start = (PYTHON, "-ISB", stub, gate_folder(), self.folder, self.budget, program)
        return [str(word) for word in (*start, *words)]

    def start(self, program: Path, *words: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        command = self.command(program, *words)
        return subprocess.Popen(command, env=self.environment(), **options)

    def start_hog(
        self, name: str, mib: int, *, grow: int = 100, hold: int | Path = 100, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a hog behind the gate; times in milliseconds, or a file that it waits for."""
        words = [str(word) for word in (mib, grow, hold)]
        return self.start(self.hog(), self.source(name), *words, **options)

    def run(self, program: Path, *words: str | Path, **options: Any) -> int:
        """Exit status."""
        return self.start(program, *words, **options).wait(60)

    def teach(self, name: str, mib: int) -> None:
        """Let the gate know what a hog takes."""
        peaks = Peaks(self.memory, "tiny", 0)
        peaks.learn("cicc", f"{self.source(name)} ", mib * MIB)

    def events(self) -> list[dict[str, Any]]:
        log = self.folder / "events.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def event_of(self, name: str) -> dict[str, Any]:
        (event,) = (event for event in self.events() if Path(event["file"]).stem == name)
        return event

    def entries(self) -> list[Path]:
        """Files of those who wait or run."""
        return sorted(self.ledger.glob("[0-9]*"))

    def wait_for_entries(self, count: int) -> list[Path]:
        for _ in range(500):
            if self.memory.exists() and list(self.memory.glob("gated-*")):
                entries = self.entries()
                if len(entries) == count and all(path.stat().st_size for path in entries):
                    return entries
            time.sleep(0.01)
        raise AssertionError(f"not {count} entries: {list(self.memory.rglob('*'))}")
