"""The folders that indexes are written into: their names and kinds, for the start of each build."""

from __future__ import annotations

import re
from pathlib import Path

from cuwheel.base.formats.wheel.publication import is_wheel_file
from cuwheel.base.system.folders.output_folder import FolderKind

FILES = "files"  # folder of the wheels of a site
PACKAGES = "packages"  # folder of its pages for people
HOME = "index.html"
_KEPT = frozenset({"releases", "docs"})  # folders of a site that no index is written into


def _is_accepted(path: Path) -> bool:
    """Return True for a folder that no index is written into: releases, the manual, wheels."""
    if path.is_symlink() or not path.is_dir():
        return False
    return path.name in _KEPT or (path.name == FILES and all(map(is_wheel_file, path.iterdir())))


SIMPLE_FOLDER = FolderKind(
    name="simple index",
    what="an index that cuwheel writes next to wheels",
    names=re.compile(r"([^/]+/)?index\.(html|json)"),
)
SITE_FOLDER = FolderKind(
    name="wheel site",
    what="a site of `nox -s index` or `nox -s release`",
    accepts=_is_accepted,
    names=re.compile(
        r"((packages|(cu\d{2,4}/)?simple)/([^/]+/)?)?index\.(html|json)|files/[^/]+-variants\.json"
    ),
)
