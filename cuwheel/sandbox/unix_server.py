"""A server at a Unix socket, for programs in a sandbox that have no other way out."""

from __future__ import annotations

import contextlib
import os
import socketserver
import threading
from typing import TYPE_CHECKING

from cuwheel.system.files import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOOK = 0.05  # seconds until the server hears that it is to end


@contextlib.contextmanager
def serve_unix(
    path: Path,
    handler: type[socketserver.StreamRequestHandler],
    server: type[socketserver.ThreadingUnixStreamServer] = socketserver.ThreadingUnixStreamServer,
) -> Iterator[None]:
    """Serve until the block ends, each client in a thread of its own.

    Args:
        path: of the socket, for its owner alone; what stands there is replaced.
        handler: talks to a client.
        server: the class of the server.

    Raises:
        OSError: there can't be a socket: not every disk knows them.
    """
    remove_tree(path)
    with _bound(path, handler, server) as listening:
        path.chmod(0o600)
        thread = threading.Thread(target=listening.serve_forever, args=(_LOOK,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown()
            remove_tree(path)  # whatever a client has put in its place


def _bound(
    path: Path,
    handler: type[socketserver.StreamRequestHandler],
    kind: type[socketserver.ThreadingUnixStreamServer],
) -> socketserver.ThreadingUnixStreamServer:
    # The path of a socket may have 107 bytes at most; through its open folder it is short.
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
