"""The archs that the installed PyTorch knows, read from its own files."""

from __future__ import annotations

import re

from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.environment import dotted_arch
from cuwheel.build.recipe.recipe import TorchExtension
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment

_ARCHS = re.compile(r"supported_arches = \[(.*?)\]", re.DOTALL)


def check_torch_extension(job: Job) -> None:
    """Warn of archs that PyTorch refuses: it looks at them where the package's flags name none."""
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
