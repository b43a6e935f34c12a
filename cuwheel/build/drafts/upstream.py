"""Upstream's releases on the package index, and the source of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from cuwheel.base.errors import DownloadError, UsageError
from cuwheel.base.fetch.indexes.indexes import (
    IndexRelease,
    configured_indexes,
    find_releases,
    unknown_project,
)
from cuwheel.base.system.quantities import plural
from cuwheel.build.inputs.archives import unpack_archive
from cuwheel.build.inputs.pinned import fetch_pinned
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Sdist
from cuwheel.build.workspace.workspace import Workspace

_SHOWN = 8  # releases that a message names


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """A release with a source.

    Attributes:
        newer: a sentence about the newest final release; empty: this is it.
        universal: a wheel of the release for all systems, so without compiled code; empty: none.
        given: a source that is on no index; None: it is the index's sdist.
    """

    project: str
    version: str
    sha256: str
    newer: str = ""
    universal: str = ""
    given: Archive | GitCommit | Folder | None = None

    @property
    def is_newest(self) -> bool:
        """True if no later final release exists."""
        return not self.newer

    @property
    def page(self) -> str:
        """The address of a commit's repository; empty: not known."""
        address = self.given.repository if isinstance(self.given, GitCommit) else ""
        return address.removesuffix(".git") if address.startswith("https:") else ""

    @property
    def sdist(self) -> Sdist:
        """The recipe's declaration of the index's source."""
        return Sdist(project=self.project, sha256=self.sha256, version=self.version)


def releases_of(project: str, workspace: Workspace) -> tuple[IndexRelease, ...]:
    """Return all releases on the configured indexes, the newest last.

    Raises:
        DownloadError: no index has the project, or none can be reached.
    """
    return find_releases(project, indexes=configured_indexes(workspace.environ))


def choose_release(project: str, releases: Sequence[IndexRelease], version: str = "") -> Upstream:
    """Choose a release with a source: the one of a version, else the newest final one.

    Raises:
        UsageError: the version is invalid.
        DownloadError: there is no such release, or it has wheels alone.
    """
    finals = [release for release in releases if release.is_final] or list(releases)
    candidates: Sequence[IndexRelease] = finals
    if version:
        try:
            parsed = Version(version)
        except InvalidVersion:
            raise UsageError(
                f"{version} is not a version",
                why="a version of a Python package looks like 1.2.3 or 2.8.3.post2",
                fix="omit it for the newest release",
            ) from None
        candidates = [release for release in releases if release.version == parsed]
    if not candidates:
        newest = ", ".join(str(release.version) for release in reversed(finals[-_SHOWN:]))
        raise unknown_project(
            f"the index has no {project} {version}".rstrip(),
            why=f"its newest are {newest}" if finals else "it has no release at all",
            fix="name one of these, or another index with UV_DEFAULT_INDEX",
        )
    for release in reversed(candidates):
        if release.sdist and release.sdist.sha256:
            break
    else:
        raise _no_source(project, candidates, version)
    newer = ""
    if finals and release.version < finals[-1].version:
        lacking = "" if finals[-1].sdist else ", and the index has no source of it"
        newer = f"{finals[-1].version} is newer{lacking}"
    return Upstream(
        project=project,
        version=str(release.version),
        sha256=release.sdist.sha256,
        newer=newer,
        universal=next((name for name in release.wheels if name.endswith("-none-any.whl")), ""),
    )


def unpack_upstream(upstream: Upstream, folder: Path, workspace: Workspace) -> Path:
    """Unpack a release's source into a folder, which is replaced.

    Returns:
        The folder that holds its setup.py or pyproject.toml.

    Raises:
        CuwheelError: it can't be downloaded, or isn't safe to unpack.
    """
    fix = "download it on another machine and copy it there"
    return unpack_archive(fetch_pinned(upstream.sdist, workspace, fix), folder).top


def _no_source(project: str, releases: Sequence[IndexRelease], version: str) -> DownloadError:
    newest = releases[-1]
    if newest.sdist:
        return unknown_project(
            f"the index gives no SHA-256 for {newest.sdist.name}",
            why="a recipe pins its source by this hash",
            fix="use an index with hashes (PEP 503), or write the recipe manually with the hash "
            "of a file that you trust",
        )
    which = f"{newest.version}" if version else f"all releases; {newest.version} is the newest"
    return unknown_project(
        f"the index has no sdist of {project} {version}".rstrip(),
        why=f"it has only wheels of {which}, with {plural(len(newest.wheels), 'wheel')}",
        fix="pin upstream's own address instead: write the recipe with "
        'source=Archive(url="https://…/{version}.tar.gz", sha256="…") or GitCommit(…), as '
        "recipes/bitsandbytes.py and recipes/jaxmg.py do",
    )
