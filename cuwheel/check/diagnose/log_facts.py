"""The facts of this machine that decide what a log written on it means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cuwheel.base.errors import CuwheelError
from cuwheel.base.system.machine import driver_version
from cuwheel.check.diagnose.facts.environment import find_environment, read_environment
from cuwheel.check.diagnose.toolkits import find_installations
from cuwheel.check.explain.torch_facts import torch_facts

_NONE = "none"


def facts_for_logs(python: str | None, environ: Mapping[str, str], start: Path) -> dict[str, str]:
    """Return the facts of this machine by the names that the failure catalogue gives them.

    Args:
        python: an interpreter or an environment; None: the active one.
        start: the base of a relative one.
    """
    facts = {"driver": driver_version() or _NONE}
    releases = [toolkit.release for toolkit in find_installations(environ).toolkits if toolkit.path]
    if releases:
        facts["cuda"] = releases[0]
    chosen = find_environment(python, environ, start)
    if chosen.path is None:
        return facts
    try:
        environment = read_environment(chosen.path, environ)
    except CuwheelError:  # a log is explained without it too
        return facts
    torch = environment.distributions.get("torch")
    facts |= {"python": environment.release}
    return facts | (torch_facts(torch.version, torch.requires) if torch else {})
