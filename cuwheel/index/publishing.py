"""Wheels of several folders become a site's: each with what lies beside it, none ever changed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.errors import PublishedWheelError, UsageError, WheelIndexError
from cuwheel.index.entries import ATTESTATIONS, METADATA, SMALL, file_names, metadata_of
from cuwheel.system.parallel import map_all
from cuwheel.system.regular_files import read_regular
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.publication import REBUILT, STATEMENT
from cuwheel.wheel.staged_files import staged_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from cuwheel.index.entries import Entry
    from cuwheel.wheel.staged_files import StagedFiles

_CHUNK = 1 << 20  # bytes
_PART_WHEELS, _PART_SIZE = 2500, 4 << 30  # number and bytes of wheels that are published at once


def merged(sources: Mapping[Path, Sequence[Entry]]) -> dict[str, tuple[Path, Entry]]:
    """All wheels by name, with their folder.

    Raises:
        UsageError: one name, different bytes.
    """
    found: dict[str, tuple[Path, Entry]] = {}
    for folder, entries in sources.items():
        for entry in entries:
            other, there = found.setdefault(entry.name, (folder, entry))
            if there.sha256 != entry.sha256:
                raise UsageError(
                    f"two folders have different wheels with the name {entry.name}",
                    why=f"SHA-256 {there.sha256} in {other}, {entry.sha256} in {folder}",
                    fix="publish one of them; a rebuilt wheel gets a build tag automatically "
                    "when it is built with the same --dist",
                )
    return found


def check_unchanged(
    found: Mapping[str, tuple[Path, Entry]], published: Mapping[str, Entry]
) -> None:
    """See that what is published has the same bytes still.

    Raises:
        PublishedWheelError: other bytes have the name.
    """
    changed = [
        f"{name}: {published[name].sha256} is published, {entry.sha256} is in {folder}"
        for name, (folder, entry) in found.items()
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
    found: Mapping[str, tuple[Path, Entry]], files: Path, published: Mapping[str, Entry]
) -> None:
    """Put new wheels, and what belongs to them, into a folder; a part of them is there at once.

    Args:
        found: the wheels by name, each with its folder.
        files: where to; the caller holds a lock of it.
        published: those that are there.

    Raises:
        WheelIndexError: one has changed since it was read.
        OSError: a file can't be read or written.
    """
    there = {folder: file_names(folder) for folder in {folder for folder, _ in found.values()}}
    for names in _parts(found):
        with staged_files(files) as staged:

            def publish_one(name: str) -> None:
                folder, entry = found[name]
                for beside in (f"{name}{STATEMENT}", f"{name}{ATTESTATIONS}"):
                    if beside in there[folder]:
                        _copy_changed(folder / beside, files, staged)
                if name not in published:
                    content = _copy(folder / name, staged, entry.sha256)
                    has_metadata = f"{name}{METADATA}" in there[folder]
                    metadata = _metadata_beside(folder / name, entry) if has_metadata else None
                    with staged.new_file(f"{name}{METADATA}") as stream:
                        stream.write(metadata or _metadata_inside(folder / name, content))

            map_all(publish_one, names, [found[name][1].size for name in names])
    with staged_files(files) as staged:
        for folder, others in there.items():
            for name in others:
                wheel, rebuilt, _ = name.partition(REBUILT)
                if rebuilt and wheel in found and name.endswith(".json"):
                    _copy_changed(folder / name, files, staged)


def _parts(found: Mapping[str, tuple[Path, Entry]]) -> Iterator[list[str]]:
    """Wheels in parts that are small enough to be done again after a kill."""
    part: list[str] = []
    size = 0
    for name, (_, entry) in found.items():
        part.append(name)
        size += entry.size
        if len(part) >= _PART_WHEELS or size >= _PART_SIZE:
            yield part
            part, size = [], 0
    yield part


def _metadata_beside(wheel: Path, entry: Entry) -> bytes | None:
    """METADATA that lies beside a wheel; None where it isn't the wheel's."""
    with contextlib.suppress(OSError):
        beside = read_regular(wheel.with_name(f"{wheel.name}{METADATA}"), limit=limits.METADATA)
        if hashlib.sha256(beside).hexdigest() == entry.metadata_sha256:
            return beside
    return None


def _metadata_inside(wheel: Path, content: bytes | None) -> bytes:
    with open_wheel(wheel, None if content is None else io.BytesIO(content)) as archive:
        return metadata_of(archive)


def _copy_changed(source: Path, files: Path, staged: StagedFiles) -> None:
    """Copy a file, if there is one; where it is there already with its size and time, it stays."""
    state = _size_and_time(source)
    if state and state != _size_and_time(files / source.name):
        _copy(source, staged)


def _size_and_time(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_size, state.st_mtime_ns


def _copy(source: Path, staged: StagedFiles, sha256: str = "") -> bytes | None:
    """Copy a file with its time.

    Returns:
        Its content, where it is small; None where it isn't.

    Raises:
        WheelIndexError: it isn't the file any more whose hash is given.
    """
    digest = hashlib.sha256()
    content: bytes | None = b""
    with source.open("rb") as stream, staged.new_file(source.name) as written:
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
