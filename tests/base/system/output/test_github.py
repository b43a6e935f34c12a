"""Workflow commands for the runner of GitHub Actions, and texts that it must not execute."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import rich.console

from cuwheel.base.errors import BuildFailedError, FirstError
from cuwheel.base.system.console import Console
from cuwheel.base.system.output import github
from cuwheel.base.system.output.terminal import make_terminal
from cuwheel.build.workspace.printed_error import print_error
from tests.support.machines.github_runner import obeyed

_INJECTED = "::error file=setup.py,line=1::mine"


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A step of GitHub Actions, and its summary."""
    path = tmp_path / "summary.md"
    monkeypatch.setenv(github.GITHUB_VARIABLE, "true")
    monkeypatch.setenv(github.SUMMARY_VARIABLE, str(path))
    return path


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


def console_of(log: io.StringIO) -> Console:
    return Console(rich.console.Console(file=log, width=120, soft_wrap=True))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("100 %\r\nnext", "::error file=a.cu::100 %25%0D%0Anext"),
        ("::set-output name=x::y", "::error file=a.cu::::set-output name=x::y"),
    ],
)
def test_message_stays_one_line(value: str, expected: str) -> None:
    assert github.command("error", value, file="a.cu", line="") == expected


def test_property_ends_neither_itself_nor_the_list() -> None:
    line = github.command("error", "no", file="C:\\a,line=9::b\n.cu", line="3")

    assert line == "::error file=C%3A\\a%2Cline=9%3A%3Ab%0A.cu,line=3::no"


@pytest.mark.usefixtures("summary")
def test_group_holds_output_of_its_stage(log: io.StringIO) -> None:
    console = console_of(log)

    with console.stage("build"):
        console.note("compiling")
        console.output(["[1/2] a.cu\n"])

    lines = log.getvalue().splitlines()
    assert (lines[0], lines[-1]) == ("::group::build", "::endgroup::")
    assert lines[2:-2] == ["  compiling", "[1/2] a.cu"]


@pytest.mark.usefixtures("summary")
def test_group_ends_where_its_stage_fails(log: io.StringIO) -> None:
    with pytest.raises(ValueError, match="no"), console_of(log).stage("build"):
        raise ValueError("no")

    assert obeyed(log.getvalue()) == ["::group::build", "::endgroup::"]


@pytest.mark.usefixtures("summary")
@pytest.mark.parametrize("line", [_INJECTED, f"   {_INJECTED}", "x ##[add-matcher]m.json", "::a::"])
def test_output_of_a_package_gives_no_commands(log: io.StringIO, line: str) -> None:
    console = console_of(log)

    with console.stage("build"):
        console.output([line])

    assert line in log.getvalue().splitlines()
    assert obeyed(log.getvalue()) == ["::group::build", "::endgroup::"]


@pytest.mark.usefixtures("summary")
def test_warns_within_a_group(log: io.StringIO) -> None:
    console = console_of(log)

    with console.stage("build"):
        console.warn("no sandbox")
        console.output([_INJECTED])

    commands = obeyed(log.getvalue())
    assert commands == ["::group::build", "::warning::no sandbox", "::endgroup::"]


def failure(text: str = 'csrc/a.cu:12:5: error: identifier "b" is undefined') -> BuildFailedError:
    error = BuildFailedError(
        "tiny-130: the package's own build failed",
        command=["python", "-m", "build"],
        status=1,
        log=None,
        tail=[_INJECTED, "the end"],
    )
    error.first = FirstError(file="csrc/a.cu", line="12", text=text, command="nvcc -c csrc/a.cu")
    return error


def test_error_names_its_line(log: io.StringIO, summary: Path) -> None:
    print_error(failure(), console_of(log), f"line 3:\n{_INJECTED}")

    [command] = obeyed(log.getvalue())
    assert command.startswith("::error file=csrc/a.cu,line=12::tiny-130: the package's own build")
    assert "| because | csrc/a.cu:12:5: error: identifier" in summary.read_text()


def test_summary_takes_no_markup(log: io.StringIO, summary: Path) -> None:
    print_error(failure("a.cu:1: error: <b>|`x`\n# [l](u)"), console_of(log), "```\n# heading")

    text = summary.read_text()
    assert r"a.cu:1: error: \<b\>\|\`x\` \# \[l\](u)" in text
    assert "\n````text\n```\n# heading\n````\n" in text


@pytest.mark.usefixtures("summary")
@pytest.mark.parametrize("line", [_INJECTED, f"  {_INJECTED}", "lib##[error]x.so"])
def test_report_gives_no_commands(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    make_terminal(stderr=False).print(f"{line}\nc10::Error", markup=False)

    written = capsys.readouterr().out
    assert obeyed(written) == []
    assert "c10::Error" in written


def test_leads_with_message_of_the_compiler(log: io.StringIO) -> None:
    print_error(failure(), console_of(log))

    lines = log.getvalue().splitlines()
    assert lines[:3] == [
        'csrc/a.cu:12:5: error: identifier "b" is undefined',
        "  command  nvcc -c csrc/a.cu",
        "error: tiny-130: the package's own build failed",
    ]


@pytest.mark.usefixtures("summary")
def test_no_two_blocks_have_one_token(log: io.StringIO) -> None:
    console = console_of(log)
    for name in ("one", "two"):
        with console.stage(name):
            pass

    stops = [line for line in log.getvalue().splitlines() if line.startswith("::stop-commands::")]
    assert len(set(stops)) == len(stops) == 2
