"""Pages in their places: who reads meanwhile misses nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.files import remove_parts, remove_tree
from cuwheel.system.whole_files import read_bytes
from cuwheel.wheel.staged_files import staged_files

if TYPE_CHECKING:
    from collections.abc import Mapping


def replace_pages(root: Path, pages: Mapping[str, bytes], *, others_stay: bool = False) -> None:
    """Give pages their places below a folder, and remove what belongs to none.

    Each takes the place of its older one at once, and a page is there before another links to it:
    deeper ones come first. One that stays as it is isn't touched.

    Args:
        root: the folder; the caller holds a lock of it.
        pages: contents by path below it.
        others_stay: it holds more than these pages.
    """
    wanted = {folder for name in pages for folder in (root / name).parents}
    for folder in sorted({root, *((root / name).parent for name in pages)}):
        folder.mkdir(parents=True, exist_ok=True)
        remove_parts(folder)
    with staged_files(root) as staged:
        for name in sorted(pages, key=lambda one: -one.count("/")):
            if not _has_content(root / name, pages[name]):
                with staged.new_file(name) as stream:
                    stream.write(pages[name])
    if others_stay:
        return
    kept = {root / name for name in pages} | wanted
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            if (found := Path(place, name)) not in kept:
                remove_tree(found)


def _has_content(path: Path, content: bytes) -> bool:
    try:
        size = path.stat().st_size
        return size == len(content) and read_bytes(path, limit=size) == content
    except FileNotFoundError:
        return False
