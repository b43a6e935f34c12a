"""Somebody who builds with a conda toolchain, from a channel of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.paths import ROOT
from cuwheel.base.system.pythons import own_python
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE
from tests.support.engine import TIME_LIMIT, Engine, Outcome
from tests.support.toolchains.channel import write_source
from tests.support.toolchains.toolchain_channel import toolchain_specs

TAG = own_python().release.replace(".", "")


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody with a project whose toolchain comes from the channel.

    Attributes:
        project: their folder.
        cache: their cache.
        channel: the mirror that they name.
    """

    project: Path
    cache: Path
    channel: str

    def run(self, *words: str) -> Outcome:
        """Run a command of cuwheel."""
        done = subprocess.run(
            [sys.executable, "-m", "cuwheel", *words],
            env={**os.environ, "CUWHEEL_CACHE": str(self.cache), **self.variables},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIME_LIMIT,
        )
        return Outcome(status=done.returncode, output=done.stdout)

    @property
    def variables(self) -> dict[str, str]:
        """What they have set."""
        return {"CUWHEEL_PROJECT": self._projects, MIRRORS_VARIABLE: self.channel, "COLUMNS": "200"}

    @property
    def _projects(self) -> str:
        return os.pathsep.join([str(self.project), str(ROOT / "tests" / "project")])

    def engine(self, folder: Path) -> Engine:
        """The engine with their settings, and folders of a test's own."""
        return Engine(
            python=Path(sys.executable),
            cache=self.cache,
            work=folder / "work",
            dist=folder / "dist",
            project=self.project,
            variables=self.variables,
        )


def make_user(project: Path, channel: Path, cache: Path) -> User:
    """A user who has locked and installed the toolchain, and has a lock of a Python too."""
    write_source(project / "envs" / "cuda130", *toolchain_specs(channel))
    write_source(project / "envs" / f"python{TAG}", "python")
    made = User(project=project, cache=cache, channel=channel.as_uri())
    for words in (
        ("lock", "toolchain:130:conda", f"python:{TAG}"),
        ("lock-check",),
        ("toolchain", "130", "--toolchain", "conda"),
    ):
        done = made.run(*words)
        assert done.status == 0, done.output
    return made
