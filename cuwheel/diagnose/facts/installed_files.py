"""The files of a distribution as its RECORD has them, beside those that are really there."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.binaries.elf import ElfFormatError, read_elf
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.record import RecordFormatError, record_digest, record_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuwheel.diagnose.facts.environment import Distribution


_ELF = b"\x7fELF"
_STRAY = frozenset({"benchmarks", "docs", "examples", "test", "tests"})  # packaged by mistake
_PIECE = 1 << 20  # bytes that are read at once


@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """A file that a distribution has installed.

    Attributes:
        path: where.
        digest: `sha256=…` as RECORD has it; empty where it has none.
        size: in bytes; None where RECORD has none.
    """

    path: Path
    digest: str
    size: int | None

    @property
    def is_library(self) -> bool:
        """Whether its name is one of a shared library."""
        return _is_library(self.path.name)


@dataclass(frozen=True, kw_only=True)
class FileFault:
    """What is wrong with an installed file.

    Attributes:
        path: the file.
        what: `isn't there`, `holds …`.
        is_damage: it can't be used; else it is merely another one than was installed.
    """

    path: Path
    what: str
    is_damage: bool


def recorded_files(distribution: Distribution) -> tuple[RecordedFile, ...]:
    """What a distribution has installed; nothing where it keeps no readable RECORD.

    conda edits libraries after their RECORD was written, and keeps hashes of its own elsewhere: of
    what it has installed, RECORD tells the names alone.
    """
    return tuple(_recorded(distribution, lambda _: True))


def module_files(distribution: Distribution) -> tuple[RecordedFile, ...]:
    """Its Python files and libraries below site-packages, without stray folders."""
    return tuple(_recorded(distribution, _is_of_module))


def _recorded(
    distribution: Distribution, is_wanted: Callable[[str], bool]
) -> Iterator[RecordedFile]:
    """The files whose path from site-packages is wanted: paths of all would cost seconds."""
    try:
        rows = record_rows(read_text(distribution.metadata / "RECORD"))
        installer = distribution.metadata / "INSTALLER"
        is_from_conda = installer.exists() and read_text(installer).strip() == "conda"
    except (OSError, UnicodeDecodeError, RecordFormatError):
        return
    for name, digest, size in rows:
        inside = os.path.relpath(name, distribution.site) if name.startswith("/") else name
        inside = os.path.normpath(inside)
        if is_wanted(inside):
            yield RecordedFile(
                path=Path(os.path.normpath(distribution.site / inside)),
                digest="" if is_from_conda else digest,
                size=int(size) if size.isdecimal() and not is_from_conda else None,
            )


def _is_library(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith(".so") or ".so." in last


def _is_of_module(inside: str) -> bool:
    first = inside.partition("/")[0]
    return (inside.endswith(".py") or _is_library(inside)) and first not in {"..", *_STRAY}


def modules_of(distribution: Distribution) -> tuple[str, ...]:
    """What a distribution is imported by; neither its own parts nor stray folders."""
    found: dict[str, None] = {}
    for file in module_files(distribution):
        parts = file.path.relative_to(distribution.site).parts
        if len(parts) == 1:
            found[parts[0].partition(".")[0]] = None
        elif len(parts) == 2 and parts[1] == "__init__.py":  # noqa: PLR2004 - folder and file
            found[parts[0]] = None
    return tuple(name for name in found if not name.startswith("_"))


def find_damaged_libraries(distribution: Distribution) -> tuple[FileFault, ...]:
    """Libraries that aren't there, were cut off or hold nothing: what shows without reading all."""
    recorded = {file.path: file for file in _recorded(distribution, _is_library)}
    plain = (RecordedFile(path=one, digest="", size=None) for one in distribution.libraries)
    files = {**{one.path: one for one in plain}, **recorded}
    found = (_glance(file) for file in files.values())
    return tuple(fault for fault in found if fault)


def verify_files(distribution: Distribution) -> tuple[FileFault, ...]:
    """Hold every file of a distribution against the hash that its RECORD has."""
    return tuple(_verify(recorded_files(distribution)))


def _glance(file: RecordedFile) -> FileFault | None:
    try:
        size = file.path.stat().st_size
        with file.path.open("rb") as stream:
            start = stream.read(len(_ELF))
    except OSError as problem:
        lost = not file.path.exists()
        what = "isn't there" if lost else f"can't be read: {problem.strerror}"
        return FileFault(path=file.path, what=what, is_damage=True)
    if file.size in (None, size):
        if size and not start.strip(b"\0"):
            return FileFault(path=file.path, what="starts with zero bytes", is_damage=True)
        return None
    what = f"has {size} bytes, in its wheel it has {file.size}"
    return FileFault(path=file.path, what=what, is_damage=not _is_whole(file.path))


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            elf = read_elf(stream)
            end = max((one.offset + one.size for one in elf.sections), default=0)
    except (OSError, ElfFormatError, struct.error):
        return False
    return end <= path.stat().st_size


def _verify(files: tuple[RecordedFile, ...]) -> Iterator[FileFault]:
    for file in files:
        algorithm, _, expected = file.digest.partition("=")
        if not expected or algorithm not in hashlib.algorithms_guaranteed:
            continue
        try:
            digest = digest_of(file.path, algorithm)
            holds_nothing = digest != file.digest and _holds_zeros(file.path)
        except OSError as problem:
            what = "isn't there" if not file.path.exists() else f"can't be read: {problem.strerror}"
            yield FileFault(path=file.path, what=what, is_damage=True)
            continue
        if digest != file.digest:
            is_damage = file.is_library or holds_nothing
            what = "differs from the file in its wheel"
            yield FileFault(path=file.path, what=what, is_damage=is_damage)


def digest_of(path: Path, algorithm: str) -> str:
    """The hash of a file as RECORD has it.

    Raises:
        OSError: it can't be read.
    """
    made = hashlib.new(algorithm)
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            made.update(piece)
    return record_digest(algorithm, made.digest())


def _holds_zeros(path: Path) -> bool:
    """Whether a file is empty or has zero bytes, as texts never do."""
    with path.open("rb") as stream:
        pieces = iter(lambda: stream.read(_PIECE), b"")
        first = next(pieces, b"")
        return not first or b"\0" in first or any(b"\0" in piece for piece in pieces)
