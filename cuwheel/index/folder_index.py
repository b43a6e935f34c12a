"""`simple/` beside the wheels of a folder: the index for who can read or is served the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.index.entries import read_entries
from cuwheel.index.simple_api import simple_pages
from cuwheel.index.tree import replace_pages
from cuwheel.index.yanks import read_yanks
from cuwheel.system.files import naming_full_disk, remove_parts
from cuwheel.wheel.publication import SIMPLE, index_lock

if TYPE_CHECKING:
    from pathlib import Path


def write_index(dist: Path) -> Path:
    """Write `simple/` in a folder from all the wheels in it; who reads meanwhile misses nothing.

    All links are relative, so that the folder can be served from any address, or from `file://`.
    Beside each wheel its METADATA is put, which spares installers the download of the wheel. Two
    of these on one folder wait for each other.

    Args:
        dist: the folder with the wheels.

    Returns:
        `simple/`, the address to give to `--index-url`.

    Raises:
        WheelIndexError: files in it are not valid wheels; all of them are named.
        UsageError: the list of yanked wheels can't be read.
        DiskFullError: no space is left.
    """
    dist.mkdir(parents=True, exist_ok=True)
    simple = dist / SIMPLE
    with index_lock(dist), naming_full_disk(dist):
        remove_parts(dist)
        entries = read_entries(dist, read_yanks(dist))
        replace_pages(simple, simple_pages(entries, ".."))
    return simple
