"""File on a server, read at any offset by range requests (RFC 9110, "Range")."""

from __future__ import annotations

import io
import itertools
import os
import re
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any

import requests
import urllib3

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.fetch.web import open_session, refused, unreachable
from cuwheel.base.system.regular_files import open_file

_WINDOW = 8 << 20  # bytes of one request; more isn't read
_CHUNK = 1 << 16  # bytes
_BLOCK = 1 << 16  # bytes; parts of a copy begin and end at multiples of it
# 13 digits are 9 TiB: file systems have no larger files, and Python reads no number of any length.
_SPAN = re.compile(r"bytes (?P<start>\d{1,13})-\d+/(?P<size>\d{1,13})")
_FIX = "try again later, or take another server; of indexes UV_DEFAULT_INDEX names the first"


def open_remote(url: str, *, window: int = 0) -> IO[bytes]:
    """Open a file (http, https, file) as a seekable stream; raises DownloadError while reading too.

    Args:
        window: bytes of one request; 0: as many as suit large files.
    """
    if is_local(url):
        return open_file(local_path(url))
    size = window or _WINDOW
    return io.BufferedReader(_RemoteFile(url, size), min(size, _CHUNK))


class _InParts(io.RawIOBase):
    """A file on a server that can be read at any offset."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._parts = _Parts(url)
        self._at = 0  # where the next read begins

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the place of the next read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._parts.size}
        self._at = max(0, start[whence] + offset)
        return self._at


class _RemoteFile(_InParts):
    def __init__(self, url: str, window: int) -> None:
        super().__init__(url)
        self._window = window
        self._start, self._part = 0, self._parts.request(0, window)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._at >= self._parts.size:
            return 0
        if not self._start <= self._at < self._start + len(self._part):
            # A whole window at the end of the file: archives have their table there.
            start = max(0, min(self._at, self._parts.size - self._window))
            self._start, self._part = start, self._parts.request(start, self._window)
        past = self._at - self._start
        piece = self._part[past : past + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._parts.close()
        super().close()


class PartialCopy(_InParts):
    """A file on a server as a sparse file here, which holds only the parts that were read.

    Args:
        path: of the new file.
        most: bytes that are requested in all.

    Attributes:
        received: bytes.

    Raises:
        DownloadError: while reading too; the server can't be read in parts, more than `most` bytes
            are needed, or the file changed between two requests.
    """

    def __init__(self, url: str, path: Path, most: int) -> None:
        super().__init__(url)
        self._most = most
        self._blocks: set[int] = set()  # numbers of those that are here
        self.received = 0
        start = self._parts.request(0, _BLOCK)
        self.size = self._parts.size
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, self.size)
        self._keep(0, start)

    def fileno(self) -> int:
        """Return the descriptor of the sparse file."""
        return self._file

    def readinto(self, buffer: Any) -> int:
        """Read a part, which is copied first."""
        view = memoryview(buffer).cast("B")
        self.fetch(self._at, len(view))
        done = os.preadv(self._file, [view], self._at)
        self._at += done
        return done

    def close(self) -> None:
        """End the connection and close the file."""
        if not self.closed:
            self._parts.close()
            os.close(self._file)
        super().close()

    @property
    def left(self) -> int:
        """The bytes that may be requested still."""
        return self._most - self.received

    def cost(self, offset: int, size: int) -> int:
        """Return the bytes to request for a part."""
        return _BLOCK * len(self._missing(offset, size))

    def fetch(self, offset: int, size: int) -> None:
        """Copy a part, as far as it isn't here; raises DownloadError, also beyond `most` bytes."""
        missing = self._missing(offset, size)
        if _BLOCK * len(missing) > self.left:
            raise DownloadError(
                f"{redact_url(self._parts.url)} wasn't read to its end",
                why=f"more than {self._most:,} bytes of it are needed",
                fix="download the file",
            )
        for _, run in itertools.groupby(enumerate(missing), key=lambda item: item[1] - item[0]):
            blocks = [block for _, block in run]
            start = blocks[0] * _BLOCK
            self._keep(start, self._parts.request(start, len(blocks) * _BLOCK))

    def _missing(self, offset: int, size: int) -> list[int]:
        end = min(offset + size, self.size)
        blocks = range(offset // _BLOCK, -(-end // _BLOCK)) if offset < end else ()
        return [block for block in blocks if block not in self._blocks]

    def _keep(self, start: int, part: bytes) -> None:
        os.pwrite(self._file, part, start)
        self.received += len(part)
        self._blocks.update(range(start // _BLOCK, -(-(start + len(part)) // _BLOCK)))


class _Parts:
    """Requests for parts of one file.

    Attributes:
        size: of the whole file, bytes; known after the first request.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.size = 0
        self._etag = ""
        self._attempts = Attempts()
        self._session = open_session(self._attempts)

    def close(self) -> None:
        """End the connection."""
        self._session.close()

    def request(self, start: int, size: int) -> bytes:
        """Return the bytes of a part, fewer only at the file's end."""
        headers = {
            "Accept-Encoding": "identity",
            "Range": f"bytes={start}-{start + size - 1}",
        }
        self._attempts.note_progress()
        try:
            with self._session.get(self.url, headers=headers, stream=True) as response:
                if not start and response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return b""  # only an empty file has no first byte (RFC 9110, 14.1.2)
                if not response.ok:
                    raise refused(self.url, response, fix=_FIX)
                match = _SPAN.fullmatch(response.headers.get("Content-Range", ""))
                is_packed = response.headers.get("Content-Encoding", "identity") != "identity"
                if match and int(match["start"]) == start and not is_packed:
                    self._check_same(int(match["size"]), response.headers.get("ETag", ""))
                    return self._receive(response, min(size, self.size - start))
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            raise unreachable(self.url, problem, fix=_FIX) from problem
        is_whole = response.status_code == HTTPStatus.OK
        raise DownloadError(
            f"{redact_url(self.url)} can't be read in parts",
            why="the server doesn't support `Range` requests"
            if is_whole
            else "the server sent a different part than requested",
            fix="download the file, or take a server that supports them; of indexes "
            "UV_DEFAULT_INDEX names the first",
        )

    def _check_same(self, size: int, etag: str) -> None:
        """Raise an error where this answer is about another file than the first one."""
        if self.size and (size, etag or self._etag) != (self.size, self._etag or etag):
            raise DownloadError(
                f"{redact_url(self.url)} changed while it was read",
                why="the server's answers differ in the size or the `ETag` of the file",
                fix="try again",
            )
        self.size, self._etag = size, etag or self._etag

    def _receive(self, response: requests.Response, size: int) -> bytes:
        part = bytearray()
        counted = 0  # bytes that have counted as progress
        while remaining := size - len(part):
            piece = response.raw.read1(min(_CHUNK, remaining), decode_content=False)
            if not piece:
                break
            part += piece
            if self._attempts.left <= 0:
                raise requests.ReadTimeout(self._attempts.slow_reason)
            if len(part) >= counted + self._attempts.retry_policy.least:
                counted = len(part)
                self._attempts.note_progress()
        if len(part) < size:
            more = size - len(part)
            raise requests.ConnectionError(f"{len(part)} bytes read, {more} more expected")
        return bytes(part)
