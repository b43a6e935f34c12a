"""Mirror: one folder with everything that targets need, for machines without a network.

The folder is a cache that can be carried: `downloads/<hash>/<name>`, filled and checked as the
user's own cache is. What makes it a mirror lies beside it: see `mirror_folder`.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cuwheel.conda.install import pinned_file
from cuwheel.conda.lock_file import read_conda_lock
from cuwheel.conda.mirrors import Mirrors
from cuwheel.errors import HashMismatchError, LockError, UsageError
from cuwheel.fetch.download import FIX, PinnedFile
from cuwheel.fetch.store import cached_path, fetch_all
from cuwheel.fetch.urls import redact_url
from cuwheel.locks.jobs import toolchain_lock
from cuwheel.locks.mirror_folder import ServedTarget, complete_mirror, read_targets
from cuwheel.model.platform import own_platform
from cuwheel.model.source import Archive, Folder, GitCommit, Sdist
from cuwheel.paths import ROOT, find_python_lock
from cuwheel.pypi.indexes import configured_indexes
from cuwheel.pypi.wheel_selection import LockedWheels, choose_wheels
from cuwheel.sources.pinned import Declared, fetch_pinned, folder_of, path_of
from cuwheel.system.files import check_free_disk, file_lock, naming_full_disk, sha256_of_file
from cuwheel.system.pythons import own_python
from cuwheel.system.versions import plain_release, version_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cuwheel.conda.records import CondaPackage
    from cuwheel.model.target import Target
    from cuwheel.pypi.indexes import IndexFile
    from cuwheel.workspace.workspace import Workspace


_MAX_SIZE = 8 << 30  # bytes of a file whose size nobody states
_ENGINE_PYTHON = (3, 10)  # the oldest that runs cuwheel itself
_FIX = (
    "set CUWHEEL_CONDA_MIRROR to a mirror of the channel, or UV_DEFAULT_INDEX to another package "
    "index"
)


@dataclass(frozen=True, kw_only=True)
class MirrorSummary:
    """A mirror that was written: its folder, the targets it serves, its downloads and their bytes.

    Attributes:
        targets: name → what builds it, those of earlier runs too.
    """

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
    """Write everything that the targets need into a folder, beside what is there already.

    A run that was interrupted is taken up by the next one.

    Args:
        targets: what is to be built from the mirror.
        folder: made if it isn't there.
        workspace: what its cache holds isn't downloaded.
        source: the recipe's source as a file, where this machine can't download it.
        pythons: releases that run nox and cuwheel there, beside those of the targets.

    Raises:
        DownloadError: something can't be fetched.
        HashMismatchError: something isn't what a recipe or lock pins.
        LockError: a lock is missing, or has no wheel for a Python.
        SourceError: a source that is in the project isn't there.
        DiskFullError: the folder has too little room.
    """
    read_targets(folder)  # before anything is downloaded
    sources = _sources(targets)
    given: dict[Declared, Path] = {}
    if source:
        given[_checked(targets, source, workspace.cache)] = source
    files = [*_wheels(targets, pythons, workspace), *_conda_files(targets)]
    with naming_full_disk(folder):
        for file, _ in files:
            _take(cached_path(workspace.cache, file), cached_path(folder, file))
        missing = [file for file, _ in files if not cached_path(folder, file).is_file()]
        check_free_disk(folder, sum(file.size or 0 for file in missing))
        for declared, fix in sources.items():
            kept = given.get(declared) or path_of(declared, workspace.cache)
            _take(kept, path_of(declared, folder))
            fetch_pinned(declared, dataclasses.replace(workspace, cache=folder), fix)
        tasks = [(file, partial(str, url)) for file, url in files]
        fetch_all(
            tasks,
            cache=folder,
            console=workspace.console,
            title="the mirror",
            retry_policy=workspace.retry_policy,
            fix=_FIX,
        )
        with file_lock(folder / ".lock"):
            served = complete_mirror(folder, targets)
    sizes = [path.stat().st_size for path in (folder / "downloads").glob("[!.]*/*")]
    return MirrorSummary(folder=folder, targets=served, files=len(sizes), size=sum(sizes))


def _take(kept: Path, path: Path) -> None:
    """Link or copy a file that is there already into the mirror; what fetches it checks it."""
    if path.exists() or not kept.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(kept, path)
    except OSError:  # another disk, or one without links
        aside = path.with_name(f".{path.name}.part")
        shutil.copyfile(kept, aside)
        aside.replace(path)


def _sources(targets: Sequence[Target]) -> dict[Declared, str]:
    """Sources and resources that aren't in a project, each with a fix for its error.

    Raises:
        SourceError: one that should be in the project isn't there.
    """
    found: dict[Declared, str] = {}
    for target in targets:
        recipe = target.recipe
        if isinstance(recipe.source, Folder):
            folder_of(recipe.source, target.root)
        else:
            found[recipe.source] = "" if isinstance(recipe.source, GitCommit) else FIX
        for resource in recipe.resources:
            fix = f"download the resource {resource.name} on another machine and copy it there"
            found.setdefault(resource.source, fix)
    return found


def _checked(targets: Sequence[Target], given: Path, cache: Path) -> Sdist | Archive:
    """The source that a file of the person is, which counts as if it had been downloaded.

    Raises:
        UsageError: it isn't there, or there is no one archive that it could be.
        HashMismatchError: it isn't what the recipe pins.
    """
    sources = {target.recipe.name: target.recipe.source for target in targets}
    if len(sources) > 1:
        raise UsageError(
            f"--source {given} can't be the source of {len(sources)} recipes",
            why="it is a single file",
            fix="run the session once for each recipe, with the same --to",
        )
    [declared] = sources.values()
    if isinstance(declared, Folder):
        raise UsageError(
            f"--source {given} can't be the source of a recipe that has it in the project",
            why=f"the mirror gets {declared.path} as part of the project",
            fix="leave out --source",
        )
    if isinstance(declared, GitCommit):
        final = path_of(declared, cache)
        raise UsageError(
            f"--source {given} can't be the source of a recipe that pins a git commit",
            why="an archive doesn't prove which commit it contains; git's pack does",
            fix=f"copy downloads/{final.parent.name}/{final.name} from the cache of a machine "
            f"that can reach {redact_url(declared.repository)} to {final}, and leave out "
            "--source; to build from the archive, unpinned, pass it to the build itself: `-- "
            "--source`",
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
    """Wheels of every lock that a build installs from, and of nox's, with their addresses."""
    pythons: dict[tuple[Path, str], set[str]] = {}
    for target in targets:
        for path, machine in _locks_of(target):
            pythons.setdefault((path, machine), set()).add(target.python)
    plain = {plain_release(python) for python in (*running, *(one.python for one in targets))}
    own = {python for python in plain if version_key(python) >= _ENGINE_PYTHON}
    machines = {own_platform().machine, *(one.platform.machine for one in targets)}
    for name, machine in itertools.product(("engine", "nox", "perf"), sorted(machines)):
        pythons[ROOT / "envs" / f"{name}.lock", machine] = own or {own_python().release}
    locked = [
        LockedWheels(lock=path, releases=tuple(sorted(releases, key=version_key)), machine=machine)
        for (path, machine), releases in pythons.items()
    ]
    chosen = choose_wheels(
        locked,
        indexes=configured_indexes(os.environ),
        console=workspace.console,
        retry_policy=workspace.retry_policy,
    )
    return [(_pinned_wheel(file), file.url) for file in chosen]


def _locks_of(target: Target) -> set[tuple[Path, str]]:
    """What a target's build installs from, each with the kind of machine whose wheels it takes.

    For another kind of machine the compilers and all that runs is of this one; what is compiled
    against and imported is of that one, and there it is all that a build of its own takes.
    """
    own, other = own_platform().machine, target.platform.machine
    build = {target.lock} | ({_toolchain_lock(target)} if target.provider == "pypi" else set())
    smoke = {one.smoke_lock for one in (target, *target.served)}
    return {(path, machine) for machine in (own, other) for path in build} | {
        (path, other) for path in smoke
    }


def _pinned_wheel(file: IndexFile) -> PinnedFile:
    return PinnedFile(
        name=file.name,
        sha256=file.sha256,
        max_size=_MAX_SIZE,
        size=file.size,
        pinned_by="the lock",
        repin="write the lock again with `nox -s lock`",
    )


def _conda_files(targets: Sequence[Target]) -> list[tuple[PinnedFile, str]]:
    """Packages of the conda toolchains, and of the Pythons, which may be missing there too."""
    packages: list[CondaPackage] = []
    for target in targets:
        if target.provider != "conda":
            continue
        packages += read_conda_lock(_toolchain_lock(target)).packages
        if path := find_python_lock(target.python):
            packages += read_conda_lock(path).packages
    mirrors = Mirrors.of(os.environ)
    return [(pinned_file(one), mirrors.url_for(one.url)) for one in dict.fromkeys(packages)]


def _toolchain_lock(target: Target) -> Path:
    """The lock of the target's toolchain.

    Raises:
        LockError: there is none.
    """
    found = toolchain_lock(target)
    if found is None:
        raise LockError(
            f"{target.name}: there is no lock of its toolchain in envs/cuda{target.toolkit.tag}",
            why=f"it lists the toolchain's {target.provider} packages",
            fix=f"nox -s lock -- toolchain:{target.toolkit.tag}",
        )
    return found
