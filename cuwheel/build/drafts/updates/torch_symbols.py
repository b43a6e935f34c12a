"""The table of what PyTorch's releases export, read from the wheels of the package index.

Only a wheel's directory and five libraries are downloaded, most of that libtorch_cuda, whose names
are behind its code. So the table is made once for each release and kept; docs/adr/0029 has the
sizes.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_wheels
from cuwheel.base.fetch.indexes.offers import IndexFile
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.base.formats.binaries.elf_symbols import Symbols
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.check.cuda.torch_exports import (
    LIBRARIES,
    TABLE,
    is_kept,
    minor_of,
    pack,
    unpack,
)

_OLDEST = Version("2.0")
_PYTHON = "cp311"  # the one for which all of these releases have a wheel


def update_torch_symbols(
    requested: Sequence[str], console: Console, caller: Caller, *, table: Path = TABLE
) -> None:
    """Read releases that the table lacks, and write it.

    Args:
        requested: releases, `2.16.0`; none: the newest of each minor release that isn't there.

    Raises:
        UsageError: the index has no wheel of a release.
        DownloadError: the index can't be reached, or its server gives no parts of files.
    """
    known, wheels = unpack(read_bytes(table)), dict(_wheels(caller.environ))
    versions = {str(version): version for version in wheels}
    if absent := [release for release in requested if release not in versions]:
        raise UsageError(
            f"no index has a wheel of torch {', '.join(absent)}",
            why=f"for {_PYTHON} on manylinux x86_64 it has {', '.join(versions)}",
            fix="use one of these",
        )
    if requested:
        releases = list(requested)
    else:
        newest = {
            minor_of(str(version)): str(version)
            for version in sorted(wheels)
            if not version.is_prerelease
        }
        present = set(map(minor_of, known.releases))
        releases = [release for minor, release in newest.items() if minor not in present]
    replaced = set(map(minor_of, releases))
    names = {
        release: frozenset(
            name for name, mask in zip(known.names, known.masks, strict=True) if mask >> bit & 1
        )
        for bit, release in enumerate(known.releases)
        if minor_of(release) not in replaced
    }
    for release in releases:
        wheel = wheels[versions[release]]
        with console.live(f"reading {wheel.name}"), open_remote(wheel.url) as stream:
            names[release] = frozenset(exports_of(stream))
        console.note(f"torch {release}: {len(names[release])} names")
    write_atomically(
        table, pack({release: names[release] for release in sorted(names, key=Version)})
    )
    size = show_size(table.stat().st_size)
    console.note(f"{table.name}: {plural(len(names), 'release')}, {size}")


def exports_of(stream: IO[bytes]) -> Iterator[str]:
    """Yield what a wheel of PyTorch exports, as far as the table keeps it.

    Raises:
        ElfFormatError: one of its libraries is damaged.
    """
    with zipfile.ZipFile(stream) as wheel:
        for name in LIBRARIES:
            with wheel.open(f"torch/lib/{name}") as packed, TemporaryFile() as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
                yield from filter(is_kept, Symbols(unpacked).defined())


def _wheels(environ: Mapping[str, str]) -> Iterator[tuple[Version, IndexFile]]:
    for file in find_wheels("torch", indexes=configured_indexes(environ)):
        tags = parse_wheel_filename(file.name)[3]
        platforms = {tag.platform for tag in tags if tag.abi == _PYTHON}
        is_linux = any("manylinux" in name and name.endswith("x86_64") for name in platforms)
        if file.version >= _OLDEST and is_linux:
            yield file.version, file
