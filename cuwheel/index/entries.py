"""What an index says of each wheel of a folder."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
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
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from packaging.tags import Tag
    from packaging.version import Version

    from cuwheel.wheel.archive import Wheel
    from cuwheel.wheel.staged_files import StagedFiles

METADATA = ".metadata"  # PEP 658: behind the wheel's name
ATTESTATIONS = ".provenance"  # PEP 740: likewise; whoever attests puts it there
_BESIDE = ("", STATEMENT, METADATA, ATTESTATIONS)  # what an index knows a wheel by
_METADATA = _BESIDE.index(METADATA)
_KNOWN = ".cuwheel/wheels.json"  # in a folder of wheels: what was read of them
_FORMAT = 2  # of that file
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?([+-]\d\d:\d\d)")
_UTC = "%Y-%m-%dT%H:%M:%SZ"  # as PEP 700 has it
_RELEASE = re.compile(r"\d{1,2}\.\d{1,2}")  # of CUDA
_FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow")
_NAMES = 1 << 15  # wheels' names that are kept taken apart; 2 kB each
_Read = tuple[list[list[int]], "Entry"]  # states of the files, and what was read of them
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
    tags: frozenset[Tag]
    quoted: str


# Read from the folder and from the site, sorted and shown: each name is needed ten times.
@lru_cache(_NAMES)
def _parse(name: str) -> _Name:
    """What the name of a wheel's file says; of a variant, what its plain wheel's says."""
    project, version, _, tags = parse_wheel_filename(split_variant(name)[0])
    return _Name(project, version, tags, quote(name))


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
    paths = sorted(folder.glob("*.whl"), key=str)
    states = {path.name: _states(path) for path in paths}
    same = {name: (states[name], one) for name, one in (copied or {}).items() if name in states}
    same |= {name: one for name, one in known.items() if one[0] == states.get(name)}
    changed = [path for path in paths if path.name not in same]
    with staged_files(folder) if writes else contextlib.nullcontext() as staged:
        new = _read_changed(changed, [_size(states[path.name]) for path in changed], staged)
    found = {
        path.name: same.get(path.name) or (states[path.name], new[path.name]) for path in paths
    }
    if writes:
        for path in changed:
            states[path.name][_METADATA] = _state(f"{path}{METADATA}")
        _remove_metadata_of_others(folder, found)
    if found != known:
        _write_known(memory, found)
    return tuple(
        replace(one, yanked=yanks[name]) if name in yanks else one
        for name, (_, one) in found.items()
    )


def _read_changed(
    wheels: Sequence[Path], sizes: Iterable[int], staged: StagedFiles | None
) -> dict[str, Entry]:
    """Read wheels; the METADATA of each is put where it gets its name beside the wheel, if at all.

    Raises:
        WheelIndexError: some are not valid.
    """

    def read_one(path: Path) -> Entry | str:
        try:
            entry, metadata = _read_entry(path)
        except UnsafeArchiveError as problem:
            return problem.why
        except (InvalidWheelFilename, LookupError, ValueError) as problem:
            return str(problem)
        if staged:
            with staged.new_file(path.name + METADATA) as stream:
                stream.write(metadata)
        return entry

    read = dict(zip((path.name for path in wheels), map_all(read_one, wheels, sizes), strict=True))
    faults = [f"{name}: {one}" for name, one in read.items() if isinstance(one, str)]
    if faults:
        raise WheelIndexError(
            f"{len(faults)} files in {wheels[0].parent} are not valid wheels",
            why="; ".join(faults),
            fix="remove them and build those wheels again; the index is as it was",
        )
    return {name: one for name, one in read.items() if isinstance(one, Entry)}


def _read_entry(path: Path) -> tuple[Entry, bytes]:
    """What the index says of a wheel, and its METADATA.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        InvalidWheelFilename: its name isn't a wheel's.
        LookupError: it has no METADATA.
        ValueError: its name and what is in it contradict each other.
    """
    project, version = _parse(path.name)[:2]
    with open_wheel(path) as wheel:
        metadata, variant = metadata_of(wheel), wheel.read_text(VARIANT_JSON)
        has_libraries = any(".so" in name for name in wheel.names)
    _check_variant(split_variant(path.name)[1], variant)
    text = metadata.decode("utf-8", "replace")
    found = headers(text)
    versions = [value for name, value in found if name == "version"]
    if versions != [str(version)]:
        said = ", ".join(versions) or "nothing"
        raise ValueError(f"{project} {version} by its name, version {said} by its METADATA")
    statement = _read_statement(path)
    asked = statement.get("buildDefinition", {}).get("externalParameters", {})
    finished = str(statement.get("runDetails", {}).get("metadata", {}).get("finishedOn", ""))
    entry = Entry(
        name=path.name,
        sha256=sha256_of_file(path),
        size=path.stat().st_size,
        uploaded=_utc(finished) or _utc_of(path),
        metadata_sha256=hashlib.sha256(metadata).hexdigest(),
        requires_python=next((value for name, value in found if name == "requires-python"), ""),
        toolkit=checked_toolkit(str(asked.get("toolkit", ""))),
        framework=_framework(found) or str(asked.get("framework", "")),
        has_libraries=has_libraries,
        has_statement=bool(statement),
        has_attestations=path.with_name(path.name + ATTESTATIONS).is_file(),
        variant=variant,
    )
    return entry, metadata


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


def _utc_of(path: Path) -> str:
    time = datetime.datetime.fromtimestamp(path.stat().st_mtime, tz=datetime.timezone.utc)
    return time.strftime(_UTC)


def _states(wheel: Path) -> list[list[int]]:
    """What tells a wheel and the files beside it from those that were there before: stat(2).

    The time of the last change of the inode is one that nobody can set.
    """
    return [_state(f"{wheel}{suffix}") for suffix in _BESIDE]


def _size(states: list[list[int]]) -> int:
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


def _remove_metadata_of_others(folder: Path, kept: Mapping[str, object]) -> None:
    """Of wheels that are gone."""
    for path in folder.glob(f"*.whl{METADATA}"):
        if path.name.removesuffix(METADATA) not in kept:
            path.unlink()
