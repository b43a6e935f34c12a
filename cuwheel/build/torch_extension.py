"""What the installed PyTorch takes: archs, and the C++ that its builder and its headers ask for.

All of it is read from its own files, so that no table of releases grows old here. From 2.13 on its
builder says -std=c++20 where a package says nothing; its headers ended at C++17 up to 2.13 (a
warning from g++ 12 and nvcc 13.0), those of 2.15 stop with an `#error`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.build.environment import dotted_arch
from cuwheel.model.recipe import TorchExtension
from cuwheel.system.whole_files import read_text
from cuwheel.toolchains.host_compiler import host_compiler
from cuwheel.workspace.problems import Problem
from cuwheel.workspace.records import Environment, SourceTree

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import Job


_ARCHS = re.compile(r"supported_arches = \[(.*?)\]", re.DOTALL)
_DEFAULT_STANDARD = re.compile(r"cpp_flag = cpp_flag_prefix \+ 'c\+\+(\d+)'")
_LEAST_STANDARD = re.compile(r"#error C\+\+(\d+) or later compatible compiler")
_ASKED_STANDARD = re.compile(r"-std=(?:c|gnu)\+\+(\d\d)\b")
# GCC's manual, "C++ Standards Support": -std=c++20 from GCC 10 on, -std=c++17 from GCC 8 on.
_OLDEST_GCC = {20: 10, 17: 8}


def check_torch_extension(job: Job) -> list[Problem]:
    """Hold the host compiler against PyTorch's C++; warn of archs and flags that it refuses.

    A warning, as PyTorch looks at archs only where the package's own flags name none, and as
    setup.py has flags for other builds too, such as those for AMD's GPUs.
    """
    workspace, framework = job.workspace, job.target.framework
    is_extension = isinstance(job.target.recipe.build, TorchExtension)
    if not is_extension or framework is None or not workspace.has("environment"):
        return []
    site = workspace.load("environment", Environment).site_packages
    try:
        text = read_text(site / "torch" / "utils" / "cpp_extension.py")
    except OSError:
        return []
    known = {arch for found in _ARCHS.findall(text) for arch in re.findall(r"'([^']+)'", found)}
    unknown = [arch for arch in map(dotted_arch, job.target.archs) if arch not in known]
    if known and unknown:
        workspace.console.warn(
            f"{framework.pin} rejects {', '.join(unknown)} in TORCH_CUDA_ARCH_LIST: a package that "
            "relies on this variable fails; if its setup.py takes nvcc flags, pass {gencode} in "
            "the recipe's `build`"
        )
    _warn_of_flags(job, site)
    standard = _DEFAULT_STANDARD.search(text)
    return _check_standard(job, int(standard[1])) if standard else []


def _warn_of_flags(job: Job, site: Path) -> None:
    workspace, framework = job.workspace, job.target.framework
    header = site / "torch" / "include" / "ATen" / "ATen.h"
    stage = next((name for name in ("patch", "source") if workspace.has(name)), None)
    least = _LEAST_STANDARD.search(read_text(header)) if header.is_file() else None
    if stage is None or least is None or framework is None:
        return
    setup = workspace.load(stage, SourceTree).path / "setup.py"
    lines = read_text(setup, errors="replace").splitlines() if setup.is_file() else []
    older = [
        f"line {number} says {found[0]}"
        for number, line in enumerate(lines, 1)
        for found in _ASKED_STANDARD.finditer(line)
        if int(found[1]) < int(least[1])
    ]
    if older:
        workspace.console.warn(
            f"{framework.pin} needs C++{least[1]}, and in setup.py {', '.join(older)}: files "
            f'compiled with that option fail with "#error C++{least[1]} or later"; a patch can '
            "remove the option, as PyTorch's builder sets one itself"
        )


def _check_standard(job: Job, standard: int) -> list[Problem]:
    compiler, oldest = host_compiler(job), _OLDEST_GCC.get(standard, 0)
    if compiler is None or compiler.major >= oldest or job.target.framework is None:
        return []
    return [
        Problem(
            what=f"GCC {compiler.version} can't compile C++{standard}",
            why=f"{job.target.framework.pin} needs -std=c++{standard}, which GCC supports from "
            f"{oldest} on",
            fix="install a newer g++ that this nvcc supports, or build with --toolchain conda, "
            "which brings its own",
        )
    ]
