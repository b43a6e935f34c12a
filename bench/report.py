"""The tables of the benchmarks in docs/benchmarks.md, made from what was recorded."""  # noqa: INP001 - a module of the benchmarks, which are no package

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.records import Goal, Machine, Row, build_rows
from cuwheel.base.errors import UsageError
from cuwheel.base.system.files import write_atomically

# What each way is, in the order of the table; what the goals of docs/adr/0016 ask of it.
BUILD_WAYS: Mapping[str, str] = {
    "raw": "`python -m build --no-isolation`",
    "fromager": "fromager {fromager}",
    "cold": "cuwheel, compile cache empty",
    "no-cache": "cuwheel, `--no-cache`",
    "warm": "cuwheel, the same again, compile cache full",
    "asking": "cuwheel, the same, each file looked up in sccache",
    "unchanged": "cuwheel, nothing changed",
    "second-python": "cuwheel, {second_python} after {python}",
    "other-archs": "cuwheel, {more_archs} alone, compile cache empty",
    "all-archs": "cuwheel, {all_archs}, compile cache empty",
    "more-archs": "cuwheel, {all_archs} after {archs}",
    "patched": "cuwheel, one file patched",
    "signed": "cuwheel, compile cache empty, a signed remote one full",
}
BUILD_GOALS: Mapping[str, Goal] = {
    "cold": Goal(figure="build", most=1.03, of="raw"),
    "warm": Goal(figure="whole", most=10.0),
    "unchanged": Goal(figure="whole", most=3.0),
    "second-python": Goal(figure="build", most=0.1, of="cold"),
    "signed": Goal(figure="whole", most=180.0),  # flash-attn for one arch
}
# One more arch: after a single one, and after several.
_AFTER_ONE = Goal(figure="build", most=1.05, of="other-archs")
_AFTER_SEVERAL = Goal(figure="build", most=0.3, of="all-archs")
_ONE_WHEEL = (
    ("cold", "no-cache", "warm", "asking", "unchanged", "signed"),
    ("all-archs", "more-archs"),
)
_BUSY = 0.25  # cores taken by others from which on a figure is said to come from a busy machine
_MIB = 1 << 20
_LAST_DIGITS = 10.0  # seconds; below it a tenth matters


def write_section(page: Path, name: str, text: str) -> None:
    """Put a text between a page's marks for it, in place of what is there.

    Args:
        page: Markdown, with `<!-- bench:name -->` and `<!-- bench:name end -->`.
        name: of the section.
        text: Markdown.

    Raises:
        UsageError: the page lacks the marks.
    """
    start, end = f"<!-- bench:{name} -->", f"<!-- bench:{name} end -->"
    old = page.read_text()
    if start not in old or end not in old:
        raise UsageError(
            f"{page} has no place for the table {name}",
            why=f"the line {start} or {end} is missing",
            fix="put both lines where the table belongs",
        )
    before, _, rest = old.partition(start)
    after = rest.partition(end)[2]
    write_atomically(page, f"{before}{start}\n\n{text.strip()}\n\n{end}{after}")


def builds_section(content: Mapping[str, Any]) -> str:
    """The tables of a record of builds, in Markdown."""
    settings, rows = content["settings"], build_rows(content)
    facts = [
        ("package", f"{settings['package']} {settings['version']}, {_of_archs(settings['archs'])}"),
        ("Python", f"{settings['python']}; the second one {settings['second_python']}"),
        ("compiles at once", settings["jobs"]),
        ("compile cache", settings["cache"] or "none"),
        ("host compiler", settings["compiler"]),
        *_machine_facts(content["machine"]),
    ]
    lines = [_build_line(name, rows, settings) for name in BUILD_WAYS if name in rows]
    headings: tuple[str, ...] = (
        "way",
        "build s",
        "whole s",
        "build / raw",
        "goal",
        "reached",
        "others' cores",
    )
    headings += ("cicc, ptxas ran; taken",)
    notes = [*_same_bytes(rows), *_failures(rows)]
    return "\n\n".join([_table(("", ""), facts), _table(headings, lines), *notes])


def memory_section(content: Mapping[str, Any]) -> str:
    """The tables of a record of compiles in little memory, in Markdown."""
    settings, rows = content["settings"], {row["name"]: row for row in content["rows"]}
    limit = f"{settings['limit'] / _MIB:.0f} MiB, by cgroup version {settings['cgroup']}"
    facts = [
        ("files", f"{len(settings['files'])} of {settings['sources']}, for sm_{settings['arch']}"),
        ("limit", limit),
        ("ninja's own default", f"-j {settings['default_jobs']}"),
        *_machine_facts(content["machine"]),
    ]
    best = best_by_hand(rows)
    lines = [_memory_line(row, best) for row in rows.values()]
    headings = (
        *("way", "outcome", "s", "ratio to the best -j", "kills", "run again"),
        *("waited s", "peak MiB", "others' cores"),
    )
    parts = [_table(("", ""), facts), _table(headings, lines)]
    files = [_file_line(*item) for item in sorted(peaks_of_files(rows).items())]
    return "\n\n".join([*parts, *([_table(_FILE_HEADINGS, files)] if files else [])])


_FILE_HEADINGS = ("file", "cicc MiB", "cicc s", "ptxas MiB", "ptxas s")


def best_by_hand(rows: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Seconds of the fastest hand-picked number of jobs that finished; None where none did."""
    finished = [
        row["seconds"]
        for name, row in rows.items()
        if name.startswith("jobs-") and row["done"] == row["files"]
    ]
    return min(finished, default=None)


def peaks_of_files(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the gate saw of each file's cicc and ptxas, the largest of all ways."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows.values():
        for tool in row["tools"]:
            kept = found.setdefault(tool["file"], {}).setdefault(tool["name"], tool)
            if tool["peak"] > kept["peak"]:
                found[tool["file"]][tool["name"]] = tool
    return found


def goal_says(goal: Goal) -> str:
    """A goal in words: `at most 1.03 x raw`, `raw / 20`, `at most 3 s`."""
    if not goal.of:
        return f"at most {goal.most:g} s"
    if goal.most < 0.1:  # noqa: PLR2004 - a tenth: what is said as a speed, not as a share
        return f"{1 / goal.most:.0f} times as fast as {goal.of}"
    return f"at most {goal.most:g} x {goal.of}"


def _same_bytes(rows: Mapping[str, Row]) -> list[str]:
    """Whether the ways that have to make one wheel did; nothing where fewer than two ran."""
    lines = []
    for ways in _ONE_WHEEL:
        hashes = {
            name: {turn.sha256 for turn in rows[name].turns}
            for name in ways
            if name in rows and rows[name].turns
        }
        names, different = ", ".join(hashes), set().union(*hashes.values())
        if len(hashes) > 1 and len(different) == 1:
            sha256 = different.pop()[:16]
            lines.append(f"The wheels of {names} are the same bytes, SHA-256 `{sha256}…`.")
        elif len(hashes) > 1:
            lines.append(f"The wheels of {names} are not the same bytes.")
    return lines


def _failures(rows: Mapping[str, Row]) -> list[str]:
    return [f"{row.name} failed: {row.failed}." for row in rows.values() if row.failed]


def _build_line(
    name: str, rows: Mapping[str, Row], settings: Mapping[str, Any]
) -> tuple[object, ...]:
    row, raw = rows[name], rows.get("raw")
    words = {**settings, "archs": _of_archs(settings["archs"])}
    words["all_archs"] = _of_archs(settings["all_archs"])
    more = [arch for arch in settings["all_archs"] if arch not in settings["archs"]]
    words["more_archs"] = _of_archs(more)
    title = BUILD_WAYS[name].format_map(words)
    if not row.turns:
        return title, "failed", "", "", "", "", "", ""
    ratio = f"{row.build / raw.build:.3f}" if raw and raw.turns and row.build else ""
    goal = BUILD_GOALS.get(name)
    if name == "more-archs":
        goal = _AFTER_SEVERAL if settings["archs"][1:] else _AFTER_ONE
    last = row.turns[-1]
    ran = "" if last.cicc is None else f"{last.cicc}, {last.ptxas}; {last.taken}"
    return (
        f"{title}{f' (median of {len(row.turns)})' if len(row.turns) > 1 else ''}",
        _seconds(row.build) if row.build else "none",
        _seconds(row.whole),
        ratio,
        goal_says(goal) if goal else "",
        _reached(goal, row, rows) if goal else "",
        f"{row.others:.1f}{', busy' if row.others >= _BUSY else ''}",
        ran,
    )


def _reached(goal: Goal, row: Row, rows: Mapping[str, Row]) -> str:
    value = goal.reached(row, rows)
    if value is None:
        return "not measured"
    if not goal.of:
        shown = f"{value:.1f} s"
    elif goal.most < 0.1:  # noqa: PLR2004 - as in goal_says
        shown = f"{1 / value:.0f} times"
    else:
        shown = f"{value:.3f}"
    return f"{shown}: {'yes' if value <= goal.most else 'no'}"


def _memory_line(row: Mapping[str, Any], best: float | None) -> tuple[object, ...]:
    is_done = row["done"] == row["files"]
    outcome = "finished" if is_done else f"stopped at {row['done']} of {row['files']} files"
    ratio = f"{row['seconds'] / best:.2f}" if best and is_done else ""
    others = f"{row['others']:.1f}{', busy' if row['others'] >= _BUSY else ''}"
    return (
        f"{row['says']}",
        outcome,
        _seconds(row["seconds"]),
        ratio,
        row["kills"],
        row["again"],
        _seconds(row["waited"]) if row["tools"] else "",
        f"{row['peak'] / _MIB:.0f}",
        others,
    )


def _file_line(file: str, tools: Mapping[str, Mapping[str, Any]]) -> tuple[object, ...]:
    cells: list[object] = [f"`{file}`"]
    for name in ("cicc", "ptxas"):
        tool = tools.get(name)
        cells += [f"{tool['peak'] / _MIB:.0f}", _seconds(tool["seconds"])] if tool else ["", ""]
    return tuple(cells)


def _machine_facts(machine: Machine) -> list[tuple[str, object]]:
    return [("machine", machine.says), ("date", machine.date)]


def _of_archs(archs: Sequence[str]) -> str:
    return " and ".join(f"sm_{arch}" for arch in archs)


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= _LAST_DIGITS else f"{value:.2f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
