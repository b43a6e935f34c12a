"""Seconds of compiles: sums over programs, kept and merged."""

from __future__ import annotations

from pathlib import Path

from cuwheel.build.compile.events import read_events
from cuwheel.build.compile.seconds import key_of_compile, known_seconds, learn_seconds
from tests.support.build.event_lines import SOURCE, compile_line, tool_line, write_log


def _learn(path: Path, folder: Path, *lines: str) -> dict[str, dict[str, float]]:
    folder.mkdir()
    learn_seconds(path, read_events(write_log(folder, *lines)))
    return known_seconds(path)


def test_adds_up_the_programs_of_a_compile(tmp_path: Path) -> None:
    lines = (compile_line(), tool_line(cpu=2.0), tool_line(cpu=3.5), tool_line(cpu=1.0, arch=""))

    known = _learn(tmp_path / "seconds.json", tmp_path / "log", *lines)

    assert known == {key_of_compile(f"{SOURCE}a.cu", ["90"]): {"90": 5.5, "": 1.0}}


def test_a_hit_and_a_failure_teach_nothing(tmp_path: Path) -> None:
    path = tmp_path / "seconds.json"

    assert _learn(path, tmp_path / "hit", compile_line()) == {}
    assert _learn(path, tmp_path / "failed", compile_line(status=1), tool_line(cpu=1.0)) == {}


def test_keeps_what_other_builds_measured(tmp_path: Path) -> None:
    path = tmp_path / "seconds.json"
    _learn(path, tmp_path / "one", compile_line(file="a.cu"), tool_line(cpu=1.0))

    known = _learn(path, tmp_path / "two", compile_line(file="b.cu"), tool_line(cpu=1.0))

    assert known.keys() == {"a.cu 90", "b.cu 90"}


def test_a_part_of_a_compile_leaves_what_the_others_took(tmp_path: Path) -> None:
    path, line = tmp_path / "seconds.json", compile_line(file="a.cu", archs=["80", "90"])
    _learn(path, tmp_path / "80", line, tool_line(arch="80", cpu=1.0))

    known = _learn(path, tmp_path / "90", line, tool_line(arch="90", cpu=2.0))

    assert known == {"a.cu 80 90": {"80": 1.0, "90": 2.0}}


def test_reads_nothing_from_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "seconds.json"
    path.write_text('{"a": {"90": -1}, "b": {"90": "x"}, "c": {"": 1e99}, "d": {"90": 2}, "e": 3}')

    assert known_seconds(path) == {"d": {"90": 2.0}}
    assert known_seconds(tmp_path / "missing") == {}
