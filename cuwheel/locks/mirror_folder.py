"""A full mirror on disk: files under their final names, indexes, manifest, and how to use it.

linux-64/, noarch/        conda packages with repodata.json: a channel
wheels/, simple/          wheels and their package index (PEP 503)
downloads/<hash>/<name>   sources and resources, as in the cache
cuwheel/, projects/       the project itself, and recipe folders from outside of it
mirror.json               path, SHA-256 and size of every file, and the targets it serves
README.txt                how to use it
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rattler.exceptions
import rattler.index

from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import FileAccessError, WheelIndexError
from cuwheel.fetch.mirrors import MANIFEST, MIRRORS_VARIABLE, SIMPLE, WHEELS
from cuwheel.sources.tree import copy_source, epoch_of, settle
from cuwheel.system.files import (
    list_tree,
    new_folder,
    remove_leftovers,
    sha256_of_file,
    write_atomically,
)
from cuwheel.version import __version__
from cuwheel.wheel.index import write_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


README = "README.txt"
PROJECT = "cuwheel"
PROJECTS = "projects"

_PART = ".part"  # suffix of a copy that isn't complete
# What a checkout holds that builds need or people read; not its tests, caches and results.
_COPIED = (
    *("noxfile.py", "pyproject.toml", "cuwheel", "recipes", "envs", "patches"),
    *("README.md", "TROUBLESHOOTING.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs"),
)
_ROOT_COPIED = ("recipes", "envs", "patches")
_COPIES = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP)


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A file of the mirror: its path below the folder, SHA-256 and bytes."""

    path: str
    sha256: str
    size: int


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `mirror.json` says; empty parts where there is none yet.

    Raises:
        FileAccessError: there is one that can't be understood.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return {"targets": {}, "files": {}}
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        manifest["targets"].items()
        manifest["files"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FileAccessError(
            f"{path} can't be understood",
            why="it isn't what `nox -s mirror` writes",
            fix="name another folder with --to, or remove that file: the mirror is checked and "
            "completed then",
        ) from None
    return manifest


def place(source: Path, folder: Path, path: str, sha256: str = "") -> Placed:
    """Put a checked file into the mirror: as a hard link, or as a copy on another disk.

    What is there already and is the same stays as it is.

    Args:
        source: the file; its content was checked.
        folder: the mirror.
        path: its place there.
        sha256: of the file; computed where it isn't known.

    Raises:
        OSError: it can't be written.
    """
    final = folder / path
    digest = sha256 or sha256_of_file(source)
    size = source.stat().st_size
    if not _is_there(source, final, digest):
        final.parent.mkdir(parents=True, exist_ok=True)
        _put(source, final)
    return Placed(path=path, sha256=digest, size=size)


def _is_there(source: Path, final: Path, sha256: str) -> bool:
    if not final.is_file():
        return False
    same_size = final.stat().st_size == source.stat().st_size
    return final.samefile(source) or (same_size and sha256_of_file(final) == sha256)


def _put(source: Path, final: Path) -> None:
    for leftover in final.parent.glob(f".{final.name}.*{_PART}"):  # of a run that was killed
        leftover.unlink()
    aside = Path(tempfile.mktemp(dir=final.parent, prefix=f".{final.name}.", suffix=_PART))  # noqa: S306 - link() and open("x") refuse what is there
    try:
        _link_or_copy(source, aside)
        aside.chmod(0o644)
        aside.replace(final)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _link_or_copy(source: Path, aside: Path) -> None:
    try:
        os.link(source, aside)
    except OSError as problem:
        if problem.errno not in _COPIES:
            raise
        with source.open("rb") as reading, aside.open("xb") as writing:
            shutil.copyfileobj(reading, writing)


def is_linkable(cache: Path, folder: Path) -> bool:
    """Whether files of the cache take no room of their own in the mirror."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache) as probe:
        aside = folder / Path(probe.name).name
        with contextlib.suppress(OSError):
            os.link(probe.name, aside)
            aside.unlink()
            return True
    return False


def write_indexes(folder: Path) -> None:
    """Write the package index of the wheels, and the channel's index of the conda packages.

    Raises:
        WheelIndexError: a file is no wheel, or no conda package.
    """
    if (folder / WHEELS).is_dir():
        write_index(folder / WHEELS, folder / SIMPLE)
    if not list(folder.glob("*/*.conda")) and not list(folder.glob("*/*.tar.bz2")):
        return
    (folder / "noarch").mkdir(exist_ok=True)  # a channel has to have one
    try:
        asyncio.run(rattler.index.index_fs(folder, write_zst=True, write_shards=False))
    except Exception as problem:  # rattler raises classes of its own, and plain ones
        raise WheelIndexError(
            f"the channel index of {folder} can't be written",
            why=f"rattler says: {' '.join(str(problem).split())}",
            fix="remove the file that it names and run the same command again",
        ) from problem


def copy_project(root: Path, folder: Path, sources: Iterable[str]) -> None:
    """Put the project into the mirror, in place of an older copy.

    Args:
        root: the project folder.
        folder: the mirror.
        sources: folders of the project that are the source of a recipe, relative to it.
    """
    _copy(root, folder / PROJECT, _COPIED, sources)


def copy_recipes(root: Path, folder: Path, sources: Iterable[str]) -> None:
    """Put a folder with recipes of its own, locks and patches into the mirror.

    Args:
        root: the project folder.
        folder: the mirror.
        sources: folders of the project that are the source of a recipe, relative to it.
    """
    _copy(root, folder / PROJECTS / root.name, _ROOT_COPIED, sources)


def _copy(root: Path, final: Path, names: Iterable[str], sources: Iterable[str]) -> None:
    remove_leftovers(final)
    skipped = shutil.ignore_patterns("__pycache__", ".*")
    with new_folder(final) as aside:
        for source in (root / name for name in names):
            if source.is_dir():
                shutil.copytree(source, aside / source.name, ignore=skipped, symlinks=True)
            elif source.is_file():
                shutil.copyfile(source, aside / source.name)
        for path in sources:
            epoch = epoch_of(root / path)
            copy_source(root / path, aside / path)
            # The copy has no commit to take the time from, and has to give the same wheel.
            settle(aside / path, epoch)


def write_manifest(
    folder: Path, placed: Sequence[Placed], targets: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Write README and manifest: what was there, what came, and the rest of the folder.

    Args:
        folder: the mirror.
        placed: the files that came or were there already.
        targets: what it serves now too.

    Returns:
        The manifest.
    """
    before = read_manifest(folder)
    every = {**before["targets"], **targets}
    write_atomically(folder / README, _readme(every, folder))
    known = {file.path: {"sha256": file.sha256, "size": file.size} for file in placed}
    files = {}
    for path in map(str, list_tree(folder)):
        if path == MANIFEST or Path(path).name.startswith("."):
            continue
        kept = known.get(path) or _kept(folder / path, before["files"].get(path))
        files[path] = kept or _facts(folder / path)
    manifest = {"written_by": f"cuwheel {__version__}", "targets": every, "files": files}
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return manifest


def _kept(path: Path, facts: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the last manifest said of a large file that no index or copy replaces."""
    is_payload = path.suffix in {".whl", ".conda", ".bz2", ".pack", ".tar", ".gz"}
    return facts if facts and is_payload and path.stat().st_size == facts["size"] else None


def _facts(path: Path) -> dict[str, Any]:
    return {"sha256": sha256_of_file(path), "size": path.stat().st_size}


def build_command(name: str, facts: Mapping[str, Any]) -> str:
    """What builds a target from the folder; with the provider where it isn't the usual one.

    Args:
        name: of the target, `bitsandbytes-122`.
        facts: what the manifest says of it.
    """
    usual = toolkit_by_release(name.rpartition("-")[2]).provider
    provider = facts["toolchain"]
    chosen = f" --toolchain {provider}" if provider != usual else ""
    return f"nox -s build-{name} -- --offline{chosen}"


def _readme(targets: Mapping[str, Mapping[str, Any]], folder: Path) -> str:
    names = sorted(targets)
    pythons = sorted({python for facts in targets.values() for python in facts["pythons"]})
    outside = sorted(path.name for path in (folder / PROJECTS).glob("*"))
    own = [f"    export CUWHEEL_PROJECT=$PWD/{PROJECTS}/{name}" for name in outside]
    return "\n".join(
        [
            f"Everything that cuwheel needs to build: {', '.join(names)}",
            f"with Python {', '.join(pythons)}. No network is needed.",
            "",
            "Once, in this folder, with one of these Pythons:",
            "",
            "    python3 -m venv ~/nox",
            f"    ~/nox/bin/pip install --no-index --find-links {WHEELS} nox",
            "",
            "Then, still in this folder (a path with blanks has to be written with %20):",
            "",
            f"    export {MIRRORS_VARIABLE}=file://$PWD",
            *own,
            f"    cp -r {PROJECT} ~/{PROJECT} && cd ~/{PROJECT}",
            *(f"    ~/nox/bin/{build_command(name, targets[name])}" for name in names),
            "",
            "Served by an intranet server, the folder's address takes the place of file://$PWD,",
            "and --offline is left out. mirror.json lists every file with its SHA-256; what is",
            f"built is checked against the locks in {PROJECT}/envs anyway.",
            f"More: {PROJECT}/docs/how-to/offline.md",
            "",
        ]
    )
