"""Compile with nvcc through the real launcher, the toolkit's view and a compile cache."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuwheel.base.system.process import Finished, run
from cuwheel.build.compile.cache.compile_cache import CacheProgram
from cuwheel.build.compile.events import EVENTS_LOG, Events, read_events
from tests.support.build.compile_caches import Bench
from tests.support.build.launchers import ALL_FLAGS, make_bench

ARCHS = ("80", "90")

# An anonymous namespace, no symbol that others see, the time and the path: what once made objects
# differ from compile to compile.
KERNEL = """\
#include <cstdio>
namespace {
__global__ void fill(int* to) { to[threadIdx.x] = %d; printf(__DATE__ __FILE__); }
struct Start { Start() { fill<<<1, 32>>>(nullptr); } } start;
}
"""


@dataclass(frozen=True, kw_only=True)
class LaunchedBench(Bench):
    """A bench with a toolkit's view and a launcher.

    Attributes:
        home: the CUDA home.
    """

    home: Path

    def launch_ready(self) -> LaunchedBench:
        """Make view and launcher anew."""
        self.set_up()
        shutil.rmtree(self.folder / "launched", ignore_errors=True)
        make_bench(
            self.folder / "launched",
            self.home,
            source=self.folder / "tree",
            flags=self.program.nvcc_flags(ALL_FLAGS),
            fingerprint=self.fingerprint,
            cache=self.cache.prefix,
            events=str(self.events_log),
        )
        return self

    def ready(self, **changes: Any) -> LaunchedBench:
        """The same with changes, with its own view and launcher."""
        return replace(self, **changes).launch_ready()

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "CUWHEEL_EVENTS": str(self.events_log)}

    @property
    def events_log(self) -> Path:
        return self.cache.log_folder / EVENTS_LOG

    @property
    def nvcc(self) -> str:
        return str(self.folder / "launched" / "cuda" / "bin" / "nvcc")

    def nvcc_words(self, source: Path, *options: str, archs: tuple[str, ...] = ARCHS) -> list[str]:
        """The command that compiles a file to the object beside it."""
        output = source.with_suffix(".o")
        output.unlink(missing_ok=True)
        codes = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
        return [self.nvcc, "-c", str(source), "-o", str(output), *codes, *options]

    def compile_cuda(self, source: Path, *options: str, archs: tuple[str, ...] = ARCHS) -> Finished:
        return self.run(self.nvcc_words(source, *options, archs=archs))

    def write(self, name: str = "fill.cu", number: int = 1) -> Path:
        """A source file; `number` makes it another one."""
        path = self.folder / "tree" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(KERNEL % number)
        return path

    def take_events(self) -> Events:
        """What was compiled since the last time."""
        events = read_events(self.events_log)
        self.events_log.unlink(missing_ok=True)
        return events

    def tools(self) -> list[str]:
        """Names of the parts of nvcc that have run since the last time."""
        return sorted(tool.name for tool in self.take_events().tools)


def new_launched(folder: Path, program: CacheProgram, home: Path) -> LaunchedBench:
    """A bench that is ready."""
    bench = LaunchedBench(folder=folder, program=program, python=Path(sys.executable), home=home)
    return bench.launch_ready()


def stripped(source: Path) -> bytes:
    """The object beside a source as the linker's `-s` leaves it."""
    output = source.with_suffix(".o")
    bare = output.with_suffix(".bare")
    run(["strip", "--strip-debug", "-o", bare, output], env={"PATH": "/usr/bin:/bin"})
    return bare.read_bytes()
