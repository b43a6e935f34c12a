"""The commands that change an environment: of its own pip, or else of uv."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.diagnose.verdict import notes
from cuwheel.system.process import which
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.python_choice import ChosenPython
    from cuwheel.diagnose.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Writes commands for one environment, each a line that a shell takes as it stands.

    Attributes:
        python: its interpreter; empty where the environment is active, and `python` is enough.
        has_pip: it has pip; environments that uv makes have none.
        obstacle: why nothing can be installed, as a verdict, and every command is empty then; None
            where it can.
    """

    python: str
    has_pip: bool
    obstacle: Verdict | None = None

    def install(self, *requirements: str, again: bool = False) -> str:
        """Install requirements with one command.

        Args:
            requirements: as `Requires-Dist` has them, without marker.
            again: what is there already too, and nothing that it requires.
        """
        options = ("--force-reinstall", "--no-deps") * again
        return self._command("install", (*options, *requirements))

    def reinstall(self, distribution: Distribution) -> str:
        """Install the very same wheel again; empty where nothing says where it came from."""
        same = same_release(distribution)
        return self.install(same, again=True) if same else ""

    def exchange(self, project: str, requirement: str) -> str:
        """Install another build of a project; what it requires stays where it fits."""
        removed, installed = self.remove((project,)), self.install(requirement)
        return f"{removed} && {installed}" if installed else ""

    def remove(self, projects: Iterable[str]) -> str:
        """Remove projects."""
        return self._command("uninstall", ("-y",) * self.has_pip + tuple(projects))

    def _command(self, verb: str, words: tuple[str, ...]) -> str:
        if self.obstacle:
            return ""
        if self.has_pip:
            return shlex.join((self.python or "python", "-m", "pip", verb, *words))
        place = ("--python", self.python) if self.python else ()
        return shlex.join(("uv", "pip", verb, *place, *words))


def installer_of(
    environment: PythonEnvironment, chosen: ChosenPython, environ: Mapping[str, str]
) -> Installer:
    """The installer of an environment.

    Args:
        environment: which.
        chosen: how it was found.
        environ: of the caller, for `PATH`.
    """
    has_pip = "pip" in environment.distributions
    has_uv = which("uv", environ.get("PATH", os.defpath)) is not None
    return Installer(
        python="" if chosen.is_active else str(environment.python),
        has_pip=has_pip,
        obstacle=_obstacle(environment, has_installer=has_pip or has_uv),
    )


def _obstacle(environment: PythonEnvironment, *, has_installer: bool) -> Verdict | None:
    if environment.managed:
        return notes(
            "diagnose-no-installer",
            f"{environment.python} is the system's own Python",
            f"{environment.managed}: pip and uv refuse to install into it",
            "create an environment (python3 -m venv FOLDER), install what is needed there, then "
            "run this again",
        )
    if not has_installer:
        return notes(
            "diagnose-no-installer",
            f"there is no installer for {environment.prefix}",
            "it has no pip, and uv isn't on PATH",
            "install pip into it (python -m ensurepip), or install uv, then run this again",
        )
    return None


def same_release(distribution: Distribution) -> str:
    """The requirement that only the installed release meets; empty where no index has it.

    A local version (`+cpu`) is on no index that is known here, so such a wheel is taken from where
    it came: PEP 610.
    """
    if "+" not in distribution.version:
        return f"{distribution.name}=={distribution.version}"
    url = _origin(distribution)
    return f"{distribution.name} @ {url}" if url else ""


def _origin(distribution: Distribution) -> str:
    """Where a wheel was installed from, if it was by address."""
    try:
        said = json.loads(read_text(distribution.metadata / "direct_url.json"))
    except (OSError, ValueError):
        return ""
    return str(said.get("url", "")) if isinstance(said, dict) and "archive_info" in said else ""
