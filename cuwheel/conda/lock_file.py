"""Reading conda locks: `conda-lock.yml`, in v1 of conda-lock's format.

PyYAML and records of ours: installing from a lock doesn't take the tool that wrote it (ADR 11).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from cuwheel.conda.environment_file import digest_of_input, name_of_lock, read_source
from cuwheel.conda.lock_document import lock_of_document
from cuwheel.conda.yaml_file import read_yaml
from cuwheel.errors import LockError
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.conda.records import CondaLock


_SHOWN = 5  # faults of a file
_STATED = re.compile(r"^    content: (?P<content>[0-9a-f]{64})$", re.MULTILINE)
_INPUT = re.compile(r"^    input: (?P<input>[0-9a-f]{64})$", re.MULTILINE)


def stated_content(path: Path) -> str:
    """What a lock says that it holds, read without parsing it; empty where it says nothing.

    Whoever installs from the lock compares it (`read_conda_lock`); to name what was installed, it
    has to be had in no time.

    Raises:
        OSError: the file can't be read.
    """
    found = _STATED.search(read_text(path, errors="replace"))
    return found["content"] if found else ""


def has_changed_input(path: Path) -> bool:
    """Whether the files that a lock was solved from have changed since; quick, for every build.

    Where they aren't there, nothing has: a lock can be used without them.

    Raises:
        LockError: one of them is no YAML.
    """
    source = path.with_name("environment.yml")
    if not source.is_file():
        return False
    found = _INPUT.search(read_text(path, errors="replace"))
    return found is None or found["input"] != digest_of_input(source)


def read_conda_lock(path: Path) -> CondaLock:
    """Read a `conda-lock.yml`.

    Raises:
        LockError: it is missing, isn't conda-lock's v1 format, or was edited by hand.
    """
    lock, stated = _parse(path)
    if stated != lock.content:
        raise LockError(
            f"{path.parent.name}/{path.name} was edited by hand",
            why="its packages don't match the digest in its metadata",
            fix=_fix_for_lock(path),
        )
    return lock


def faults_of_conda_lock(path: Path, source: Path) -> list[str]:
    """Everything that is wrong with a conda lock, in words; empty when it is valid.

    Raises:
        LockError: the source itself is missing or can't be understood.
    """
    described = read_source(source)
    if not path.is_file():
        return ["it is missing"]
    try:
        lock, stated = _parse(path)
    except LockError as error:
        return [error.why]
    faults = []
    if (lock.digest, lock.input_digest) != (described.digest, described.input_digest):
        faults.append("its input has changed since it was written")
    if stated != lock.content:
        faults.append("it was edited by hand")
    return faults


def _fix_for_lock(path: Path) -> str:
    relock = f"nox -s lock -- {name_of_lock(path.parent.name)}"
    return f"git checkout {path}, or write it again: `{relock}`"


def _parse(path: Path) -> tuple[CondaLock, str]:
    """The lock in a file, and what it states for its content.

    Raises:
        LockError: the file is missing, or isn't conda-lock's v1 format.
    """
    faults: list[str] = []
    try:
        found = lock_of_document(read_yaml(path), faults)
    except FileNotFoundError:
        raise LockError(
            f"{path.parent.name}/{path.name} is missing",
            why="a conda environment is only installed from its lock",
            fix=f"nox -s lock -- {name_of_lock(path.parent.name)}",
        ) from None
    except yaml.YAMLError as problem:
        raise _no_lock(
            path, [f"it is not valid YAML: {' '.join(str(problem).split())}"]
        ) from problem
    if faults:
        raise _no_lock(path, faults)
    return found


def _no_lock(path: Path, faults: list[str]) -> LockError:
    more = [f"… and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
    return LockError(
        f"{path.parent.name}/{path.name} is not a valid conda lock",
        why="\n".join((*faults[:_SHOWN], *more)),
        fix=_fix_for_lock(path),
    )
