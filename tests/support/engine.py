"""Run the engine in a process of its own, as nox does, on the tiny packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from tests.support.requirements import sandbox_here

PACKAGES = ROOT / "tests" / "packages"
TIME_LIMIT = 300.0  # seconds; a test that hangs has failed


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run of the engine ended, and all that it said."""

    status: int
    output: str


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine with its folders.

    Attributes:
        variables: come on top of this process's environment.
        within: the beginning of a command that runs what follows: `unshare --net`.
        tag: of the toolkit that is built with.
    """

    python: Path
    cache: Path
    work: Path
    dist: Path
    project: Path
    variables: dict[str, str] = field(default_factory=dict)
    within: tuple[str, ...] = ()
    tag: str = "130"

    def build(self, name: str, *options: str, **variables: str) -> Outcome:
        """Build a tiny package to the end."""
        with self.start(name, *options, **variables) as child:
            return finish(child)

    @contextmanager
    def start(self, name: str, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """Start building a tiny package; its output can be read while it runs.

        Behind the block it has ended and its pipe is closed, also where a test failed inside.
        """
        source = PACKAGES / name.replace("-", "_")
        arguments = ["--work", str(self.work), "--dist", str(self.dist)]
        if "--source" not in options:
            arguments += ["--source", str(source)]
        if "--sandbox" not in options:
            arguments += ["--sandbox", sandbox_here()]
        command = [*self.within, str(self.python), "-m", "cuwheel", "build", f"{name}-{self.tag}"]
        with subprocess.Popen(
            [*command, *arguments, *options],
            env=self.environment(**variables),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as child:
            try:
                yield child
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)

    def environment(self, **variables: str) -> dict[str, str]:
        """What the engine's process sees."""
        return {
            **os.environ,
            "CUWHEEL_CACHE": str(self.cache),
            "CUWHEEL_PROJECT": str(self.project),
            "COLUMNS": "200",
            **self.variables,
            **variables,
        }

    def wheels(self) -> list[Path]:
        """The finished wheels."""
        return sorted(self.dist.glob("*.whl"))


def make_engine(folder: Path, project: Path, cache: Path) -> Engine:
    """The engine in this Python, with work and dist folders below a folder."""
    return Engine(
        python=Path(sys.executable),
        cache=cache,
        work=folder / "work",
        dist=folder / "dist",
        project=project,
    )


def finish(child: subprocess.Popen[str]) -> Outcome:
    """Wait for the engine's end."""
    output, _ = child.communicate(timeout=TIME_LIMIT)
    return Outcome(status=child.returncode, output=output)


def use_environment(engine: Engine, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set the engine's variables in this process."""
    for name, value in engine.environment(**variables).items():
        monkeypatch.setenv(name, value)
