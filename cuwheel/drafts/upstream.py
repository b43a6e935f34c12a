"""Upstream's releases on the package index: which is the newest, and its source in the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from cuwheel.errors import UnknownProjectError, UsageError
from cuwheel.model.source import Sdist
from cuwheel.pypi.indexes import configured_indexes, find_releases
from cuwheel.sources.archives import unpack_archive
from cuwheel.sources.pinned import fetch_pinned
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cuwheel.pypi.indexes import Release
    from cuwheel.workspace.workspace import Workspace

_SHOWN = 8  # releases that a message names
_WAY_OUT = "download it on another machine and copy it there"
_OWN_ADDRESS = (
    "pin upstream's own address instead: write the recipe with "
    'source=Archive(url="https://…/{version}.tar.gz", sha256="…") or GitCommit(…), as '
    "recipes/bitsandbytes.py and recipes/jaxmg.py do"
)


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A release with a source.

    Attributes:
        project: its name on the index.
        version: the release, as the index writes it.
        sha256: of its source.
        newer: a sentence about the newest final release; empty: this is it.
    """

    project: str
    version: str
    sha256: str
    newer: str = ""

    @property
    def is_newest(self) -> bool:
        """Whether no later final release is there."""
        return not self.newer

    @property
    def source(self) -> Sdist:
        """As a recipe declares it."""
        return Sdist(project=self.project, sha256=self.sha256, version=self.version)


def releases_of(project: str, workspace: Workspace) -> tuple[Release, ...]:
    """All releases on the configured indexes, the newest last.

    Raises:
        UnknownProjectError: no index has the project.
        DownloadError: no index can be asked.
    """
    return find_releases(
        project, indexes=configured_indexes(os.environ), retry_policy=workspace.retry_policy
    )


def choose_release(project: str, releases: Sequence[Release], wanted: str = "") -> Upstream:
    """The release that is asked for, or the newest final one that has a source.

    Args:
        project: its name on the index.
        releases: all there are.
        wanted: a version; empty for the newest.

    Raises:
        UsageError: what is asked for is no version.
        UnknownProjectError: there is no such release, or it has wheels alone.
    """
    finals = [one for one in releases if one.is_final] or list(releases)
    fitting = [one for one in releases if one.version == _version(wanted)] if wanted else finals
    if not fitting:
        raise UnknownProjectError(
            f"the index has no {project} {wanted}".rstrip(),
            why=f"its newest are {_listed(finals)}" if finals else "it has no release at all",
            fix="name one of these with --version, or another index with UV_DEFAULT_INDEX",
        )
    with_source = [one for one in fitting if one.sdist and one.sdist.sha256]
    if not with_source:
        raise _no_source(project, fitting, wanted)
    chosen = with_source[-1]
    sdist = chosen.sdist
    return Upstream(
        project=project,
        version=str(chosen.version),
        sha256=sdist.sha256 if sdist else "",
        newer=_newer(chosen, finals),
    )


def _newer(chosen: Release, finals: Sequence[Release]) -> str:
    if not finals or chosen.version >= finals[-1].version:
        return ""
    lacking = "" if finals[-1].sdist else ", and the index has no source of it"
    return f"{finals[-1].version} is newer{lacking}"


def unpack_upstream(upstream: Upstream, folder: Path, workspace: Workspace) -> Path:
    """Have a release's source in a folder of its own.

    Args:
        upstream: the release.
        folder: to make; what stood there is replaced.
        workspace: its cache gets the archive.

    Returns:
        The folder that holds its setup.py or pyproject.toml.

    Raises:
        CuwheelError: it can't be had, or isn't safe to unpack.
    """
    archive = fetch_pinned(upstream.source, workspace, _WAY_OUT)
    return unpack_archive(archive, folder).top


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UsageError(
            f"{text} is not a version",
            why="a version of a Python package looks like 1.2.3 or 2.8.3.post2",
            fix="omit it for the newest release",
        ) from None


def _no_source(project: str, fitting: Sequence[Release], wanted: str) -> UnknownProjectError:
    newest = fitting[-1]
    name = f"{project} {wanted}".rstrip()
    if newest.sdist:
        return UnknownProjectError(
            f"the index gives no SHA-256 for {newest.sdist.name}",
            why="a recipe pins its source by this hash",
            fix="use an index with hashes (PEP 503), or write the recipe manually with the hash "
            "of a file that you trust",
        )
    releases = f"{newest.version}" if wanted else f"all releases; {newest.version} is the newest"
    return UnknownProjectError(
        f"the index has no sdist of {name}",
        why=f"it has only wheels of {releases}, with {plural(len(newest.wheels), 'wheel')}",
        fix=_OWN_ADDRESS,
    )


def _listed(releases: Sequence[Release]) -> str:
    shown = ", ".join(str(one.version) for one in reversed(releases[-_SHOWN:]))
    return f"{shown}, …" if len(releases) > _SHOWN else shown
