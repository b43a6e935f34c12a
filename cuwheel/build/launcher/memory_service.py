"""What the memory gate of a build may ask the engine: room for a program, and what programs took.

All builds of a machine share a ledger of promises and what was learned of their programs. A build
that could write there itself could stop every other one, today and later: so it gets a socket, and
this writes for it. What a build says of itself is believed; it can say nothing in another's name.
docs/adr/0017.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socketserver
import threading
import time
from typing import TYPE_CHECKING, Any

from cuwheel.build.launcher.memory_queue import MemoryQueue
from cuwheel.sandbox.unix_server import serve_unix
from cuwheel.standalone.memory_gate.peaks import Peaks

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuwheel.build.launcher.memory_queue import Place

MEMORY_SOCKET = "memory.sock"  # its name in a build's folder of sockets

_TOOL = re.compile(r"[A-Za-z0-9_+-]{1,32}")  # a part of a file's name
_LEVEL = re.compile(r"[\w:-]{0,64}")  # of an entry's line
_LONGEST = 1 << 16  # bytes of a question; keys hold a path and options
_KEPT_OF_KEY = 1 << 10  # bytes; with `_MOST_LEARNED` they bound what a build may write
_LARGEST = 1 << 50  # bytes that a program may be said to take
_MOST_LEARNED = 1 << 16  # peaks that one build may teach
_MOST_CLIENTS = 4000
_FILES_OF_CLIENT = 2  # open files for each: its connection, its entry
_OTHER_FILES = 256  # that the engine may open meanwhile


@contextlib.contextmanager
def serve_memory(
    path: Path, folder: Path, target: str, jobs: int, warn: Callable[[str], None]
) -> Iterator[None]:
    """Serve the gates of one build until the block ends.

    Args:
        path: of the socket.
        folder: what all builds of this machine share about memory.
        target: the name under which the build's peaks are kept.
        jobs: how many of its programs may run at once.
        warn: told why programs don't wait for memory, where that can't be, and who it is that has
            them wait for long.
    """
    files = _allow_open_files(_OTHER_FILES + _MOST_CLIENTS * _FILES_OF_CLIENT)
    most = max(1, (files - _OTHER_FILES) // _FILES_OF_CLIENT)
    with contextlib.ExitStack() as served:
        try:
            word = f"{target}@{os.getpid()}.{time.monotonic_ns()}"
            queue = served.enter_context(
                contextlib.closing(MemoryQueue(str(folder), word, jobs, warn))
            )
            build = _Build(queue, Peaks(str(folder), target))
            served.enter_context(serve_unix(path, _handler_of(build), _server_of(most)))
        except OSError as problem:  # a folder that can't be used is no reason not to build
            warn(f"programs of this build start without waiting for memory: {problem}")
        yield


def _handler_of(build: _Build) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            _talk(self, build)

    return Handler


def _server_of(most: int) -> type[_LimitedServer]:
    """The class of a server that takes so many clients at once."""

    class Server(_LimitedServer):
        clients = threading.Semaphore(most)

    return Server


class _LimitedServer(socketserver.ThreadingUnixStreamServer):
    """It takes no more clients at once than this process can have threads and files for."""

    clients: threading.Semaphore

    def verify_request(self, *_: object) -> bool:
        return self.clients.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started, which would give the place back
            self.clients.release()
            self.shutdown_request(request)

    def process_request_thread(self, *given: object) -> None:
        try:
            super().process_request_thread(*given)  # type: ignore[arg-type]
        finally:
            self.clients.release()


class _Build:
    """The build that is served."""

    def __init__(self, queue: MemoryQueue, peaks: Peaks) -> None:
        self.queue = queue
        self.peaks = peaks
        self.learned = 0
        self.lock = threading.Lock()


class _Client:
    """What one gated process may ask for."""

    def __init__(self, build: _Build, connection: socket.socket) -> None:
        self._build = build
        self._connection = connection
        self._place: Place | None = None
        self._calls: dict[str, Callable[..., tuple[object, ...]]] = {
            "expect": self._expect,
            "learn": self._learn,
            "suspect": self._suspect,
            "wait": self._wait,
            "tell": self._tell,
            "is_alone": lambda level: (build.queue.is_alone(self._place, level),),
            "leave": self.leave,
        }

    def answer(self, line: bytes) -> bytes:
        """The answer to a question.

        Raises:
            ConnectionResetError: who has asked has gone away.
        """
        name, *words = line.decode(errors="surrogateescape").rstrip("\n").split("\0")
        try:
            said = self._calls[name](*words)
        except ConnectionResetError:
            raise
        except (KeyError, OSError, TypeError, ValueError):
            return b"no\n"
        return "\0".join(["ok", *map(str, said)]).encode() + b"\n"

    def _expect(self, tool: str, key: str, guessed: str) -> tuple[int, int]:
        return self._build.peaks.expect(_tool(tool), _key(key), _size(guessed))

    def _learn(self, tool: str, key: str, peak: str) -> tuple[()]:
        with self._counted():
            self._build.peaks.learn(_tool(tool), _key(key), _size(peak))
        return ()

    def _suspect(self, tool: str, key: str, peak: str) -> tuple[()]:
        with self._counted():
            self._build.peaks.suspect(_tool(tool), _key(key), _size(peak))
        return ()

    def _wait(self, expected: str, known: str, alone: str) -> tuple[float]:
        if not _LEVEL.fullmatch(alone):
            raise ValueError(alone)
        self.leave()
        expects = _size(expected), _size(known)
        self._place = self._build.queue.enter(self._connection.fileno(), *expects, alone)
        return (self._place.queued_until,)

    def _tell(self, used: str) -> tuple[bool]:
        return (self._place is not None and self._build.queue.tell(self._place, _size(used)),)

    def leave(self) -> tuple[()]:
        """Give back what was promised."""
        place, self._place = self._place, None
        if place:
            self._build.queue.leave(place)
        return ()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """One writer of peaks at a time: they are of one process now."""
        with self._build.lock:
            self._build.learned += 1
            if self._build.learned > _MOST_LEARNED:
                raise ValueError("too many peaks")
            yield


def _talk(handler: socketserver.StreamRequestHandler, build: _Build) -> None:
    with contextlib.suppress(OSError):
        client = _Client(build, handler.connection)
        try:
            while (line := handler.rfile.readline(_LONGEST)).endswith(b"\n"):
                handler.wfile.write(client.answer(line))
        finally:
            client.leave()


def _tool(name: str) -> str:
    if not _TOOL.fullmatch(name):
        raise ValueError(name)
    return name


def _key(text: str) -> str:
    return text.encode(errors="replace")[:_KEPT_OF_KEY].decode(errors="ignore")


def _size(text: str) -> int:
    number = int(text)
    if not 0 <= number <= _LARGEST:
        raise ValueError(text)
    return number


def _allow_open_files(count: int) -> int:
    """Let this process open so many files, or as many as it may; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
