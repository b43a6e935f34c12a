"""The folders of build environments: named by what is installed in them, for all recipes alike."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.system.pythons import Interpreter
from cuwheel.build.environments.lock_file import pins_for

_LAYOUT = 4  # raise it when an environment made by an older cuwheel must not be reused
_SHARED = "cp"  # names of those that only sandboxes use begin so
_PRIVATE = "private-"


@dataclass(frozen=True, kw_only=True)
class EnvironmentPlace:
    """A build environment's folder, which needn't be there.

    Attributes:
        key: SHA-256 of the interpreter's identity and of the pins that it installs.
        is_shared: its files may be those of other environments too: nothing can write into it.
    """

    folder: Path
    key: str
    is_shared: bool


def place_environment(
    lock: Path, python: Interpreter, cache: Path, *, framework: str, sandbox: str
) -> EnvironmentPlace:
    """Return the place of the environment that a lock and an interpreter make.

    Args:
        framework: `torch2.11`, which is imported in it when it is made; empty: none is.
        sandbox: kind of the sandbox that its builds run in; without one a build could write into
            files of others, so it has an environment of its own.
    """
    pins = pins_for(lock, python.version, platform.machine())
    identity = (str(_LAYOUT), python.version, python.abi, str(python.path), framework, pins)
    key = hashlib.sha256("\n".join(identity).encode()).hexdigest()
    release, is_shared = python.release.replace(".", ""), sandbox != "none"
    parts = filter(None, (f"{_SHARED}{release}", framework, key[:16]))
    name = "-".join(parts) if is_shared else f"{_PRIVATE}{'-'.join(parts)}"
    return EnvironmentPlace(folder=cache / "environments" / name, key=key, is_shared=is_shared)


def shared_environments(cache: Path) -> Iterator[Path]:
    """Yield the environments whose files others may be linked to."""
    yield from sorted((cache / "environments").glob(f"{_SHARED}*-*"))
