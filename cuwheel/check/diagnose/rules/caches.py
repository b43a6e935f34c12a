"""Verdicts on the folders into which frameworks write the kernels that they compile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.verdict import Diagnosis, warns

# By project: the variable with the folder, and its default below the home folder. Both make it when
# a kernel is first compiled, with `os.makedirs` (cupy/cuda/_compiler_cache.py of CuPy 14.2,
# triton/runtime/cache.py), which raises PermissionError.
_CACHES = {
    "cupy": ("CUPY_CACHE_DIR", ".cupy/kernel_cache"),
    "triton": ("TRITON_CACHE_DIR", ".triton/cache"),
}


def judge_caches(context: RuleContext) -> Iterator[Diagnosis]:
    """Yield a verdict for each framework that can't write its cache of kernels."""
    home = Path(context.environ.get("HOME") or Path.home())
    for name, (variable, default) in _CACHES.items():
        names = context.environment.distributions
        installed = [own for own in names if own == name or own.startswith(f"{name}-cuda")]
        folder = Path(context.environ.get(variable) or home / default)
        if installed and not _is_writable(folder):
            yield warns(
                "permission-denied",
                f"{installed[0]} can't write {folder}",
                "it writes the kernels there that it compiles, and raises an error otherwise",
                f"set {variable} to a folder that can be written",
            )


def _is_writable(folder: Path) -> bool:
    """Return True if a folder is there and can be written, or can be made."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
