"""The input of a Debian lock, `debian.yml`: a suite, its components, and the packages to choose."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cuwheel.base.errors import LockError, suggest
from cuwheel.build.toolchains.conda.environment_file import read_yaml

SOURCE_NAME = "debian.yml"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Debian's, by `platform.machine()`
SUITE = r"[a-z][a-z0-9-]*"
COMPONENT = r"[a-z][a-z-]*"
# Debian Policy, sections 5.6.1 and 5.6.12. apt would take a minus at the end as "remove".
PACKAGE = r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]"
VERSION = r"[0-9][0-9A-Za-z.+~:-]*"

_LISTS = {  # the form of each entry
    "components": COMPONENT,
    "architectures": "|".join(ARCHITECTURES.values()),
    "packages": rf"{PACKAGE}(?:={VERSION})?",
}
_KEYS = ("suite", *_LISTS, "dependencies")


@dataclass(frozen=True, kw_only=True)
class DebianSource:
    """The input of a Debian lock.

    Attributes:
        suite: a release's code name, `bookworm`.
        components: of the archive, `main`.
        architectures: Debian's names, `amd64`.
        packages: names, or `name=version`.
        has_dependencies: packages that they depend on are locked too; those that they only
            recommend never are.
        input_digest: SHA-256 over the file's content; comments and layout don't count.
    """

    path: Path
    suite: str
    components: tuple[str, ...]
    architectures: tuple[str, ...]
    packages: tuple[str, ...]
    has_dependencies: bool
    input_digest: str

    @property
    def command(self) -> str:
        """The command that writes the lock."""
        return f"nox -s lock -- {name_of_lock(self.path.parent.name)}"


def name_of_lock(folder: str) -> str:
    """Return the `lock` session's name of the Debian lock in `envs/gcc12` or `envs/cuda124`."""
    if folder.startswith("cuda"):
        return f"toolchain:{folder.removeprefix('cuda')}:debian"
    return f"host-compiler:{folder}"


def read_source(path: Path) -> DebianSource:
    """Read a `debian.yml`.

    Raises:
        LockError: it is missing or invalid; with every fault.
    """
    try:
        content = read_yaml(path)
    except FileNotFoundError:
        raise LockError(
            f"{path.parent.name}/{path.name} is missing",
            why="a Debian lock is made from it: it names the suite and the packages",
            fix=f"write {path}; envs/gcc12 shows one",
        ) from None
    except (yaml.YAMLError, ValueError) as problem:
        raise _invalid(path, f"it is not valid YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(content, dict):
        raise _invalid(path, "it is not a mapping")
    if faults := _faults(content):
        raise _invalid(path, "\n".join(faults))
    return DebianSource(
        path=path,
        suite=content["suite"],
        components=tuple(content["components"]),
        architectures=tuple(sorted(content["architectures"])),
        packages=tuple(content["packages"]),
        has_dependencies=content.get("dependencies", True),
        input_digest=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest(),
    )


def _faults(content: dict[Any, Any]) -> list[str]:
    faults = [
        f"`{key}` is not a known key; {suggest(str(key), _KEYS)}"
        for key in content
        if key not in _KEYS
    ]
    suite = content.get("suite")
    if not _has_form(suite, SUITE):
        faults.append(f"`suite` is not a release's code name: {suite!r}")
    for key, form in _LISTS.items():
        entries = content.get(key)
        if not isinstance(entries, list) or not entries:
            faults.append(f"`{key}` is not a list of names")
            continue
        wrong = [name for name in entries if not _has_form(name, form)]
        faults += [f"`{key}` has an invalid name: {name!r}" for name in wrong]
        if len({*map(str, entries)}) < len(entries):
            faults.append(f"`{key}` has a name twice")
    if not isinstance(content.get("dependencies", True), bool):
        faults.append("`dependencies` is neither true nor false")
    return faults


def _has_form(value: object, form: str) -> bool:
    return isinstance(value, str) and re.fullmatch(form, value) is not None


def _invalid(path: Path, why: str) -> LockError:
    return LockError(
        f"{path.parent.name}/{path.name} is invalid",
        why=why,
        fix="write it as envs/gcc12/debian.yml shows: `suite`, `components`, `architectures` and "
        "`packages`, each as `name` or `name=version`",
    )
