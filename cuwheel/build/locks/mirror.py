"""The session mirror: one folder with everything that targets need, for use without a network.

The folder is a portable cache: `downloads/<hash>/<name>`, filled and checked like the user's own.
`mirror_folder` writes the files next to the downloads.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cuwheel.base.errors import HashMismatchError, LockError, UsageError
from cuwheel.base.fetch.download import FIX, PinnedFile
from cuwheel.base.fetch.indexes.indexes import configured_indexes
from cuwheel.base.fetch.store import cached_path, fetch_all
from cuwheel.base.paths import ROOT, find_python_lock
from cuwheel.base.system.files import check_free_disk, file_lock, naming_full_disk, sha256_of_file
from cuwheel.base.system.folders.output_folder import check_output, claim
from cuwheel.base.system.pythons import own_python
from cuwheel.base.system.versions import plain_release, version_key
from cuwheel.build.environments.wheel_selection import LockedWheels, choose_wheels
from cuwheel.build.inputs.pinned import Declared, fetch_pinned, folder_of, path_of
from cuwheel.build.locks.lock_jobs import toolchain_lock, toolchain_locks
from cuwheel.build.locks.mirror_folder import (
    MIRROR_FOLDER,
    ServedTarget,
    complete_mirror,
    read_targets,
)
from cuwheel.build.recipe.platform import own_platform
from cuwheel.build.recipe.source import Archive, Folder, GitCommit, Sdist
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.conda.install import pinned_file
from cuwheel.build.toolchains.conda.lock_file import CondaPackage, read_conda_lock
from cuwheel.build.toolchains.conda.mirrors import Mirrors
from cuwheel.build.toolchains.debian.install import downloads_of
from cuwheel.build.toolchains.debian.lock_file import LOCK_NAME, read_debian_lock
from cuwheel.build.toolchains.redist.install import pinned_archive
from cuwheel.build.toolchains.redist.lock_file import read_redist_lock
from cuwheel.build.toolchains.redist.manifest import base_address
from cuwheel.build.workspace.workspace import Workspace

_MAX_SIZE = 8 << 30  # bytes of a file of unknown size
_ENGINE_PYTHON = (3, 10)  # the oldest that runs cuwheel itself
_FIX = (
    "set CUWHEEL_CONDA_MIRROR to a mirror of the channel, CUWHEEL_REDIST_MIRROR to one of NVIDIA's "
    "archives, or UV_DEFAULT_INDEX to another package index"
)


@dataclass(frozen=True, kw_only=True)
class MirrorSummary:
    """A written mirror: its folder, the targets it serves, its downloads and their bytes."""

    folder: Path
    targets: Mapping[str, ServedTarget]
    files: int
    size: int


def mirror(
    targets: Sequence[Target],
    folder: Path,
    workspace: Workspace,
    *,
    source: Path | None = None,
    pythons: Sequence[str] = (),
) -> MirrorSummary:
    """Add everything that the targets need to a folder; the next run continues an interrupted one.

    Args:
        source: the archive of the source, if it can't be downloaded.
        pythons: those that run cuwheel and nox; the targets' are added.

    Raises:
        DownloadError: something can't be downloaded.
        HashMismatchError: something isn't what a recipe or lock pins.
        LockError: a lock is missing, or has no wheel for a Python.
        SourceError: a source in the project is missing.
        DiskFullError: the folder has too little room.
    """
    check_output(folder, MIRROR_FOLDER)  # before anything is downloaded
    read_targets(folder)
    sources = _sources(targets)
    local: dict[Declared, Path] = {}
    if source:
        local[_checked_source(targets, source)] = source
    files = [
        *_wheels(targets, pythons, workspace),
        *_conda_files(targets, workspace),
        *_archives(targets, workspace),
        *_debian_files(targets, workspace),
    ]
    with naming_full_disk(folder):
        claim(folder, MIRROR_FOLDER)
        for file, _ in files:
            _link(cached_path(workspace.cache, file), cached_path(folder, file))
        missing = [file for file, _ in files if not cached_path(folder, file).is_file()]
        check_free_disk(folder, sum(file.size or 0 for file in missing))
        for declared, fix in sources.items():
            _link(
                local.get(declared) or path_of(declared, workspace.cache),
                path_of(declared, folder),
            )
            fetch_pinned(declared, dataclasses.replace(workspace, cache=folder), fix)
        tasks = [(file, partial(str, url)) for file, url in files]
        fetch_all(
            tasks,
            cache=folder,
            console=workspace.console,
            title="the mirror",
            fix=_FIX,
        )
        with file_lock(folder / ".lock"):
            served = complete_mirror(folder, targets)
    sizes = [path.stat().st_size for path in (folder / "downloads").glob("[!.]*/*")]
    return MirrorSummary(folder=folder, targets=served, files=len(sizes), size=sum(sizes))


def _link(file: Path, path: Path) -> None:
    """Link or copy an existing file into the mirror, unchecked: the download's check follows."""
    if path.exists() or not file.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, path)
    except OSError:  # another disk, or one without links
        part = path.with_name(f".{path.name}.part")
        shutil.copyfile(file, part)
        part.replace(path)


def _sources(targets: Sequence[Target]) -> dict[Declared, str]:
    """Return sources and resources that aren't in a project, each with a fix for its error."""
    sources: dict[Declared, str] = {}
    for target in targets:
        recipe = target.recipe
        if isinstance(recipe.source, Folder):
            folder_of(recipe.source, target.root)
        else:
            sources[recipe.source] = "" if isinstance(recipe.source, GitCommit) else FIX
        for resource in recipe.resources:
            fix = f"download the resource {resource.name} on another machine and copy it there"
            sources.setdefault(resource.source, fix)
    return sources


def _checked_source(targets: Sequence[Target], given: Path) -> Sdist | Archive:
    """Return the declaration of the archive given with --source."""
    sources = {target.recipe.name: target.recipe.source for target in targets}
    if len(sources) > 1:
        raise UsageError(
            f"--source {given} can't be the source of {len(sources)} recipes",
            why="it is a single file",
            fix="run the session once for each recipe, with the same --to",
        )
    [(name, declared)] = sources.items()
    if isinstance(declared, Folder | GitCommit):
        kind = "a git commit" if isinstance(declared, GitCommit) else "a folder of the project"
        raise UsageError(
            f"--source {given} can't be the source of {name}",
            why=f"its source is {kind}, and the file may only be an archive that a recipe pins",
            fix="leave out --source; how a commit gets here from another machine: "
            "docs/how-to/offline.md",
        )
    if not given.is_file():
        raise UsageError(
            f"--source {given} is not a file",
            why="the mirror only takes the archive that the recipe pins",
            fix="pass that archive",
        )
    actual = sha256_of_file(given)
    if actual != declared.sha256:
        raise HashMismatchError(
            f"{given} is not the file that the recipe pins",
            why=f"its SHA-256 is {actual}, the recipe's is {declared.sha256}",
            fix="download it again; a mirror is only for pinned builds",
        )
    return declared


def _wheels(
    targets: Sequence[Target], running: Sequence[str], workspace: Workspace
) -> list[tuple[PinnedFile, str]]:
    """Return wheels of every lock that a build installs from, and of nox's, with addresses."""
    pythons: dict[tuple[Path, str], set[str]] = {}
    for target in targets:
        for path, machine in _locks_of(target, workspace):
            pythons.setdefault((path, machine), set()).add(target.python)
    plain = {plain_release(python) for python in (*running, *(target.python for target in targets))}
    for_engine = {python for python in plain if version_key(python) >= _ENGINE_PYTHON}
    machines = {own_platform().machine, *(target.platform.machine for target in targets)}
    for name, machine in itertools.product(("engine", "nox", "perf"), sorted(machines)):
        pythons[ROOT / "envs" / f"{name}.lock", machine] = for_engine or {own_python().release}
    locked = [
        LockedWheels(lock=path, releases=tuple(sorted(releases, key=version_key)), machine=machine)
        for (path, machine), releases in pythons.items()
    ]
    chosen = choose_wheels(
        locked,
        indexes=configured_indexes(workspace.environ),
        console=workspace.console,
    )
    return [
        (
            PinnedFile(
                name=file.name,
                sha256=file.sha256,
                max_size=_MAX_SIZE,
                size=file.size,
                pinned_by="the lock",
                repin="write the lock again with `nox -s lock`",
            ),
            file.url,
        )
        for file in chosen
    ]


def _locks_of(target: Target, workspace: Workspace) -> set[tuple[Path, str]]:
    """Return the locks that a target's build installs from, each with a kind of machine.

    For another kind of machine the compilers and all that runs are of this one, while packages to
    compile against and to import are of the other.
    """
    machines = (own_platform().machine, target.platform.machine)
    _toolchain_lock(target, workspace)  # has to be there
    toolchains = toolchain_locks(target, workspace)
    build = {target.lock, *(lock for lock in toolchains if lock.name == "pypi.lock")}
    smoke = {served.smoke_lock for served in (target, *target.served)}
    return {*itertools.product(build, machines), *itertools.product(smoke, machines[1:])}


def _conda_files(targets: Sequence[Target], workspace: Workspace) -> list[tuple[PinnedFile, str]]:
    """Return packages of the conda toolchains and of their Pythons, with addresses."""
    packages: list[CondaPackage] = []
    for target in targets:
        if target.provider != "conda":
            continue
        packages += read_conda_lock(_toolchain_lock(target, workspace)).packages
        if path := find_python_lock(target.python, workspace.caller.roots):
            packages += read_conda_lock(path).packages
    mirrors = Mirrors.of(workspace.environ)
    return [
        (pinned_file(package), mirrors.url_for(package.url)) for package in dict.fromkeys(packages)
    ]


def _debian_files(targets: Sequence[Target], workspace: Workspace) -> list[tuple[PinnedFile, str]]:
    """Return packages of the compilers that come from Debian, with addresses."""
    locks = {lock for target in targets for lock in toolchain_locks(target, workspace)}
    packages = [
        package
        for lock in sorted(locks)
        if lock.name == LOCK_NAME
        for package in read_debian_lock(lock).packages_for(own_platform().machine)
    ]
    downloads = downloads_of(dict.fromkeys(packages), workspace)
    return [(file, find_url()) for file, find_url in downloads]


def _archives(targets: Sequence[Target], workspace: Workspace) -> list[tuple[PinnedFile, str]]:
    """Return NVIDIA's archives for this machine and those of the targets, with addresses."""
    base = base_address(workspace.environ)
    archives = [
        archive
        for target in targets
        if target.provider == "redist"
        for machine in (own_platform().machine, target.platform.machine)
        for archive in read_redist_lock(_toolchain_lock(target, workspace)).for_machine(machine)
    ]
    return [
        (pinned_archive(archive), f"{base}/{archive.path}") for archive in dict.fromkeys(archives)
    ]


def _toolchain_lock(target: Target, workspace: Workspace) -> Path:
    lock = toolchain_lock(target, workspace)
    if lock is None:
        raise LockError(
            f"{target.name}: there is no lock of its toolchain in envs/cuda{target.toolkit.tag}",
            why=f"it lists the toolchain's {target.provider} packages",
            fix=f"nox -s lock -- toolchain:{target.toolkit.tag}:{target.provider}",
        )
    return lock
