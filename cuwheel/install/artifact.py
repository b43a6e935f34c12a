"""The wheels of a workflow's artifact: a zip that was downloaded, or the folder out of it."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path, PurePosixPath

from cuwheel import limits
from cuwheel.errors import UnsafeArchiveError
from cuwheel.system.quantities import show_size
from cuwheel.wheel.publication import STATEMENT

_TAKEN = (".whl", f".whl{STATEMENT}")
_MOST = 1000  # wheels and statements; a workflow's artifact has tens


def unpack_artifact(artifact: Path, folder: Path) -> Path:
    """Put the wheels of a zip and their statements into a folder, whatever folders they were in.

    Args:
        artifact: the zip.
        folder: an empty one.

    Returns:
        The folder.

    Raises:
        UnsafeArchiveError: it is no zip, two files have one name, or it is beyond all measure.
    """
    try:
        with zipfile.ZipFile(artifact) as archive:
            entries = {
                entry.filename: PurePosixPath(entry.filename).name
                for entry in archive.infolist()
                if entry.filename.endswith(_TAKEN)
            }
            size = sum(archive.getinfo(name).file_size for name in entries)
            if size > limits.WHEEL or len(entries) > _MOST:
                raise _refused(artifact, f"{len(entries)} files of {show_size(size)}")
            if len(set(entries.values())) != len(entries):
                raise _refused(artifact, "two files in it have the same name")
            for name, final in entries.items():
                with archive.open(name) as source, (folder / final).open("xb") as written:
                    shutil.copyfileobj(source, written)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as problem:
        raise _refused(artifact, str(problem)) from problem
    return folder


def _refused(artifact: Path, why: str) -> UnsafeArchiveError:
    return UnsafeArchiveError(
        f"{artifact} can't be used as a workflow's artifact",
        why=why,
        fix="download it again, or unpack it and give the folder",
    )
