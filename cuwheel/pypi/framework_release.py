"""What the package index says of one release of a framework: for which Pythons, with which CUDA.

Asked once; the cache keeps the answer, which doesn't change for a release that is out.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
import re
import tempfile
from bisect import bisect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cuwheel.errors import FrameworkError
from cuwheel.pypi.indexes import configured_indexes, find_wheels
from cuwheel.pypi.lock_file import cuda_of_lock
from cuwheel.pypi.uv import resolve
from cuwheel.system.files import write_atomically
from cuwheel.system.regular_files import read_json
from cuwheel.system.versions import plain_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.pypi.indexes import IndexFile

_PYTHON_TAG = re.compile(r"cp3(\d+)(t?)")
_NEAR = 2  # releases that a message names on either side


@dataclass(frozen=True, kw_only=True)
class FrameworkRelease:
    """A release of a framework.

    Attributes:
        name: its distribution, `torch`.
        version: `2.15.0`.
        cuda: the CUDA release that its wheels were built with, `13.2`; empty where its requirements
            don't say.
        pythons: those that it has wheels for on such a machine, oldest first: `3.11`, `3.14t`.
        newest_for: the newest release for each Python that has one, as pairs.
    """

    name: str
    version: str
    cuda: str
    pythons: tuple[str, ...]
    newest_for: tuple[tuple[str, str], ...]

    @property
    def oldest_python(self) -> str:
        """`3.11`."""
        return plain_release(self.pythons[0])


def read_framework_release(name: str, version: str, *, cache: Path) -> FrameworkRelease:
    """Ask the cache, else the index.

    Args:
        name: the framework's distribution.
        version: the release.
        cache: cuwheel's cache.

    Raises:
        FrameworkError: there is no such release for this kind of machine.
        DownloadError: the index can't be reached.
        InstallError: what it requires can't be found out.
    """
    kept = cache / "frameworks" / f"{name}-{version}.json"
    if (content := read_json(kept)) and (known := _from_json(content)):
        return known
    found = _ask(name, version, cache)
    write_atomically(kept, json.dumps(dataclasses.asdict(found), indent=2) + "\n")
    return found


def _ask(name: str, version: str, cache: Path) -> FrameworkRelease:
    files = find_wheels(name, indexes=configured_indexes(os.environ))
    pythons = _pythons_by_release(files)
    wanted = Version(version)
    if wanted not in pythons:
        raise FrameworkError(
            f"there is no {name} {version} for Linux on {platform.machine()}",
            why=f"the index has {', '.join(_nearest(wanted, pythons)) or 'no wheels for it'}",
            fix="choose one of these with --framework",
        )
    newest = {
        python: str(release)
        for release in sorted(pythons)
        if not release.is_prerelease
        for python in pythons[release]
    }
    return FrameworkRelease(
        name=name,
        version=version,
        cuda=_built_with(f"{name}=={version}", plain_release(pythons[wanted][0]), cache),
        pythons=pythons[wanted],
        newest_for=tuple(newest.items()),
    )


def _pythons_by_release(files: Iterable[IndexFile]) -> dict[Version, tuple[str, ...]]:
    found: dict[Version, set[tuple[int, str]]] = {}
    for file in files:
        try:
            _, release, _, tags = parse_wheel_filename(file.name)
        except InvalidWheelFilename:
            continue
        for tag in tags:
            abi = _PYTHON_TAG.fullmatch(tag.abi)
            if abi and "linux" in tag.platform and tag.platform.endswith(platform.machine()):
                found.setdefault(release, set()).add((int(abi[1]), abi[2]))
    return {
        release: tuple(f"3.{minor}{kind}" for minor, kind in sorted(pythons))
        for release, pythons in found.items()
    }


def _nearest(wanted: Version, known: Iterable[Version]) -> list[str]:
    ordered = sorted(known)
    at = bisect(ordered, wanted)
    return [str(one) for one in ordered[max(at - _NEAR, 0) : at + _NEAR]]


def _built_with(requirement: str, python: str, cache: Path) -> str:
    """What the release's own requirements lead to."""
    tomorrow = datetime.datetime.now(tz=datetime.timezone.utc) + datetime.timedelta(days=1)
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "framework.in"
        asked.write_text(f"{requirement}\n")
        body = resolve(
            asked,
            python=python,
            uploaded_before=f"{tomorrow.date()}T00:00:00Z",
            cache=cache,
            offline=False,
        )
        answer = Path(folder) / "framework.lock"
        answer.write_text(body)
        return cuda_of_lock(answer)


def _from_json(kept: Mapping[str, Any]) -> FrameworkRelease | None:
    """None where the record isn't one."""
    try:
        found = FrameworkRelease(
            name=kept["name"],
            version=kept["version"],
            cuda=kept["cuda"],
            pythons=tuple(kept["pythons"]),
            newest_for=tuple((python, release) for python, release in kept["newest_for"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
    texts = (found.name, found.version, found.cuda, *found.pythons, *sum(found.newest_for, ()))
    is_sound = found.pythons and all(isinstance(text, str) for text in texts)
    return found if is_sound else None
