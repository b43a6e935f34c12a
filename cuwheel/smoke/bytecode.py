"""Compiled modules for clean environments: a new one has none, and compiling PyTorch's takes longer
than importing it.

Python takes a compiled file where the time and the size in it are the source's (PEP 3147, PEP 552).
The sources of one lock's packages are hard links to uv's copies, so they have the same in every
environment. The files of the wheel that is tried are left out: all files of a reproducible wheel
have one time, so another build of it could pass for this one.

Code of that wheel runs where the others are imported, and could write what every later smoke test
would run. So an environment is for reading while it does, and only names of modules are taken from
there: what is kept is compiled by a Python that imports nothing of the environment, from sources
that nobody has touched meanwhile. What is lent are copies, where no sandbox keeps it from being
written.
"""  # noqa: D205 - one sentence

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.in_use import hold
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text
from cuwheel.workspace.records import Environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.workspace.job import Job

_COMPILED = "__pycache__"
_STAMP = slice(8, 16)  # of a compiled file: time and size of its source (PEP 552)
_COMPILE = """\
import json, py_compile, sys
with open(sys.argv[1]) as listed:
    wanted = json.load(listed)
for source, folder, name in wanted:
    target = f"{folder}/{name}.{sys.implementation.cache_tag}.pyc"
    try:
        py_compile.compile(source, target, doraise=True)
    except (OSError, py_compile.PyCompileError):
        pass
"""


def bytecode_folder(job: Job) -> Path:
    """Where compiled modules of a target's smoke environments are kept.

    Args:
        job: of its build; the folder is of its smoke lock and its Python.
    """
    base = job.workspace.load("environment", Environment)
    identity = f"{base.base_python}\n{base.base_version}\n{read_text(job.target.smoke_lock)}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return job.workspace.cache / "bytecode" / name


def lend_bytecode(kept: Path, site: Path, *, sandbox: str) -> None:
    """Put compiled modules into a new environment.

    Args:
        kept: from `bytecode_folder`; needn't be there.
        site: site-packages of the environment.
        sandbox: that the wheel is tried in; in any but `none` the environment is for reading.
    """
    with contextlib.suppress(OSError):  # of a cache that may only be read
        kept.parent.mkdir(parents=True, exist_ok=True)
    hold(kept)
    for path in _compiled(kept):
        target = site / path.relative_to(kept)
        # A folder of a package that isn't installed could be imported, though it has no module.
        # One that its wheel brought may be a link to the installer's own.
        if _source_of(target).is_file() and not os.path.lexists(target):
            target.parent.mkdir(exist_ok=True)
            if sandbox == "none" or not _is_linked(path, target):
                shutil.copyfile(path, target)


def _is_linked(path: Path, target: Path) -> bool:
    """Give a file a second name; False where it can't have one, as on another disk."""
    try:
        os.link(path, target)
    except OSError:
        return False
    return True


def note_sources(site: Path) -> dict[str, int]:
    """When each module of an environment was last touched (ctime, ns), by its path.

    Called before the wheel's own code runs; no program can set that time to another one.
    """
    found = {}
    for parent, _, names in os.walk(site):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(parent, name)  # noqa: PTH118 - of twenty thousand
                found[path] = os.lstat(path).st_ctime_ns
    return found


def keep_bytecode(  # noqa: PLR0913 - of what, for what, and whose word is taken
    kept: Path,
    site: Path,
    project: str,
    *,
    imported: Iterable[Path],
    python: Path,
    sources: dict[str, int],
) -> bool:
    """Compile and keep what a process has imported, where that isn't kept yet.

    Args:
        kept: from `bytecode_folder`.
        site: site-packages of the environment.
        project: normalised name of the wheel that is tried; its modules aren't kept.
        imported: files of modules, as a process says that has run the wheel's code.
        python: that the environment was made from.
        sources: from `note_sources`.

    Returns:
        Whether there was something to compile.
    """
    own, there = _folders_of(site, project), _stamps(kept)
    wanted = []
    for source in imported:
        if source.parent in own or str(source) not in sources:
            continue
        folder = kept / source.parent.relative_to(site) / _COMPILED
        with contextlib.suppress(OSError):  # the wheel's code removed it
            status = source.lstat()
            is_untouched = sources[str(source)] == status.st_ctime_ns
            if is_untouched and _stamp_of(status) not in there.get(f"{folder}/{source.stem}", ()):
                wanted.append((str(source), str(folder), source.stem))
    if not wanted:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
        json.dump(wanted, listed)
        listed.flush()
        # Without site-packages, whose `.pth` files can run code. A cache that may only be read
        # keeps nothing.
        run([python, "-I", "-S", "-B", "-c", _COMPILE, listed.name], env={}, check=False)
    return True


def _compiled(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        if os.path.basename(parent) == _COMPILED:  # noqa: PTH119 - of thousands of folders
            yield from (Path(parent, name) for name in names)


def _folders_of(site: Path, project: str) -> frozenset[Path]:
    found = importlib.metadata.distributions(name=project, path=[str(site)])
    files = (file for item in found for file in item.files or ())
    return frozenset(site / file.parent for file in files)


def _source_of(compiled: Path) -> Path:
    return compiled.parent.parent / f"{compiled.name.partition('.')[0]}.py"


def _stamps(kept: Path) -> dict[str, list[bytes]]:
    """What compiled modules say of their sources, by their paths without endings."""
    found: dict[str, list[bytes]] = {}
    for path in _compiled(kept):
        with path.open("rb") as stream:
            name = f"{path.parent}/{path.name.partition('.')[0]}"
            found.setdefault(name, []).append(stream.read(_STAMP.stop)[_STAMP])
    return found


def _stamp_of(source: os.stat_result) -> bytes:
    return struct.pack("<II", int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
