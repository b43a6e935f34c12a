"""Event logs as builds leave them: whole, empty, cut off, with lines of later releases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuwheel.build.compile.events import Compile, HitCount, ProgramRun, hit_counts, read_events
from tests.support.build.event_lines import GIB, SOURCE, compile_line, tool_line, write_log


def test_reads_compile(tmp_path: Path) -> None:
    line = compile_line(start=1.5, dropped=["-lineinfo"])

    (compile_,) = read_events(write_log(tmp_path, line)).compiles

    assert compile_ == Compile(
        id="1",
        name="nvcc",
        file=SOURCE + "a.cu",
        archs=("90",),
        start=1.5,
        end=10.0,
        status=0,
        cached="ccache",
        dropped=("-lineinfo",),
    )


def test_reads_tool(tmp_path: Path) -> None:
    (tool,) = read_events(write_log(tmp_path, tool_line(called=0.2, asked=0.5, tries=2))).tools

    assert tool == ProgramRun(
        compile="1",
        name="cicc",
        file=SOURCE + "a.cu",
        arch="90",
        called=0.2,
        asked=0.5,
        start=1.0,
        end=9.0,
        peak=GIB,
        expected=2 * GIB,
        status=0,
        tries=2,
    )


def test_takes_missing_log_as_empty(tmp_path: Path) -> None:
    assert not read_events(tmp_path / "log").compiles


CUT_OFF = [f"{tool_line()}\n{compile_line()[:end]}" for end in range(1, len(compile_line()), 7)]


@pytest.mark.parametrize(
    ("content", "tools", "damaged"),
    [
        ("", 0, 0),
        ("\n\n", 0, 0),
        *((content, 1, 1) for content in CUT_OFF),
        # Of a later release
        ('{"kind": "link", "start": 1}\n' + tool_line(colour="red"), 1, 0),
        (f"{tool_line()}\n\udcff\udcfe", 1, 1),
        *(
            (f"{line}\n{tool_line()}", 1, 1)
            for line in (
                *("null", "[1, 2]", "7", '{"id": "1"}', "\0" * 40, "[" * 100_000),
                *(compile_line(start=float("nan")), compile_line(end=None)),
                *(compile_line(archs=7), compile_line(status="bad")),
                tool_line(peak=float("inf")),
            )
        ),
    ],
)
def test_counts_what_can_be_read(content: str, tools: int, damaged: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{content}\n", errors="surrogateescape")

    events = read_events(log)

    assert (len(events.tools), len(events.compiles), events.damaged) == (tools, 0, damaged)


def test_replaces_byte_that_is_no_character(tmp_path: Path) -> None:
    (tool,) = read_events(write_log(tmp_path, tool_line(file="/x/\udcff.cu"))).tools

    assert tool.file == "/x/?.cu"


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.cu", "CUDA"),
        ("a.cpp", "C++"),
        ("a.cc", "C++"),
        ("a.C", "C++"),
        ("a.c", "C"),
        ("a.S", "assembler"),
        ("a.f90", "other"),
    ],
)
def test_returns_language(name: str, language: str, tmp_path: Path) -> None:
    (compile_,) = read_events(write_log(tmp_path, compile_line(file=f"/x/{name}"))).compiles

    assert compile_.language == language


def test_takes_compile_without_tool_for_hit(tmp_path: Path) -> None:
    log = write_log(tmp_path, compile_line(id="hit"), tool_line(), compile_line(id="1"))

    assert read_events(log).hits() == {"hit"}


@pytest.mark.parametrize("fact", [{"cached": ""}, {"status": 1}, {"file": ""}])
def test_takes_no_hit_for_granted(fact: dict[str, object], tmp_path: Path) -> None:
    assert not read_events(write_log(tmp_path, compile_line(**fact))).hits()


def test_counts_hits_by_language(tmp_path: Path) -> None:
    log = write_log(
        tmp_path,
        compile_line(id="1"),
        tool_line(compile="1"),
        compile_line(id="2"),
        compile_line(id="3", cached=""),
        compile_line(id="4", file="/x/b.cpp"),
        compile_line(id="5", file=""),
    )

    assert hit_counts(read_events(log)) == (
        HitCount(language="CUDA", compiles=3, asked=2, hits=1),
        HitCount(language="C++", compiles=1, asked=1, hits=1),
    )


@pytest.mark.parametrize(("made_for", "counted"), [("linux_x86_64", 1), ("linux_aarch64", 0)])
def test_counts_device_code_of_other_platforms_alone(
    tmp_path: Path, made_for: str, counted: int
) -> None:
    log = tmp_path / "events.jsonl"
    event = {"kind": "shared", "made_for": made_for, "taken_for": "linux_aarch64"}
    log.write_text(json.dumps(event) + "\n")

    assert read_events(log).shared == counted
