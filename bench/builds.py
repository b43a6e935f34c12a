"""How long builds take: the package's own build, fromager and cuwheel in one run.

Run it with `nox -s bench -- builds`. Toolchain and packages are there before anything is timed.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.contenders import (
    FROMAGER_LOCK,
    build_raw,
    build_with_fromager,
    install_fromager,
    prepare,
)
from bench.records import Row, Turn, build_rows, read_record, today, watched, write_record
from bench.report import BUILD_WAYS, builds_section, write_section
from cuwheel.base.caller import read_caller
from cuwheel.base.errors import CuwheelError, UsageError
from cuwheel.base.formats.signing_keys import make_signing_key
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree, sha256_of_file
from cuwheel.base.system.machine import usable_cores
from cuwheel.build.compile.cache.compile_cache import (
    DIRECT_VARIABLE,
    FOLDER_VARIABLE,
    choose_program,
)
from cuwheel.build.compile.cache.remote import (
    KEYS_VARIABLE,
    REMOTE_VARIABLE,
    SAMPLE_VARIABLE,
    SIGN_VARIABLE,
)
from cuwheel.build.compile.events import EVENTS_LOG, read_events
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.pipeline.summary import summary_in
from cuwheel.build.workspace.records import SourceTree
from cuwheel.publish.rebuild.builds import Variation, rebuild

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / "results"

_SHORT_TURNS = 3
_SHORT = ("warm", "asking", "unchanged")
_LONG = ("raw", "fromager", "cold")
# What the others start from: the wheel or the compile cache of a cold build.
_AFTER_COLD = ("warm", "asking", "unchanged", "second-python", "more-archs", "patched")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured.

    Attributes:
        package: name of the recipe.
        toolkit: its tag, `130`.
        archs: for all ways but one.
        more_archs: what that one has beside them.
        python: a release or a path.
        second_python: likewise.
        jobs: compiles at once.
        turns: of the long ways.
        ways: names, in order.
        folder: for everything that is built; emptied first.
        source: in place of the recipe's; empty: the recipe's.
    """

    package: str
    toolkit: str
    archs: tuple[str, ...]
    more_archs: tuple[str, ...]
    python: str
    second_python: str
    jobs: int
    turns: int
    ways: tuple[str, ...]
    folder: Path
    source: str = ""

    def command(self, python: str, archs: Sequence[str]) -> list[str]:
        """The words behind `build`."""
        words = [f"{self.package}-{self.toolkit}", "--python", python, "--jobs", str(self.jobs)]
        words += [word for arch in archs for word in ("--arch", arch)]
        return words + (["--source", self.source] if self.source else [])

    @property
    def schedule(self) -> list[str]:
        """Each way as often as it is run; the long ones take turns."""
        long = [way for way in _LONG if way in self.ways]
        rest = [way for way in self.ways if way not in _LONG]
        short = [way for way in rest for _ in range(_SHORT_TURNS if way in _SHORT else 1)]
        return long * self.turns + short


class Builds:
    """The ways to build, each with folders of its own.

    Args:
        plan: what is measured.
        console: shows how it goes.
    """

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self.console = console
        self._compiles = plan.folder / "compiles"
        self._asked = plan.command(plan.python, plan.archs)
        self.prepared = prepare(self._asked, plan.folder, plan.jobs, console)
        self.second_python = plan.second_python

    def prepare_others(self) -> None:
        """Download what the second Python needs, so that its build doesn't."""
        plan = self._plan
        if "second-python" in plan.ways:
            asked = plan.command(plan.second_python, plan.archs)
            second = prepare(asked, plan.folder, plan.jobs, self.console)
            self.second_python = second.target.python
        if "fromager" in plan.ways:
            install_fromager(self.prepared)

    def run(self, way: str) -> Turn:
        """One turn of a way.

        Raises:
            CuwheelError: it failed.
        """
        ways: dict[str, Callable[[], Turn]] = {
            "raw": lambda: build_raw(self.prepared, self._folder("raw")),
            "fromager": lambda: build_with_fromager(self.prepared, self._folder("fromager")),
            "cold": self._cold,
            "no-cache": self._no_cache,
            "warm": lambda: self._ours("warm", self._asked, self._compiles),
            "asking": self._asking,
            "unchanged": self._unchanged,
            "second-python": self._second_python,
            "other-archs": lambda: self._cold_for("other-archs", self._plan.more_archs),
            "all-archs": lambda: self._cold_for("all-archs", self._all_archs),
            "more-archs": lambda: self._ours(
                "more-archs", self._asked_for(self._all_archs), self._copied("more-archs")
            ),
            "patched": self._patched,
            "signed": self._signed,
        }
        return ways[way]()

    def _cold(self) -> Turn:
        remove_tree(self._compiles)
        return self._ours("cold", self._asked, self._compiles)

    def _no_cache(self) -> Turn:
        return self._ours("no-cache", [*self._asked, "--no-cache"], self._folder("no-compiles"))

    def _asking(self) -> Turn:
        """As it was before the launcher kept objects itself."""
        off = {DIRECT_VARIABLE: "off"}
        return self._ours("asking", self._asked, self._compiles, off)

    def _second_python(self) -> Turn:
        asked = self._plan.command(self._plan.second_python, self._plan.archs)
        return self._ours("second-python", asked, self._copied("second-python"))

    @property
    def _all_archs(self) -> tuple[str, ...]:
        return (*self._plan.more_archs, *self._plan.archs)

    def _asked_for(self, archs: Sequence[str]) -> list[str]:
        return self._plan.command(self._plan.python, archs)

    def _cold_for(self, name: str, archs: Sequence[str]) -> Turn:
        return self._ours(name, self._asked_for(archs), self._emptied(name))

    def _patched(self) -> Turn:
        """Build a source with one more kernel in one of its files."""
        source, compiles = self._folder("patched-source"), self._copied("patched")
        remove_tree(source)
        original = self.prepared.workspace.load("source", SourceTree).path
        shutil.copytree(original, source, symlinks=True)
        file = min(source.rglob("*.cu"), key=lambda path: (path.stat().st_size, path))
        with file.open("a") as stream:
            stream.write("\n__global__ void cuwheel_bench(int *to) { *to = 1; }\n")
        name = self.prepared.target.recipe.name  # a build of another source has its own cache
        if not self._plan.source:
            (compiles / name).rename(compiles / f"{name}.source")
        words = replace(self._plan, source=str(source)).command(self._plan.python, self._plan.archs)
        return self._ours("patched", words, compiles)

    def _signed(self) -> Turn:
        """Build with an empty compile cache, and a signed remote one that a build before filled."""
        private = self._folder("signing-key.pem")
        remove_tree(private)
        key = make_signing_key(private)
        remote = {REMOTE_VARIABLE: f"file:{self._folder('remote')}"}
        read = {**remote, KEYS_VARIABLE: key.public.word, SAMPLE_VARIABLE: "0"}
        for name, variables in (
            ("filling", {**remote, SIGN_VARIABLE: str(private)}),
            ("signed", read),
        ):
            turn = self._ours(name, self._asked, self._emptied(name), variables)
        return turn

    def _folder(self, name: str) -> Path:
        return self._plan.folder / name

    def _emptied(self, name: str) -> Path:
        compiles = self._folder(f"compiles-{name}")
        remove_tree(compiles)
        return compiles

    def _copied(self, name: str) -> Path:
        """The compile cache as the cold build left it."""
        copy = self._folder(f"compiles-{name}")
        remove_tree(copy)
        shutil.copytree(self._compiles, copy)
        return copy

    def _ours(
        self,
        name: str,
        asked: Sequence[str],
        compiles: Path,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Turn:
        """Build in an empty work folder."""
        folder = self._folder(name)
        remove_tree(folder)
        how = self._variation(name, compiles)
        how = replace(how, variables={**how.variables, **variables})
        turn, summary = self._measure(how, asked)
        [build] = [seconds for stage, seconds in summary["durations"] if stage == "build"]
        [log] = how.work.glob(f"*/logs/{EVENTS_LOG}")
        events = read_events(log)
        ran = Counter(tool.name for tool in events.tools)
        return replace(
            turn,
            build=build,
            cache=summary["cache"],
            cicc=ran["cicc"],
            ptxas=ran["ptxas"],
            taken=events.reused + events.shared,
        )

    def _unchanged(self) -> Turn:
        """Ask for the cold build again, in its own folders."""
        how = self._variation("cold", self._compiles)
        [wheel] = how.dist.glob("*.whl")
        before = wheel.stat().st_mtime_ns
        turn, _ = self._measure(how, self._asked)
        if wheel.stat().st_mtime_ns != before:
            raise UsageError(
                "the build that should have found nothing to do was not skipped",
                why="an input of its rebuild key has changed in the meantime",
                fix="make sure that nobody changes the sources while the benchmark runs",
            )
        return turn

    def _variation(self, name: str, compiles: Path) -> Variation:
        folder = self._folder(name)
        return Variation(
            name=name,
            description=name,
            work=folder / "work",
            dist=folder / "dist",
            caller=read_caller(),
            variables={FOLDER_VARIABLE: str(compiles)},
        )

    def _measure(self, how: Variation, asked: Sequence[str]) -> tuple[Turn, dict[str, Any]]:
        with watched() as found:
            made = rebuild(asked, how, self.console)
        summary = summary_in(how.dist)
        sha256 = sha256_of_file(made.wheel)
        return Turn.of(found[0], build=0.0, sha256=sha256), summary


def measure(plan: Plan, builds: Builds, keep: Callable[[Mapping[str, Row]], None]) -> None:
    """Take all turns.

    A way that fails is noted, and the ways that start from what it would have left are left out.

    Args:
        plan: what is measured.
        builds: its ways.
        keep: called with all rows after each turn.
    """
    rows: dict[str, Row] = {}
    for way in plan.schedule:
        row = rows.get(way, Row(name=way))
        if row.failed or (way in _AFTER_COLD and not _has_turns(rows, "cold")):
            continue
        rows[way] = _with_turn(row, builds)
        keep(rows)


def _with_turn(row: Row, builds: Builds) -> Row:
    try:
        with builds.console.stage(row.name):
            return replace(row, turns=(*row.turns, builds.run(row.name)))
    except CuwheelError as error:
        builds.console.terminal.print(str(error), markup=False)
        return replace(row, failed=error.what)


def _has_turns(rows: Mapping[str, Row], way: str) -> bool:
    return way in rows and bool(rows[way].turns)


def settings_of(plan: Plan, builds: Builds) -> dict[str, Any]:
    """What a record says of how it was made."""
    cache = choose_program(os.environ)
    return {
        "package": plan.package,
        "version": builds.prepared.target.recipe.version,
        "toolkit": plan.toolkit,
        "archs": plan.archs,
        "all_archs": (*plan.more_archs, *plan.archs),
        "python": builds.prepared.target.python,
        "second_python": builds.second_python,
        "jobs": plan.jobs,
        "compiler": builds.prepared.machine.host_compiler_version,
        "cache": f"{cache.name} {cache.version}".strip(),
        "fromager": pinned_version(FROMAGER_LOCK, "fromager"),
    }


def main(arguments: Sequence[str]) -> int:
    """Measure, keep JSON after each turn, and write the table at the end.

    Returns:
        0; 1 where something failed.
    """
    asked = _parser().parse_args(arguments)
    console = Console()
    try:
        if not asked.table:
            asked.table = asked.json or RESULTS / f"builds-{today()}.json"
            _measure_all(_plan_of(asked), asked.table, console)
        content = read_record(asked.table)
        section = builds_section(content)
        write_section(asked.page, "builds", section)
    except CuwheelError as error:
        console.terminal.print(str(error), markup=False)
        return error.exit_code
    console.terminal.print(section, markup=False, soft_wrap=True)
    return int(any(row.failed for row in build_rows(content).values()))


def _measure_all(plan: Plan, record: Path, console: Console) -> None:
    remove_tree(plan.folder)
    builds = Builds(plan, console)
    builds.prepare_others()
    settings = settings_of(plan, builds)
    measure(plan, builds, lambda rows: write_record(record, settings, rows))


def _plan_of(asked: argparse.Namespace) -> Plan:
    return Plan(
        package=asked.package,
        toolkit=asked.toolkit,
        archs=tuple(asked.arch),
        more_archs=tuple(asked.more_arch),
        python=asked.python,
        second_python=asked.second_python,
        jobs=asked.jobs,
        turns=asked.turns,
        ways=tuple(way for way in BUILD_WAYS if way in asked.ways),
        folder=asked.work.absolute(),
        source=asked.source,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nox -s bench -- builds", description=__doc__)
    add = parser.add_argument
    add("--package", default="causal-conv1d", help="a recipe")
    add("--toolkit", default="130", help="its tag")
    add("--arch", nargs="+", default=["90"], help="compute capabilities without dot")
    add("--more-arch", nargs="+", default=["80"], help="the additional archs of one of the ways")
    add("--python", default="3.12", help="a release, or a path")
    add("--second-python", default="3.13", help="likewise")
    add("--jobs", type=int, default=usable_cores(os.environ), help="compiles at once")
    add("--turns", type=int, default=1, help="of raw, fromager and cold, in alternation")
    add("--ways", nargs="+", choices=tuple(BUILD_WAYS), default=tuple(BUILD_WAYS))
    add("--source", default="", help="build this folder instead of the recipe's source")
    add("--work", type=Path, default=ROOT / "work" / "bench", help="emptied first; it is kept")
    add("--json", type=Path, help="the record; default: bench/results/builds-DATE.json")
    add("--page", type=Path, default=PAGE, help="the page that gets the table")
    add("--table", type=Path, metavar="JSON", help="measure nothing, write this record's table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
