"""The first minute of a new user: measured, and drawn as pictures of a terminal of 80 by 24.

`nox -s bench -- first-minute [--pictures docs/images]` clones this repository, installs nox into an
empty environment, and runs README's two commands with an empty cache; then it installs cuwheel's
wheel into another empty environment and runs the commands that need no checkout.
"""  # noqa: INP001 - run by path, not a package

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.terminal import Shown, median_seconds, picture, show
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process

SAMPLE = "cutensornet-sample-130"
LOG = "build.log"  # what it is called here
_QUICK = ("--version", f"explain {LOG}", "diagnose")
_WANTED = "pick xformers --for python=3.12,torch=2.9,cuda=12.8,arch=90,glibc=2.36,driver=570.95"
_ONCE = ("audit {wheel}", "pick cutensornet-sample --index {dist}", _WANTED)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command of the first minute.

    Attributes:
        command: as it is typed.
        shown: its first run.
        again: seconds of a second run, or the median of eleven; None where it wasn't run again.
        name: of its picture, without the suffix; empty where there is none.
    """

    command: str
    shown: Shown
    again: float | None = None
    name: str = ""


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=Path, help="the folder for the pictures")
    asked = parser.parse_args(arguments)
    folder = Path(tempfile.gettempdir()) / "first-minute"  # a short name: it is in the pictures
    folder.mkdir()
    try:
        _write("| command | first time | again | exit code |\n| --- | --- | --- | --- |")
        for step in itertools.chain(_from_clone(folder), _from_wheel(folder)):
            _write(_line(step))
            if asked.pictures and step.name:
                text = picture(step.shown.screen, step.command)
                (asked.pictures / f"{step.name}.svg").write_text(text)
    finally:
        shutil.rmtree(folder)


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _line(step: Step) -> str:
    again = "" if step.again is None else f"{step.again:.2f} s"
    return f"| `{step.command}` | {step.shown.seconds:.2f} s | {again} | {step.shown.exit_code} |"


def _from_clone(folder: Path) -> Iterator[Step]:
    """README's commands, in a clone."""
    environ = _new_environment(folder, "nox-venv")
    pip = "pip install --quiet --disable-pip-version-check"
    clone = show(f"git clone {shlex.quote(str(ROOT))} cuwheel", folder, environ)
    yield Step(command="git clone ADDRESS cuwheel", shown=clone)
    yield Step(command="pip install nox", shown=show(f"{pip} nox", folder, environ))
    checkout = folder / "cuwheel"
    for name, command in (
        ("first-diagnose", "nox -s diagnose"),
        ("first-build", f"nox -s build-{SAMPLE}"),
        ("first-matrix", "nox -s matrix -- --only 'causal-conv1d-130-*' --python 3.12"),
        ("first-new", "nox -s new -- torch-harmonics"),
    ):
        first = show(command, checkout, environ)
        is_draft = name == "first-new"  # a second one would be refused
        again = None if is_draft else show(command, checkout, environ).seconds
        yield Step(command=command, shown=first, again=again, name=name)


def _from_wheel(folder: Path) -> Iterator[Step]:
    """The commands that need no checkout, where nothing but cuwheel's wheel is installed."""
    checkout = folder / "cuwheel"
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder)]
    process.run([*build, str(checkout)], env={**os.environ, "PYTHONPATH": ""})
    [wheel] = folder.glob("cuwheel-*.whl")
    environ = _new_environment(folder, "empty-venv")
    install = f"pip install --quiet --disable-pip-version-check {wheel.name}"
    yield Step(command=f"pip install {wheel.name}", shown=show(install, folder, environ))
    log = checkout / "tests" / "logs" / "raw" / "torch-abi-mismatch--import.log"
    shutil.copy(log, folder / LOG)
    for words in _QUICK:
        command = f"cuwheel {words}"
        name = f"first-{words.split()[0]}" if words.startswith("explain") else ""
        again = median_seconds(["/bin/sh", "-c", f"exec {command}"], folder, environ)
        yield Step(command=command, shown=show(command, folder, environ), again=again, name=name)
    [sample] = (checkout / "dist").glob("*.whl")
    for form in _ONCE:
        words = form.format(wheel=sample.relative_to(folder), dist="cuwheel/dist/simple")
        command = f"cuwheel {words}"
        first = show(command, folder, environ)
        again = show(command, folder, environ).seconds
        name = "first-pick" if form == _WANTED else ""
        yield Step(command=command, shown=first, again=again, name=name)


def _new_environment(folder: Path, name: str) -> dict[str, str]:
    """Variables of a shell in a new virtual environment, with an empty home and cache."""
    process.run([sys.executable, "-m", "venv", str(folder / name)], env=dict(os.environ))
    home = folder / f"{name}-home"
    home.mkdir()
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "CUWHEEL_", "NOX", "VIRTUAL_ENV", "XDG_"))
    }
    path = f"{folder / name / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "HOME": str(home), "PATH": path, "VIRTUAL_ENV": str(folder / name)}


if __name__ == "__main__":
    main(sys.argv[1:])
