from __future__ import annotations

import io
import json
from pathlib import Path

import rich.console

from cuwheel.base.system.console import Console
from cuwheel.build.compile.events import read_events
from cuwheel.lab.profile.report import print_profile, write_profile
from tests.support.build.event_lines import SOURCE, compile_line, two_files, write_log
from tests.support.golden import Golden


def test_writes_picture_and_trace(tmp_path: Path) -> None:
    events = read_events(write_log(tmp_path, *two_files()))

    profile = write_profile(events, tmp_path / "new", "tiny-130")

    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "profile.svg",
        "profile.trace.json",
    }
    assert ">tiny-130</text>" in profile.picture.read_text("utf-8")
    assert json.loads(profile.trace.read_text("utf-8"))["otherData"]["title"] == "tiny-130"


def test_prints_slowest_ten(tmp_path: Path, golden: Golden) -> None:
    lines = [compile_line(id=f"{n}", file=f"{SOURCE}{n:02}.cu", end=n + 1) for n in range(12)]
    profile = write_profile(read_events(write_log(tmp_path, *lines)), tmp_path, "x")
    stream = io.StringIO()

    print_profile(profile, rich.console.Console(file=stream, width=500), Console())

    golden.check("profile/report.txt", stream.getvalue(), {tmp_path: "DIR"})
