"""The index `simple/` in a folder of wheels, readable from disk or from any web server."""

from __future__ import annotations

from pathlib import Path

from cuwheel.base.formats.wheel.publication import SIMPLE, index_lock
from cuwheel.base.system.files import naming_full_disk, remove_parts
from cuwheel.base.system.folders.output_folder import check_output, write_files
from cuwheel.build.wheelhouse.entries import read_entries
from cuwheel.build.wheelhouse.index_folders import SIMPLE_FOLDER
from cuwheel.build.wheelhouse.simple_api import simple_pages
from cuwheel.build.wheelhouse.yanks import read_yanks


def write_index(dist: Path) -> Path:
    """Write `simple/` from all wheels of a folder, complete at any moment for its readers.

    All links are relative, so the folder can be served from any address, or from `file://`. Next
    to each wheel its METADATA is written, so installers needn't download the wheel for it. Two
    processes on one folder wait for each other.

    Returns:
        `simple/`, the address to give to `--index-url`.

    Raises:
        WheelIndexError: files in it are not valid wheels; all of them are named.
        UsageError: the list of yanked wheels can't be read, or `simple/` isn't cuwheel's.
        DiskFullError: no space is left.
    """
    simple = dist / SIMPLE
    check_output(simple, SIMPLE_FOLDER)
    dist.mkdir(parents=True, exist_ok=True)
    with index_lock(dist), naming_full_disk(dist):
        remove_parts(dist)
        entries = read_entries(dist, read_yanks(dist))
        write_files(simple, SIMPLE_FOLDER, (simple_pages(entries, ".."),))
    return simple
