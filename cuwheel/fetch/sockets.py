"""Connections that give up in time, and that another thread can cut.

urllib3's time-out for connecting counts anew for each address of a host, and looking up a name has
none at all: behind a firewall that swallows packets, that adds up to minutes.
"""

from __future__ import annotations

import concurrent.futures
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError
from urllib3.util import Retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.system.parallel import Stop


CONNECT_LIMIT = 8.0  # seconds for all of it: the name, each address, TLS
_PIECE = 8.0  # seconds between two pieces of an answer that has begun
_LOOK = 0.1  # seconds between two looks at `Stop` while nothing can be cut


class StoppableRetry(Retry):
    """urllib3's new attempts, whose pauses end when the end is asked for."""

    stop: Stop

    def new(self, **changes: Any) -> StoppableRetry:
        """The same with changes, as urllib3 makes one for each attempt."""
        made = super().new(**changes)
        made.stop = self.stop
        return made

    def sleep(self, response: urllib3.BaseHTTPResponse | None = None) -> None:
        """Wait as long as the server asked for, else longer each time."""
        asked = self.get_retry_after(response) if response else None
        self.stop.pause(asked or self.get_backoff_time())


def bounded_pools(stop: Stop) -> dict[str, Any]:
    """What a `PoolManager` makes its pools of, by scheme: connections with these bounds."""

    class Plain(HTTPConnection):
        def connect(self) -> None:
            _connect_in_time(self, super().connect, stop)

        def getresponse(self) -> Any:
            return _faster(self, super().getresponse)

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            _connect_in_time(self, super().connect, stop)

        def getresponse(self) -> Any:
            return _faster(self, super().getresponse)

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _connect_in_time(connection: HTTPConnection, connect: Callable[[], None], stop: Stop) -> None:
    """Connect in a thread that can be left behind: the lookup of a name can't be ended.

    Raises:
        ConnectTimeoutError: it takes too long.
        StoppedError: the end was asked for.
    """
    work: concurrent.futures.Future[None] = concurrent.futures.Future()
    threading.Thread(target=_fulfil, args=(work, connect), daemon=True).start()
    deadline = time.monotonic() + CONNECT_LIMIT
    while not work.done() and not stop.is_asked() and time.monotonic() < deadline:
        concurrent.futures.wait([work], timeout=_LOOK)
    if not work.done():
        work.add_done_callback(lambda _: connection.close())
        stop.check()
        raise ConnectTimeoutError(
            connection, f"no connection to {connection.host} within {CONNECT_LIMIT:.0f} seconds"
        )
    work.result()
    if isinstance(connection.sock, socket.socket):
        stop.watch(connection.sock)


def _fulfil(work: concurrent.futures.Future[None], connect: Callable[[], None]) -> None:
    try:
        connect()
    except BaseException as problem:  # noqa: BLE001 - the waiting thread raises it
        work.set_exception(problem)
    else:
        work.set_result(None)


def _faster(connection: HTTPConnection, answer: Callable[[], Any]) -> Any:
    """Once an answer has begun, its pieces come faster than its beginning."""
    connected = connection.sock
    response = answer()
    if connected is not None and connected.fileno() >= 0:
        connected.settimeout(_PIECE)
    return response
