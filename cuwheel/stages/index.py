"""Index: put the wheel and its provenance into `dist/`, and write the package index anew."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename

from cuwheel.errors import PublishedWheelError, StageOrderError, WheelIndexError
from cuwheel.index.folder_index import write_index
from cuwheel.system.files import (
    naming_full_disk,
    new_file,
    remove_parts,
    sha256_of_file,
    write_atomically,
)
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.publication import published_sha256, publishing, statement_of
from cuwheel.workspace.records import Audit, IndexedWheel, RepairedWheel

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.job import Job
    from cuwheel.workspace.workspace import Workspace


_PROVENANCE = "provenance.json"  # in the work folder; what makes the statement leaves it there


def index(job: Job) -> IndexedWheel:
    """Publish the audited wheel: the file first, then its provenance, then the index.

    What is published under a name stays as it is, unless `--replace` was given; a file that is gone
    or was changed since is put back.

    Raises:
        StageOrderError: the wheel was not audited, or nothing made its provenance.
        WheelIndexError: the wheel is not the one that was audited, or `dist/` holds a file that is
            not a valid wheel.
        PublishedWheelError: other bytes are published under its name.
        DiskFullError: no space is left in `dist/`.
    """
    target, workspace = job.target, job.workspace
    repaired = workspace.load("repair", RepairedWheel)
    _check_audited(target, repaired, workspace.load("audit", Audit))
    wheel = workspace.dist / repaired.path.name
    provenance = statement_of(wheel)
    statement = _statement(workspace, provenance, repaired.sha256)
    # One at a time: else the wheel of one build could get the statement of another.
    with naming_full_disk(workspace.dist), publishing(workspace.dist):
        remove_parts(workspace.dist)
        if repaired.path != wheel:
            _check_name_is_free(job, wheel, repaired.sha256)
            with repaired.path.open("rb") as source, new_file(wheel) as written:
                shutil.copyfileobj(source, written)
        write_atomically(provenance, statement)
        simple = write_index(workspace.dist)
        _warn_of_other_mode(target, workspace, wheel)
    return IndexedWheel(wheel=wheel, provenance=provenance, index=simple)


def _check_audited(target: Target, repaired: RepairedWheel, audit: Audit) -> None:
    """Publish only the very bytes that were audited.

    Raises:
        WheelIndexError: the file has changed since, or is gone.
    """
    path = repaired.path
    found = sha256_of_file(path) if path.is_file() else "gone"
    if not found == repaired.sha256 == audit.sha256:
        raise WheelIndexError(
            f"{target.id}: {path.name} is not the wheel that was audited",
            why=f"repair made {repaired.sha256}, audit read {audit.sha256}, the file is {found}",
            fix="run the stages repair and audit again, or the whole build",
        )


def _check_name_is_free(job: Job, wheel: Path, sha256: str) -> None:
    """See that no other bytes are published under the wheel's name; say it where a file changes.

    Raises:
        PublishedWheelError: there are.
    """
    there = published_sha256(wheel)
    if there not in {"", sha256} and not job.settings.replace:
        raise PublishedWheelError(
            f"{job.target.id}: {wheel.name} is already published with different bytes",
            why=f"its SHA-256 in {wheel.parent} is {there}, that of the new wheel {sha256}",
            fix="build again with -- --no-cache, without --build-tag: the wheel then gets an "
            "unused build tag; or with -- --replace, if nobody installs from that folder",
        )
    if wheel.is_file() and sha256_of_file(wheel) != sha256:
        job.workspace.console.note(
            f"{wheel.name} in {wheel.parent} had different content and is replaced"
        )


def _statement(workspace: Workspace, published: Path, sha256: str) -> str:
    """The provenance of this very wheel: from the work folder, or as it was published before.

    Raises:
        StageOrderError: there is none.
    """
    files = (path for path in (workspace.work / _PROVENANCE, published) if path.is_file())
    statement = next((text for path in files if sha256 in (text := read_text(path))), None)
    if statement is None:
        raise StageOrderError(
            f"there is no {_PROVENANCE} of this wheel in {workspace.work}",
            why="a wheel is only published with its provenance",
            fix="run the stage provenance first, or the whole build",
        )
    return statement


def _warn_of_other_mode(target: Target, workspace: Workspace, wheel: Path) -> None:
    """Of two versions that differ behind the `+` only, installers take the higher one."""
    project, version, _, tags = parse_wheel_filename(wheel.name)
    for other in sorted(workspace.dist.glob(f"{wheel.name.partition('-')[0]}-*.whl")):
        found, release, _, others = parse_wheel_filename(other.name)
        is_rival = (found, release.public) == (project, version.public) and tags & others
        local = (release.local or "").split(".")
        if is_rival and local[0] == target.local_version.split(".")[0] and release != version:
            workspace.console.warn(
                f"{workspace.dist} also contains {other.name}: without the full version "
                f"({project}=={version}) pip chooses {max(version, release)}; use --dist to keep "
                "them apart"
            )
