"""A server at a Unix socket, for programs in a sandbox that have no other way out."""

from __future__ import annotations

import contextlib
import os
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from cuwheel.base.system.files import remove_tree
from cuwheel.base.system.folders.temporary import temporary_folder

SCCACHE_SOCKET = "sccache.sock"
RELAY_SOCKET = "relay.sock"
_LONGEST_SOCKET = 107  # bytes; unix(7), sun_path
_INTERVAL = 0.05  # seconds between two checks for the end


@contextlib.contextmanager
def serve_unix(
    path: Path,
    handler: type[socketserver.StreamRequestHandler],
    server: type[socketserver.ThreadingUnixStreamServer] = socketserver.ThreadingUnixStreamServer,
) -> Iterator[None]:
    """Serve until the block ends, each client in a thread of its own.

    Args:
        path: of the socket, for its owner alone; an existing file there is replaced.

    Raises:
        OSError: there can't be a socket: not every file system supports them.
    """
    remove_tree(path)
    with _bound(path, handler, server) as listening:
        path.chmod(0o600)
        thread = threading.Thread(target=listening.serve_forever, args=(_INTERVAL,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown()
            remove_tree(path)  # a client may have replaced it


def _bound(
    path: Path,
    handler: type[socketserver.StreamRequestHandler],
    kind: type[socketserver.ThreadingUnixStreamServer],
) -> socketserver.ThreadingUnixStreamServer:
    # Through its open folder the path of a socket is short.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        server = kind(f"/proc/self/fd/{folder}/{path.name}", handler, bind_and_activate=False)
        server.daemon_threads = True  # a client may never end its connection
        server.request_queue_size = 64
        try:
            server.server_bind()
            server.server_activate()
        except OSError:
            server.server_close()
            raise
    finally:
        os.close(folder)
    return server


@contextlib.contextmanager
def make_socket_folder(work: Path, *, is_sandboxed: bool) -> Iterator[Path]:
    """Yield a folder for sockets, whose paths have to be short; removed behind the block."""
    folder = work / "sockets"
    if not is_sandboxed and not _holds_sockets(folder):
        parent = Path(tempfile.gettempdir())
        if not _holds_sockets(parent / "cuwheel.tmp-12345678"):
            parent = Path("/tmp")  # noqa: S108 - TMPDIR may be as deep as the work folder
        with temporary_folder(parent) as temporary:
            yield temporary
        return
    remove_tree(folder)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # of a build that is done; the next one removes it
            remove_tree(folder)


def _holds_sockets(folder: Path) -> bool:
    return len(os.fsencode(folder / SCCACHE_SOCKET)) <= _LONGEST_SOCKET
