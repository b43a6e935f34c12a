"""What completes `cuwheel` in a shell: as the options are now, and as a shell takes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.spelling import ENTRY_VARIABLE
from cuwheel.base.system.console import Console
from cuwheel.cli.dispatch import run_command
from cuwheel.cli.reference import completions
from cuwheel.cli.reference.completions import FOLDER, SHELLS, write_completions
from tests.support.requirements import require

# What bash does when a person presses the tabulator behind the last word.
_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
$(complete -p cuwheel | sed -E 's/.*-F ([^ ]+).*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""
_FISH = 'source "$argv[1]"; complete -C "$argv[2..]" | string split -f1 \\t'


@pytest.fixture
def complete(tmp_path: Path) -> Callable[..., set[str]]:
    """Complete a line in a shell; in a project with one target, and `cuwheel` on PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "cuwheel"
    start = "import sys; from cuwheel.entry import main; sys.exit(main())"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n')
    script.chmod(0o755)
    project = ROOT / "tests" / "project"

    def lines(shell: str, *words: str) -> set[str]:
        path = str(FOLDER / f"cuwheel.{shell}")
        commands = {"bash": ["bash", "-c", _BASH, "bash"], "fish": ["fish", "-Nc", _FISH]}
        done = subprocess.run(
            [*commands[shell], path, *words],
            cwd=tmp_path,
            env={
                "PATH": f"{programs}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "PYTHONPATH": str(ROOT),
                "CUWHEEL_PROJECT": str(project),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return {line.strip() for line in done.stdout.splitlines()} - {""}

    return lines


def test_scripts_are_those_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed options need `nox -s completions`."""
    monkeypatch.setattr(completions, "FOLDER", tmp_path)
    monkeypatch.setenv(ENTRY_VARIABLE, "")

    write_completions()

    written = {shell: (tmp_path / f"cuwheel.{shell}").read_text() for shell in SHELLS}
    assert written == {shell: (FOLDER / f"cuwheel.{shell}").read_text() for shell in SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_prints_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_command("completion", [shell], Console())

    assert capsys.readouterr().out == (FOLDER / f"cuwheel.{shell}").read_text()


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("words", "result"),
    [
        (("ex",), {"explain"}),
        (("explain", "--ver"), {"--verbose"}),
        (("build", "--toolchain", "co"), {"conda"}),
        (("smoke", "tiny-c"), {"tiny-capi-130"}),
    ],
    ids=["command", "option", "choice", "target"],
)
def test_shell_completes(
    complete: Callable[..., set[str]], shell: str, words: tuple[str, ...], result: set[str]
) -> None:
    require(shell, f"completion in {shell}")

    assert complete(shell, "cuwheel", *words) == result


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_can_read_its_script(shell: str) -> None:
    require(shell, f"the script of {shell}")

    done = subprocess.run([shell, "-n", str(FOLDER / f"cuwheel.{shell}")], check=False)

    assert done.returncode == 0
