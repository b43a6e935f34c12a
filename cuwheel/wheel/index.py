"""The package index of a folder of wheels: plain files, to be served from anywhere.

dumb-pypi writes the pages; why that one: docs/adr/0009. Form and attributes are those of the
specification "Simple repository API" (PEP 503, 658 and 714).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cuwheel.errors import CommandFailedError, UnsafeArchiveError, WheelIndexError
from cuwheel.system.files import (
    disk_full,
    naming_full_disk,
    remove_leftovers,
    remove_parts,
    remove_tree,
    says_disk_full,
    sha256_of_file,
    write_atomically,
)
from cuwheel.system.process import run
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.metadata import header
from cuwheel.wheel.publication import SIMPLE, index_lock

_WHEELS = "../.."  # as seen from simple/<project>/
_METADATA = ".metadata"  # PEP 658: a wheel's name with this suffix


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A wheel as the index lists it: SHA-256 of the file, its METADATA, `Requires-Python`."""

    path: Path
    sha256: str
    metadata: bytes
    requires_python: str


def write_index(dist: Path) -> Path:
    """Write `simple/` in a folder from all the wheels in it; who reads meanwhile misses nothing.

    Each page takes the place of its older one at once, and a page is there before another links to
    it. One that stays as it is isn't touched.

    All links are relative, so that the folder can be served from any address, or from `file://`.
    Beside each wheel its METADATA is put, which spares installers the download of the wheel. Two
    of these on one folder wait for each other.

    Args:
        dist: the folder with the wheels.

    Returns:
        `simple/`, the address to give to `--index-url`.

    Raises:
        WheelIndexError: files in it are not valid wheels; all of them are named.
        DiskFullError: no space is left.
    """
    dist.mkdir(parents=True, exist_ok=True)
    simple = dist / SIMPLE
    with index_lock(dist), naming_full_disk(dist):
        remove_leftovers(simple)
        for folder in (dist, simple, *simple.glob("*/")):
            remove_parts(folder)
        entries = _read_entries(dist)
        _write_metadata(dist, entries)
        with tempfile.TemporaryDirectory(dir=dist, prefix=f".{SIMPLE}.") as aside:
            _replace_pages(simple, _make_pages(Path(aside), entries))
    return simple


def _read_entries(dist: Path) -> tuple[_Entry, ...]:
    """All wheels of the folder, sorted by name.

    Raises:
        WheelIndexError: with each file that isn't one.
    """
    read = [_entry_or_fault(path) for path in sorted(dist.glob("*.whl"))]
    faults = [fault for fault in read if isinstance(fault, str)]
    if faults:
        raise WheelIndexError(
            f"{len(faults)} files in {dist} are not valid wheels",
            why="; ".join(faults),
            fix="remove them and build those wheels again; the index is as it was",
        )
    return tuple(entry for entry in read if isinstance(entry, _Entry))


def _entry_or_fault(path: Path) -> _Entry | str:
    try:
        return _read_entry(path)
    except UnsafeArchiveError as problem:
        return f"{path.name}: {problem.why}"
    except (InvalidWheelFilename, LookupError, ValueError) as problem:
        return f"{path.name}: {problem}"


def _read_entry(path: Path) -> _Entry:
    """What the index says of a wheel.

    Raises:
        UnsafeArchiveError: it isn't a wheel, or is damaged.
        InvalidWheelFilename: its name isn't a wheel's.
        LookupError: it has no METADATA.
        ValueError: its name and its METADATA contradict each other.
    """
    project, version, _, _ = parse_wheel_filename(path.name)
    with open_wheel(path) as wheel:
        # Its bytes as they are: installers check the hash of what they are served.
        metadata = wheel.read("METADATA")
    if metadata is None:
        raise LookupError("it has no METADATA")
    text = metadata.decode("utf-8", "replace")
    if header(text, "version") != (str(version),):
        said = ", ".join(header(text, "version")) or "nothing"
        raise ValueError(f"{project} {version} by its name, version {said} by its METADATA")
    requires_python = "".join(header(text, "requires-python")[:1])
    return _Entry(
        path=path,
        sha256=sha256_of_file(path),
        metadata=metadata,
        requires_python=requires_python,
    )


def _write_metadata(dist: Path, entries: tuple[_Entry, ...]) -> None:
    """Put each wheel's METADATA beside it, and remove what belongs to wheels that are gone."""
    for entry in entries:
        write_atomically(_metadata_file(entry.path), entry.metadata)
    kept = {_metadata_file(entry.path) for entry in entries}
    for path in set(dist.glob(f"*.whl{_METADATA}")) - kept:
        path.unlink()


def _metadata_file(wheel: Path) -> Path:
    return wheel.with_name(wheel.name + _METADATA)


def _make_pages(folder: Path, entries: tuple[_Entry, ...]) -> Path:
    """Let dumb-pypi write the pages; of all that it writes, `simple/` is what installers read.

    Raises:
        WheelIndexError: it failed, or left a wheel out.
    """
    lines = [json.dumps(_describe(entry)) for entry in entries]
    packages = folder / "packages.json"
    packages.write_text("".join(f"{line}\n" for line in lines))
    said = _run_dumb_pypi(packages, folder)
    written = folder / SIMPLE
    pages = "".join(page.read_text() for page in written.glob("*/index.html"))
    missing = [entry.path.name for entry in entries if f">{entry.path.name}<" not in pages]
    if missing:
        raise WheelIndexError(
            f"dumb-pypi left {len(missing)} wheels out of the index",
            why=f"{', '.join(missing)}: {said.strip()}",
            fix="rename or remove them",
        )
    return written


def _replace_pages(simple: Path, written: Path) -> None:
    """Give new pages their places: those of projects, the one that links to them, no older ones."""
    pages = {path.relative_to(written): path for path in written.glob("*/index.html")}
    for name, page in (*pages.items(), (Path("index.html"), written / "index.html")):
        content = page.read_bytes()
        if not (simple / name).is_file() or (simple / name).read_bytes() != content:
            write_atomically(simple / name, content)
    kept = {name.parent.name for name in pages} | {"index.html"}
    for path in simple.iterdir():
        if path.name not in kept:
            remove_tree(path)


def _describe(entry: _Entry) -> dict[str, str]:
    """A wheel in dumb-pypi's terms."""
    described = {
        "filename": entry.path.name,
        "hash": f"sha256={entry.sha256}",
        "core_metadata": f"sha256={hashlib.sha256(entry.metadata).hexdigest()}",
        "requires_python": entry.requires_python,
    }
    return {name: value for name, value in described.items() if value}


def _run_dumb_pypi(packages: Path, folder: Path) -> str:
    """Run it as a program, which is its public interface; returns what it said.

    Raises:
        WheelIndexError: it failed.
        DiskFullError: because no space was left.
    """
    command = [sys.executable, "-I", "-W", "ignore", "-m", "dumb_pypi.main"]
    options = ["--packages-url", _WHEELS, "--no-generate-timestamp", "--no-per-release-json"]
    files = ["--package-list-json", str(packages), "--output-dir", str(folder)]
    try:
        done = run([*command, *options, *files], env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"})
    except CommandFailedError as problem:
        if says_disk_full(problem.tail):
            raise disk_full(folder) from problem
        raise WheelIndexError(
            "dumb-pypi failed to write the index",
            why=" / ".join(problem.tail[-3:]) or problem.why,
            fix="run cuwheel through nox, which installs it from envs/engine.lock",
        ) from problem
    return done.output
