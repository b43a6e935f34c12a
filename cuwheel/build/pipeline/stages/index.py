"""Stage index: the wheel and its provenance in `dist/`, and the package index next to them."""

from __future__ import annotations

import shutil
from pathlib import Path

from packaging.utils import parse_wheel_filename

from cuwheel.base.errors import PublishedWheelError, UsageError, WheelIndexError
from cuwheel.base.formats.wheel.publication import (
    WHEEL_FOLDER,
    published_sha256,
    publishing,
    split_mark,
    statement_of,
)
from cuwheel.base.system.files import (
    naming_full_disk,
    new_file,
    remove_parts,
    sha256_of_file,
    write_atomically,
)
from cuwheel.base.system.folders.output_folder import claim
from cuwheel.base.system.regular_files import open_file, read_text
from cuwheel.build.recipe.target import Target
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.build.wheelhouse.narrower import check_serves_as_many, read_folder
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Audit, IndexedWheel, RepairedWheel
from cuwheel.build.workspace.workspace import Workspace

_PROVENANCE = "provenance.json"  # in the work folder


def index(job: Job) -> IndexedWheel:
    """Publish the audited wheel: the file first, then its provenance, then the index.

    A published file stays as it is, unless `--replace` is set; one that is gone or was changed
    since is put back. A wheel that serves fewer machines than the published wheel of its version
    stays in the work folder, unless `--replace-broader` is set.

    Raises:
        UsageError: the wheel was not audited, or nothing made its provenance.
        WheelIndexError: the wheel is not the one that was audited, or `dist/` holds a file that is
            not a valid wheel.
        PublishedWheelError: other bytes are published under its name, or a wheel of its version
            that serves more machines.
        DiskFullError: no space is left in `dist/`.
    """
    target, workspace, cache = job.target, job.workspace, job.workspace.cache
    repaired = workspace.load("repair", RepairedWheel)
    _check_audited(target, repaired, workspace.load("audit", Audit))
    wheel = workspace.dist / repaired.path.name
    provenance = statement_of(wheel)
    statement = _statement(workspace, provenance, repaired.sha256)
    claim(workspace.dist, WHEEL_FOLDER)
    # Locked: else the wheel of one build could get the statement of another.
    with naming_full_disk(workspace.dist), publishing(workspace.dist):
        remove_parts(workspace.dist)
        if repaired.path != wheel:
            _check_name_is_free(job, wheel, repaired.sha256)
            if published_sha256(wheel) != repaired.sha256 and not job.settings.replace_broader:
                check_serves_as_many(
                    {repaired.path: read_folder(repaired.path.parent, cache)[repaired.path]},
                    read_folder(workspace.dist, cache),
                    cache,
                    kept_at="the wheel was built and audited, and can be used as it is: "
                    f"{repaired.path}",
                )
            if wheel.is_file() and sha256_of_file(wheel) != repaired.sha256:
                workspace.console.note(
                    f"{wheel.name} in {wheel.parent} had different content and is replaced"
                )
            with open_file(repaired.path) as source, new_file(wheel) as target_file:
                shutil.copyfileobj(source, target_file)
        write_atomically(provenance, statement)
        simple = write_index(workspace.dist)
        _warn_of_other_mode(target, workspace, wheel)
    return IndexedWheel(wheel=wheel, provenance=provenance, index=simple)


def _check_audited(target: Target, repaired: RepairedWheel, audit: Audit) -> None:
    """Check that the repaired wheel has the bytes that were audited."""
    path = repaired.path
    sha256 = sha256_of_file(path) if path.is_file() else "gone"
    if not sha256 == repaired.sha256 == audit.sha256:
        raise WheelIndexError(
            f"{target.id}: {path.name} is not the wheel that was audited",
            why=f"repair made {repaired.sha256}, audit read {audit.sha256}, the file is {sha256}",
            fix="run the stages repair and audit again, or the whole build",
        )


def _check_name_is_free(job: Job, wheel: Path, sha256: str) -> None:
    """Check that no other bytes are published under the wheel's name."""
    published = published_sha256(wheel)
    if published not in {"", sha256} and not job.settings.replace:
        raise PublishedWheelError(
            f"{job.target.id}: {wheel.name} is already published with different bytes",
            why=f"its SHA-256 in {wheel.parent} is {published}, that of the new wheel {sha256}",
            fix="build again with -- --no-cache, without --build-tag: the wheel then gets an "
            "unused build tag; or with -- --replace, if nobody installs from that folder",
        )


def _statement(workspace: Workspace, published: Path, sha256: str) -> str:
    """Return the provenance of this very wheel: from the work folder, or as published before."""
    files = (path for path in (workspace.work / _PROVENANCE, published) if path.is_file())
    statement = next((text for path in files if sha256 in (text := read_text(path))), None)
    if statement is None:
        raise UsageError(
            f"there is no {_PROVENANCE} of this wheel in {workspace.work}",
            why="a wheel is only published with its provenance",
            fix="run the stage provenance first, or the whole build",
        )
    return statement


def _warn_of_other_mode(target: Target, workspace: Workspace, wheel: Path) -> None:
    """Warn of a wheel with another local version: installers take the higher one of the two.

    A digest of the source is part of the local version, so the higher one needn't be the newer.
    """
    project, version, _, tags = parse_wheel_filename(wheel.name)
    for other in sorted(workspace.dist.glob(f"{wheel.name.partition('-')[0]}-*.whl")):
        name, release, _, others = parse_wheel_filename(other.name)
        is_rival = (name, release.public) == (project, version.public) and tags & others
        local = (release.local or "").split(".")
        if is_rival and local[0] == target.local_version.split(".")[0] and release != version:
            is_earlier = bool(split_mark(version)[1] and split_mark(release)[1])
            chosen = f"pip{' with --find-links' if is_earlier else ''} chooses"
            effect = f"without the full version ({project}=={version}) {chosen}"
            workspace.console.warn(
                f"{workspace.dist} also contains {other.name}: {effect} "
                f"{max(version, release)}; remove one, or use --dist to keep them apart"
            )
