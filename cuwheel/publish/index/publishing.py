"""Copies of wheels and their companion files into a site, where none is ever changed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cuwheel.base import limits
from cuwheel.base.errors import PublishedWheelError, UsageError, WheelIndexError
from cuwheel.base.formats.wheel.archive import open_wheel
from cuwheel.base.formats.wheel.publication import ATTESTATIONS, REBUILT, STATEMENT
from cuwheel.base.system.folders.staged_files import StagedFiles, staged_files
from cuwheel.base.system.parallel import map_all
from cuwheel.base.system.regular_files import open_within, read_regular, too_large
from cuwheel.build.wheelhouse.entries import (
    METADATA,
    SMALL,
    Entry,
    file_names,
    metadata_of,
    read_entries,
)
from cuwheel.build.wheelhouse.yanks import read_yanks

_CHUNK = 1 << 20  # bytes


def folder_key(folder: Path) -> str:
    """Return a name for a folder in caches."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def read_wheels(folders: Iterable[Path], cache: Path) -> dict[str, tuple[Path, Entry]]:
    """Read all wheels of some folders by name, with their folder.

    Args:
        cache: folder with the facts of wheels that were read before.

    Raises:
        UsageError: one name, different bytes.
    """
    sources = {}
    for folder in folders:
        facts = cache / f"{folder_key(folder)}.json"
        sources[folder] = read_entries(folder, read_yanks(folder), facts, writes=False)
    return merged(sources)


def merged(sources: Mapping[Path, Sequence[Entry]]) -> dict[str, tuple[Path, Entry]]:
    """Return all wheels by name, with their folder.

    Raises:
        UsageError: one name, different bytes.
    """
    wheels: dict[str, tuple[Path, Entry]] = {}
    for folder, entries in sources.items():
        for entry in entries:
            other, first = wheels.setdefault(entry.name, (folder, entry))
            if first.sha256 != entry.sha256:
                raise UsageError(
                    f"two folders have different wheels with the name {entry.name}",
                    why=f"SHA-256 {first.sha256} in {other}, {entry.sha256} in {folder}",
                    fix="publish one of them; a rebuilt wheel gets a build tag automatically "
                    "when it is built with the same --dist",
                )
    return wheels


def check_unchanged(
    wheels: Mapping[str, tuple[Path, Entry]], published: Mapping[str, Entry]
) -> None:
    """Check that published wheels have the same bytes.

    Raises:
        PublishedWheelError: other bytes have the name.
    """
    changed = [
        f"{name}: {published[name].sha256} is published, {entry.sha256} is in {folder}"
        for name, (folder, entry) in wheels.items()
        if name in published and published[name].sha256 != entry.sha256
    ]
    if changed:
        raise PublishedWheelError(
            f"{len(changed)} wheels are published with other bytes",
            why="; ".join(changed),
            fix="build again with the folder of the published wheels as --dist: the new wheel "
            "gets an unused build tag",
        )


def publish(
    wheels: Mapping[str, tuple[Path, Entry]], files: Path, published: Mapping[str, Entry]
) -> None:
    """Copy new wheels with their companion files into a folder that the caller has locked.

    If one fails, none is there.

    Raises:
        WheelIndexError: one has changed since it was read.
        OSError: a file can't be read or written.
    """
    names_in = {folder: file_names(folder) for folder in {folder for folder, _ in wheels.values()}}
    with staged_files(files) as staged:

        def publish_one(name: str) -> None:
            folder, entry = wheels[name]
            for companion in (f"{name}{STATEMENT}", f"{name}{ATTESTATIONS}"):
                if companion in names_in[folder]:
                    _copy_changed(folder / companion, files, staged)
            if name not in published:
                content = _copy(folder / name, staged, entry.sha256)
                has_metadata = f"{name}{METADATA}" in names_in[folder]
                metadata = _metadata_next_to(folder / name, entry) if has_metadata else None
                with staged.new_file(f"{name}{METADATA}") as stream:
                    stream.write(metadata or _metadata_of(folder / name, content))

        map_all(publish_one, [*wheels], [entry.size for _, entry in wheels.values()])
        for folder, others in names_in.items():
            for name in others:
                wheel, rebuilt, _ = name.partition(REBUILT)
                if rebuilt and wheel in wheels and name.endswith(".json"):
                    _copy_changed(folder / name, files, staged)


def _metadata_next_to(wheel: Path, entry: Entry) -> bytes | None:
    """Return the METADATA file next to a wheel; None where it isn't the wheel's."""
    with contextlib.suppress(OSError):
        metadata = read_regular(wheel.with_name(f"{wheel.name}{METADATA}"), limit=limits.METADATA)
        if hashlib.sha256(metadata).hexdigest() == entry.metadata_sha256:
            return metadata
    return None


def _metadata_of(wheel: Path, content: bytes | None) -> bytes:
    with open_wheel(wheel, None if content is None else io.BytesIO(content)) as archive:
        return metadata_of(archive)


def _copy_changed(source: Path, files: Path, staged: StagedFiles) -> None:
    """Copy a file, if it exists and the copy has another size or time."""
    state = _size_and_time(source)
    if state and state[0] > limits.JSON:
        raise too_large(source, limits.JSON)
    if state and state != _size_and_time(files / source.name):
        _copy(source, staged)


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_size, state.st_mtime_ns


def _copy(source: Path, staged: StagedFiles, sha256: str = "") -> bytes | None:
    """Copy a file with its time, and return its content if it is small."""
    digest = hashlib.sha256()
    content: bytes | None = b""
    with open_within(source, source.parent) as stream, staged.new_file(source.name) as written:
        state = os.fstat(stream.fileno())
        while piece := stream.read(min(_CHUNK, state.st_size + 1)):
            content = piece if content == b"" and len(piece) < SMALL else None
            digest.update(piece)
            written.write(piece)
        if sha256 and digest.hexdigest() != sha256:
            raise WheelIndexError(
                f"{source.name} changed while it was being published",
                why=f"its SHA-256 was {sha256}, it is {digest.hexdigest()}",
                fix="wait until the process that writes it has ended, and publish again",
            )
        written.flush()  # which sets its time, too
        os.utime(written.fileno(), ns=(state.st_atime_ns, state.st_mtime_ns))
    return content
