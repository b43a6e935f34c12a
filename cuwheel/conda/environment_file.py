"""What a conda environment is asked to hold: `environment.yml` and `virtual-packages.yml`.

Both formats are conda-lock's own, and its library reads them. It takes two seconds to import, hence
only where it is used.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from cuwheel.errors import LockError

if TYPE_CHECKING:
    from pathlib import Path

PLATFORM = "linux-64"


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
    """What is asked for.

    Attributes:
        path: the `environment.yml`.
        channels: as the file names them, `conda-forge` or an address.
        specs: each package as conda matches it, `cuda-nvcc ==12.2.140`, a build string behind it
            and its channel before it (`nvidia::…`) where the file gives them.
        virtual: name and version of each virtual package of the system it is for.
        digest: conda-lock's content hash over all of this.
        wanted: SHA-256 over what the files say, which takes no conda-lock to compute.
    """

    path: Path
    channels: tuple[str, ...]
    specs: tuple[str, ...]
    virtual: tuple[tuple[str, str], ...]
    digest: str
    wanted: str


def read_source(path: Path) -> CondaSource:
    """Read an `environment.yml` and the `virtual-packages.yml` beside it.

    Raises:
        LockError: one of them is missing or isn't what conda-lock understands.
    """
    from conda_lock import content_hash, src_parser, virtual_package  # noqa: PLC0415 - see above

    virtual = path.with_name("virtual-packages.yml")
    for needed in (path, virtual):
        if not needed.is_file():
            raise LockError(
                f"{needed.parent.name}/{needed.name} is missing",
                why="it says what the conda lock beside it has to hold"
                if needed == path
                else "it says which system the lock is for; this machine must not matter",
                fix=f"write {needed}; envs/cuda122 shows one",
            )
    _refuse_others(path)
    try:
        spec = src_parser.make_lock_spec(src_files=[path], mapping_url="")
        wanted = spec.dependencies[PLATFORM]
        system = yaml.safe_load(virtual.read_text())["subdirs"][PLATFORM]["packages"]
        fake = virtual_package.virtual_package_repo_from_specification(virtual)
        digest = content_hash.compute_content_hashes(spec, fake)[PLATFORM]
    except OSError:  # a full disk, for one: it writes files of its own
        raise
    except Exception as problem:  # conda-lock raises whatever its YAML and pydantic parsers do
        raise LockError(
            f"{path.parent.name}/{path.name} can't be understood",
            why=f"conda-lock says: {str(problem).splitlines()[0]}",
            fix="write `channels`, `platforms: [linux-64]` and `dependencies`, each as "
            "`name ==version`; docs/how-to/toolchains.md tells more",
        ) from problem
    return CondaSource(
        path=path,
        channels=tuple(channel.url for channel in spec.channels),
        specs=tuple(_spec(one) for one in wanted),
        virtual=tuple((name, str(version).split()[0]) for name, version in system.items()),
        digest=digest,
        wanted=digest_of_input(path),
    )


def _refuse_others(path: Path) -> None:
    """Refuse what no channel has; conda-lock would ask the package index, or a server.

    Raises:
        LockError: with each such line.
    """
    try:
        asked = yaml.safe_load(path.read_text())["dependencies"]
        others = [one for one in asked if not isinstance(one, str) or "://" in one]
    except (yaml.YAMLError, KeyError, TypeError):
        return  # conda-lock will say what is wrong
    if others:
        raise LockError(
            f"{path.parent.name}/{path.name} asks for more than packages of channels",
            why=f"these can't be locked: {', '.join(map(str, others))}",
            fix="write each as `name ==version`, or take it out; Python packages belong into "
            "envs/build",
        )


def _spec(wanted: Any) -> str:
    """What conda-lock has understood, as a match specification."""
    channel = f"{wanted.conda_channel}::" if wanted.conda_channel else ""
    words = (f"{channel}{wanted.name}", _explicit(wanted.version, wanted.build), wanted.build or "")
    return " ".join(filter(None, words))


def _explicit(constraint: str, build: str | None) -> str:
    """Conda writes an exact version without an operator, rattler wants one."""
    is_bare = constraint and not re.search(r"[<>=!~*|,]", constraint)
    return f"=={constraint}" if is_bare else constraint or "*" * bool(build)


def digest_of_input(source: Path) -> str:
    """SHA-256 over what the two files say; comments and layout don't count."""
    files = (source, source.with_name("virtual-packages.yml"))
    said = [yaml.safe_load(file.read_text()) if file.is_file() else None for file in files]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()
