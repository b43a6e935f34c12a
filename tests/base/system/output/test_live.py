"""Live lines: never wider than the terminal, and only where a line can be redrawn."""

from __future__ import annotations

import io
import os
import re
import sys

import pytest
import rich.console

from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.process import run

_LONG = "step 3/47 (12 from the cache), flash_fwd_hdim128.cu and 3 more, 2:10 so far, 2 jobs"


def shown(width: int = 80, *, is_quiet: bool = False, **terminal: bool) -> str:
    """Return all output of a live line, on a terminal of that width."""
    stream = io.StringIO()
    console = Console(rich.console.Console(file=stream, width=width, **terminal))  # type: ignore[arg-type]
    console.is_quiet = is_quiet
    with console.live("building") as line:
        line.show(_LONG)
        line.show("[bold]not markup[/]")
        line.show(_LONG)
    return stream.getvalue()


@pytest.mark.parametrize("width", [20, 40, 80])
def test_line_takes_one_row(width: int) -> None:
    written = shown(width, force_terminal=True, legacy_windows=False)

    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    assert "building  step" in plain
    assert max(map(len, re.split(r"[\r\n]", plain))) <= width


@pytest.mark.parametrize("kind", ["pipe", "dumb", "quiet"])
def test_nothing_is_redrawn(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb" if kind == "dumb" else "xterm")

    written = shown(force_terminal=kind != "pipe", is_quiet=kind == "quiet")

    assert "\x1b" not in written
    assert "building" not in written


def test_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.base.system.console._PLAIN_INTERVAL", -1.0)

    assert shown(120).splitlines()[0] == f"  building  {_LONG}"


def test_quiet_console_prints_only_warnings() -> None:
    stream = io.StringIO()
    console = Console(rich.console.Console(file=stream, width=80))
    console.is_quiet = True

    console.heading("x-130")
    with console.stage("build"):
        console.note("noted")
        console.warn("no sandbox")
    console.print_durations()

    assert stream.getvalue() == "  warning no sandbox\n"


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"LC_ALL": "C"}, "a... -> b\\u4f60\n"),
        ({"LC_ALL": "C.UTF-8"}, "a… → b你\n"),
        ({"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}, "a... -> b\\u4f60\n"),
        ({}, "a… → b你\n"),
    ],
)
def test_writes_in_the_terminals_encoding(variables: dict[str, str], shown: str) -> None:
    script = (
        "import os; from cuwheel.base.system.output.terminal import report_terminal, use_locale; "
        "use_locale(os.environ); report_terminal().print('a… → b你')"
    )
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **variables}

    assert run([sys.executable, "-c", script], env=env).output == shown
