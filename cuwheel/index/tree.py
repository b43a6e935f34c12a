"""Pages in their places: who reads meanwhile misses nothing."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.files import new_file, remove_parts, remove_tree
from cuwheel.system.parallel import map_all
from cuwheel.system.whole_files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping


def replace_pages(root: Path, pages: Mapping[str, bytes], *, others_stay: bool = False) -> None:
    """Give pages their places below a folder, and remove what belongs to none.

    Each takes the place of its older one at once, and a page is there before another links to it:
    deeper ones come first. One that stays as it is isn't touched.

    Args:
        root: the folder.
        pages: contents by path below it.
        others_stay: it holds more than these pages.
    """
    wanted = {folder for name in pages for folder in (root / name).parents}
    for folder in sorted({root, *((root / name).parent for name in pages)}):
        folder.mkdir(parents=True, exist_ok=True)
        remove_parts(folder)
    by_depth = sorted(pages, key=lambda one: -one.count("/"))
    for _, names in groupby(by_depth, key=lambda one: one.count("/")):
        map_all(lambda name: _replace(root / name, pages[name]), [*names])
    if others_stay:
        return
    kept = {root / name for name in pages} | wanted
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            if (found := Path(place, name)) not in kept:
                remove_tree(found)


def _replace(path: Path, content: bytes) -> None:
    try:
        if path.stat().st_size == len(content) and read_bytes(path, limit=len(content)) == content:
            return
    except FileNotFoundError:
        pass
    with new_file(path) as stream:  # what killed writers left in its folder is gone already
        stream.write(content)
