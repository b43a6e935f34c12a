"""What an index says of each wheel of a folder."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import json
import os
import re
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel.errors import UnsafeArchiveError, WheelIndexError
from cuwheel.system.files import sha256_of_file, write_atomically
from cuwheel.system.parallel import map_all
from cuwheel.system.regular_files import read_json
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.metadata import headers, parse_requirement
from cuwheel.wheel.publication import STATEMENT, statement_of
from cuwheel.wheel.staged_files import staged_files
from cuwheel.wheel.variants import VARIANT_JSON, split_variant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from packaging.tags import Tag
    from packaging.version import Version

    from cuwheel.wheel.archive import Wheel
    from cuwheel.wheel.staged_files import StagedFiles

METADATA = ".metadata"  # PEP 658: behind the wheel's name
ATTESTATIONS = ".provenance"  # PEP 740: likewise; whoever attests puts it there
_BESIDE = ("", STATEMENT, METADATA, ATTESTATIONS)  # what an index knows a wheel by
_STATEMENT, _METADATA, _ATTESTATIONS = range(1, len(_BESIDE))
_KNOWN = ".cuwheel/wheels.json"  # in a folder of wheels: what was read of them
_FORMAT = 2  # of that file
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?([+-]\d\d:\d\d)")
_UTC = "%Y-%m-%dT%H:%M:%SZ"  # as PEP 700 has it
_RELEASE = re.compile(r"\d{1,2}\.\d{1,2}")  # of CUDA
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow")
_NAMES = 1 << 15  # wheels' names that are kept taken apart; 2 kB each
SMALL = 1 << 20  # bytes of a wheel that is read once: hashed and taken apart in memory
_States = list[list[int]]  # of a wheel and what is beside it; an empty one: it isn't there
_Read = tuple[_States, "Entry"]  # states of the files, and what was read of them
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
        """Its version."""
        return _parse(self.name).version

    @property
    def shown_version(self) -> str:
        """Its version as text."""
        return _parse(self.name).shown_version

    @property
    def tags(self) -> frozenset[Tag]:
        """What its name says that it is for."""
        return _parse(self.name).tags

    @property
    def quoted(self) -> str:
        """Its name in an address."""
        return _parse(self.name).quoted


class _Name(NamedTuple):
    """What the name of a wheel's file says."""

    project: str
    version: Version
    shown_version: str
    tags: frozenset[Tag]
    quoted: str


# Read from the folder and from the site, sorted and shown: each name is needed ten times.
@lru_cache(_NAMES)
def _parse(name: str) -> _Name:
    """What the name of a wheel's file says; of a variant, what its plain wheel's says."""
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
    """All wheels of a folder, sorted by name.

    A wheel that hasn't changed since it was read isn't read again.

    Args:
        folder: with the wheels.
        yanks: reasons by file name.
        kept: file with what was read before; None: in the folder itself.
        copied: what is known of wheels that were copied here with their METADATA.
        writes: put METADATA beside each wheel, and remove that of wheels that are gone.

    Raises:
        WheelIndexError: files in it are not valid wheels; all of them are named.
    """
    memory = kept or folder / _KNOWN
    # What `write_index` has read of the folder needn't be read again for a site of it.
    known = _read_known(memory) or _read_known(folder / _KNOWN)
    there = file_names(folder)
    names = sorted(name for name in there if name.endswith(".whl"))
    states = {name: _states(folder, name, there) for name in names}
    same = {name: (states[name], one) for name, one in (copied or {}).items() if name in states}
    same |= {name: one for name, one in known.items() if one[0] == states.get(name)}
    changed = [name for name in names if name not in same]
    with staged_files(folder) if writes else contextlib.nullcontext() as staged:
        new = _read_changed(folder, {name: states[name] for name in changed}, staged)
    found = {name: same.get(name) or (states[name], new[name]) for name in names}
    if writes:
        for name in changed:
            states[name][_METADATA] = _state(f"{folder}/{name}{METADATA}")
        _remove_metadata_of_others(folder, there, found)
    if found != known:
        _write_known(memory, found)
    return tuple(
        replace(one, yanked=yanks[name]) if name in yanks else one
        for name, (_, one) in found.items()
    )


def file_names(folder: Path) -> frozenset[str]:
    """The names of all that is in a folder; none where there is no folder."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - no Path for each
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _read_changed(
    folder: Path, wheels: Mapping[str, _States], staged: StagedFiles | None
) -> dict[str, Entry]:
    """Read wheels; the METADATA of each is put where it gets its name beside the wheel, if at all.

    Args:
        folder: that holds them.
        wheels: states by name.
        staged: where METADATA is put; None: nowhere.

    Raises:
        WheelIndexError: some are not valid.
    """

    def read_one(name: str) -> Entry | str:
        try:
            entry, metadata = _read_entry(folder / name, wheels[name])
        except UnsafeArchiveError as problem:
            return problem.why
        except (InvalidWheelFilename, LookupError, ValueError) as problem:
            return str(problem)
        if staged:
            with staged.new_file(name + METADATA) as stream:
                stream.write(metadata)
        return entry

    sizes = [_size(states) for states in wheels.values()]
    read = dict(zip(wheels, map_all(read_one, [*wheels], sizes), strict=True))
    faults = [f"{name}: {one}" for name, one in read.items() if isinstance(one, str)]
    if faults:
        raise WheelIndexError(
            f"{len(faults)} files in {folder} are not valid wheels",
            why="; ".join(faults),
            fix="remove them and build those wheels again; the index is unchanged",
        )
    return {name: one for name, one in read.items() if isinstance(one, Entry)}


def _read_entry(path: Path, states: _States) -> tuple[Entry, bytes]:
    """What the index says of a wheel, and its METADATA.

    Args:
        path: of the wheel.
        states: of it and of what lies beside it.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        InvalidWheelFilename: its name isn't a wheel's.
        LookupError: it has no METADATA.
        ValueError: its name and what is in it contradict each other.
    """
    own = _parse(path.name)
    sha256, status, content = _read_whole(path)
    with open_wheel(path, content) as wheel:
        metadata, variant = metadata_of(wheel), wheel.read_text(VARIANT_JSON)
        has_libraries = any(".so" in name for name in wheel.names)
    _check_variant(split_variant(path.name)[1], variant)
    text = metadata.decode("utf-8", "replace")
    found = headers(text)
    versions = [value for name, value in found if name == "version"]
    if versions != [own.shown_version]:
        said = ", ".join(versions) or "nothing"
        raise ValueError(f"{own.project} {own.version} by its name, version {said} by its METADATA")
    statement = _read_statement(path) if states[_STATEMENT] else {}
    asked = statement.get("buildDefinition", {}).get("externalParameters", {})
    finished = str(statement.get("runDetails", {}).get("metadata", {}).get("finishedOn", ""))
    entry = Entry(
        name=path.name,
        sha256=sha256,
        size=status.st_size,
        uploaded=_utc(finished) or _utc_of(status),
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=next((value for name, value in found if name == "requires-python"), ""),
        toolkit=checked_toolkit(str(asked.get("toolkit", ""))),
        framework=_framework(found) or str(asked.get("framework", "")),
        has_libraries=has_libraries,
        has_statement=bool(statement),
        has_attestations=bool(states[_ATTESTATIONS])
        and path.with_name(path.name + ATTESTATIONS).is_file(),
        variant=variant,
    )
    return entry, metadata


def _read_whole(path: Path) -> tuple[str, os.stat_result, io.BytesIO | None]:
    """A wheel's SHA-256, its state, and its content where it is small; None where it isn't."""
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        if status.st_size <= SMALL:
            content = stream.read(status.st_size)
            return hashlib.sha256(content).hexdigest(), status, io.BytesIO(content)
    return sha256_of_file(path), status, None


def metadata_of(wheel: Wheel) -> bytes:
    """Its METADATA as it is: installers check the hash of what they are served.

    Raises:
        LookupError: it has none.
    """
    found = wheel.read("METADATA")
    if found is None:
        raise LookupError("it has no METADATA")
    return found


def _check_variant(label: str, document: str) -> None:
    """See that the name of a file and its `variant.json` tell of one variant.

    Raises:
        ValueError: they don't.
    """
    if not label and not document:
        return
    try:
        said = tuple(json.loads(document)["variants"])
    except (ValueError, KeyError, TypeError):
        said = ()
    if said != (label,):
        raise ValueError(
            f"variant {label or 'none'} by its name, {', '.join(map(str, said)) or 'none'} by its "
            f"{VARIANT_JSON}"
        )


def checked_toolkit(toolkit: str) -> str:
    """A CUDA release, of which a folder gets its name; empty where it is none."""
    return toolkit if _RELEASE.fullmatch(toolkit) else ""


def _framework(metadata: Iterable[tuple[str, str]]) -> str:
    """The framework that a wheel requires, in the words of METADATA; empty where it needs none."""
    required = (value for name, value in metadata if name == "requires-dist")
    parsed = filter(None, map(parse_requirement, required))
    found = (f"{one.name}{one.specifier}" for one in parsed if one.name in _FRAMEWORKS)
    return next(found, "")


def _read_statement(wheel: Path) -> dict[str, Any]:
    """The predicate of a wheel's statement; empty where there is none that is about a build."""
    try:
        predicate = (read_json(statement_of(wheel)) or {})["predicate"]
        predicate["buildDefinition"]["externalParameters"].get("toolkit")
        predicate["runDetails"]["metadata"].get("finishedOn")
    except (KeyError, TypeError, AttributeError):
        return {}
    return dict(predicate)


def _utc(text: str) -> str:
    """A time of ISO 8601 in PEP 700's form; empty where it is none."""
    found = _TIME.fullmatch(text.replace("Z", "+00:00"))  # Python 3.10 knows no fractions
    try:
        time = datetime.datetime.fromisoformat(f"{found[1]}{found[2]}") if found else None
        return time.astimezone(datetime.timezone.utc).strftime(_UTC) if time else ""
    except (ValueError, OverflowError):
        return ""


def _utc_of(status: os.stat_result) -> str:
    time = datetime.datetime.fromtimestamp(status.st_mtime, tz=datetime.timezone.utc)
    return time.strftime(_UTC)


def _states(folder: Path, wheel: str, there: Collection[str]) -> _States:
    """What tells a wheel and the files beside it from those that were there before: stat(2).

    The time of the last change of the inode is one that nobody can set.

    Args:
        folder: that holds them.
        wheel: its name.
        there: names of all that is in the folder; of what isn't, the system isn't asked.
    """
    names = (f"{wheel}{suffix}" for suffix in _BESIDE)
    return [_state(f"{folder}/{name}") if name in there else [] for name in names]


def _size(states: _States) -> int:
    return states[0][0] if states[0] else 0


def _state(path: str) -> list[int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - there are tens of thousands
    except FileNotFoundError:
        return []
    return [found.st_size, found.st_ctime_ns, found.st_ino]


def _read_known(path: Path) -> _Known:
    """What was read before, by name; nothing where that can't be read."""
    kept = read_json(path) or {}
    try:
        wheels = kept["wheels"] if kept["format"] == _FORMAT else {}
        return {
            name: (states, Entry(**entry))
            for name, (states, entry) in wheels.items()
            # Whoever can write the folder could lead out of a site by either.
            if entry["name"] == name and checked_toolkit(entry["toolkit"]) == entry["toolkit"]
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write_known(path: Path, found: _Known) -> None:
    wheels = {name: (states, _written(entry)) for name, (states, entry) in found.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"format": _FORMAT, "wheels": wheels}))


def remembered_entries(kept: Path) -> dict[str, Entry]:
    """What `remember_entries` kept, by file name; nothing where that can't be read."""
    return {name: entry for name, (_, entry) in _read_known(kept).items()}


def remember_entries(kept: Path, entries: Iterable[Entry]) -> None:
    """Keep what was published, where the wheels themselves are elsewhere."""
    _write_known(kept, {entry.name: ([], entry) for entry in entries})


def _written(entry: Entry) -> dict[str, object]:
    return {field.name: getattr(entry, field.name) for field in fields(entry)}


def _remove_metadata_of_others(
    folder: Path, there: Iterable[str], kept: Mapping[str, object]
) -> None:
    """Of wheels that are gone."""
    for name in there:
        if name.endswith(f".whl{METADATA}") and name.removesuffix(METADATA) not in kept:
            (folder / name).unlink()
