"""The benchmarks: the arithmetic of ratios, the tables from a record, and one small real run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import builds, determinism, elf, explain, memory, records
from bench.elf_readers import with_cuwheel
from bench.records import Goal, Row, Turn, Watch, build_rows, read_record, write_record
from bench.report import (
    best_by_hand,
    builds_section,
    goal_says,
    memory_section,
    peaks_of_files,
    write_section,
)
from cuwheel.errors import UsageError
from cuwheel.paths import ROOT
from cuwheel.system.process import run
from tests.support.requirements import require

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


def test_row_counts_median_of_turns() -> None:
    assert row("warm", 1.0, 9.0, 2.0).build == 2.0


def test_goal_is_share_of_other_way() -> None:
    goal = Goal(figure="build", most=1.03, of="raw")
    rows = {"raw": row("raw", 100.0), "cold": row("cold", 102.0)}

    assert goal.reached(rows["cold"], rows) == 1.02


def test_goal_in_seconds_needs_no_other_way() -> None:
    assert Goal(figure="whole", most=3.0).reached(row("unchanged", 2.5), {}) == 2.5


def test_goal_is_not_said_without_other_way() -> None:
    goal = Goal(figure="build", most=1.03, of="raw")
    cold = row("cold", 102.0)

    assert goal.reached(cold, {"cold": cold, "raw": Row(name="raw", failed="no")}) is None


@pytest.mark.parametrize(
    ("goal", "says"),
    [
        (Goal(figure="build", most=1.03, of="raw"), "at most 1.03 x raw"),
        (Goal(figure="build", most=1 / 20, of="raw"), "20 times as fast as raw"),
        (Goal(figure="whole", most=3.0), "at most 3 s"),
    ],
)
def test_goal_speaks_of_shares_speeds_and_seconds(goal: Goal, says: str) -> None:
    assert goal_says(goal) == says


def test_rows_survive_as_json(tmp_path: Path) -> None:
    failed = Row(name="fromager", turns=(turn(3.0),), failed="it ended with status 1")

    content = recorded(tmp_path, BUILDS, row("raw", 100.0), failed)

    assert build_rows(content) == {"raw": row("raw", 100.0), "fromager": failed}


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


def test_best_by_hand_has_finished(tmp_path: Path) -> None:
    content = recorded(
        tmp_path,
        MEMORY,
        outcome("jobs-1", 200.0),
        outcome("jobs-2", 90.0, done=1, kills=1),
        outcome("gate", 150.0),
    )

    assert best_by_hand({one["name"]: one for one in content["rows"]}) == 200.0


def test_memory_table_compares_with_best_by_hand(tmp_path: Path) -> None:
    tool = {"name": "cicc", "file": "a", "seconds": 60.0, "peak": 3 << 30}
    raw = outcome("raw", 50.0, done=0, kills=2)
    gate = outcome("gate", 210.0, again=1, waited=30.0, tools=(tool,))

    section = memory_section(recorded(tmp_path, MEMORY, raw, outcome("jobs-1", 200.0), gate))

    assert "| raw | stopped at 0 of 2 files | 50.0 |  | 2 | 0 |" in section
    assert "| gate | finished | 210.0 | 1.05 | 0 | 1 | 30.0 | 4096 |" in section
    assert "| `a` | 3072 | 60.0 |  |  |" in section


def test_peak_of_file_is_largest_of_all_ways() -> None:
    small, large = ({"name": "cicc", "file": "a", "peak": peak} for peak in (1, 2))

    found = peaks_of_files({"gate": {"tools": [large]}, "learned": {"tools": [small]}})

    assert found == {"a": {"cicc": large}}


def test_section_replaces_what_stood_there(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:builds -->\nold\n<!-- bench:builds end -->\nbehind\n")

    write_section(page, "builds", "new\n")

    assert page.read_text() == (
        "before\n<!-- bench:builds -->\n\nnew\n\n<!-- bench:builds end -->\nbehind\n"
    )


def test_refuses_page_without_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")

    with pytest.raises(UsageError, match="no place for the table builds"):
        write_section(page, "builds", "new")


@pytest.mark.parametrize("name", ["builds", "memory"])
def test_page_has_place_for_table(name: str) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()

    assert text.index(f"<!-- bench:{name} -->") < text.index(f"<!-- bench:{name} end -->")


@pytest.mark.parametrize("within", [(), ("bwrap", "--unshare-pid", "--dev-bind", "/", "/")])
def test_watch_leaves_own_work_out(
    within: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if within:
        require("bwrap", "that work in a namespace counts as a measurement's own")
    stat = tmp_path / "stat"
    monkeypatch.setattr(records, "_STAT", stat)
    stat.write_text("cpu 0 0 0 0 0 0 0 0\n")
    watch, before = Watch(), os.times()

    words = [*within, "/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]
    run(words, env={"PATH": os.environ["PATH"]})
    stat.write_text(f"cpu {10 * os.sysconf('SC_CLK_TCK')} 0 0 7 7 0 0 0\n")
    found, after = watch.stop(), os.times()

    own = sum(after[:4]) - sum(before[:4])
    assert own > 0.05
    assert found.others * found.seconds == pytest.approx(10.0 - own, abs=0.04)


def test_long_ways_take_turns(tmp_path: Path) -> None:
    plan = builds.Plan(
        package="tiny-capi",
        toolkit="130",
        archs=("90",),
        more_archs=("80",),
        python="3.12",
        second_python="3.13",
        jobs=2,
        turns=2,
        ways=("raw", "cold", "no-cache", "warm"),
        folder=tmp_path,
    )

    assert plan.schedule == ["raw", "cold", "raw", "cold", "no-cache", "warm", "warm", "warm"]


def test_refuses_record_of_other_settings(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    write_record(record, MEMORY, {"raw": outcome("raw", 1.0)})

    with pytest.raises(UsageError, match="another measurement"):
        memory._rows_of(record, {**MEMORY, "limit": 1})


def test_goes_on_with_record_of_same_settings(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    write_record(record, MEMORY, {"raw": outcome("raw", 1.0)})

    assert memory._rows_of(record, MEMORY)["raw"]["seconds"] == 1.0


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


@pytest.mark.parametrize(
    ("said", "points"),
    [
        (("nvcc-not-found", "disk-full"), 1),
        (("cuda-home-not-set", "nvcc-not-found"), 0.5),
        (("disk-full", "nvcc-not-found"), 0),
        ((), 0),
    ],
)
def test_scores_what_is_said_first(said: tuple[str, ...], points: float) -> None:
    assert explain.Answer(case="a", cause="nvcc-not-found", said=said).points == points


def test_measures_how_fast_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("nvcc -c a.cu\n" * 100)

    table = explain.speed_table(log, 1_000_000, turns=1)

    assert table.row_count == len(explain.CONTENDERS)


@pytest.mark.nightly
def test_measures_builds_of_tiny_package(tmp_path: Path, page: Path) -> None:
    given = ("--package", "tiny-capi", "--source", str(TINY), "--python", sys.executable)

    rows = _bench("builds", tmp_path, page, *given, "--ways", "raw", "fromager", "cold", "warm")

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


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["small.cu", "middle.cu", "large.cu"]),
        (("--smallest", "1"), ["small.cu"]),
        (("--largest", "2"), ["middle.cu", "large.cu"]),
    ],
)
def test_compiles_files_by_size(words: tuple[str, ...], names: list[str], tmp_path: Path) -> None:
    for size, name in enumerate(("small.cu", "middle.cu", "large.cu")):
        (tmp_path / name).write_text("x" * size)
    found = [
        determinism.Compile(
            file=path, words=(), folder=tmp_path, output="", variables={}, bare=tmp_path, nvcc=""
        )
        for path in tmp_path.iterdir()
    ]

    asked = determinism.options().parse_args(["x-130", *words])

    assert [one.file.name for one in determinism.chosen(found, asked)] == names


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


def test_names_why_two_objects_differ(tmp_path: Path) -> None:
    objects = []
    for name in ("a", "b"):
        path = tmp_path / name
        path.write_bytes(b"text \xff" + f"/{name}/x.cu\0".encode())
        objects.append(path)

    assert determinism.causes(objects[:1], tmp_path / "scratch") == []
    assert determinism.causes(objects, tmp_path / "scratch") == ["build-path"]


def test_page_shows_what_was_recorded() -> None:
    page = determinism.PAGE.read_text()

    records = [json.loads(path.read_text()) for path in determinism.RESULTS.glob("determinism-*")]
    newest = {one["target"]: one for one in sorted(records, key=lambda one: str(one["date"]))}

    assert [one for one in newest.values() if determinism.section(one) not in page] == []
