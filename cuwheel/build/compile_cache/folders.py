"""The folders of a compile cache in one build."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

SCCACHE_SOCKET = "sccache.sock"
RELAY_SOCKET = "relay.sock"
DEVICE_FOLDER = "device"
DIRECT_FOLDER = "direct"  # of the cache's folder; the programs' own are called as they are
_LONGEST_SOCKET = 107  # bytes; unix(7), sun_path


@dataclass(frozen=True, kw_only=True)
class CachePaths:
    """Folders of the compile cache, as the build sees them.

    Attributes:
        cache_folder: of this package; has a folder for each cache; stays from build to build.
        program_folder: holds the program (see `install_program`).
        socket_folder: of this build; its path is short.
        log_folder: of this build, for logs and counts.
    """

    cache_folder: Path
    program_folder: Path
    socket_folder: Path
    log_folder: Path


def why_unusable(folder: Path) -> str:
    """Make the cache's folder and write there; gives back why that can't be, or nothing.

    A cache that can't be written is no reason not to build.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


@contextlib.contextmanager
def make_socket_folder(work: Path, *, is_sandboxed: bool) -> Iterator[Path]:
    """A folder for sockets, removed behind the block.

    Args:
        work: of the build; taken where the path isn't too long for a socket.
        is_sandboxed: whether the build sees it under another name, which is short.
    """
    folder = work / "sockets"
    if not is_sandboxed and not _holds_sockets(folder):
        parent = Path(tempfile.gettempdir())
        if not _holds_sockets(parent / "cuwheel-12345678"):
            parent = Path("/tmp")  # noqa: S108 - TMPDIR may be as deep as the work folder
        with tempfile.TemporaryDirectory(prefix="cuwheel-", dir=parent) as made:
            yield Path(made)
        return
    remove_tree(folder)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # of a build that is done; the next one removes it
            remove_tree(folder)


def _holds_sockets(folder: Path) -> bool:
    """Whether the paths of sockets in a folder aren't too long."""
    names = (SCCACHE_SOCKET, RELAY_SOCKET)
    return all(len(os.fsencode(folder / name)) <= _LONGEST_SOCKET for name in names)
