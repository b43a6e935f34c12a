"""Commands that change an environment: of its own pip, or else of uv."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cuwheel.base.system.process import which
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.check.diagnose.facts.environment import ChosenPython, Distribution, PythonEnvironment
from cuwheel.check.diagnose.verdict import Diagnosis, notes, warns


@dataclass(frozen=True, kw_only=True)
class Installer:
    """The commands for one environment, each one line of shell.

    Attributes:
        python: its interpreter; empty where the environment is active, and `python` is enough.
        has_pip: it has pip; environments that uv makes have none.
        obstacle: why nothing can be installed, as a verdict, and every command is empty then; None
            where it can.
    """

    python: str
    has_pip: bool
    obstacle: Diagnosis | None = None

    def install(self, *requirements: str, again: bool = False) -> str:
        """Return the command that installs requirements.

        Args:
            requirements: as `Requires-Dist` has them, without marker.
        """
        options = ("--force-reinstall", "--no-deps") * again
        return self._command("install", (*options, *requirements))

    def reinstall(self, distribution: Distribution) -> str:
        """Return the command that installs the same wheel again; empty if its origin is unknown."""
        same = same_release(distribution)
        return self.install(same, again=True) if same else ""

    def exchange(self, project: str, requirement: str) -> str:
        """Return the command that installs another build; what it requires stays where it fits."""
        removed, installed = self.remove((project,)), self.install(requirement)
        return f"{removed} && {installed}" if installed else ""

    def remove(self, projects: Iterable[str]) -> str:
        """Return the command that removes projects."""
        return self._command("uninstall", ("-y",) * self.has_pip + tuple(projects))

    def _command(self, verb: str, arguments: tuple[str, ...]) -> str:
        if self.obstacle:
            return ""
        if self.has_pip:
            return shlex.join((self.python or "python", "-m", "pip", verb, *arguments))
        place = ("--python", self.python) if self.python else ()
        return shlex.join(("uv", "pip", verb, *place, *arguments))


def installer_of(
    environment: PythonEnvironment, chosen: ChosenPython, environ: Mapping[str, str]
) -> Installer:
    """Return the installer of an environment.

    Args:
        environ: of the caller, for `PATH`.
    """
    has_pip = "pip" in environment.distributions
    has_uv = which("uv", environ.get("PATH", os.defpath)) is not None
    return Installer(
        python="" if chosen.is_active else str(environment.python),
        has_pip=has_pip,
        obstacle=_obstacle(environment, has_installer=has_pip or has_uv),
    )


def _obstacle(environment: PythonEnvironment, *, has_installer: bool) -> Diagnosis | None:
    if environment.managed:
        return notes(
            "diagnose-no-installer",
            f"{environment.python} is the system's own Python",
            f"{environment.managed}: pip and uv refuse to install into it",
            "create an environment (python3 -m venv FOLDER), install what is needed there, then "
            "run this again",
        )
    if environment.journal.is_dir():
        return warns(
            "diagnose-damaged-installation",
            f"an installation into {environment.prefix} was interrupted, or still runs",
            f"{environment.journal} is there: cuwheel's `install` removes it at its end",
            f"run `nox -s install -- TARGET --python {shlex.quote(str(environment.prefix))}` "
            "again, which first puts back the files from before",
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
    """Return the requirement that only the installed release meets; empty if no index has it.

    A local version (`+cpu`) is on no index that is known here, so such a wheel is taken from where
    it came: PEP 610.
    """
    if "+" not in distribution.version:
        return f"{distribution.name}=={distribution.version}"
    try:
        origin = parse_json(read_text(distribution.metadata / "direct_url.json"))
    except (OSError, ValueError):
        return ""
    is_wheel = isinstance(origin, dict) and origin.get("url") and "archive_info" in origin
    return f"{distribution.name} @ {origin['url']}" if is_wheel else ""
