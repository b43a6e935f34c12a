"""Compiled modules for clean environments, in which compiling takes longer than importing.

Python takes a compiled file where the time and the size in it are the source's (PEP 3147, PEP 552).
The sources of one lock's packages are hard links to uv's copies, so they have the same in every
environment. The files of the wheel that is tried are left out: all files of a reproducible wheel
have one time, so another build of it could pass for this one.

Code of that wheel runs where the others are imported, and could write what every later smoke test
would run. So only names of modules are taken from there: what is kept is compiled by a Python that
imports nothing of the environment. The sandbox protects the sources and what is lent; without one
nothing is kept or lent.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuwheel.base.system.cache_folder import hold
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import open_file, read_text
from cuwheel.build.workspace.job import Job

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
    """Return the folder with compiled modules of a target's smoke environments."""
    identity = f"{job.python.path}\n{job.python.version}\n{read_text(job.target.smoke_lock)}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return job.workspace.cache / "bytecode" / name


def lend_bytecode(kept: Path, site: Path) -> None:
    """Put compiled modules into a new environment, which has to be for reading.

    Args:
        kept: from `bytecode_folder`; needn't be there.
    """
    with contextlib.suppress(OSError):  # of a cache that may only be read
        kept.parent.mkdir(parents=True, exist_ok=True)
    hold(kept)
    for path in _compiled(kept):
        target = site / path.relative_to(kept)
        # A folder of a package that isn't installed could be imported, though it has no module.
        # One that its wheel brought may be a link to the installer's own.
        source = target.parent.parent / f"{target.name.partition('.')[0]}.py"
        if source.is_file() and not os.path.lexists(target):
            target.parent.mkdir(exist_ok=True)
            try:
                os.link(path, target)
            except OSError:  # on another disk
                shutil.copyfile(path, target)


def keep_bytecode(
    kept: Path, site: Path, project: str, *, imported: Iterable[Path], python: Path
) -> bool:
    """Compile and keep the modules that a process has imported, where they aren't kept yet.

    Args:
        kept: from `bytecode_folder`.
        project: normalised name of the wheel that is tried; its modules aren't kept.
        imported: files of modules, from a process that has run the wheel's code in a sandbox.

    Returns:
        True if there was something to compile.
    """
    distributions = importlib.metadata.distributions(name=project, path=[str(site)])
    own = (file for item in distributions for file in item.files or ())
    excluded, stamps = {site / file.parent for file in own}, _stamps(kept)
    wanted = []
    for source in imported:
        if source.parent in excluded or not source.is_relative_to(site):
            continue
        folder = kept / source.parent.relative_to(site) / _COMPILED
        with contextlib.suppress(OSError):  # it isn't there
            status = source.lstat()
            fields = (int(status.st_mtime), status.st_size)
            stamp = struct.pack("<II", *(field & 0xFFFFFFFF for field in fields))
            if stamp not in stamps.get(f"{folder}/{source.stem}", ()):
                wanted.append((str(source), str(folder), source.stem))
    if not wanted:
        return False
    with temporary_folder() as folder:
        listed = folder / "wanted.json"
        listed.write_text(json.dumps(wanted))
        # Without site-packages, whose `.pth` files can run code. A cache that may only be read
        # keeps nothing.
        run([python, "-I", "-S", "-B", "-c", _COMPILE, listed], env={}, check=False)
    return True


def _compiled(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        if os.path.basename(parent) == _COMPILED:  # noqa: PTH119 - of thousands of folders
            yield from (Path(parent, name) for name in names)


def _stamps(kept: Path) -> dict[str, list[bytes]]:
    """Return the stamps of compiled modules, by their paths without endings."""
    stamps: dict[str, list[bytes]] = {}
    for path in _compiled(kept):
        with open_file(path) as stream:
            name = f"{path.parent}/{path.name.partition('.')[0]}"
            stamps.setdefault(name, []).append(stream.read(_STAMP.stop)[_STAMP])
    return stamps
