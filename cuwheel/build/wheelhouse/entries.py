"""The entries of an index: the facts about each wheel of a folder, read once per wheel."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cuwheel.base import limits
from cuwheel.base.errors import IrregularFileError, UnsafeArchiveError, WheelIndexError
from cuwheel.base.formats.wheel.archive import Wheel, check_table, open_wheel
from cuwheel.base.formats.wheel.metadata import headers, is_library, parse_requirement
from cuwheel.base.formats.wheel.publication import (
    ATTESTATIONS,
    MARKED,
    STATEMENT,
    split_mark,
    statement_of,
)
from cuwheel.base.formats.wheel.variants import VARIANT_JSON, split_variant
from cuwheel.base.system.files import sha256_of_file, stamp_of, write_atomically
from cuwheel.base.system.folders.staged_files import StagedFiles, staged_files
from cuwheel.base.system.parallel import map_all
from cuwheel.base.system.regular_files import open_within, parse_json, read_json, read_regular

METADATA = ".metadata"  # PEP 658: behind the wheel's name
_SUFFIXES = ("", STATEMENT, METADATA, ATTESTATIONS)  # of a wheel's own files
_STATEMENT, _METADATA, _ATTESTATIONS = range(1, len(_SUFFIXES))
_KNOWN = ".cuwheel/wheels.json"  # in a folder of wheels: their entries
_FORMAT = 2  # of that file
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?([+-]\d\d:\d\d)")
_UTC = "%Y-%m-%dT%H:%M:%SZ"  # as PEP 700 has it
_RELEASE = re.compile(r"\d{1,2}\.\d{1,2}")  # of CUDA
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow")
_NAMES = 1 << 15  # parsed names that are kept; 2 kB each
SMALL = 1 << 20  # bytes of a wheel that is read once: hashed and parsed in memory
_States = list[list[int]]  # of a wheel and its other files; an empty one: it isn't there
_Read = tuple[_States, "Entry"]  # states of the files, and the entry that was read of them
_Known = dict[str, _Read]  # by file name


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A wheel as an index lists it.

    Attributes:
        name: of the file.
        sha256: of the file.
        size: of the file, bytes.
        uploaded: when it was published, `2026-11-23T10:00:00Z`: as its statement says, else as the
            file's time does.
        metadata_sha256: of its METADATA, which lies beside it.
        requires_python: as METADATA has it; empty: any.
        toolkit: the CUDA release that its statement names, `13.0`; empty where there is none.
        framework: what its METADATA requires of one, `torch==2.11.*`; else as its statement names
            it; empty: none.
        has_libraries: whether it holds shared libraries.
        has_statement: whether its provenance lies beside it.
        has_attestations: whether attestations of PEP 740 lie beside it.
        variant: its `variant.json` (PEP 825); empty: it is a plain wheel.
        yanked: why nobody should take it any more (PEP 592); None: it stands.
        at: address of the folder that it is in; empty: it is where the others are.
    """

    name: str
    sha256: str
    size: int
    uploaded: str
    metadata_sha256: str
    requires_python: str
    toolkit: str = ""
    framework: str = ""
    has_libraries: bool = False
    has_statement: bool = False
    has_attestations: bool = False
    variant: str = ""
    yanked: str | None = None
    at: str = ""

    @property
    def project(self) -> str:
        """The normalised name of its project."""
        return _parse(self.name).project

    @property
    def version(self) -> Version:
        """The version."""
        return _parse(self.name).version

    @property
    def shown_version(self) -> str:
        """The version as text."""
        return _parse(self.name).shown_version

    @property
    def tags(self) -> frozenset[Tag]:
        """The tags in its name."""
        return _parse(self.name).tags

    @property
    def quoted(self) -> str:
        """The name in an address."""
        return _parse(self.name).quoted


class _Name(NamedTuple):
    """The parts of a wheel's file name."""

    project: str
    version: Version
    shown_version: str
    tags: frozenset[Tag]
    quoted: str


# Cached: each name is needed ten times, to read folder and site, to sort and to show.
@lru_cache(_NAMES)
def _parse(name: str) -> _Name:
    """Parse the name of a wheel's file; of a variant, that of its plain wheel."""
    project, version, _, tags = parse_wheel_filename(split_variant(name)[0])
    return _Name(project, version, str(version), tags, quote(name))


def read_entries(
    folder: Path,
    yanks: Mapping[str, str],
    kept: Path | None = None,
    *,
    copied: Mapping[str, Entry] | None = None,
    writes: bool = True,
) -> tuple[Entry, ...]:
    """Read all wheels of a folder, sorted by name; unchanged ones from a file of entries.

    Args:
        yanks: reasons by file name.
        kept: file of the entries; None: in the folder itself.
        copied: entries of wheels that were copied from elsewhere, by file name.
        writes: put METADATA next to each wheel, and remove that of wheels that are gone.

    Raises:
        WheelIndexError: files in it are not valid wheels; all of them are named.
    """
    path = kept or folder / _KNOWN
    # For a site of the folder, the entries that `write_index` has read.
    known = _read_known(path) or _read_known(folder / _KNOWN)
    files = file_names(folder)
    names = sorted(name for name in files if name.endswith(".whl"))
    states = {name: _states(folder, name, files) for name in names}
    same = {name: (states[name], entry) for name, entry in (copied or {}).items() if name in states}
    same |= {name: read for name, read in known.items() if read[0] == states.get(name)}
    changed = [name for name in names if name not in same]
    with staged_files(folder) if writes else contextlib.nullcontext() as staged:
        new = _read_changed(folder, {name: states[name] for name in changed}, staged)
    entries = {name: same.get(name) or (states[name], new[name]) for name in names}
    if writes:
        for name in changed:
            states[name][_METADATA] = _state(f"{folder}/{name}{METADATA}")
        _remove_metadata_of_others(folder, known, entries)
    if entries != known:
        _write_known(path, entries)
    return with_yanks((entry for _, entry in entries.values()), yanks)


def with_yanks(entries: Iterable[Entry], yanks: Mapping[str, str]) -> tuple[Entry, ...]:
    """Set the reasons why wheels were withdrawn; keep the order.

    Installers would prefer a wheel of a source given with `--source`, as its local version is
    longer; so it is withdrawn where one of the recipe's own source is listed too. Of several, they
    would prefer the one with the highest digest; so all but the newest are withdrawn.
    """
    listed = tuple(entries)
    marked = [each for each in listed if split_mark(each.version)[1]]
    pinned = {
        (each.project, each.version.public) for each in listed if not split_mark(each.version)[1]
    }
    rivals = {
        each.name
        for each in marked
        if (each.project, each.version.public) in pinned
        or any(_is_older(each, other) for other in marked if other.project == each.project)
    }
    return tuple(
        replace(each, yanked=yanks.get(each.name, MARKED if each.name in rivals else None))
        for each in listed
    )


def _is_older(entry: Entry, other: Entry) -> bool:
    """Return True if another wheel of the same version, of another source, was built later."""
    first, second = (
        (each.version.public, split_mark(each.version)[0], each.variant) for each in (entry, other)
    )
    is_same_kind = first == second and not entry.tags.isdisjoint(other.tags)
    return is_same_kind and entry.uploaded < other.uploaded


def file_names(folder: Path) -> frozenset[str]:
    """Return the names of all files in a folder; none where there is no folder."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - no Path for each
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _read_changed(
    folder: Path, wheels: Mapping[str, _States], staged: StagedFiles | None
) -> dict[str, Entry]:
    """Read wheels, and write the METADATA of each.

    Args:
        staged: for METADATA; None: it isn't written.
    """

    def read(name: str) -> Entry | str:
        try:
            entry, metadata = _read_entry(folder / name, wheels[name])
        except UnsafeArchiveError as problem:
            return problem.why
        except IrregularFileError as problem:
            return str(problem.strerror)
        except (InvalidWheelFilename, LookupError, ValueError) as problem:
            return str(problem)
        if staged:
            with staged.new_file(name + METADATA) as stream:
                stream.write(metadata)
        return entry

    sizes = [states[0][0] if states[0] else 0 for states in wheels.values()]
    results = dict(zip(wheels, map_all(read, [*wheels], sizes), strict=True))
    if faults := [f"{name}: {fault}" for name, fault in results.items() if isinstance(fault, str)]:
        raise WheelIndexError(
            f"{len(faults)} files in {folder} are not valid wheels",
            why="; ".join(faults),
            fix="remove them and build those wheels again; the index is unchanged",
        )
    return {name: entry for name, entry in results.items() if isinstance(entry, Entry)}


def _read_entry(path: Path, states: _States) -> tuple[Entry, bytes]:
    """Read the entry of a wheel, and its METADATA.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        InvalidWheelFilename: its name isn't a wheel's.
        LookupError: it has no METADATA.
        ValueError: its name and its content contradict each other.
    """
    parsed = _parse(path.name)
    sha256, status, content = _read_whole(path)
    with open_wheel(path, content) as wheel:
        check_table(wheel)
        metadata, variant = metadata_of(wheel), wheel.read_text(VARIANT_JSON)
        has_libraries = any(map(is_library, wheel.names))
    _check_variant(split_variant(path.name)[1], variant)
    fields = headers(metadata.decode("utf-8", "replace"))
    versions = [value for name, value in fields if name == "version"]
    if versions != [parsed.shown_version]:
        raise ValueError(
            f"{parsed.project} {parsed.version} by its name, version "
            f"{', '.join(versions) or 'nothing'} by its METADATA"
        )
    statement = _read_statement(path) if states[_STATEMENT] else {}
    parameters = statement.get("buildDefinition", {}).get("externalParameters", {})
    finished = str(statement.get("runDetails", {}).get("metadata", {}).get("finishedOn", ""))
    modified = datetime.datetime.fromtimestamp(status.st_mtime, tz=datetime.timezone.utc)
    entry = Entry(
        name=path.name,
        sha256=sha256,
        size=status.st_size,
        uploaded=_utc(finished) or modified.strftime(_UTC),
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=next((value for name, value in fields if name == "requires-python"), ""),
        toolkit=checked_toolkit(str(parameters.get("toolkit", ""))),
        framework=_framework(fields) or str(parameters.get("framework", "")),
        has_libraries=has_libraries,
        has_statement=bool(statement),
        has_attestations=bool(states[_ATTESTATIONS])
        and path.with_name(path.name + ATTESTATIONS).is_file(),
        variant=variant,
    )
    return entry, metadata


def _read_whole(path: Path) -> tuple[str, os.stat_result, io.BytesIO | None]:
    """Return a wheel's SHA-256 and state, and the content of a small one; else None."""
    with open_within(path, path.parent) as stream:
        status = os.fstat(stream.fileno())
        if status.st_size <= SMALL:
            content = stream.read(status.st_size)
            return hashlib.sha256(content).hexdigest(), status, io.BytesIO(content)
    return sha256_of_file(path), status, None


def metadata_of(wheel: Wheel) -> bytes:
    """Return a wheel's METADATA byte for byte: installers check its hash.

    Raises:
        LookupError: it has none.
    """
    metadata = wheel.read("METADATA")
    if metadata is None:
        raise LookupError("it has no METADATA")
    return metadata


def _check_variant(label: str, document: str) -> None:
    """Check that the name of a file and its `variant.json` have the same variant."""
    if not label and not document:
        return
    try:
        variants = tuple(parse_json(document)["variants"])
    except (ValueError, KeyError, TypeError):
        variants = ()
    if variants != (label,):
        raise ValueError(
            f"variant {label or 'none'} by its name, {', '.join(map(str, variants)) or 'none'} by "
            f"its {VARIANT_JSON}"
        )


def checked_toolkit(toolkit: str) -> str:
    """Return a CUDA release, from which a folder gets its name; empty where it is none."""
    return toolkit if _RELEASE.fullmatch(toolkit) else ""


def _framework(metadata: Iterable[tuple[str, str]]) -> str:
    """Return the framework that a wheel requires, as METADATA writes it; empty: none."""
    lines = (value for name, value in metadata if name == "requires-dist")
    for requirement in filter(None, map(parse_requirement, lines)):
        if requirement.name in _FRAMEWORKS:
            return f"{requirement.name}{requirement.specifier}"
    return ""


def _read_statement(wheel: Path) -> dict[str, Any]:
    """Read the predicate of a wheel's statement; empty where there is none about a build."""
    try:
        predicate = (read_json(statement_of(wheel)) or {})["predicate"]
        predicate["buildDefinition"]["externalParameters"].get("toolkit")
        predicate["runDetails"]["metadata"].get("finishedOn")
    except (KeyError, TypeError, AttributeError):
        return {}
    return dict(predicate)


def _utc(text: str) -> str:
    """Convert a time of ISO 8601 to PEP 700's form; empty where it is none."""
    match = _TIME.fullmatch(text.replace("Z", "+00:00"))  # Python 3.10 knows no fractions
    try:
        time = datetime.datetime.fromisoformat(f"{match[1]}{match[2]}") if match else None
        return time.astimezone(datetime.timezone.utc).strftime(_UTC) if time else ""
    except (ValueError, OverflowError):
        return ""


def _states(folder: Path, wheel: str, files: Collection[str]) -> _States:
    """Return what identifies a wheel and its other files as unchanged.

    Args:
        files: names of all files in the folder; others cost no system call.
    """
    names = (f"{wheel}{suffix}" for suffix in _SUFFIXES)
    return [_state(f"{folder}/{name}") if name in files else [] for name in names]


def _state(path: str) -> list[int]:
    try:
        return [*stamp_of(os.stat(path))]  # noqa: PTH116 - there are tens of thousands
    except FileNotFoundError:
        return []


def _read_known(path: Path) -> _Known:
    """Read entries by name; none where the file is damaged."""
    kept = read_json(path) or {}
    try:
        wheels = kept["wheels"] if kept["format"] == _FORMAT else {}
        return {
            name: (states, Entry(**entry))
            for name, (states, entry) in wheels.items()
            # A user who can write the folder could lead out of a site by either.
            if entry["name"] == name and checked_toolkit(entry["toolkit"]) == entry["toolkit"]
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_known(path: Path, known: _Known) -> None:
    wheels = {name: (states, vars(entry)) for name, (states, entry) in known.items()}
    write_atomically(path, json.dumps({"format": _FORMAT, "wheels": wheels}))


def remembered_entries(kept: Path) -> dict[str, Entry]:
    """Read the entries of `remember_entries` by file name; none where the file is damaged."""
    return {name: entry for name, (_, entry) in _read_known(kept).items()}


def remember_entries(kept: Path, entries: Iterable[Entry]) -> None:
    """Keep entries of wheels that are elsewhere."""
    _write_known(kept, {entry.name: ([], entry) for entry in entries})


def _remove_metadata_of_others(folder: Path, known: _Known, kept: Mapping[str, object]) -> None:
    """Remove the METADATA of wheels that are gone, where it was written for them."""
    for name in known.keys() - kept.keys():
        if "/" in name:
            continue  # a user who can write the folder could lead out of it
        path = folder / f"{name}{METADATA}"
        with contextlib.suppress(OSError):
            content = read_regular(path, limit=limits.METADATA)
            if hashlib.sha256(content).hexdigest() == known[name][1].metadata_sha256:
                path.unlink()
