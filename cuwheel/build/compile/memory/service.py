"""The memory service: the requests that the memory gate of a build sends to the engine.

All builds of a machine share a ledger of reserved memory and the learned peaks of their programs. A
build that could write there itself could stop every other one, today and later: so it gets a
socket, and this writes for it. A build's statements about itself are believed; it can make none in
another's name. docs/adr/0017.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cuwheel.build.compile.memory.peaks import Peaks
from cuwheel.build.compile.memory.queue import MemoryQueue, QueuedProgram
from cuwheel.build.sandbox.unix_server import serve_unix

MEMORY_SOCKET = "memory.sock"  # its name in a build's folder of sockets

_TOOL = re.compile(r"[A-Za-z0-9_+-]{1,32}")  # a part of a file's name
_LEVEL = re.compile(r"[\w:-]{0,64}")  # of an entry's line
_LONGEST = 1 << 16  # bytes of a request; keys hold a path and options
_KEPT_OF_KEY = 1 << 10  # bytes; with `_MOST_LEARNED` they bound what a build may write
_LARGEST = 1 << 50  # bytes in a request
_MOST_LEARNED = 1 << 16  # peaks that one build may teach
_MOST_CLIENTS = 4000
_FILES_OF_CLIENT = 2  # open files for each: its connection, its entry
_OTHER_FILES = 256  # that the engine may open meanwhile


@contextlib.contextmanager
def serve_memory(  # noqa: PLR0913 - each a fact of its own
    path: Path, folder: Path, recipe: str, *, jobs: int, per_job: int, warn: Callable[[str], None]
) -> Iterator[None]:
    """Serve the gates of one build until the block ends.

    Args:
        folder: of all builds.
        recipe: the name under which peaks are learned.
        jobs: how many programs of the build may run at once.
        per_job: bytes that the recipe declares for one compile.
        warn: gets the reason where programs can't wait for memory, and the builds for which they
            wait for long.
    """
    files = _allow_open_files(_OTHER_FILES + _MOST_CLIENTS * _FILES_OF_CLIENT)
    most = max(1, (files - _OTHER_FILES) // _FILES_OF_CLIENT)

    class Server(_LimitedServer):
        clients = threading.Semaphore(most)

    with contextlib.ExitStack() as served:
        try:
            name = f"{recipe}@{os.getpid()}.{time.monotonic_ns()}"
            queue = served.enter_context(contextlib.closing(MemoryQueue(folder, name, jobs, warn)))
            build = _Build(queue, Peaks(folder, recipe, per_job))

            class Handler(socketserver.StreamRequestHandler):
                def handle(self) -> None:
                    _handle(self, build)

            served.enter_context(serve_unix(path, Handler, Server))
        except OSError as problem:  # a folder that can't be used is no reason not to build
            warn(f"programs of this build start without waiting for memory: {problem}")
        yield


class _LimitedServer(socketserver.ThreadingUnixStreamServer):
    """A server with no more clients at once than this process can have threads and files for."""

    clients: threading.Semaphore

    def verify_request(self, *_: object) -> bool:
        return self.clients.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started, which would give the client back
            self.clients.release()
            self.shutdown_request(request)

    def process_request_thread(self, *request: object) -> None:
        try:
            super().process_request_thread(*request)  # type: ignore[arg-type]
        finally:
            self.clients.release()


class _Build:
    """The build that is served."""

    def __init__(self, queue: MemoryQueue, peaks: Peaks) -> None:
        self.queue = queue
        self.peaks = peaks
        self._learned = 0
        self._lock = threading.Lock()

    def learn(self, tool: str, key: str, peak: int) -> tuple[()]:
        """Let one thread at a time write peaks, and no build too many."""
        with self._lock:
            self._learned += 1
            if self._learned > _MOST_LEARNED:
                raise ValueError("too many peaks")
            self.peaks.learn(tool, key, peak)
        return ()


class _Client:
    """The requests of one gated program."""

    def __init__(self, build: _Build, connection: socket.socket) -> None:
        self._queue = build.queue
        self._connection = connection
        self._program: QueuedProgram | None = None
        peaks = build.peaks
        # By name, what replies, and how each word of the request is read.
        self._requests: dict[str, tuple[Callable[..., Any], ...]] = {
            "expect": (peaks.expect, _tool, _key),
            "learn": (build.learn, _tool, _key, _size),
            "wait": (self._wait, _size, _size, _level),
            "report": (self._report, _size),
            "is_alone": (self._is_alone, _level),
            "leave": (self.leave,),
        }

    def reply_to(self, line: bytes) -> bytes:
        """Return the reply to a request."""
        name, *words = line.decode(errors="surrogateescape").rstrip("\n").split("\0")
        try:
            reply, *readers = self._requests[name]
            values = reply(*(read(word) for read, word in zip(readers, words, strict=True)))
        except ConnectionResetError:
            raise
        except (KeyError, OSError, ValueError):
            return b"no\n"
        return "\0".join(["ok", *map(str, values)]).encode() + b"\n"

    def _wait(self, expected: int, known: int, alone: str) -> tuple[float]:
        self.leave()
        self._program = self._queue.enter(self._connection.fileno(), expected, known, alone)
        return (self._program.queued_until,)

    def _report(self, used: int) -> tuple[bool]:
        return (self._program is not None and self._queue.report(self._program, used),)

    def _is_alone(self, level: str) -> tuple[bool]:
        return (self._queue.is_alone(self._program, level),)

    def leave(self) -> tuple[()]:
        """Give the memory back."""
        program, self._program = self._program, None
        if program:
            self._queue.leave(program)
        return ()


def _handle(handler: socketserver.StreamRequestHandler, build: _Build) -> None:
    with contextlib.suppress(OSError):
        client = _Client(build, handler.connection)
        try:
            while (line := handler.rfile.readline(_LONGEST)).endswith(b"\n"):
                handler.wfile.write(client.reply_to(line))
        finally:
            client.leave()


def _tool(name: str) -> str:
    if not _TOOL.fullmatch(name):
        raise ValueError(name)
    return name


def _level(name: str) -> str:
    if not _LEVEL.fullmatch(name):
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
    """Raise this process's limit of open files to a count, or the most; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
