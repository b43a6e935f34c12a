"""Compiles that want more memory than there is: by hand, and behind cuwheel's memory gate.

Kernel files of flash-attn, driven by ninja in a cgroup with a limit. Run it with
`nox -s bench -- memory`. What is in the record already isn't run again, unless it is asked for.
"""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cgroup import Cgroup, limited
from bench.kernels import FILES, Plan, default_jobs, plan_of
from bench.records import Watch, read_record, today, write_record
from bench.report import memory_section, write_section
from cuwheel.base.errors import CuwheelError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import remove_tree, write_atomically
from cuwheel.base.system.process import run
from cuwheel.build.compile.events import ProgramRun, read_events
from cuwheel.build.compile.toolkit_view import ToolkitView

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / "results"


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to compile the files.

    Attributes:
        says: for the table; `{default}` is the number of jobs that ninja takes by itself.
        jobs: what `-j` gets; None: ninja is left to itself.
        is_gated: whether nvcc's programs wait for memory.
        per_job: bytes that a recipe would state for one compile; 0: it states nothing.
        keeps: whether what an earlier way learned of the files stays known.
    """

    says: str
    jobs: int | None = None
    is_gated: bool = False
    per_job: int = 0
    keeps: bool = False


# A command with the engine's memory service, both in one cgroup as in a build.
_SERVED = """
import subprocess, sys
from pathlib import Path
from cuwheel.build.compile.memory.service import serve_memory
socket, memory, per_job, *command = sys.argv[1:]
with serve_memory(
    Path(socket), Path(memory), "flash-attn", jobs=0, per_job=int(per_job), warn=print
):
    status = subprocess.call(command)
sys.exit(status)
"""
_UNSTATED = 2 << 30  # a recipe's default
_STATED = 4 << 30  # what a recipe of flash-attn would say
WAYS: Mapping[str, Way] = {
    "raw": Way(says="ninja as it is"),
    "jobs-1": Way(says="`ninja -j1`", jobs=1),
    "jobs-2": Way(says="`ninja -j2`", jobs=2),
    "gate": Way(says="gate, the recipe says 4 GiB", is_gated=True, per_job=_STATED),
    "learned": Way(says="gate, sizes known", is_gated=True, per_job=_STATED, keeps=True),
    "unstated": Way(says="gate, nothing declared or known", is_gated=True),
}
_USUAL = tuple(name for name in WAYS if name != "unstated")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How one way ended.

    Attributes:
        name: of the way.
        says: in words.
        seconds: by the clock.
        files: how many there were to compile.
        done: how many were compiled.
        kills: processes that the kernel killed when it ran out of memory.
        again: how often a program was started again after that.
        waited: seconds that programs waited for memory, together.
        peak: bytes, the most that all processes had together, sampled.
        others: cores that others took, on average.
        tools: what the gate wrote of each program: its file, seconds, peak, expectation, tries.
    """

    name: str
    says: str
    seconds: float
    files: int
    done: int
    kills: int
    again: int
    waited: float
    peak: int
    others: float
    load_before: float
    load_after: float
    tools: tuple[dict[str, Any], ...] = ()


def compile_all(name: str, plan: Plan) -> Outcome:
    """Compile all files in one way, in a cgroup of its own.

    Raises:
        UsageError: no cgroup can be made here.
    """
    way, folder = WAYS[name], plan.folder / name
    remove_tree(folder)
    (folder / "tmp").mkdir(parents=True)
    memory = plan.folder / "memory"
    if way.is_gated and not way.keeps:
        remove_tree(memory)
    nvcc = (
        _furnish_gate(plan, folder) if way.is_gated else plan.prepared.toolchain.home / "bin/nvcc"
    )
    _write_ninja_file(folder, plan, nvcc)
    jobs = (f"-j{way.jobs}",) if way.jobs else ()
    with limited(plan.limit) as cgroup:
        watch = Watch()
        done = run(
            cgroup.within([*_serving(folder, memory, way), plan.ninja, *jobs]),
            env=_environment(folder, way),
            cwd=folder,
            log=folder / "ninja.log",
            check=False,
        )
        return _outcome(name, plan, cgroup, watch, done.peak_memory)


def _outcome(name: str, plan: Plan, cgroup: Cgroup, watch: Watch, peak: int) -> Outcome:
    folder = plan.folder / name
    meanwhile = watch.stop()
    tools = read_events(folder / "events.jsonl").tools
    return Outcome(
        name=name,
        says=WAYS[name].says,
        seconds=meanwhile.seconds,
        files=len(plan.sources),
        done=sum((folder / f"{source.stem}.o").is_file() for source in plan.sources),
        kills=cgroup.kills,
        again=sum(tool.tries - 1 for tool in tools),
        waited=sum(tool.start - tool.asked for tool in tools),
        peak=peak,
        others=meanwhile.others,
        load_before=meanwhile.load_before,
        load_after=meanwhile.load_after,
        tools=tuple(map(_as_data, tools)),
    )


def _as_data(tool: ProgramRun) -> dict[str, Any]:
    return {
        "file": Path(tool.file).stem,
        "name": tool.name,
        "seconds": tool.end - tool.start,
        "waited": tool.start - tool.asked,
        "peak": tool.peak,
        "expected": tool.expected,
        "tries": tool.tries,
    }


def _furnish_gate(plan: Plan, folder: Path) -> Path:
    """The toolkit's view with launcher and gate, as a build has it; its nvcc."""
    prepared = plan.prepared
    inside = prepared.places(folder)
    for made in (inside.view, inside.launcher):
        made.mkdir()
    view = ToolkitView(real=inside, inside=inside, fingerprint=prepared.fingerprint)
    view.make()
    events = str(folder / "events.jsonl")
    view.make_launcher({**view.settings(maps=(), flags=()), "events": events})
    return inside.view / "bin" / "nvcc"


def _write_ninja_file(folder: Path, plan: Plan, nvcc: Path) -> None:
    lines = ["rule run", "  command = $command"]
    for source in plan.sources:
        lines += [f"build {source.stem}.o: run {source}"]
        lines += [f"  command = {plan.command(nvcc, source)}"]
    write_atomically(folder / "build.ninja", "\n".join([*lines, ""]))


def _serving(folder: Path, memory: Path, way: Way) -> list[str]:
    """The start of a command that is served."""
    if not way.is_gated:
        return []
    per_job = str(way.per_job or _UNSTATED)
    return [sys.executable, "-c", _SERVED, str(folder / "memory.sock"), str(memory), per_job]


def _environment(folder: Path, way: Way) -> dict[str, str]:
    stated = {"PATH": SYSTEM_PATH, "TMPDIR": str(folder / "tmp"), "LC_ALL": "C.UTF-8"}
    if way.is_gated:
        stated["PYTHONPATH"] = str(ROOT)
        stated["CUWHEEL_MEMORY"] = str(folder / "memory.sock")
        stated["CUWHEEL_EVENTS"] = str(folder / "events.jsonl")
    return stated


def main(arguments: Sequence[str]) -> int:
    """Measure, keep JSON after each way, and write the table at the end.

    Returns:
        0, or the exit code of the error that was printed.
    """
    asked = _parser().parse_args(arguments)
    console = Console()
    try:
        if not asked.table:
            asked.table = asked.json or RESULTS / f"memory-{today()}.json"
            _measure_all(asked, asked.table, console)
        section = memory_section(read_record(asked.table))
        write_section(asked.page, "memory", section)
    except CuwheelError as error:
        console.terminal.print(str(error), markup=False)
        return error.exit_code
    console.terminal.print(section, markup=False, soft_wrap=True)
    return 0


def _measure_all(asked: argparse.Namespace, record: Path, console: Console) -> None:
    plan = plan_of(asked, console)
    with limited(plan.limit) as cgroup:
        settings = _settings_of(plan, cgroup.version)
    rows = {} if asked.again else _rows_of(record, settings)
    for name in asked.ways:
        if name in rows:
            console.note(f"{name} is in {record} already")
            continue
        with console.stage(name):
            outcome = compile_all(name, plan)
        rows[name] = dataclasses.asdict(outcome)
        _write(record, settings, rows)


def _write(record: Path, settings: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
    ordered = {name: Outcome(**rows[name]) for name in WAYS if name in rows}
    write_record(record, settings, ordered)


def _rows_of(record: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured before with these very settings."""
    if not record.is_file():
        return {}
    content = read_record(record)
    if content["settings"] != settings:
        raise UsageError(
            f"{record} is the record of another measurement",
            why="its files, its limit or its toolkit are not the requested ones",
            fix="name another file with --json, or start over with --again",
        )
    return {row["name"]: row for row in content["rows"]}


def _settings_of(plan: Plan, cgroup: int) -> dict[str, Any]:
    """As JSON gives it back, so that it can be compared."""
    return {
        "sources": plan.origin,
        "files": [source.name for source in plan.sources],
        "arch": plan.arch,
        "limit": plan.limit,
        "cgroup": cgroup,
        "toolkit": plan.prepared.toolchain.version,
        "compiler": plan.prepared.machine.host_compiler_version,
        "default_jobs": default_jobs(plan.ninja),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nox -s bench -- memory", description=__doc__)
    add = parser.add_argument
    add("--files", type=int, default=len(FILES), help="how many of the files")
    add("--limit", type=int, default=6144, help="MiB for all of it")
    add("--arch", default="80", help="compute capability without dot")
    add("--ways", nargs="+", choices=tuple(WAYS), default=_USUAL)
    add("--package", default="causal-conv1d", help="a recipe whose build environment is used")
    add("--package-source", default="", help="a folder instead of its source")
    add("--toolkit", default="130", help="its tag")
    add("--python", default="3.12", help="a release, or a path")
    add("--sources", type=Path, help="a folder of .cu files instead of flash-attn's")
    add("--again", action="store_true", help="also measure what is in the record already")
    add("--work", type=Path, default=ROOT / "work" / "bench-memory", help="stays")
    add("--json", type=Path, help="the record; default: bench/results/memory-DATE.json")
    add("--page", type=Path, default=PAGE, help="the page that gets the table")
    add("--table", type=Path, metavar="JSON", help="measure nothing, write this record's table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
