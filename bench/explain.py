"""How often `explain` names the right cause, and how fast it reads.

`nox -s bench -- explain score CASES…` reads lines of `{"id", "log", "cause"}` (without `log`: the
file `logs/ID.log` beside them), or folders of files `CAUSE--NAME.log`; `… precision CASES…` writes
how often each cause was right, which limits its weight; `… speed LOGS…` makes
a log of 500 MB out of each one, or of each in a folder, and reads it beside `grep` with the
catalogue's own texts, and beside plain reading; each log as it is, as one line, and with another
word in each line. The last line is the log with the most CPU time. `… hostile [KINDS…]` reads logs
of 100 MB in which each line is an error of its own (bench/hostile_logs.py).
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import argparse
import base64
import gzip
import io
import itertools
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.audit import Turn, take_turn
from bench.hostile_logs import KINDS as HOSTILE
from bench.hostile_logs import hostile_log
from cuwheel.check.explain import catalogue
from cuwheel.check.explain.catalogue import causes, groups
from cuwheel.check.explain.explanation import Explainer

_MB = 1_000_000  # bytes
_HALF = 0.5  # points for a cause that is akin to the right one
_UNKNOWN = "no cause of the catalogue"
# What has to be done at least.
_PLAIN = """
import sys
with open(sys.argv[1], "rb") as log:
    while block := log.read(1 << 22):
        block.count(b"\\n")
"""
# The catalogue's texts as fixed strings: what it costs a program that does nothing else.
_GREP = """
import os, subprocess, sys, tempfile
from cuwheel.check.explain.catalogue import causes
texts = {text for cause in causes().values() for one in cause.patterns for text in one.texts}
with tempfile.NamedTemporaryFile("w") as list_of_texts:
    list_of_texts.write("\\n".join(sorted(texts)))
    list_of_texts.flush()
    words = ["grep", "-a", "-c", "-i", "-F", "-f", list_of_texts.name, sys.argv[1]]
    subprocess.run(words, env={**os.environ, "LC_ALL": "C.UTF-8"})
"""
_CUWHEEL = """
import sys
from cuwheel.check.explain.explanation import Explainer
with open(sys.argv[1], "rb") as log:
    Explainer().explain(log)
"""
PRECISION = Path(catalogue.__file__).parent / "failures" / "precision.yaml"
_ABOUT = """# Right and wrong first answers on labelled logs (tests/logs, tests/check/explain).
# A cause is called decisive only if it has two right ones and 0.97 of them right. Written by
# `nox -s bench -- explain precision tests/logs/raw tests/logs/made/labels.jsonl
# tests/check/explain/reports/*.jsonl`."""
_OURS = "cuwheel explain"
CONTENDERS = {"reading it": _PLAIN, "grep -i -F, C.UTF-8": _GREP, _OURS: _CUWHEEL}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was said of one case.

    Attributes:
        case: its id.
        cause: the right slug.
        said: slugs, the likeliest first.
    """

    case: str
    cause: str
    said: tuple[str, ...]
    weight: str = ""
    also: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        """1 for the right cause in the first place, a half for one that is akin to it.

        Without a cause in the catalogue silence is right.
        """
        first = self.said[0] if self.said else ""
        if first == self.cause or (not first and self.cause not in causes()):
            return 1
        if first and first in self.also:
            return _HALF
        known = causes()
        return _HALF if first and self.cause in known and first in known[self.cause].akin else 0


def main(arguments: Sequence[str]) -> None:
    """Score or measure."""
    parser = argparse.ArgumentParser(prog="nox -s bench -- explain", description=__doc__)
    kinds = parser.add_subparsers(required=True, dest="kind")
    scoring = kinds.add_parser("score", help="say how often the right cause comes first")
    scoring.add_argument("cases", nargs="+", type=Path)
    scoring.add_argument("--wrong", action="store_true", help="list what was answered wrongly")
    counting = kinds.add_parser("precision", help="write how often each cause is right")
    counting.add_argument("cases", nargs="+", type=Path)
    measuring = kinds.add_parser("speed", help="read logs of 500 MB")
    measuring.add_argument("logs", nargs="+", type=Path)
    measuring.add_argument("--size", type=int, default=500, metavar="MB")
    measuring.add_argument("--turns", type=int, default=3)
    facing = kinds.add_parser("hostile", help="read logs without a line that comes twice")
    facing.add_argument("hostile", nargs="*", metavar="KIND", help=", ".join(HOSTILE))
    facing.add_argument("--size", type=int, default=100, metavar="MB")
    facing.add_argument("--turns", type=int, default=1)
    asked = parser.parse_args(arguments)
    console = Console(width=110)
    if asked.kind == "hostile":
        console.print(hostile_table(asked.hostile or [*HOSTILE], asked.size * _MB, asked.turns))
        return
    if asked.kind == "speed":
        worst: dict[str, float] = {}
        for log, kind in itertools.product(_logs(asked.logs), KINDS):
            taken = take_turns(log, asked.size * _MB, asked.turns, KINDS[kind])
            name = f"{log.name}, {kind}"
            console.print(speed_table(name, asked.size * _MB, taken))
            worst[name] = min(turn.cpu_seconds for turn in taken[_OURS])
        slowest = max(worst, key=worst.__getitem__)
        console.print(f"the most CPU time of {len(worst)}: {slowest}, {worst[slowest]:.1f} s")
        return
    answers = list(answer(asked.cases))
    if asked.kind == "precision":
        PRECISION.write_text(precision(answers))
        return
    console.print(weight_table(answers))
    console.print(score_table(answers))
    for one in answers:
        if asked.wrong and one.points < 1:
            console.print(f"{one.case}: {one.cause}, answered {', '.join(one.said) or 'nothing'}")


def answer(files: Iterable[Path]) -> Iterable[Answer]:
    """Ask for each case's cause."""
    explainer = Explainer()
    for case in _cases(files):
        found = explainer.explain(io.BytesIO(case["log"]))
        yield Answer(
            case=case["id"],
            cause=case["cause"],
            said=tuple(cause.slug for cause in found.causes),
            weight=found.causes[0].weight if found.causes else "",
            also=tuple(case.get("also", ())),
        )


def _cases(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        if path.is_dir():
            for log in sorted(path.glob("*--*.log")):
                cause = log.name.partition("--")[0]
                yield {"id": log.stem, "cause": cause, "log": log.read_bytes()}
            continue
        for line in path.read_text().splitlines():
            case = json.loads(line)
            log = case.get("log")
            file = path.with_name("logs") / f"{case['id']}.log"
            yield case | {"log": log.encode("utf-8", "replace") if log else file.read_bytes()}


def precision(answers: Iterable[Answer]) -> str:
    """Right and wrong first answers of each cause, as YAML."""
    counts: dict[str, list[int]] = {}
    for one in answers:
        if one.said:
            counts.setdefault(one.said[0], [0, 0])[one.points == 0] += 1
    lines = [f"{slug}: [{right}, {wrong}]" for slug, (right, wrong) in sorted(counts.items())]
    return "\n".join((_ABOUT, *lines, ""))


def weight_table(answers: Sequence[Answer]) -> Table:
    """How often each weight was right."""
    table = Table()
    for title in ("weight", "cases", "right", "acceptable", "wrong"):
        table.add_column(title, justify="left" if title == "weight" else "right")
    for weight in ("decisive", "likely", "hint", ""):
        points = Counter(one.points for one in answers if one.weight == weight)
        row = (sum(points.values()), points[1], points[_HALF], points[0])
        table.add_row(weight or "not in the catalogue", *map(str, row))
    return table


def score_table(answers: Sequence[Answer]) -> Table:
    """Points, right ones and silence, by the catalogue's groups."""
    group_of = {cause.slug: one.title for one in groups() for cause in one.causes}
    titles = [one.title for one in groups()]
    sizes = Counter(group_of.get(one.cause, _UNKNOWN) for one in answers)
    table = Table()
    table.add_column("group", no_wrap=True)
    for title in ("cases", "right", "akin", "silent", "score"):
        table.add_column(title, justify="right")
    for title in (*titles, _UNKNOWN):
        if sizes[title]:
            of_group = [one for one in answers if group_of.get(one.cause, _UNKNOWN) == title]
            table.add_row(title, *_figures(of_group))
    table.add_section()
    table.add_row("all", *_figures(answers))
    return table


def _figures(answers: Sequence[Answer]) -> list[str]:
    points = Counter(one.points for one in answers)
    silent = sum(not one.said for one in answers)
    score = sum(one.points for one in answers) / len(answers)
    return [str(len(answers)), str(points[1]), str(points[_HALF]), str(silent), f"{score:.3f}"]


def take_turns(log: Path, size: int, turns: int, changed: Change) -> dict[str, list[Turn]]:
    """Read a log of a size; the contenders take turns, so that all meet the same machine."""
    taken: dict[str, list[Turn]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder, "large.log")
        _repeat(log, large, size, changed)
        for _ in range(turns):
            for name, script in CONTENDERS.items():
                taken[name].append(take_turn(script, large))
    return taken


def speed_table(log: str, size: int, taken: Mapping[str, Sequence[Turn]]) -> Table:
    """The best turn of each contender."""
    table = Table(title=f"{log}, repeated to {size / _MB:.0f} MB")
    for title in ("contender", "s", "CPU s", "MB/s", "peak MiB"):
        table.add_column(title, justify="left" if title == "contender" else "right")
    for name, of_name in taken.items():
        best = min(of_name, key=lambda turn: turn.seconds)
        figures = (f"{best.seconds:.1f}", f"{min(turn.cpu_seconds for turn in of_name):.1f}")
        speed = f"{size / best.seconds / _MB:.0f}"
        table.add_row(name, *figures, speed, str(best.peak_memory >> 20))
    return table


def hostile_table(names: Iterable[str], size: int, turns: int) -> Table:
    """The best turn of cuwheel with each kind of log."""
    table = Table(title=f"logs of {size / _MB:.0f} MB, each line an error of its own")
    for title in ("log", "s", "CPU s", "peak MiB"):
        table.add_column(title, justify="left" if title == "log" else "right")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            large = Path(folder, "large.log")
            with large.open("wb") as stream:
                stream.writelines(hostile_log(name, size))
            taken = [take_turn(_CUWHEEL, large) for _ in range(turns)]
        best = min(taken, key=lambda turn: turn.cpu_seconds)
        figures = (f"{best.seconds:.1f}", f"{best.cpu_seconds:.1f}", str(best.peak_memory >> 20))
        table.add_row(name, *figures)
    return table


def _logs(names: Iterable[Path]) -> Iterator[Path]:
    for name in names:
        yield from sorted(name.glob("*.log*")) if name.is_dir() else (name,)


def _as_one_line(content: bytes) -> bytes:
    return content.replace(b"\n", b" ")


def _with_other_words(content: bytes) -> bytes:
    """Put a word that no other line has into each line, at its middle blank."""
    lines = []
    for line in content.split(b"\n"):
        words = line.split(b" ")
        words.insert(len(words) // 2, base64.b32encode(random.randbytes(5)))  # noqa: S311
        lines.append(b" ".join(words) if line else line)
    return b"\n".join(lines)


Change = Callable[[bytes], bytes]
KINDS: Mapping[str, Change] = {
    "as it is": bytes,
    "as one line": _as_one_line,
    "other words in each line": _with_other_words,
}


def _repeat(log: Path, large: Path, size: int, changed: Change) -> None:
    content = gzip.decompress(log.read_bytes()) if log.suffix == ".gz" else log.read_bytes()
    content += b"\n" * (not content.endswith(b"\n"))
    with large.open("wb") as stream:
        while stream.tell() < size:
            stream.write(changed(content))


if __name__ == "__main__":
    main(sys.argv[1:])
