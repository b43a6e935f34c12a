"""What the installed PyTorch's `BuildExtension` takes: archs, and the C++ that its headers need.

Both are read from its torch/utils/cpp_extension.py, so that no table of releases grows old here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.build.environment import dotted_arch
from cuwheel.model.recipe import TorchExtension
from cuwheel.toolchains.host_compiler import host_compiler
from cuwheel.workspace.problems import Problem
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from cuwheel.workspace.job import Job


_ARCHS = re.compile(r"supported_arches = \[(.*?)\]", re.DOTALL)
_STANDARD = re.compile(r"cpp_flag = cpp_flag_prefix \+ 'c\+\+(\d+)'")
# GCC's manual, "C++ Standards Support": -std=c++20 from GCC 10 on, -std=c++17 from GCC 8 on.
_OLDEST_GCC = {20: 10, 17: 8}


def check_torch_extension(job: Job) -> list[Problem]:
    """Hold the host compiler against the C++ of PyTorch's headers; warn of archs that it refuses.

    A warning, as PyTorch looks at archs only where the package's own flags name none.
    """
    workspace, framework = job.workspace, job.target.framework
    is_extension = isinstance(job.target.recipe.build, TorchExtension)
    if not is_extension or framework is None or not workspace.has("environment"):
        return []
    site = workspace.load("environment", Environment).site_packages
    try:
        text = (site / "torch" / "utils" / "cpp_extension.py").read_text()
    except OSError:
        return []
    known = {arch for found in _ARCHS.findall(text) for arch in re.findall(r"'([^']+)'", found)}
    unknown = [arch for arch in map(dotted_arch, job.target.archs) if arch not in known]
    if known and unknown:
        workspace.console.warn(
            f"{framework.pin} refuses {', '.join(unknown)} in TORCH_CUDA_ARCH_LIST: a package that "
            "leaves the archs to it fails; where its setup.py takes flags for nvcc, give it "
            "{gencode} in the recipe's `build`"
        )
    standard = _STANDARD.search(text)
    return _check_standard(job, int(standard[1])) if standard else []


def _check_standard(job: Job, standard: int) -> list[Problem]:
    compiler, oldest = host_compiler(job), _OLDEST_GCC.get(standard, 0)
    if compiler is None or compiler.major >= oldest or job.target.framework is None:
        return []
    return [
        Problem(
            what=f"GCC {compiler.version} can't compile C++{standard}",
            why=f"{job.target.framework.pin} is compiled against with -std=c++{standard}, which "
            f"GCC {oldest} is the first to have",
            fix="install a newer g++ that this nvcc takes, or build with --toolchain conda, which "
            "brings its own",
        )
    ]
