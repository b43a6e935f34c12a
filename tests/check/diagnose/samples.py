"""Facts that exist only on paper, and programs that say of themselves what others say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.machine import Driver, HostFacts
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.driver import judge_driver
from cuwheel.check.diagnose.rules.installer import Installer
from cuwheel.check.diagnose.toolkits import find_installations, judge_installations
from cuwheel.check.diagnose.verdict import Diagnosis


def make_distribution(name: str, folder: Path = Path("site"), **changes: Any) -> Distribution:
    usual: dict[str, Any] = {
        "version": "1.0",
        "site": folder,
        "metadata": folder,
        "requires": (),
        "libraries": (),
    }
    return Distribution(name=name, **{**usual, **changes})


def make_environment(*distributions: Distribution) -> PythonEnvironment:
    return PythonEnvironment(
        python=Path("python"),
        version="3.12.1",
        prefix=Path("prefix"),
        sites=(),
        suffixes=(".so",),
        is_conda=False,
        markers={"python_version": "3.12", "sys_platform": "linux"},
        distributions={distribution.name: distribution for distribution in distributions},
    )


def make_context(*distributions: Distribution, **changes: Any) -> RuleContext:
    usual: dict[str, Any] = {
        "environment": make_environment(*distributions),
        "environ": {},
        "installer": Installer(python="", has_pip=True),
        "frameworks": (),
        "driver": Driver(),
        "host": None,
    }
    return RuleContext(**{**usual, **changes})


def make_host(**changes: Any) -> HostFacts:
    usual: dict[str, Any] = {
        "system": "Linux",
        "kernel": "6",
        "architecture": "x86_64",
        "glibc": "2.36",
        "glibcxx": "3.4.30",
        "container": "",
        "is_wsl": False,
        "memory": 1 << 34,
        "free_memory": 1 << 33,
        "cores": 2,
        "free_disk": 1 << 34,
        "shared_memory": 1 << 33,
        "has_device_files": True,
    }
    return HostFacts(**{**usual, **changes})


def driver_verdict(driver: Driver, host: HostFacts | None = None, **environ: str) -> Diagnosis:
    [verdict] = judge_driver(driver, host or make_host(), environ)
    return verdict


def toolkit_verdicts(
    variables: Mapping[str, str] | None = None,
    *,
    triton: bool = False,
    torch: str = "",
    **environ: str,
) -> list[Diagnosis]:
    """Judge what `bare_machine` has; of its PATH nothing but what a test names."""
    framework = FrameworkFacts(name="torch", version="2", cuda=torch) if torch else None
    environ = {"PATH": "/nonexistent", **environ, **(variables or {})}
    installations = find_installations(environ)
    return list(judge_installations(installations, framework, environ, has_triton=triton))
