"""The requirements of a conda environment: `environment.yml` and `virtual-packages.yml`.

Both formats are conda-lock's own, for one platform and for packages of conda channels only. A
dependency is `channel::name version build`, of which the name is enough: the common forms of a
match specification (conda's documentation, "Package match specifications").
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cuwheel.base import limits
from cuwheel.base.errors import LockError, suggest
from cuwheel.base.system.regular_files import read_bytes, read_text

PLATFORM = "linux-64"

_KEYS = ("channels", "dependencies", "name", "platforms")
_SECRET = re.compile(r"[@$]|/t/")  # a user, a variable, or a token, in a channel's address
# Conda-build's: a line with such a comment would count on one platform only.
_SELECTOR = re.compile(r"\s*-\s.+#.*\[[^\[\]]+\]")
_ONE = r"[<>=!~]*[\w.+!*-]+"
_VERSION = rf"{_ONE}(?:[,|]{_ONE})*"
_LINE = re.compile(
    r"(?:(?P<channel>[\w.-]+)::)?(?P<name>[\w.-]+)"
    rf"(?:(?: +|(?=[<>=!~]))(?P<version>{_VERSION})(?: +(?P<build>[\w.*-]+))?)?"
)
_OPERATOR = re.compile(r"[<>=~*|,]")


def name_of_lock(folder: str) -> str:
    """Return the `lock` session's name of the lock in `envs/cuda122` or `envs/python312`."""
    if folder.startswith("python"):
        return f"python:{folder.removeprefix('python')}"
    return f"toolchain:{folder.removeprefix('cuda')}:conda"


@dataclass(frozen=True, kw_only=True)
class CondaSource:
    """The input of a conda lock.

    Attributes:
        path: the `environment.yml`.
        channels: names or addresses, `conda-forge`.
        specs: packages in rattler's form, `cuda-nvcc ==12.2.140`, with a build string after it and
            a channel before it (`nvidia::…`) if the file has them.
        virtual: name and version of each virtual package of the system it is for.
        input_digest: SHA-256 over the files' contents.
    """

    path: Path
    channels: tuple[str, ...]
    specs: tuple[str, ...]
    virtual: tuple[tuple[str, str], ...]
    input_digest: str


def read_source(path: Path) -> CondaSource:
    """Read an `environment.yml` and the `virtual-packages.yml` next to it.

    Raises:
        LockError: one of them is missing or invalid; with every fault of both.
    """
    virtual = path.with_name("virtual-packages.yml")
    for file in (path, virtual):
        if not file.is_file():
            raise LockError(
                f"{file.parent.name}/{file.name} is missing",
                why="a conda lock is made from environment.yml, which lists its packages, and "
                "virtual-packages.yml, which says which system it is for",
                fix=f"write {file}; envs/cuda122 shows one",
            )
    declared = _load(path)
    faults: list[str] = []
    channels = _channels(declared, faults)
    specs = _specs(declared, faults)
    system = _system(_load(virtual), faults)
    faults += _other_faults(declared, read_text(path))
    if faults:
        raise _invalid(path, "\n".join(faults))
    return CondaSource(
        path=path,
        channels=channels,
        specs=tuple(specs),
        virtual=tuple((name, version.split()[0]) for name, version in system.items()),
        input_digest=digest_of_input(path),
    )


def match_spec(line: str) -> str:
    """Return a dependency in rattler's form, in which an exact version has an operator.

    As in conda-lock, `=1.0` means `1.0.*`, and before a build string that very release.

    Raises:
        ValueError: it is neither `name` nor `name` and a version (`==1.0`, `1.0.*`, `=1.0`,
            `>=1,<2`), with or without a channel before it and a build after it.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise ValueError(line)
    version, build = match["version"] or "", match["build"] or ""
    if version.startswith("=") and not version.startswith("=="):
        version = version[1:] + (".*" if not build and not version.endswith("*") else "")
    if version and not _OPERATOR.search(version):
        version = f"=={version}"
    channel = f"{match['channel']}::" if match["channel"] else ""
    return " ".join(filter(None, (f"{channel}{match['name'].lower()}", version, build)))


def _load(path: Path) -> dict[Any, Any]:
    """Return the mapping in a YAML file."""
    try:
        content = read_yaml(path)
    except yaml.YAMLError as problem:
        reason = " ".join(str(problem).split())
        raise _invalid(path, f"it is not valid YAML: {reason}") from problem
    if not isinstance(content, dict):
        raise _invalid(path, "it is not a mapping")
    return content


def _invalid(path: Path, why: str) -> LockError:
    return LockError(
        f"{path.parent.name}/{path.name} is invalid",
        why=why,
        fix="write it as envs/cuda122 shows: `channels`, `platforms: [linux-64]` and "
        "`dependencies`, each as `name ==version`; see docs/how-to/toolchains.md",
    )


def _channels(declared: dict[Any, Any], faults: list[str]) -> tuple[str, ...]:
    names = declared.get("channels")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        faults.append("`channels` is not a list of names")
        return ()
    if any(map(_SECRET.search, names)):
        faults.append(
            "a channel contains a user, a variable or a token: CUWHEEL_CONDA_MIRROR may contain "
            "these, a lock may not"
        )
    return tuple(name for name in names if name != "nodefaults")


def _specs(declared: dict[Any, Any], faults: list[str]) -> list[str]:
    lines = declared.get("dependencies")
    if not isinstance(lines, list) or not lines:
        faults.append("`dependencies` is not a list of packages")
        return []
    specs = []
    for line in lines:
        if not isinstance(line, str) or "://" in line:
            faults.append(
                f"{line} is not a package of a channel: Python packages belong in envs/build"
            )
            continue
        try:
            specs.append(match_spec(line))
        except ValueError:
            faults.append(f"`{line}` is not a dependency")
    return specs


def _system(described: dict[Any, Any], faults: list[str]) -> dict[str, str]:
    try:
        system = dict(described["subdirs"][PLATFORM]["packages"])
    except (KeyError, TypeError, ValueError):
        faults.append(f"virtual-packages.yml has no mapping at subdirs, {PLATFORM}, packages")
        return {}
    wrong = [
        name
        for name, version in system.items()
        if not (str(name).startswith("__") and isinstance(version, str) and version.strip())
    ]
    faults += [
        f"virtual-packages.yml: {name} is not a virtual package, which is written `__name: "
        "'version'`"
        for name in wrong
    ]
    return {} if wrong else system


def _other_faults(declared: dict[Any, Any], text: str) -> list[str]:
    unknown = [str(key) for key in declared if key not in _KEYS]
    faults = [f"`{key}` is not a known key; {suggest(key, _KEYS)}" for key in unknown]
    platforms = declared.get("platforms", [PLATFORM])
    if not isinstance(platforms, list) or PLATFORM not in platforms:
        faults.append(f"`platforms` doesn't name {PLATFORM}")
    return faults + [
        f"`{line.strip()}` has a selector, which isn't supported: there is only one platform"
        for line in text.splitlines()
        if _SELECTOR.match(line)
    ]


def digest_of_input(source: Path) -> str:
    """Return the SHA-256 of the two files' contents; comments and layout don't count.

    Raises:
        LockError: one of them is no YAML.
    """
    files = (source, source.with_name("virtual-packages.yml"))
    contents = [_load(file) if file.is_file() else None for file in files]
    return hashlib.sha256(json.dumps(contents, sort_keys=True, default=str).encode()).hexdigest()


def read_yaml(path: Path) -> object:
    """Return the content of a YAML file, read with limits of size and depth.

    libyaml's loader calls itself for each level, and a megabyte of brackets ends the process; its
    events come one by one.

    Raises:
        OSError: it can't be read, or is larger than any.
        yaml.YAMLError: it is no YAML, or nested too deep.
    """
    content = read_bytes(path, limit=limits.YAML)
    depth = 0
    for event in yaml.parse(content, yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > limits.NESTED:
            raise yaml.YAMLError(f"it nests more than {limits.NESTED} levels deep")
    return yaml.load(content, yaml.CSafeLoader)
