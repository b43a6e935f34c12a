"""Programs that say of themselves what nvcc says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.imports import FrameworkFacts
from cuwheel.diagnose.facts.installed_toolkits import find_installations
from cuwheel.diagnose.rules.toolkit import judge_installations

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.verdict import Verdict


SAYS = "Cuda compilation tools, release {}, V{}.88"


def write_nvcc(folder: Path, release: str, script: str = "") -> Path:
    """A stand-in for an nvcc that this machine doesn't have: it only says which one it is."""
    program = folder / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script or f'echo {SAYS.format(release, release)!r}'}\n")
    program.chmod(0o755)
    return folder


def judged(*, triton: bool = False, torch: str = "", **environ: str) -> list[Verdict]:
    framework = FrameworkFacts(name="torch", version="2", cuda=torch) if torch else None
    found = find_installations({"PATH": "/usr/bin:/bin", **environ})
    return list(judge_installations(found, framework, has_triton=triton))
