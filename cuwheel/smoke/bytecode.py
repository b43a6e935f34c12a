"""Compiled modules for clean environments: a new one has none, and compiling PyTorch's takes longer
than importing it.

Python takes a compiled file where the time and the size in it are the source's (PEP 3147, PEP 552).
The sources of one lock's packages are hard links to uv's copies, so they have the same in every
environment. The files of the wheel that is tried are left out: all files of a reproducible wheel
have one time, so another build of it could pass for this one.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.in_use import hold
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.workspace.job import Job

_COMPILED = "__pycache__"


def bytecode_folder(job: Job) -> Path:
    """Where compiled modules of a target's smoke environments are kept.

    Args:
        job: of its build; the folder is of its smoke lock and its Python.
    """
    base = job.workspace.load("environment", Environment)
    identity = f"{base.base_python}\n{base.base_version}\n{job.target.smoke_lock.read_text()}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return job.workspace.cache / "bytecode" / name


def lend_bytecode(kept: Path, site: Path) -> None:
    """Link compiled modules into a new environment.

    Args:
        kept: from `bytecode_folder`; needn't be there.
        site: site-packages of the environment.
    """
    with contextlib.suppress(OSError):  # of a cache that may only be read
        kept.parent.mkdir(parents=True, exist_ok=True)
    hold(kept)
    for path in _compiled(kept):
        target = site / path.relative_to(kept)
        source = target.parent.parent / f"{path.name.partition('.')[0]}.py"
        # A folder of a package that isn't installed could be imported, though it has no module.
        if source.is_file():
            _link(path, target)


def keep_bytecode(kept: Path, site: Path, project: str) -> None:
    """Keep what an environment's Python has compiled by itself.

    Args:
        kept: from `bytecode_folder`.
        site: site-packages of the environment.
        project: normalised name of the wheel that is tried; its modules aren't kept.
    """
    own = _folders_of(site, project)
    for path in _compiled(site):
        parent = path.parent.parent
        with contextlib.suppress(OSError):  # of a cache that may only be read
            # One that was lent has two names.
            if parent not in own and path.stat().st_nlink == 1:
                target = kept / path.relative_to(site)
                target.unlink(missing_ok=True)
                _link(path, target)


def _compiled(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        if os.path.basename(parent) == _COMPILED:  # noqa: PTH119 - of thousands of folders
            yield from (Path(parent, name) for name in names)


def _folders_of(site: Path, project: str) -> frozenset[Path]:
    found = importlib.metadata.distributions(name=project, path=[str(site)])
    files = (file for item in found for file in item.files or ())
    return frozenset(site / file.parent for file in files)


def _link(path: Path, target: Path) -> None:
    """Give a file a second name; where the file system can't, it is compiled again."""
    with contextlib.suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.hardlink_to(path)
