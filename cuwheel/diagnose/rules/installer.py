"""The commands that change an environment: of its own pip, or else of uv."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.python_choice import ChosenPython


@dataclass(frozen=True, kw_only=True)
class Installer:
    """Writes commands for one environment, each a line that a shell takes as it stands.

    Attributes:
        python: its interpreter; empty where the environment is active, and `python` is enough.
        has_pip: it has pip; environments that uv makes have none.
    """

    python: str
    has_pip: bool

    def install(self, *requirements: str, again: bool = False, alone: bool = False) -> str:
        """Install requirements with one command.

        Args:
            requirements: as `Requires-Dist` has them, without marker.
            again: what is there already too.
            alone: without what they require.
        """
        options = ("--force-reinstall",) * again + ("--no-deps",) * alone
        return self._command("install", (*options, *requirements))

    def reinstall(self, distribution: Distribution) -> str:
        """Install the very same wheel again; empty where nothing says where it came from."""
        same = same_release(distribution)
        return self.install(same, again=True, alone=True) if same else ""

    def remove(self, projects: Iterable[str]) -> str:
        """Remove projects."""
        return self._command("uninstall", ("-y",) * self.has_pip + tuple(projects))

    def _command(self, verb: str, words: tuple[str, ...]) -> str:
        if self.has_pip:
            return shlex.join((self.python or "python", "-m", "pip", verb, *words))
        place = ("--python", self.python) if self.python else ()
        return shlex.join(("uv", "pip", verb, *place, *words))


def installer_of(environment: PythonEnvironment, chosen: ChosenPython) -> Installer:
    """The installer of an environment."""
    return Installer(
        python="" if chosen.is_active else str(environment.python),
        has_pip="pip" in environment.distributions,
    )


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
        said = json.loads((distribution.metadata / "direct_url.json").read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    return str(said.get("url", "")) if isinstance(said, dict) and "archive_info" in said else ""
