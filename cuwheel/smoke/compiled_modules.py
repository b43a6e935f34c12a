"""Modules that a wheel's imports need, compiled by us: the wheel's own code can write none of them.

An environment is for reading while a wheel's code runs in it, so Python compiles in memory, which
takes longer than importing. What was imported is compiled afterwards, for the next process and for
the next wheel beside the same packages. Compiling runs nothing of a module.
"""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from cuwheel.system.process import run
from cuwheel.system.regular_files import is_regular

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def compile_modules(
    python: Path, site: Path, sources: Iterable[Path], project: str, listed: Path
) -> None:
    """Compile the modules of a wheel's requirements that have no compiled file yet.

    Args:
        python: the environment's interpreter.
        site: its site-packages, links followed.
        sources: files of modules, as a process has named them that ran the wheel's code.
        project: normalised name of the wheel; its modules are left out.
        listed: file to write them into.
    """
    own = _folders_of(site, project)
    wanted = [
        path
        for path in dict.fromkeys(sources)
        if path.is_relative_to(site) and path.parent not in own and _lacks_compiled(path)
    ]
    if wanted:
        listed.write_text("".join(f"{path}\n" for path in wanted))
        # Without `site`, whose .pth files may hold code.
        words = (python, "-I", "-S", "-m", "compileall", "-qq", "-j", "0", "-i", listed)
        run(words, env={}, check=False)


def _lacks_compiled(path: Path) -> bool:
    name = f"{path.stem}.*.pyc"
    return is_regular(path) and not any((path.parent / "__pycache__").glob(name))


def _folders_of(site: Path, project: str) -> frozenset[Path]:
    found = importlib.metadata.distributions(name=project, path=[str(site)])
    files = (file for item in found for file in item.files or ())
    return frozenset(site / file.parent for file in files)
