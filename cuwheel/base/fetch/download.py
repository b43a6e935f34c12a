"""Download of one file from one address: resumed, checked by its hash, complete or absent."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import requests
import urllib3.exceptions

from cuwheel.base.errors import DownloadError, HashMismatchError
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, local_path, redact_url, split_url
from cuwheel.base.fetch.web import is_lasting, open_session, refused, unreachable
from cuwheel.base.system.console import Listener
from cuwheel.base.system.files import hash_of_file
from cuwheel.base.system.parallel import Stop
from cuwheel.base.system.regular_files import open_file

_CHUNK = 1 << 16  # bytes
_PROGRESS = 1 << 14  # bytes; an attempt that brings less counts as a failed one
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")  # RFC 9110, section 14.4
FIX = "pass the source with `-- --source FILE`"


@dataclass(frozen=True, kw_only=True)
class PinnedFile:
    """File that is pinned by its hash, or verified by its user.

    Attributes:
        sha256: of its content, 64 hexadecimal digits; empty where only the MD5 is known.
        max_size: bytes; a larger download is refused.
        md5: of its content, 32 hexadecimal digits; counts only without `sha256`. Without both
            nothing is checked.
        size: bytes, for the progress bar; None where it isn't known.
        repin: fix when the file is right and the hash is wrong, for messages.
        regrow: fix when the file is right and the size is wrong, for messages.
    """

    name: str
    sha256: str
    max_size: int
    md5: str = ""
    size: int | None = None
    pinned_by: str = "the recipe"
    repin: str = "correct the recipe's `sha256`"
    regrow: str = "raise `max_size` in the recipe's source"

    @property
    def algorithm(self) -> str:
        """The hash that counts: `sha256` or `md5`."""
        return "sha256" if self.sha256 else "md5"

    @property
    def digest(self) -> str:
        """Its hexadecimal digits."""
        return self.sha256 or self.md5


@dataclass(kw_only=True)
class _Download:
    file: PinnedFile
    path: Path
    url: str
    console: Listener
    attempts: Attempts
    fix: str
    counted: int = 0  # bytes of the partial file that have counted as progress

    @property
    def partial(self) -> Path:
        return self.path.with_name(f"{self.path.name}.partial")

    def finish(self) -> None:
        """Download the file and rename it when it is complete.

        Only the hash shows if a partial file and the rest that a server sends belong together:
        where it is wrong after resuming, the whole file is downloaded again.
        """
        try:
            if self.file.digest:
                self._receive_checked()
            else:
                self._receive_all()
            self.partial.replace(self.path)
        finally:  # leave no empty file and no empty folder
            if self.partial.exists() and not self._size():
                self.partial.unlink()
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()

    def _receive_checked(self) -> None:
        started_at = self._size()
        actual = self._hash() if started_at else ""
        if actual != self.file.digest:
            self._receive_all()
            actual = self._hash()
        if actual != self.file.digest and started_at:
            self.console.note(
                f"the partial download of {self.file.name} doesn't match; starting again"
            )
            self.partial.unlink()
            self._receive_all()
            actual = self._hash()
        if actual != self.file.digest:
            aside = set_aside(self.partial, self.path, actual)
            raise self._wrong_hash(actual, aside)

    def _receive_all(self) -> None:
        """Receive until the partial file is complete, resuming after each break."""
        if is_local(self.url):
            self._copy(local_path(self.url))
            return
        self.attempts.note_progress()
        self.counted = self._size()
        with open_session(self.attempts) as session:
            before = self._size()
            while problem := self._receive(session):
                if self._size() >= before + _PROGRESS:
                    self.attempts.reset_count()
                before = self._size()
                if is_lasting(problem) or not self.attempts.may_retry():
                    raise unreachable(self.url, problem, fix=self._fix()) from problem

    def _copy(self, source: Path) -> None:
        if not source.is_file():
            raise DownloadError(
                f"{redact_url(self.url)} could not be downloaded",
                why="the server has no such file",
                fix=self._fix(),
            )
        with open_file(source) as stream:
            self._write(iter(partial(stream.read, _CHUNK), b""), 0, source.stat().st_size)

    def _receive(self, session: requests.Session) -> Exception | None:
        """Send one request, for the rest of the file where there is a part; return the failure."""
        self.attempts.stop.check()
        done = self._size()
        # A compressed transfer would have other sizes than the file.
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
        try:
            with session.get(self.url, headers=headers, stream=True) as response:
                return self._take(response, done)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            return problem

    def _take(self, response: requests.Response, done: int) -> Exception | None:
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self.partial.unlink(missing_ok=True)
            return EOFError("the server's file is shorter than the part downloaded so far")
        if not response.ok:
            raise refused(self.url, response, fix=self._fix())
        offset = 0
        if response.status_code == HTTPStatus.PARTIAL_CONTENT:
            span = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            offset = int(span[1]) if span else -1
        if offset not in {0, done}:
            self.partial.unlink(missing_ok=True)
            return EOFError("the server sent a different part of the file than requested")
        length = response.headers.get("Content-Length")
        total = offset + int(length) if length and length.isdigit() else None
        self._write(self._pieces(response, offset), offset, total)
        return None

    def _pieces(self, response: requests.Response, offset: int) -> Iterator[bytes]:
        """Yield the content as it arrives: a slow server would never fill a fixed chunk."""
        size = offset
        while piece := response.raw.read1(_CHUNK, decode_content=False):
            yield piece
            size += len(piece)
            if self.attempts.left <= 0:
                raise requests.ReadTimeout(self.attempts.slow_reason)
            # A server that starts again and breaks off at the same byte makes no progress.
            if size >= self.counted + self.attempts.retry_policy.least:
                self.counted = size
                self.attempts.note_progress()

    def _write(self, pieces: Iterator[bytes], offset: int, total: int | None) -> None:
        self._check_size(total or 0)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        row = self.console.download(self.file.name, total, offset)
        with row as show, self.partial.open("r+b" if offset else "wb") as stream:
            stream.seek(offset)
            stream.truncate()
            for piece in pieces:
                self.attempts.stop.check()
                self._check_size(stream.tell() + len(piece))
                stream.write(piece)
                show(stream.tell())

    def _check_size(self, size: int) -> None:
        if size <= self.file.max_size:
            return
        self.partial.unlink(missing_ok=True)
        raise HashMismatchError(
            f"{redact_url(self.url)} is larger than the {self.file.max_size} bytes allowed",
            why=f"it has {size} bytes or more",
            fix="check what the server sends; if the file is right and has grown, "
            f"{self.file.regrow}",
        )

    def _size(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self.partial.stat().st_size
        return 0

    def _hash(self) -> str:
        return hash_of_file(self.partial, self.file.algorithm)

    def _fix(self) -> str:
        resume = f" (it resumes after {self._size()} bytes)" if self._size() else ""
        return f"try again later{resume}, put the file at {self.path}, or {self.fix}"

    def _wrong_hash(self, actual: str, aside: Path) -> HashMismatchError:
        host = split_url(self.url).hostname or "the file system"
        owner, algorithm = self.file.pinned_by, self.file.algorithm
        kind = {"sha256": "SHA-256", "md5": "MD5"}[algorithm]
        return HashMismatchError(
            f"{redact_url(self.url)} is not the file that {owner} pins",
            why=f"its {kind} is {actual}, and {owner} expects {self.file.digest}",
            fix=f"examine the file that {host} sent, which is kept as {aside}; {self.file.repin} "
            "only if you know that this is upstream's file",
        )


def download(  # noqa: PLR0913 - what, from where, to where, and how
    file: PinnedFile,
    path: Path,
    url: str,
    *,
    console: Listener,
    stop: Stop | None = None,
    fix: str = FIX,
) -> None:
    """Download one file to a path; the caller prevents parallel downloads of it.

    Errors: those of `fetch`.
    """
    attempts = Attempts(stop)
    _Download(file=file, path=path, url=url, console=console, attempts=attempts, fix=fix).finish()


def set_aside(file: Path, path: Path, actual: str) -> Path:
    """Rename a wrong file so that nothing uses it, and return its new path."""
    return file.replace(path.with_name(f"{path.name}.wrong-hash-{actual[:8]}"))
