"""Mirror: one folder with everything that targets need, for machines without a network."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cuwheel.conda.install import pinned_file
from cuwheel.conda.lock_file import read_conda_lock
from cuwheel.errors import HashMismatchError, LockError, UsageError
from cuwheel.fetch.download import FIX, PinnedFile
from cuwheel.fetch.mirrors import DOWNLOADS, WHEELS, Mirrors
from cuwheel.fetch.store import cached_path, fetch_all
from cuwheel.fetch.urls import redact_url
from cuwheel.fetch.web import ask_size
from cuwheel.locks.jobs import toolchain_lock
from cuwheel.locks.mirror_folder import (
    Placed,
    build_command,
    copy_project,
    copy_recipes,
    is_linkable,
    place,
    read_manifest,
    write_indexes,
    write_manifest,
)
from cuwheel.model.source import Folder, GitCommit
from cuwheel.paths import ROOT, find_python_lock
from cuwheel.pypi.indexes import configured_indexes
from cuwheel.pypi.wheel_selection import LockedWheels, applies, choose_wheels
from cuwheel.sources.pinned import fetch_pinned, folder_of, place_of, source_folders
from cuwheel.system.files import check_free_disk, file_lock, naming_full_disk, sha256_of_file
from cuwheel.system.parallel import Stop, run_all
from cuwheel.system.pythons import own_python
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.metadata import header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from cuwheel.conda.records import CondaPackage
    from cuwheel.model.source import Source
    from cuwheel.model.target import Target
    from cuwheel.pypi.indexes import IndexFile
    from cuwheel.workspace.workspace import Workspace


_MAX_SIZE = 8 << 30  # bytes of a file whose size nobody states
_ENGINE_PYTHON = (3, 10)  # the oldest that runs cuwheel itself
_FIX = (
    "name a mirror of the channel with CUWHEEL_CONDA_MIRROR, or another package index with "
    "UV_DEFAULT_INDEX"
)


@dataclass(frozen=True, kw_only=True)
class _File:
    """A file that the mirror gets: what it is, what gives its address, and its place there."""

    wanted: PinnedFile
    find_url: Callable[[], str]
    path: str


@dataclass(frozen=True, kw_only=True)
class MirrorSummary:
    """A mirror that was written: its folder, what builds each target, its files and their bytes."""

    folder: Path
    commands: Mapping[str, str]
    files: int
    size: int


def mirror(
    targets: Sequence[Target], folder: Path, workspace: Workspace, *, source: Path | None = None
) -> MirrorSummary:
    """Write everything that the targets need into a folder, beside what is there already.

    A run that was interrupted is taken up by the next one.

    Args:
        targets: what is to be built from the mirror.
        folder: made if it isn't there.
        workspace: its cache gets the files first.
        source: the recipe's source as a file, where this machine can't download it.

    Raises:
        DownloadError: something can't be had.
        HashMismatchError: something isn't what a recipe or lock pins.
        LockError: a lock is missing, or has no wheel for a Python.
        SourceError: a source that is in the project isn't there.
        DiskFullError: the cache or the folder has too little room.
    """
    read_manifest(folder)  # before anything is downloaded
    pinned = _sources(targets, workspace, source)
    mirrors = Mirrors.of(os.environ)
    files = [
        *_wheels(targets, workspace),
        *(_conda_file(package, mirrors) for package in _conda_packages(targets)),
    ]
    files = list({file.path: file for file in files}.values())
    with naming_full_disk(folder):
        _check_room(files, folder, workspace.cache)
        fetch_all(
            [(file.wanted, file.find_url) for file in files],
            cache=workspace.cache,
            console=workspace.console,
            title="the mirror",
            fix=_FIX,
        )
        with file_lock(folder / ".lock"):
            return _write(targets, files, pinned, folder, workspace)


def _write(
    targets: Sequence[Target],
    files: Sequence[_File],
    pinned: Sequence[Path],
    folder: Path,
    workspace: Workspace,
) -> MirrorSummary:
    downloads = workspace.cache / DOWNLOADS
    with workspace.console.live("writing") as line:
        placed = [_place(file, folder, workspace.cache, line.show) for file in files]
        placed += [
            place(path, folder, f"{DOWNLOADS}/{path.relative_to(downloads)}") for path in pinned
        ]
        line.show("indexes")
        copy_project(ROOT, folder, source_folders(ROOT))
        for root in {target.root for target in targets} - {ROOT}:
            copy_recipes(root, folder, source_folders(root))
        write_indexes(folder)
        line.show("manifest")
        manifest = write_manifest(folder, placed, _described(targets, folder))
    sizes = [facts["size"] for facts in manifest["files"].values()]
    return MirrorSummary(
        folder=folder,
        commands={name: build_command(name, facts) for name, facts in manifest["targets"].items()},
        files=len(sizes),
        size=sum(sizes),
    )


def _place(file: _File, folder: Path, cache: Path, show: Callable[[str], None]) -> Placed:
    show(file.path)
    return place(cached_path(cache, file.wanted), folder, file.path, file.wanted.sha256)


def _name(target: Target) -> str:
    """`bitsandbytes-122`, as in the names of sessions."""
    return f"{target.recipe.name}-{target.toolkit.tag}"


def _described(targets: Sequence[Target], folder: Path) -> dict[str, dict[str, object]]:
    before = read_manifest(folder)["targets"]
    described: dict[str, dict[str, object]] = {}
    for target in targets:
        name = _name(target)
        pythons = {*before.get(name, {}).get("pythons", ())}
        pythons |= {other.python for other in targets if _name(other) == name}
        described[name] = {
            "pythons": sorted(pythons),
            "toolchain": target.provider,
            "version": target.recipe.version,
        }
    return described


def _sources(targets: Sequence[Target], workspace: Workspace, given: Path | None) -> list[Path]:
    """Sources and resources of all targets, in the cache."""
    recipes = {target.recipe.name: target.recipe for target in targets}.values()
    if given is not None:
        if len(recipes) > 1:
            raise UsageError(
                f"--source {given} can't be the source of {len(recipes)} recipes",
                why="it is one file",
                fix="call the session once for each recipe, with the same --to",
            )
        _take(next(iter(recipes)).filled_source, given, workspace.cache)
    roots = {target.recipe.name: target.root for target in targets}
    paths = []
    for recipe in recipes:
        source = recipe.filled_source
        if isinstance(source, Folder):
            folder_of(source, roots[recipe.name])  # it comes with the project
        else:
            way_out = "" if isinstance(source, GitCommit) else FIX
            paths.append(fetch_pinned(source, workspace, way_out))
        for resource in recipe.resources:
            way_out = f"get the resource {resource.name} on another machine and copy it there"
            paths.append(fetch_pinned(resource.source, workspace, way_out))
    return paths


def _take(declared: Source, given: Path, cache: Path) -> None:
    """Put a file that the person has into the cache, as if it had been downloaded.

    Raises:
        UsageError: it isn't there, or the recipe pins no archive.
        HashMismatchError: it isn't what the recipe pins.
    """
    if isinstance(declared, Folder):
        raise UsageError(
            f"--source {given} can't be the source of a recipe that has it in the project",
            why=f"the mirror gets {declared.path} with the project",
            fix="leave out --source",
        )
    final = place_of(declared, cache)
    if isinstance(declared, GitCommit):
        raise UsageError(
            f"--source {given} can't be the source of a recipe that pins a git commit",
            why="nothing in an archive proves which commit it is; git's pack of it does",
            fix=f"copy downloads/{final.parent.name}/{final.name} out of the cache of a machine "
            f"that reaches {redact_url(declared.repository)} to {final}, and leave out --source; "
            "to build from the archive, unpinned, give it to the build's own `-- --source`",
        )
    if not given.is_file():
        raise UsageError(
            f"--source {given} is no file",
            why="the mirror holds the archive that the recipe pins, nothing else",
            fix="name that archive",
        )
    actual = sha256_of_file(given)
    if actual != declared.sha256:
        raise HashMismatchError(
            f"{given} is not the file that the recipe pins",
            why=f"its SHA-256 is {actual}, the recipe's is {declared.sha256}",
            fix="download it again; a mirror serves pinned builds only",
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(given, final)


def _wheels(targets: Sequence[Target], workspace: Workspace) -> list[_File]:
    """Wheels of every lock that a build installs from, and nox with what it needs."""
    indexes = configured_indexes(os.environ)
    chosen = choose_wheels(_locks(targets), indexes=indexes, console=workspace.console)
    nox = _closure("nox", _engine_releases(targets), indexes, workspace)
    every = {file.name: file for file in (*chosen, *nox)}
    sized = _with_sizes(list(every.values()), workspace)
    return [
        _File(wanted=wanted, find_url=partial(str, file.url), path=f"{WHEELS}/{file.name}")
        for file, wanted in sized
    ]


def _locks(targets: Sequence[Target]) -> list[LockedWheels]:
    engine = LockedWheels(lock=ROOT / "envs" / "engine.lock", releases=_engine_releases(targets))
    wanted: dict[Path, set[str]] = {}
    for target in targets:
        locks = {target.lock, target.smoke_lock}
        locks |= {_toolchain_lock(target)} if target.provider == "pypi" else set()
        for path in locks:
            wanted.setdefault(path, set()).add(target.python)
    return [engine, *(LockedWheels(lock=path, releases=_sorted(wanted[path])) for path in wanted)]


def _toolchain_lock(target: Target) -> Path:
    """The lock of the target's toolchain.

    Raises:
        LockError: there is none.
    """
    found = toolchain_lock(target)
    if found is None:
        raise LockError(
            f"{_name(target)}: there is no lock of its toolchain in envs/cuda{target.toolkit.tag}",
            why=f"it names the {target.provider} packages of the toolchain",
            fix=f"nox -s lock -- toolchain:{target.toolkit.tag}",
        )
    return found


def _engine_releases(targets: Sequence[Target]) -> tuple[str, ...]:
    """The Pythons that may run nox: those of the targets, or else the one that runs it here."""
    asked = {target.python for target in targets}
    able = {release for release in asked if _numbers(release) >= _ENGINE_PYTHON}
    return _sorted(able or {own_python().release})


def _closure(
    name: str, releases: tuple[str, ...], indexes: Iterable[str], workspace: Workspace
) -> list[IndexFile]:
    """A package of dev.lock and what it needs, by the wheels' own metadata."""
    lock_ = ROOT / "envs" / "dev.lock"
    found: dict[str, IndexFile] = {}
    names, seen = {name}, set[str]()
    while names:
        locked = LockedWheels(lock=lock_, releases=releases, only=frozenset(names))
        files = choose_wheels([locked], indexes=indexes, console=workspace.console)
        found |= {file.name: file for file in files}
        tasks = [(_wanted(file), partial(str, file.url)) for file in files]
        paths = fetch_all(
            tasks, cache=workspace.cache, console=workspace.console, title=name, fix=_FIX
        )
        seen |= names
        names = {need for path in paths for need in _needs(path, releases)} - seen
    return list(found.values())


def _needs(wheel: Path, releases: Iterable[str]) -> set[str]:
    with open_wheel(wheel) as opened:
        metadata = opened.archive.read(f"{opened.dist_info}/METADATA").decode("utf-8", "replace")
    required = map(Requirement, header(metadata, "requires-dist"))
    return {
        canonicalize_name(one.name)
        for one in required
        if any(applies(one.marker, release) for release in releases)
    }


def _with_sizes(
    files: Sequence[IndexFile], workspace: Workspace
) -> list[tuple[IndexFile, PinnedFile]]:
    """Ask for the sizes that the index didn't tell and that matter for room and progress."""
    stop = Stop()
    cached = [cached_path(workspace.cache, _wanted(file)) for file in files]

    def size(file: IndexFile, path: Path) -> int | None:
        if path.is_file():
            return path.stat().st_size
        return file.size or ask_size(file.url, stop)

    with workspace.console.live("asking for sizes") as line:
        line.show(f"{len(files)} files")
        pairs = zip(files, cached, strict=True)
        sizes = run_all([partial(size, file, path) for file, path in pairs], stop)
    return [(file, _wanted(file, size)) for file, size in zip(files, sizes, strict=True)]


def _wanted(file: IndexFile, size: int | None = None) -> PinnedFile:
    return PinnedFile(
        name=file.name,
        sha256=file.sha256,
        max_size=_MAX_SIZE,
        size=size,
        pinned_by="the lock",
        repin="write the lock again with `nox -s lock`",
    )


def _conda_packages(targets: Sequence[Target]) -> list[CondaPackage]:
    """Packages of the conda toolchains, and of the Pythons, which may be missing there too."""
    packages: list[CondaPackage] = []
    for target in targets:
        if target.provider != "conda":
            continue
        packages += read_conda_lock(_toolchain_lock(target)).packages
        if path := find_python_lock(target.python):
            packages += read_conda_lock(path).packages
    return packages


def _conda_file(package: CondaPackage, mirrors: Mirrors) -> _File:
    wanted = pinned_file(package)
    return _File(
        wanted=wanted,
        find_url=partial(mirrors.url_for, package.url),
        path=f"{package.subdir}/{package.file_name}",
    )


def _check_room(files: Sequence[_File], folder: Path, cache: Path) -> None:
    """Refuse before the first download what a full disk would end after the last.

    Raises:
        DiskFullError: the cache or the mirror has too little room.
    """
    cache.mkdir(parents=True, exist_ok=True)
    sizes = {file.path: file.wanted.size or 0 for file in files}
    to_fetch = [file for file in files if not cached_path(cache, file.wanted).is_file()]
    check_free_disk(cache, sum(sizes[file.path] for file in to_fetch))
    if not is_linkable(cache, folder):
        missing = [size for path, size in sizes.items() if not (folder / path).is_file()]
        check_free_disk(folder, sum(missing))


def _sorted(releases: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(releases), key=_numbers))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
