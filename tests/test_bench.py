"""The benchmarks: the arithmetic of ratios, the tables from a record, and one small real run."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import determinism, elf, explain, memory, start
from bench.elf_readers import with_cuwheel
from bench.records import Goal, Row, Turn, read_record, write_record
from bench.report import (
    builds_section,
    memory_section,
)
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from tests.support.requirements import require

_MOST_OF_A_START = 4.5  # times Python's own
_MOST_OF_A_BUILDS = 9.0
TINY = ROOT / "tests" / "packages" / "tiny_capi"
BUILDS = {
    "package": "causal-conv1d",
    "version": "1.6.1",
    "archs": ["90"],
    "all_archs": ["80", "90"],
    "python": "3.12",
    "second_python": "3.13",
    "jobs": 2,
    "compiler": "g++ 12.2.0",
    "cache": "sccache 0.16.0",
    "fromager": "0.77.0",
}
MEMORY = {
    "sources": "flash-attn 2.8.3",
    "files": ["a.cu", "b.cu"],
    "arch": "80",
    "limit": 6 << 30,
    "cgroup": 1,
    "default_jobs": 3,
}
SORT = """
#include <thrust/device_vector.h>
#include <thrust/sort.h>
void sort(thrust::device_vector<float> &keys, thrust::device_vector<int> &values) {
  thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
}
"""


def turn(build: float, whole: float = 0.0, *, others: float = 0.0, sha256: str = "a") -> Turn:
    return Turn(
        build=build,
        whole=whole or build,
        others=others,
        load_before=0.1,
        load_after=2.0,
        sha256=sha256,
    )


def row(name: str, *builds_: float) -> Row:
    return Row(name=name, turns=tuple(map(turn, builds_)))


def recorded(tmp_path: Path, settings: dict[str, Any], *rows: Any) -> dict[str, Any]:
    """What a record says when it is read again."""
    write_record(tmp_path / "record.json", settings, {one.name: one for one in rows})
    return read_record(tmp_path / "record.json")


def outcome(name: str, seconds: float, **changes: Any) -> memory.Outcome:
    fields: dict[str, Any] = {
        "name": name,
        "says": name,
        "seconds": seconds,
        "files": 2,
        "done": 2,
        "kills": 0,
        "again": 0,
        "waited": 0.0,
        "peak": 4 << 30,
        "others": 0.0,
        "load_before": 0.0,
        "load_after": 0.0,
    }
    return memory.Outcome(**{**fields, **changes})


def test_goal_is_share_of_other_way() -> None:
    goal = Goal(figure="build", most=1.03, of="raw")
    rows = {"raw": row("raw", 100.0), "cold": row("cold", 102.0)}

    assert goal.reached(rows["cold"], rows) == 1.02


def test_table_says_which_goals_were_reached(tmp_path: Path) -> None:
    rows = [row("raw", 100.0), row("cold", 102.0), row("warm", 4.0, 4.0, 9.0)]
    rows += [row("second-python", 20.0), Row(name="unchanged", turns=(turn(0.0, 2.25),))]

    section = builds_section(recorded(tmp_path, BUILDS, *rows))

    assert "| cuwheel, compile cache empty | 102.0 | 102.0 | 1.020 |" in section
    assert "at most 1.03 x raw | 1.020: yes" in section
    assert "at most 10 s | 4.0 s: yes" in section
    assert (
        "cuwheel, 3.13 after 3.12 | 20.0 | 20.0 | 0.200 | at most 0.1 x cold | 0.196: no" in section
    )
    assert "| cuwheel, nothing changed | none | 2.25 |  | at most 3 s | 2.2 s: yes" in section


def test_table_names_busy_machine_and_failure(tmp_path: Path) -> None:
    rows = [Row(name="raw", turns=(turn(9.0, others=1.5),)), Row(name="fromager", failed="no uv")]

    section = builds_section(recorded(tmp_path, BUILDS, *rows))

    assert "1.5, busy |" in section
    assert "| fromager 0.77.0 | failed |" in section
    assert "fromager failed: no uv." in section


def test_tells_whether_cache_changes_bytes(tmp_path: Path) -> None:
    cold, warm = row("cold", 9.0), row("warm", 1.0)
    other = Row(name="warm", turns=(turn(1.0, sha256="b"),))

    assert "cold, warm are the same bytes" in builds_section(recorded(tmp_path, BUILDS, cold, warm))
    assert "are not the same bytes" in builds_section(recorded(tmp_path, BUILDS, cold, other))


def test_table_compares_one_more_arch_with_its_own_cost(tmp_path: Path) -> None:
    rows = [row("cold", 50.0), row("other-archs", 40.0), row("all-archs", 90.0)]
    more = replace(turn(41.0), cicc=1, ptxas=1, taken=2)
    rows.append(Row(name="more-archs", turns=(more,)))

    one = builds_section(recorded(tmp_path, BUILDS, *rows))
    four = builds_section(recorded(tmp_path, {**BUILDS, "archs": ["90", "100"]}, *rows))

    assert "at most 1.05 x other-archs | 1.025: yes | 0.0 | 1, 1; 2 |" in one
    assert "at most 0.3 x all-archs | 0.456: no" in four
    assert "all-archs, more-archs are the same bytes" in one


def test_memory_table_compares_with_best_by_hand(tmp_path: Path) -> None:
    tool = {"name": "cicc", "file": "a", "seconds": 60.0, "peak": 3 << 30}
    raw = outcome("raw", 50.0, done=0, kills=2)
    gate = outcome("gate", 210.0, again=1, waited=30.0, tools=(tool,))

    section = memory_section(recorded(tmp_path, MEMORY, raw, outcome("jobs-1", 200.0), gate))

    assert "| raw | stopped at 0 of 2 files | 50.0 |  | 2 | 0 |" in section
    assert "| gate | finished | 210.0 | 1.05 | 0 | 1 | 30.0 | 4096 |" in section
    assert "| `a` | 3072 | 60.0 |  |  |" in section


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    marks = [
        f"<!-- bench:{name}{end} -->\n" for name in ("builds", "memory") for end in ("", " end")
    ]
    path.write_text("".join(marks))
    return path


def _bench(name: str, tmp_path: Path, page: Path, *options: str) -> list[dict[str, Any]]:
    """Run a benchmark on the tiny package; the rows of its record."""
    record = tmp_path / "record.json"
    places = ("--work", str(tmp_path / "work"), "--json", str(record), "--page", str(page))
    run(
        [sys.executable, "-m", f"bench.{name}", *options, *places],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUWHEEL_PROJECT": str(ROOT / "tests/project")},
        cwd=ROOT,
    )
    rows: list[dict[str, Any]] = json.loads(record.read_text())["rows"]
    return rows


@pytest.mark.e2e
def test_measures_how_fast_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("nvcc -c a.cu\n" * 100)

    taken = explain.take_turns(
        log, 1_000_000, turns=1, changed=explain.KINDS["other words in each line"]
    )
    table = explain.speed_table(log.name, 1_000_000, taken)

    assert table.row_count == len(explain.CONTENDERS)


_AFTER_COLD = ("patched", "more-archs", "signed")


@pytest.mark.nightly
def test_measures_builds_of_tiny_package(tmp_path: Path, page: Path) -> None:
    given = ("--package", "tiny-capi", "--source", str(TINY), "--python", sys.executable)

    rows = _bench("builds", tmp_path, page, *given, "--ways", "raw", "fromager", "cold", "warm")
    again = _bench("builds", tmp_path, page, *given, *("--ways", "cold", *_AFTER_COLD))

    # Of what is patched the front end runs first.
    ran = {row["name"]: row["turns"][-1]["cicc"] for row in again}
    assert ran == {"cold": 1, "more-archs": 1, "patched": 2, "signed": 0}
    turns = {row["name"]: len(row["turns"]) for row in rows}
    assert turns == {"raw": 1, "fromager": 1, "cold": 1, "warm": 3}
    cold, warm = (row["turns"][-1] for row in rows[2:])
    assert cold["sha256"] == warm["sha256"]
    assert "compile cache empty" in page.read_text()


@pytest.mark.nightly
def test_measures_compiles_in_little_memory(tmp_path: Path, page: Path) -> None:
    require("cgroup", "the measurement of compiles in little memory")
    for number in range(3):
        (tmp_path / f"sort{number}.cu").write_text(SORT)
    given = ("--package", "tiny-capi", "--package-source", str(TINY), "--python", sys.executable)
    wanted = ("--sources", str(tmp_path), "--limit", "900", "--arch", "90", "--ways", "raw", "gate")

    rows = _bench("memory", tmp_path, page, *given, *wanted)

    raw, gate = rows
    assert (raw["done"] < 3, raw["kills"] > 0) == (True, True)
    assert (gate["done"], len(gate["tools"]) > 3) == (3, True)


def test_elf_readers_find_the_same_facts(tmp_path: Path) -> None:
    """In a library with a Python module in it, read once by each."""
    [library] = Path(psutil.__file__).parent.glob("_psutil_linux*.so")
    record = tmp_path / "record.json"

    elf.main(["--turns", "1", "--json", str(record), str(library)])

    rows = json.loads(record.read_text())
    assert [row["contender"] for row in rows] == list(elf.CONTENDERS)
    assert with_cuwheel(library).python_modules == ("_psutil_linux",)


def test_commands_start_in_few_times_pythons_own_time(tmp_path: Path) -> None:
    """By ratios in one run; `pick` took 9 times as long, a refused build makes two other starts."""
    record = tmp_path / "record.json"

    start.main(["--turns", "2", "--json", str(record)])

    *commands, build = [row["ratio"] for row in json.loads(record.read_text())]
    assert max(commands) < _MOST_OF_A_START
    assert build < _MOST_OF_A_BUILDS


def test_counts_hashes_and_names_the_cause() -> None:
    row = {"file": "a.cu", "way": "nvcc alone", "compiles": 3, "causes": ["module-process"]}
    one, three = {"x": 3}, {"x": 1, "y": 1, "z": 1}
    record = {
        "target": "x-130",
        "archs": ["90"],
        "nvcc": "13.0.88",
        "date": "2026-11-23",
        "rows": [{**row, "objects": three, "device code": one}],
    }

    text = determinism.section(record)

    assert "| `a.cu` | nvcc alone | 3 | 3 hashes | 1 hash | module-process |" in text


def test_page_shows_what_was_recorded() -> None:
    page = determinism.PAGE.read_text()

    records = [json.loads(path.read_text()) for path in determinism.RESULTS.glob("determinism-*")]
    newest = {one["target"]: one for one in sorted(records, key=lambda one: str(one["date"]))}

    assert [one for one in newest.values() if determinism.section(one) not in page] == []
