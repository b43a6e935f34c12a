"""What shards cost: a wheel in one piece, and the same in shards, one after the other.

Run it with `nox -s bench -- shards --count 3 -- causal-conv1d-130 --arch 90`. Each shard has the
whole machine and a compile cache of its own, as if it were a node without a shared disk; the last
build has all of them. Work is processor time of all programs of compilers, by the event logs.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.process import run
from cuwheel.build.compile.cache.compile_cache import FOLDER_VARIABLE
from cuwheel.build.compile.events import EVENTS_LOG, read_events


@dataclass(frozen=True, kw_only=True)
class Command:
    """A build that has ended.

    Attributes:
        work: seconds of processor time.
        device_runs: files and archs for which a program made device code; none of a shard.
        document: what it printed as JSON.
    """

    work: float
    device_runs: int
    document: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one comparison; each is a ratio, but for the first."""

    twice: int
    work: float
    longest: float
    efficiency: float
    is_same: bool

    def rows(self) -> list[str]:
        """Return a table's rows."""
        return [
            f"compiled twice, or by none: {self.twice}",
            f"work of shards and last build / work in one piece: {self.work:.3f}",
            f"longest shard / mean: {self.longest:.3f}",
            f"work in one piece / (shards * longest): {self.efficiency:.3f}",
            f"same bytes: {'yes' if self.is_same else 'NO'}",
        ]


def build(words: Sequence[str], compiles: Path, folder: Path) -> Command:
    """Run a build in folders of its own.

    Raises:
        CommandFailedError: it failed.
    """
    folders = ("--work", str(folder / "work"), "--dist", str(folder / "dist"), "--json")
    command = [sys.executable, "-m", "cuwheel", "build", *words, *folders]
    done = run(command, env={**os.environ, FOLDER_VARIABLE: str(compiles)}, cwd=ROOT)
    lines = [line for line in done.output.splitlines() if line.startswith("{")]
    document = json.loads(lines[-1])
    if shard := document["shard"]:
        return Command(work=shard["seconds"], device_runs=0, document=document)
    [log] = folder.glob(f"work/{document['target']}/logs/{EVENTS_LOG}")
    events = read_events(log)
    work, runs = sum(tool.cpu for tool in events.tools), len(events.device_runs())
    return Command(work=work, device_runs=runs, document=document)


def compare(whole: Command, shards: Sequence[Command], last: Command) -> Figures:
    """Compare a build in one piece with the same in shards."""
    results = [shard.document["shard"] for shard in shards]
    compiled = sum(result["compiled"] for result in results)
    total = results[0]["compiled"] + results[0]["hits"] + results[0]["left"]
    works = [shard.work for shard in shards]
    return Figures(
        twice=abs(compiled - total) + last.device_runs,
        work=(sum(works) + last.work) / whole.work,
        longest=max(works) / statistics.mean(works),
        efficiency=whole.work / (len(shards) * max(works)),
        is_same=whole.document["wheel"]["sha256"] == last.document["wheel"]["sha256"],
    )


def measure(words: Sequence[str], count: int, folder: Path, console: Console) -> Figures:
    """Build in one piece with an empty compile cache, then in shards with other ones."""
    remove_tree(folder)

    def timed(name: str, *more: str, cache: Path, into: str) -> Command:
        done = build((*words, *more), cache, folder / into)
        console.note(f"{name}: {done.work:.1f} s of work")
        return done

    whole = timed("in one piece", cache=folder / "whole-compiles", into="whole")
    known = folder / "whole-compiles" / ".shards"
    joined = folder / "compiles"
    shards = []
    for number in range(1, count + 1):
        own = folder / f"compiles-{number}"
        # As on later builds: the plan knows what each file takes.
        _join(known, own / ".shards")
        words_of = ("--shard", f"{number}/{count}")
        shards.append(timed(f"shard {number}", *words_of, cache=own, into="parts"))
        _join(own, joined)
    return compare(whole, shards, timed("last build", cache=joined, into="parts"))


def _join(folder: Path, into: Path) -> None:
    """Copy the files of a compile cache to those of another one."""
    into.mkdir(parents=True, exist_ok=True)
    run(["cp", "-r", "--no-target-directory", folder, into], env=os.environ)


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures; return the exit status."""
    parser = argparse.ArgumentParser(prog="nox -s bench -- shards", description=__doc__)
    parser.add_argument("--count", type=int, default=3, help="shards; default: 3")
    parser.add_argument("--folder", type=Path, default=ROOT / "work" / "bench-shards")
    parser.add_argument("words", nargs="+", help="behind --: a target, and options of its build")
    asked = parser.parse_args(arguments)
    console = Console()
    try:
        figures = measure(asked.words, asked.count, asked.folder.absolute(), console)
    except CommandFailedError as error:
        console.warn(str(error))
        return 1
    sys.stdout.write("\n".join([*figures.rows(), ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
