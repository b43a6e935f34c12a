"""The Pythons and the CUDA release of a framework's release, from the package index.

The cache keeps them, as they don't change for a release that is out.
"""

from __future__ import annotations

import datetime
import platform
import re
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from cuwheel.base.errors import DownloadError, RecipeError
from cuwheel.base.fetch.indexes.cuda_lines import LINES_VARIABLE, cuda_of_line, line_index, line_of
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.versions import plain_release
from cuwheel.build.environments.lock_file import cuda_of_lock
from cuwheel.build.environments.uv import resolve
from cuwheel.build.workspace.serialization import read_record, to_json
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import TOOLKITS

_PYTHON_TAG = re.compile(r"cp3(\d+)(t?)")
_TRIED = 4  # newest releases that a requirement allows
_NEAR = 2  # releases that a message names on either side


@dataclass(frozen=True, kw_only=True)
class FrameworkRelease:
    """A release of a framework.

    Attributes:
        name: its distribution, `torch`.
        version: `2.15.0`, or `2.14.0+cu126`, of a CUDA line.
        cuda: the CUDA release that its wheels were built with, `13.2`; empty where its requirements
            don't name it.
        pythons: those that it has wheels for on such a machine, oldest first: `3.11`, `3.14t`; none
            where only uv knows the address of its index.
    """

    name: str
    version: str
    cuda: str
    pythons: tuple[str, ...]

    @property
    def oldest_python(self) -> str:
        """`3.11`; empty where none is known."""
        return plain_release(self.pythons[0]) if self.pythons else ""


def read_framework_release(name: str, version: str, workspace: Workspace) -> FrameworkRelease:
    """Read a release from the cache, else from the index.

    Raises:
        RecipeError: there is no such release for this kind of machine.
        DownloadError: the index can't be reached.
        InstallError: its requirements can't be resolved.
    """
    file = workspace.cache / "frameworks" / f"{name}-{version}.json"
    known = read_record(file, FrameworkRelease)
    if known and known.pythons:
        return known
    line = line_of(version)
    if line and not line_index(line, workspace.environ):
        return FrameworkRelease(name=name, version=version, cuda=cuda_of_line(line), pythons=())
    release = _read_index(name, version, workspace)
    write_atomically(file, to_json(release))
    return release


def newest_allowed(
    name: str, required: SpecifierSet, workspace: Workspace
) -> FrameworkRelease | None:
    """Return the newest release that a requirement allows and a toolkit exists for; None: none.

    Raises:
        DownloadError: the index can't be reached, or has no such framework.
        InstallError: the requirements of a release can't be resolved.
    """
    wheels = find_wheels(name, indexes=configured_indexes(workspace.environ))
    allowed = {wheel.version for wheel in wheels if required.contains(wheel.version)}
    known = {toolkit.release for toolkit in TOOLKITS}
    for version in sorted(allowed & {*_pythons_by_release(wheels)}, reverse=True)[:_TRIED]:
        release = read_framework_release(name, str(version), workspace)
        if release.cuda in known:
            return release
    return None


def _read_index(name: str, version: str, workspace: Workspace) -> FrameworkRelease:
    line = line_of(version)
    pythons = _pythons_by_release(_wheels(name, line, workspace))
    wanted = Version(version)
    if wanted not in pythons:
        ordered = sorted(pythons)
        at = bisect(ordered, wanted)
        near = ", ".join(map(str, ordered[max(at - _NEAR, 0) : at + _NEAR]))
        raise RecipeError(
            f"there is no {name} {version} for Linux on {platform.machine()}",
            why=f"the index{f' of {line}' if line else ''} has {near or 'no wheels for it'}",
            fix=f"name one of these: {name}=={ordered[-1]}" if ordered else "use another index",
        )
    return FrameworkRelease(
        name=name,
        version=version,
        cuda=cuda_of_line(line)
        or _required_cuda(f"{name}=={version}", plain_release(pythons[wanted][0]), workspace),
        pythons=pythons[wanted],
    )


def _wheels(name: str, line: str, workspace: Workspace) -> tuple[Offer, ...]:
    if not line:
        return find_wheels(name, indexes=configured_indexes(workspace.environ))
    try:
        return find_wheels(name, indexes=(line_index(line, workspace.environ),))
    except DownloadError as error:
        raise DownloadError(
            f"which {name} there is for {line} is not known",
            why=error.why,
            fix=f"check {LINES_VARIABLE}: at that address, {line}/{name}/ lists the wheels",
        ) from error


def _pythons_by_release(wheels: Iterable[Offer]) -> dict[Version, tuple[str, ...]]:
    pythons: dict[Version, set[tuple[int, str]]] = {}
    for wheel in wheels:
        for tag in parse_wheel_filename(wheel.name)[3]:
            abi = _PYTHON_TAG.fullmatch(tag.abi)
            if abi and "linux" in tag.platform and tag.platform.endswith(platform.machine()):
                pythons.setdefault(wheel.version, set()).add((int(abi[1]), abi[2]))
    return {
        release: tuple(f"3.{minor}{kind}" for minor, kind in sorted(minors))
        for release, minors in pythons.items()
    }


def _required_cuda(requirement: str, python: str, workspace: Workspace) -> str:
    tomorrow = datetime.datetime.now(tz=datetime.timezone.utc) + datetime.timedelta(days=1)
    with temporary_folder() as folder:
        source, lock = folder / "framework.in", folder / "framework.lock"
        source.write_text(f"{requirement}\n")
        body = resolve(
            source,
            workspace,
            python=python,
            uploaded_before=f"{tomorrow.date()}T00:00:00Z",
        )
        lock.write_text(body)
        return cuda_of_lock(lock)
