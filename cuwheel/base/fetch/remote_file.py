"""File on a server, read at any offset by range requests (RFC 9110, "Range")."""

from __future__ import annotations

import io
import re
from http import HTTPStatus
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
_SPAN = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<size>\d+)")
_FIX = "try again later, or set UV_DEFAULT_INDEX to another index"


def open_remote(url: str, *, window: int = 0) -> IO[bytes]:
    """Open a file (http, https, file) as a seekable stream; raises DownloadError while reading too.

    Args:
        window: bytes of one request; 0: as many as suit large files.
    """
    if is_local(url):
        return open_file(local_path(url))
    size = window or _WINDOW
    return io.BufferedReader(_RemoteFile(url, size), min(size, _CHUNK))


class _RemoteFile(io.RawIOBase):
    def __init__(self, url: str, window: int) -> None:
        super().__init__()
        self._url = url
        self._window = window
        self._at = 0  # where the next read begins
        self._attempts = Attempts()
        self._session = open_session(self._attempts)
        self._start, (self._part, self._size) = 0, self._request(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, start[whence] + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._at >= self._size:
            return 0
        if not self._start <= self._at < self._start + len(self._part):
            # A whole window at the end of the file: archives have their table there.
            start = max(0, min(self._at, self._size - self._window))
            self._start, (self._part, _) = start, self._request(start)
        past = self._at - self._start
        piece = self._part[past : past + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._session.close()
        super().close()

    def _request(self, start: int) -> tuple[bytes, int]:
        """Return the bytes of a window, and the size of the whole file."""
        headers = {
            "Accept-Encoding": "identity",
            "Range": f"bytes={start}-{start + self._window - 1}",
        }
        self._attempts.note_progress()
        try:
            with self._session.get(self._url, headers=headers, stream=True) as response:
                if not start and response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    return b"", 0  # only an empty file has no first byte (RFC 9110, 14.1.2)
                if not response.ok:
                    raise refused(self._url, response, fix=_FIX)
                match = _SPAN.fullmatch(response.headers.get("Content-Range", ""))
                if match and int(match["start"]) == start:
                    return self._receive(response), int(match["size"])
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            raise unreachable(self._url, problem, fix=_FIX) from problem
        raise DownloadError(
            f"{redact_url(self._url)} can't be read in parts",
            why="the server sent a different part than requested",
            fix="set UV_DEFAULT_INDEX to an index whose server supports `Range` requests",
        )

    def _receive(self, response: requests.Response) -> bytes:
        part = bytearray()
        counted = 0  # bytes that have counted as progress
        while remaining := self._window - len(part):
            piece = response.raw.read1(min(_CHUNK, remaining), decode_content=False)
            if not piece:
                break
            part += piece
            if self._attempts.left <= 0:
                raise requests.ReadTimeout(self._attempts.slow_reason)
            if len(part) >= counted + self._attempts.retry_policy.least:
                counted = len(part)
                self._attempts.note_progress()
        return bytes(part)
