"""The table of what PyTorch's releases export, read from the wheels of the package index.

A wheel isn't downloaded whole: its directory and the five libraries are, most of that
libtorch_cuda, whose names stand behind its code. So the table is made once for each release and
kept; docs/adr/0029 has the sizes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import zipfile
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from cuwheel.binaries.elf_symbols import Symbols
from cuwheel.cuda.torch_exports import LIBRARIES, TABLE, is_kept, minor_of, pack, unpack
from cuwheel.errors import UsageError
from cuwheel.fetch.remote_file import open_remote
from cuwheel.pypi.indexes import configured_indexes, find_wheels
from cuwheel.system.files import write_atomically
from cuwheel.system.quantities import plural, show_size
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from cuwheel.cuda.torch_exports import TorchExports
    from cuwheel.pypi.indexes import IndexFile
    from cuwheel.system.console import Console

_OLDEST = Version("2.0")
_PYTHON = "cp311"  # the one for which all of these releases have a wheel


def update_torch_symbols(asked: Sequence[str], console: Console, *, table: Path = TABLE) -> None:
    """Read releases that the table lacks, and write it.

    Args:
        asked: releases, `2.16.0`; none: the newest of each minor release that isn't there.
        console: shows how it goes.
        table: the file.

    Raises:
        UsageError: the index has no wheel of a release.
        DownloadError: the index can't be asked, or its server gives no parts of files.
    """
    known, offered = unpack(read_bytes(table)), dict(_wheels())
    names = {str(one): one for one in offered}
    if absent := [one for one in asked if one not in names]:
        raise UsageError(
            f"no index has a wheel of torch {', '.join(absent)}",
            why=f"for {_PYTHON} on manylinux x86_64 it has {', '.join(map(str, offered))}",
            fix="use one of these",
        )
    wanted = [names[one] for one in asked] or list(_lacking(known, offered))
    exported = _kept_rows(known, {minor_of(str(one)) for one in wanted})
    for release in wanted:
        exported[str(release)] = frozenset(_exported(offered[release], console))
        console.note(f"torch {release}: {len(exported[str(release)])} names")
    ordered = {name: exported[name] for name in sorted(exported, key=Version)}
    write_atomically(table, pack(ordered))
    size = show_size(table.stat().st_size)
    console.note(f"{table.name}: {plural(len(ordered), 'release')}, {size}")


def exports_of(stream: IO[bytes]) -> Iterator[str]:
    """What a wheel of PyTorch exports, as far as the table keeps it.

    Args:
        stream: the wheel, seekable.

    Raises:
        ElfFormatError: one of its libraries is damaged.
    """
    with zipfile.ZipFile(stream) as wheel:
        for name in LIBRARIES:
            with wheel.open(f"torch/lib/{name}") as packed, TemporaryFile() as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
                yield from filter(is_kept, Symbols(unpacked).defined())


def _wheels() -> Iterator[tuple[Version, IndexFile]]:
    for file in find_wheels("torch", indexes=configured_indexes(os.environ)):
        with contextlib.suppress(InvalidWheelFilename):
            _, version, _, tags = parse_wheel_filename(file.name)
            platforms = {tag.platform for tag in tags if tag.abi == _PYTHON}
            if version >= _OLDEST and any(
                "manylinux" in one and one.endswith("x86_64") for one in platforms
            ):
                yield version, file


def _lacking(known: TorchExports, offered: Iterable[Version]) -> Iterator[Version]:
    """The newest release of each minor one that isn't there."""
    newest = {minor_of(str(one)): one for one in sorted(offered) if not one.is_prerelease}
    there = set(map(minor_of, known.releases))
    return (release for minor, release in newest.items() if minor not in there)


def _kept_rows(known: TorchExports, replaced: set[str]) -> dict[str, frozenset[str]]:
    """The names of each release that stays in the table."""
    return {
        release: frozenset(
            name for name, mask in zip(known.names, known.masks, strict=True) if mask >> bit & 1
        )
        for bit, release in enumerate(known.releases)
        if minor_of(release) not in replaced
    }


def _exported(file: IndexFile, console: Console) -> Iterator[str]:
    with console.live(f"reading {file.name}"), open_remote(file.url) as stream:
        yield from exports_of(stream)
