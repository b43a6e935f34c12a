"""What was found of drivers and machines, judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuwheel.diagnose.facts.host import HostFacts
from cuwheel.diagnose.rules.driver import judge_driver

if TYPE_CHECKING:
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.verdict import Verdict


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


def judge(driver: Driver, host: HostFacts | None = None, **environ: str) -> Verdict:
    [found] = judge_driver(driver, host or make_host(), environ)
    return found
