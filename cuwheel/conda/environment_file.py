"""What a conda environment requires: `environment.yml` and `virtual-packages.yml`.

Both formats are conda-lock's own, for one platform and for packages of conda channels only.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from cuwheel.conda.content_hash import content_hash
from cuwheel.conda.dependency import parse_dependency
from cuwheel.conda.yaml_file import read_yaml
from cuwheel.errors import LockError, suggest
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.conda.dependency import CondaDependency

PLATFORM = "linux-64"

_KEYS = ("channels", "dependencies", "name", "platforms")
_SECRET = re.compile(r"[@$]|/t/")  # a user, a variable, or a token, in a channel's address
# Conda-build's: a line with such a comment would count on one platform only.
_SELECTOR = re.compile(r"\s*-\s.+#.*\[[^\[\]]+\]")


def name_of_lock(folder: str) -> str:
    """What the `lock` session calls the lock in a folder of `envs/`.

    Args:
        folder: its name, `cuda122` or `python312`.
    """
    if folder.startswith("python"):
        return f"python:{folder.removeprefix('python')}"
    return f"toolchain:{folder.removeprefix('cuda')}:conda"


@dataclass(frozen=True, kw_only=True)
class CondaSource:
    """What is required.

    Attributes:
        path: the `environment.yml`.
        channels: as the file names them, `conda-forge` or an address.
        specs: each package as rattler matches it, `cuda-nvcc ==12.2.140`, a build string behind it
            and its channel before it (`nvidia::…`) where the file gives them.
        virtual: name and version of each virtual package of the system it is for.
        digest: conda-lock's content hash over all of this.
        input_digest: SHA-256 over what the files say.
    """

    path: Path
    channels: tuple[str, ...]
    specs: tuple[str, ...]
    virtual: tuple[tuple[str, str], ...]
    digest: str
    input_digest: str


def read_source(path: Path) -> CondaSource:
    """Read an `environment.yml` and the `virtual-packages.yml` beside it.

    Raises:
        LockError: one of them is missing or can't be understood; with every fault of both.
    """
    virtual = path.with_name("virtual-packages.yml")
    for needed in (path, virtual):
        if not needed.is_file():
            raise LockError(
                f"{needed.parent.name}/{needed.name} is missing",
                why="it lists what the conda lock next to it has to contain"
                if needed == path
                else (
                    "it says which system the lock is for, so that the lock doesn't depend on "
                    "this machine"
                ),
                fix=f"write {needed}; envs/cuda122 shows one",
            )
    declared, described = _load(path), _load(virtual)
    faults: list[str] = []
    channels = _channels(declared, faults)
    dependencies = _dependencies(declared, faults)
    system = _system(described, faults)
    faults += _other_faults(declared, read_text(path))
    if faults:
        raise _not_understood(path, "\n".join(faults))
    return CondaSource(
        path=path,
        channels=channels,
        specs=tuple(one.match_spec for one in dependencies),
        virtual=tuple((name, version.split()[0]) for name, version in system.items()),
        digest=content_hash(channels, dependencies, system, PLATFORM),
        input_digest=digest_of_input(path),
    )


def _load(path: Path) -> dict[Any, Any]:
    """The mapping in a YAML file.

    Raises:
        LockError: there is none in it.
    """
    try:
        content = read_yaml(path)
    except yaml.YAMLError as problem:
        raise _not_understood(
            path, f"it is not valid YAML: {' '.join(str(problem).split())}"
        ) from problem
    if not isinstance(content, dict):
        raise _not_understood(path, "it is not a mapping")
    return content


def _not_understood(path: Path, why: str) -> LockError:
    return LockError(
        f"{path.parent.name}/{path.name} is invalid",
        why=why,
        fix="write it as envs/cuda122 shows: `channels`, `platforms: [linux-64]` and "
        "`dependencies`, each as `name ==version`; see docs/how-to/toolchains.md",
    )


def _channels(declared: dict[Any, Any], faults: list[str]) -> tuple[str, ...]:
    given = declared.get("channels")
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        faults.append("`channels` is not a list of names")
        return ()
    if any(_SECRET.search(one) for one in given):
        faults.append(
            "a channel contains a user, a variable or a token: CUWHEEL_CONDA_MIRROR may contain "
            "these, a lock may not"
        )
    return tuple(one for one in given if one != "nodefaults")


def _dependencies(declared: dict[Any, Any], faults: list[str]) -> list[CondaDependency]:
    given = declared.get("dependencies")
    if not isinstance(given, list) or not given:
        faults.append("`dependencies` is not a list of packages")
        return []
    found = []
    for one in given:
        if not isinstance(one, str) or "://" in one:
            faults.append(
                f"{one} is not a package of a channel: Python packages belong in envs/build"
            )
            continue
        try:
            found.append(parse_dependency(one))
        except ValueError:
            faults.append(f"`{one}` is not a dependency")
    return found


def _system(described: dict[Any, Any], faults: list[str]) -> dict[str, str]:
    try:
        packages = described["subdirs"][PLATFORM]["packages"]
        system = dict(packages)
    except (KeyError, TypeError, ValueError):
        faults.append(f"virtual-packages.yml has no mapping at subdirs, {PLATFORM}, packages")
        return {}
    wrong = [name for name, version in system.items() if not _is_virtual(name, version)]
    faults += [
        f"virtual-packages.yml: {name} is not a virtual package, which is written `__name: "
        "'version'`"
        for name in wrong
    ]
    return {} if wrong else system


def _is_virtual(name: object, version: object) -> bool:
    is_text = isinstance(name, str) and isinstance(version, str)
    return is_text and str(name).startswith("__") and bool(str(version).strip())


def _other_faults(declared: dict[Any, Any], text: str) -> list[str]:
    unknown = [str(key) for key in declared if key not in _KEYS]
    faults = [f"`{key}` is not a known key; {suggest(key, _KEYS)}" for key in unknown]
    platforms = declared.get("platforms", [PLATFORM])
    if not isinstance(platforms, list) or PLATFORM not in platforms:
        faults.append(f"`platforms` doesn't name {PLATFORM}")
    chosen = [line.strip() for line in text.splitlines() if _SELECTOR.match(line)]
    return faults + [
        f"`{line}` has a selector, which isn't supported: there is only one platform"
        for line in chosen
    ]


def digest_of_input(source: Path) -> str:
    """SHA-256 over what the two files say; comments and layout don't count.

    Raises:
        LockError: one of them is no YAML.
    """
    files = (source, source.with_name("virtual-packages.yml"))
    said = [_load(file) if file.is_file() else None for file in files]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()
