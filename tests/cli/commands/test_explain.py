"""The session explain: files, folders, streams, answers line by line."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.check.explain.catalogue import causes
from cuwheel.cli.dispatch import run_command
from tests.support.check.explanations import BUILT, GCC_TOO_NEW
from tests.support.documents import read_document, read_documents
from tests.support.golden import Golden


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., str]:
    """Run the command in a folder; give what it prints."""

    def run(*words: str, given: str = "") -> str:
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        run_command("explain", words, Console())
        return capsysbinary.readouterr().out.decode()

    return run


_LOGS = {
    "bad.log": GCC_TOO_NEW,
    "good.log": BUILT,
    "guess.log": "start\nRuntimeError: libcudnn_ops of cuDNN was refused by dlopen\n",
    "overcome.log": f"{GCC_TOO_NEW}\n{BUILT}\n",
    "two.log": f"{GCC_TOO_NEW}\nnvcc fatal   : Unsupported gpu architecture 'compute_120'\n",
    "unknown.log": "alpha\nbeta\ngamma\nwidget.c:4: error: no such frobnicator\ndelta\nzeta\n",
}


@pytest.mark.parametrize("option", ["", "--quiet", "--verbose"])
def test_explains_logs_of_a_folder(
    option: str, tmp_path: Path, command: Callable[..., str], golden: Golden
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, text in _LOGS.items():
        (logs / name).write_text(text)
    (logs / "program").write_bytes(b"\x7fELF\0\0")

    output = command("logs", *filter(None, [option]))

    golden.check(f"explain/folder{option}.txt", output)


def test_annotates_the_cause_in_a_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A line of a log can't be a command of the runner."""
    (tmp_path / "bad.log").write_text(f"{GCC_TOO_NEW}\n")
    (tmp_path / "odd.log").write_text("a.c:4: error: ##[warning]no ::error::\nmake: *** Error 1\n")
    for name, value in (("ACTIONS", "true"), ("WORKSPACE", str(tmp_path))):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))

    run_command("explain", ["bad.log", "odd.log"], Console())

    output = capfd.readouterr()
    first, second = (line for line in output.err.splitlines() if line.startswith("::"))
    assert first.startswith("::error title=bad.log%3A ")
    assert ",file=bad.log,line=" in first
    assert "because: " in first
    assert ",file=odd.log," in second
    assert "##[" not in output.out
    assert "| bad.log | " in (tmp_path / "summary.md").read_text().replace("\\", "")


def test_command_answers_line_by_line(command: Callable[..., str]) -> None:
    cases = [{"id": "a", "log": GCC_TOO_NEW}, {"id": 2, "log": BUILT}]

    output = command("--jsonl", "-", given="\n".join(map(json.dumps, cases)))

    result = read_documents(output, "explain-answer")
    assert [(one["id"], one["causes"]) for one in result] == [
        ("a", ["host-compiler-too-new"]),
        (2, []),
    ]


@pytest.mark.parametrize("text", [GCC_TOO_NEW, BUILT, "zzz: fatal error: of no known kind\n", ""])
def test_command_gives_data(text: str, tmp_path: Path, command: Callable[..., str]) -> None:
    (tmp_path / "build.log").write_text(text)

    output = command("--json", "build.log")

    assert [one["log"] for one in read_document(output, "explain")["logs"]] == ["build.log"]


def test_ends_quietly_when_the_reader_stops(tmp_path: Path) -> None:
    (tmp_path / "build.log").write_text(GCC_TOO_NEW)
    script = f"{sys.executable} -m cuwheel explain {tmp_path} | true; exit ${{PIPESTATUS[0]}}"

    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (141, "")


def test_session_reads_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nox", "-s", "explain", "--", "-"],
        cwd=ROOT,
        input=GCC_TOO_NEW,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "standard input:" in done.stdout


def test_prints_an_entry_by_its_name(command: Callable[..., str]) -> None:
    out = command("TROUBLESHOOTING.md#no-kernel-image", "usage")

    titles = re.findall(r"^# .*", out, re.MULTILINE)
    assert titles == [f"# {causes()['no-kernel-image'].title}", "# Usage"]
