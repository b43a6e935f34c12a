"""Source trees and archives of them."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

from cuwheel.base.system.files import list_tree, sha256_of_file
from cuwheel.build.recipe.source import Archive, Resource
from tests.support.factories import commit_all

NEWEST = 1_700_000_000  # seconds since 1970
COMMITTED = 1_600_000_000


def make_project(folder: Path) -> Path:
    """A source tree whose newest file is setup.py."""
    made = folder / "checkout"
    (made / "src" / "build").mkdir(parents=True)
    files = {"setup.py": NEWEST, "src/tiny.cu": NEWEST - 5, "src/build/in.cu": NEWEST - 9}
    for name, stamp in files.items():
        (made / name).write_text(f"# {name}\n")
        os.utime(made / name, (stamp, stamp))
    return made


def make_sdist(project: Path) -> Path:
    """An archive of a source tree, beside it."""
    path = project.parent / "tiny_cuda-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in list_tree(project):
            tar.add(project / name, f"tiny_cuda-1.2.3/{name}")
    return path


def commit(folder: Path) -> str:
    return commit_all(folder, GIT_COMMITTER_DATE=f"{COMMITTED} +0000")


def modes_and_times(folder: Path) -> set[tuple[str, int]]:
    found = [path.stat() for path in (folder, *folder.rglob("*"))]
    return {(oct(status.st_mode), int(status.st_mtime)) for status in found}


def resource_of(sdist: Path, **changes: Any) -> Resource:
    """A resource that is this archive, with some of its fields changed."""
    pinned = Archive(url=sdist.as_uri(), sha256=sha256_of_file(sdist))
    fields = {"name": "tiny", "source": pinned, "to": "tiny", "why": "a test", **changes}
    return Resource(**fields)
