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

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.check.explain.catalogue import causes
from cuwheel.cli.dispatch import run_command
from tests.support.check.explanations import BUILT, GCC_TOO_NEW
from tests.support.documents import read_document, read_documents


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., str]:
    """Run the command in a folder; give what it prints."""

    def run(*words: str, given: str = "") -> str:
        monkeypatch.setenv("CUWHEEL_INVOKED_FROM", str(tmp_path))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        run_command("explain", words, Console())
        return capsysbinary.readouterr().out.decode()

    return run


def test_command_reads_file(tmp_path: Path, command: Callable[..., str]) -> None:
    (tmp_path / "build.log").write_text(GCC_TOO_NEW)

    output = command("build.log")

    assert "build.log: the cause, from 1 line" in output
    assert "line 1 " in output


def test_command_reads_folder(tmp_path: Path, command: Callable[..., str]) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "good.log").write_text(BUILT)
    (logs / "bad.log").write_text(GCC_TOO_NEW)
    (logs / "program").write_bytes(b"\x7fELF\0\0")

    output = command("logs")

    assert "logs/bad.log: the cause" in output
    assert "1 of 2 logs show no failure" in output


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


@pytest.mark.parametrize(
    ("words", "given", "output"),
    [
        (["missing.log"], "", "there is no log missing.log"),
        (["empty"], "", "empty contains no logs"),
        (["program"], "", "program is not a text file"),
        (["--jsonl", "-"], "{", "standard input:1 can't be read"),
        (["--jsonl", "-"], '{"id": 1}', "it has no 'log'"),
        (["--jsonl", "-"], '{"id": 1, "log": 2}', "`log` is not a string"),
        ([], "", "the following arguments are required"),
    ],
)
def test_command_reports_what_is_wrong(
    words: list[str], given: str, output: str, tmp_path: Path, command: Callable[..., str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "program").write_bytes(b"\x7fELF\0\0")

    with pytest.raises(UsageError) as caught:
        command(*words, given=given)

    assert output in str(caught.value)


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

    assert "standard input: the cause, from 1 line" in done.stdout


def test_prints_an_entry_by_its_name(command: Callable[..., str]) -> None:
    out = command("TROUBLESHOOTING.md#no-kernel-image", "usage")

    titles = re.findall(r"^# .*", out, re.MULTILINE)
    assert titles == [f"# {causes()['no-kernel-image'].title}", "# Usage"]


def test_names_the_nearest_entry(command: Callable[..., str]) -> None:
    with pytest.raises(
        UsageError, match="there is no entry and no file cuda-home-nit-set"
    ) as caught:
        command("cuda-home-nit-set")

    assert caught.value.why == 'did you mean "cuda-home-not-set"?'
