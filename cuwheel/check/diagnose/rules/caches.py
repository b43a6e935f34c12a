"""Verdicts on the folders into which frameworks write what they compile."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cuwheel.check.diagnose.facts.machine import full_file_system, mount_without_programs
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.verdict import Diagnosis, warns

_TEMPORARY = "/tmp"  # noqa: S108 - only looked at
_OTHER = "/var/tmp"  # noqa: S108 - likewise
_NUMBAS = "NUMBA_CACHE_DIR"


class _Cache(NamedTuple):
    """A folder for what is compiled when it is first used.

    Attributes:
        default: below the home folder; empty: only what the variable names counts.
        loads: libraries in it are loaded, or programs started.
        effect: where it can't be written.
    """

    variable: str
    projects: str
    default: str = ""
    loads: bool = True
    effect: str = "or else raises an error"


# Each makes it with `os.makedirs` (cupy/cuda/_compiler_cache.py of CuPy 14.2,
# triton/runtime/cache.py), which raises PermissionError.
_CACHES = (
    _Cache("CUPY_CACHE_DIR", r"cupy(-cuda\d+x)?", ".cupy/kernel_cache", loads=False),
    _Cache("TRITON_CACHE_DIR", "triton", ".triton/cache"),
    _Cache("TORCHINDUCTOR_CACHE_DIR", "torch"),
    _Cache("TORCH_EXTENSIONS_DIR", "torch"),
    _Cache(
        _NUMBAS,
        "numba",
        loads=False,
        effect="else into the script's folder; if nowhere, it raises an error",
    ),
    _Cache("JAX_COMPILATION_CACHE_DIR", "jax", loads=False),
    _Cache("TORCH_HOME", "torch", loads=False),
    _Cache("HF_HOME", "huggingface.hub", ".cache/huggingface", loads=False),
    _Cache("XDG_CACHE_HOME", "torch|huggingface.hub", loads=False),
    _Cache(
        "TMPDIR", r"torch|triton|cupy(-cuda\d+x)?|numba(-cuda)?|jax|pip", _TEMPORARY, loads=False
    ),
)


def judge_caches(context: RuleContext) -> Iterator[Diagnosis]:
    """Yield a verdict for each folder that its framework can't use."""
    home = Path(context.environ.get("HOME") or Path.home())
    for cache in _CACHES:
        names = context.environment.distributions
        installed = [own for own in names if re.fullmatch(cache.projects, own)]
        value = context.environ.get(cache.variable) or cache.default
        if installed and value and (fault := _fault(home / value, loads=cache.loads)):
            command = _command(cache, context.environ, home)
            other = f"set {cache.variable} to another folder"
            yield warns(
                "permission-denied",
                f"{installed[0]} can't {fault}",
                f"it writes there what it compiles, {cache.effect}",
                f"unset {cache.variable}" if command.startswith("unset") else other,
                command,
            )


def _command(cache: _Cache, environ: Mapping[str, str], home: Path) -> str:
    """Return the command that chooses a folder which can be used; empty: none is known."""
    usual = home / (cache.default or _TEMPORARY)
    # Without it numba writes beside each script, where it may not write either.
    is_set = bool(environ.get(cache.variable)) and cache.variable != _NUMBAS
    if is_set and not _fault(usual, loads=cache.loads):
        return f"unset {cache.variable}"
    places = (place for place in (_TEMPORARY, _OTHER) if not _fault(Path(place), loads=cache.loads))
    place = next(places, "")
    return f'export {cache.variable}="$(mktemp -d -p {place})"' if place else ""


def command_for(path: Path, environ: Mapping[str, str]) -> str:
    """Return the command that moves what is written below a home folder; empty: none is known."""
    home = Path(environ.get("HOME") or Path.home())
    is_homes = path.is_relative_to(home)
    for cache in _CACHES:
        folder = home / (environ.get(cache.variable) or cache.default or "-")
        if is_homes and folder == Path(_TEMPORARY):
            continue
        if path.is_relative_to(folder) or (folder.is_relative_to(path) and path != home):
            return _command(cache, environ, home)
    is_usable = is_homes and not _fault(Path(_TEMPORARY), loads=True)
    return f'export HOME="$(mktemp -d -p {_TEMPORARY})"' if is_usable else ""


def _fault(folder: Path, *, loads: bool) -> str:
    """Return what can't be done with a folder, there or to be made, and why; empty: all can."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not existing.is_dir():
        return f"write {folder}: {existing} is no folder"
    is_kernels = existing.is_relative_to("/proc") or existing.is_relative_to("/sys")
    if is_kernels or not os.access(existing, os.W_OK | os.X_OK):
        return f"write {folder}"
    if full := full_file_system(existing):
        return f"write {folder}: {full}"
    mount = mount_without_programs(existing) if loads else None
    return f"load from {folder}: {mount} is mounted with noexec" if mount else ""
