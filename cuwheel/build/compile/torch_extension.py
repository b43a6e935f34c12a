"""Requirements of the installed PyTorch: archs, and the C++ that its builder asks for.

Both are read from its own files, so that no table of releases grows old here. From 2.13 on its
builder passes -std=c++20 unless a package sets one.
"""

from __future__ import annotations

import re

from cuwheel.base.errors import PreflightError
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.environment import dotted_arch
from cuwheel.build.recipe.recipe import TorchExtension
from cuwheel.build.toolchains.host_compiler import host_compiler
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment

_ARCHS = re.compile(r"supported_arches = \[(.*?)\]", re.DOTALL)
_DEFAULT_STANDARD = re.compile(r"cpp_flag = cpp_flag_prefix \+ 'c\+\+(\d+)'")
# GCC's manual, "C++ Standards Support": -std=c++20 from GCC 10 on, -std=c++17 from GCC 8 on.
_OLDEST_GCC = {20: 10, 17: 8}


def check_torch_extension(job: Job) -> None:
    """Raise PreflightError where the host compiler lacks PyTorch's C++; warn of refused archs.

    A warning, as PyTorch looks at archs only where the package's own flags name none.
    """
    workspace, framework = job.workspace, job.target.framework
    is_extension = isinstance(job.target.recipe.build, TorchExtension)
    if not is_extension or framework is None or not workspace.has("environment"):
        return
    site = workspace.load("environment", Environment).site_packages
    try:
        text = read_text(site / "torch" / "utils" / "cpp_extension.py")
    except OSError:
        return
    known = {arch for listed in _ARCHS.findall(text) for arch in re.findall(r"'([^']+)'", listed)}
    unknown = [arch for arch in map(dotted_arch, job.target.archs) if arch not in known]
    if known and unknown:
        workspace.console.warn(
            f"{framework.pin} rejects {', '.join(unknown)} in TORCH_CUDA_ARCH_LIST: a package that "
            "relies on this variable fails; if its setup.py takes nvcc flags, pass {gencode} in "
            "the recipe's `build`"
        )
    if standard := _DEFAULT_STANDARD.search(text):
        _check_standard(job, int(standard[1]))


def _check_standard(job: Job, standard: int) -> None:
    compiler, oldest = host_compiler(job), _OLDEST_GCC.get(standard, 0)
    if compiler and compiler.major < oldest and job.target.framework:
        raise PreflightError(
            f"GCC {compiler.version} can't compile C++{standard}",
            why=f"{job.target.framework.pin} needs -std=c++{standard}, which GCC supports from "
            f"{oldest} on",
            fix="install a newer g++ that this nvcc supports, or build with --host-compiler gcc12",
        )
