"""A wheel without the device code of other GPUs.

The driver searches each fat binary of `.nv_fatbin` for the code that fits its GPU, up to the size
in the fat binary's header. So the code that stays is moved to the beginning of its fat binary, the
header gets the new size, and the rest becomes zeros, which need no space in the wheel. No other
byte of a library changes and nothing moves: the dynamic loader sees the same file. Installed, it
is as large as before.
"""

from __future__ import annotations

import calendar
import contextlib
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.base.errors import AuditError, UsageError
from cuwheel.base.formats.binaries.archs import DeviceCode, runs_on, sort_archs
from cuwheel.base.formats.binaries.device_code import Element, elements_of
from cuwheel.base.formats.binaries.elf import is_elf, read_elf
from cuwheel.base.formats.binaries.elf_image import ElfFormatError
from cuwheel.base.formats.binaries.fatbin import (
    LOADED_SECTION,
    PTX,
    SASS,
    ElementPlace,
    Fatbin,
    FatbinFormatError,
    code_of,
    element_places,
    hop_fatbins,
    kinds_for_gpu,
    write_fatbin,
)
from cuwheel.base.formats.wheel.archive import open_wheel, pack, unpack_wheel
from cuwheel.base.formats.wheel.metadata import dist_info_of, header, rename
from cuwheel.base.formats.wheel.record import SIGNATURES
from cuwheel.base.formats.wheel.variants import VARIANT_JSON
from cuwheel.base.system.files import check_free_disk, list_tree, new_file
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.regular_files import open_file

_CHUNK = 1 << 20  # bytes
_GPU = re.compile(r"sm\d+")  # part of a version that `slim` has written before


@dataclass(frozen=True, kw_only=True)
class SlimLibrary:
    """A library whose device code was reduced.

    Attributes:
        size: of its device code before, bytes.
        kept: of what stays, bytes.
    """

    name: str
    before: DeviceCode
    after: DeviceCode
    size: int
    kept: int


@dataclass(frozen=True, kw_only=True)
class SlimWheel:
    """A reduced wheel.

    Attributes:
        license: what its metadata say.
    """

    path: Path
    libraries: tuple[SlimLibrary, ...]
    license: str


def slim_wheel(wheel: Path, gpus: Sequence[str], folder: Path) -> SlimWheel:
    """Write a wheel with the device code for some GPUs only into a folder.

    Each fat binary keeps, for each GPU, the machine code that is nearest to it, or else the newest
    PTX that it can compile; one with neither keeps its smallest element, since none is ever empty.

    Args:
        gpus: compute capabilities, `90`.

    Raises:
        UsageError: it is signed, has a variant's name, lacks code for a GPU, or has no other code.
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        AuditError: what was written isn't what it should be.
    """
    wheel = wheel.resolve()  # a link's name has no tags
    metadata, time, size = _checked(wheel)
    with _made(folder), temporary_folder(folder) as scratch:
        check_free_disk(folder, size + wheel.stat().st_size)
        content, packed = scratch / "content", scratch / "packed"
        content.mkdir()
        unpack_wheel(wheel, content)
        code = {name: _fatbins(content / name) for name in list_tree(content)}
        _check_gpus(wheel.name, gpus, [fatbin for found in code.values() for fatbin in found])
        libraries = tuple(
            _slim_library(content / name, name.as_posix(), fatbins, gpus)
            for name, fatbins in code.items()
            if fatbins
        )
        if all(library.kept == library.size for library in libraries):
            raise UsageError(
                f"{wheel.name} has no device code of other GPUs",
                why=f"every fat binary is needed for {_names(gpus)}",
                fix="use the wheel as it is",
            )
        rename(content, version=_version(header(metadata, "Version")[0], gpus))
        pack(content, packed, epoch=time)
        stem = dist_info_of(content).name.removesuffix(".dist-info")
        path = folder / "-".join((stem, *wheel.name.split("-")[2:]))  # the tags of its name count
        with open_file(packed) as source, new_file(path) as stream:
            while piece := source.read(_CHUNK):
                stream.write(piece)
    classifiers = header(metadata, "Classifier")
    stated = [
        *header(metadata, "License-Expression"),
        *header(metadata, "License"),
        *(name.rpartition(" :: ")[2] for name in classifiers if name.startswith("License ::")),
        "not stated",
    ]
    return SlimWheel(path=path, libraries=libraries, license=stated[0].splitlines()[0])


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder; one that is new and still empty at the end is removed."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it isn't empty
                folder.rmdir()


def _checked(wheel: Path) -> tuple[str, int, int]:
    """Return a wheel's METADATA, their time, seconds since 1970, and its unpacked size, bytes.

    Raises UsageError for a wheel that must stay as it is.
    """
    try:
        parse_wheel_filename(wheel.name)
    except (InvalidWheelFilename, InvalidVersion) as problem:
        raise UsageError(
            f"{wheel.name} is not the name of a wheel",
            why=str(problem),
            fix="give the file the name under which the index has it: its tags count",
        ) from None
    with open_wheel(wheel) as opened:
        for name in (*SIGNATURES, VARIANT_JSON):
            if f"{opened.dist_info}/{name}" in opened.names:
                raise UsageError(
                    f"{wheel.name} has a file {name}, which would no longer be true",
                    why="a signature is valid for these bytes only, and a variant's name has archs",
                    fix="take the package's plain wheel",
                )
        time = opened.archive.getinfo(f"{opened.dist_info}/METADATA").date_time
        size = sum(entry.file_size for entry in opened.archive.infolist())
        metadata = opened.read_text("METADATA")
    return metadata, calendar.timegm((*time, 0, 0, 0)), size


def _fatbins(path: Path) -> tuple[Fatbin, ...]:
    """Return the fat binaries that the driver gets of a file; none if it is no library."""
    with open_file(path) as stream:
        if not is_elf(stream):
            return ()
        try:
            section = read_elf(stream).section(LOADED_SECTION)
            return hop_fatbins(stream, section) if section else ()
        except (ElfFormatError, FatbinFormatError) as problem:
            raise UsageError(
                f"{path.name} can't be reduced",
                why=str(problem),
                fix="run `audit` on the wheel: a damaged library is an error there",
            ) from None


def _check_gpus(wheel: str, gpus: Iterable[str], fatbins: Iterable[Fatbin]) -> None:
    code = code_of(fatbins)
    for gpu in gpus:
        if not runs_on(code, gpu):
            known = sort_archs((*code.sass, *code.ptx))
            raise UsageError(
                f"{wheel} has no device code that sm_{gpu} runs",
                why=f"it has {_names(known)}" if known else "it has no device code",
                fix="choose GPUs that it serves with --arch"
                if known
                else "it fits every GPU already",
            )


def _slim_library(
    path: Path, name: str, fatbins: tuple[Fatbin, ...], gpus: Sequence[str]
) -> SlimLibrary:
    """Reduce a library's fat binaries in place, and prove that the rest is as it was."""
    with path.open("r+b") as stream:
        places = {fatbin: tuple(element_places(stream, fatbin)) for fatbin in fatbins}
        chosen = {fatbin: _chosen(places[fatbin], gpus) for fatbin in fatbins}
        expected = _outside(stream, fatbins), _kept_code(stream, fatbins, chosen)
        for fatbin in fatbins:
            if chosen[fatbin] != places[fatbin]:
                write_fatbin(stream, fatbin, chosen[fatbin])
        after = tuple(_reread(stream, fatbin) for fatbin in fatbins)
        if expected != (_outside(stream, fatbins), [*map(_identity, elements_of(stream, after))]):
            raise AuditError(
                f"{name} was not reduced correctly, and no wheel was written",
                why="the code that stays, or something else in the file, has changed",
                fix="report it, with the wheel's name",
            )
    return SlimLibrary(
        name=name,
        before=code_of(fatbins),
        after=code_of(after),
        size=sum(place.size for of_one in places.values() for place in of_one),
        kept=sum(place.size for of_one in chosen.values() for place in of_one),
    )


def _chosen(places: Sequence[ElementPlace], gpus: Iterable[str]) -> tuple[ElementPlace, ...]:
    """Return the elements of a fat binary that some GPUs need, in the file's order."""
    kinds = {place.element for place in places}
    needed = {kind for kind in kinds if kind.kind not in (SASS, PTX)}.union(
        *(kinds_for_gpu(kinds, gpu) for gpu in gpus)
    )
    chosen = tuple(place for place in places if place.element in needed)
    return chosen or tuple(sorted(places, key=lambda place: place.size)[:1])


def _reread(stream: IO[bytes], fatbin: Fatbin) -> Fatbin:
    elements = frozenset(place.element for place in element_places(stream, fatbin))
    return fatbin._replace(elements=elements)


def _outside(stream: IO[bytes], fatbins: Iterable[Fatbin]) -> str:
    """Return the SHA-256 of all bytes of a file that belong to no fat binary."""
    digest, offset = hashlib.sha256(), 0
    end_of_file = stream.seek(0, io.SEEK_END)
    for begin, end in (*((f.offset, f.padded_end) for f in fatbins), (end_of_file, end_of_file)):
        stream.seek(offset)
        while piece := stream.read(min(_CHUNK, begin - stream.tell())):
            digest.update(piece)
        offset = end
    return digest.hexdigest()


def _kept_code(
    stream: IO[bytes],
    fatbins: tuple[Fatbin, ...],
    chosen: dict[Fatbin, tuple[ElementPlace, ...]],
) -> list[tuple[object, ...]]:
    """Return the identities of the chosen elements, before anything is written."""
    kept = {place for places in chosen.values() for place in places}
    places = [place for fatbin in fatbins for place in element_places(stream, fatbin)]
    elements = elements_of(stream, fatbins)
    pairs = zip(places, elements, strict=True)
    return [_identity(element) for place, element in pairs if place in kept]


def _identity(element: Element) -> tuple[object, ...]:
    """Return all that is known of an element but its offset."""
    return element._replace(offset=0)


def _version(version: str, gpus: Iterable[str]) -> str:
    """Return a version whose local part names the GPUs: `1.0+cu130.sm90`."""
    parsed = Version(version)
    parts = (parsed.local or "").split(".")
    local = [part for part in parts if part and not _GPU.fullmatch(part)]
    return f"{parsed.public}+{'.'.join([*local, *(f'sm{gpu}' for gpu in gpus)])}"


def _names(archs: Iterable[str]) -> str:
    return ", ".join(f"sm_{arch}" for arch in archs)
