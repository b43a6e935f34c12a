"""One file from one address to its path: resumed, checked by its hash, whole or not there."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from cuwheel.errors import DownloadError, HashMismatchError, OversizedDownloadError
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.urls import is_local, local_path, redact_url
from cuwheel.fetch.web import is_lasting, open_session, refused, unreachable
from cuwheel.system.files import hash_of_file
from cuwheel.system.parallel import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.system.output.live import Listener


_CHUNK = 1 << 16  # bytes
_PROGRESS = 1 << 14  # bytes; an attempt that brings less counts as one that brought nothing
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")  # RFC 9110, section 14.4
FIX = "pass the source with `-- --source FILE`"


@dataclass(frozen=True, kw_only=True)
class PinnedFile:
    """A file that is known by its hash, or proves itself to whoever uses it.

    Attributes:
        name: what the file is called in the cache.
        sha256: of its content, 64 hexadecimal digits; empty where only the MD5 is known.
        max_size: bytes; a larger download is refused.
        md5: of its content, 32 hexadecimal digits; counts only without `sha256`. Without both
            nothing is checked.
        size: bytes, for the progress bar; None where it isn't known.
        pinned_by: what names the hash, for messages.
        repin: what to do when the file is right and the hash is wrong, for messages.
        regrow: what to do when the file is right and the size is wrong, for messages.
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


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to download, from where, to where; what shows progress, and what ends it.

    Attributes:
        file: the one that is pinned.
        path: where it goes.
        url: http, https or file.
        console: shows progress.
        stop: ends it.
        fix: one more way out, for messages.
    """

    file: PinnedFile
    path: Path
    url: str
    console: Listener
    stop: Stop
    fix: str

    @property
    def partial(self) -> Path:
        """Where what has come so far is kept."""
        return self.path.with_name(f"{self.path.name}.partial")


class Download:
    """One file on its way from one address."""

    def __init__(self, task: Task, retry_policy: RetryPolicy) -> None:
        self._file = task.file
        self._path = task.path
        self._partial = task.partial
        self._url = task.url
        self._task = task
        self._attempts = Attempts(retry_policy, task.stop)
        self._counted = 0  # bytes of the partial file that have counted as progress

    def finish(self) -> None:
        """Bring the file under its name.

        Nothing tells whether a partial file and the rest that a server gives belong together, but
        the hash: where it is wrong after going on, the whole file is downloaded anew.
        """
        try:
            self._finish()
        finally:
            self._remove_nothing()

    def _finish(self) -> None:
        if self._file.digest:
            self._receive_checked()
        else:
            self._receive_all()
        self._partial.replace(self._path)

    def _receive_checked(self) -> None:
        started_at = self._size()
        actual = self._hash() if started_at else ""
        if actual != self._file.digest:
            self._receive_all()
            actual = self._hash()
        if actual != self._file.digest and started_at:
            self._task.console.note(
                f"the partial download of {self._file.name} doesn't match; starting again"
            )
            self._partial.unlink()
            self._receive_all()
            actual = self._hash()
        if actual != self._file.digest:
            aside = set_aside(self._partial, self._path, actual)
            raise self._wrong_hash(actual, aside)

    def _remove_nothing(self) -> None:
        """Leave no empty file and no empty folder behind."""
        if self._partial.exists() and not self._size():
            self._partial.unlink()
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()

    def _receive_all(self) -> None:
        """Receive until the partial file is complete, going on after each break."""
        if is_local(self._url):
            self._copy(local_path(self._url))
            return
        self._attempts.note_progress()
        self._counted = self._size()
        with open_session(self._attempts) as session:
            before = self._size()
            while problem := self._receive(session):
                if self._size() >= before + _PROGRESS:
                    self._attempts.reset_count()
                before = self._size()
                if is_lasting(problem) or not self._attempts.may_retry():
                    raise unreachable(self._url, problem, fix=self._fix()) from problem

    def _copy(self, source: Path) -> None:
        if not source.is_file():
            raise DownloadError(
                f"{redact_url(self._url)} could not be downloaded",
                why="the server has no such file",
                fix=self._fix(),
            )
        with source.open("rb") as stream:
            self._write(iter(partial(stream.read, _CHUNK), b""), 0, source.stat().st_size)

    def _receive(self, session: requests.Session) -> Exception | None:
        """Ask once, for the rest of the file where there is a part; say what went wrong."""
        self._task.stop.check()
        done = self._size()
        # A compressed transfer would have other sizes than the file.
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
        try:
            with session.get(self._url, headers=headers, stream=True) as answer:
                return self._take(answer, done)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            return problem

    def _take(self, answer: requests.Response, done: int) -> Exception | None:
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._partial.unlink(missing_ok=True)
            return EOFError("the server's file is shorter than the part downloaded so far")
        if not answer.ok:
            raise refused(self._url, answer, fix=self._fix())
        offset = _offset(answer)
        if offset not in {0, done}:
            self._partial.unlink(missing_ok=True)
            return EOFError("the server sent a different part of the file than requested")
        length = answer.headers.get("Content-Length")
        total = offset + int(length) if length and length.isdigit() else None
        self._write(self._pieces(answer, offset), offset, total)
        return None

    def _pieces(self, answer: requests.Response, offset: int) -> Iterator[bytes]:
        """What comes, as it comes: a slow server would never fill a chunk of some size.

        Raises:
            requests.ReadTimeout: it comes too slowly.
        """
        size = offset
        while piece := answer.raw.read1(_CHUNK, decode_content=False):
            yield piece
            size += len(piece)
            if self._attempts.left <= 0:
                raise requests.ReadTimeout(self._attempts.slow_reason)
            # A server that starts anew and breaks off at the same byte makes no progress.
            if size >= self._counted + self._attempts.retry_policy.least:
                self._counted = size
                self._attempts.note_progress()

    def _write(self, pieces: Iterator[bytes], offset: int, total: int | None) -> None:
        self._check_size(total or 0)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        row = self._task.console.download(self._file.name, total, offset)
        with row as show, self._partial.open("r+b" if offset else "wb") as stream:
            stream.seek(offset)
            stream.truncate()
            for piece in pieces:
                self._task.stop.check()
                self._check_size(stream.tell() + len(piece))
                stream.write(piece)
                show(stream.tell())

    def _check_size(self, size: int) -> None:
        if size <= self._file.max_size:
            return
        self._partial.unlink(missing_ok=True)
        raise OversizedDownloadError(
            f"{redact_url(self._url)} is larger than the {self._file.max_size} bytes allowed",
            why=f"it has {size} bytes or more",
            fix="check what the server sends; if the file is right and has grown, "
            f"{self._file.regrow}",
        )

    def _size(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self._partial.stat().st_size
        return 0

    def _hash(self) -> str:
        return hash_of_file(self._partial, self._file.algorithm)

    def _fix(self) -> str:
        kept = f" (it resumes after {self._size()} bytes)" if self._size() else ""
        return f"try again later{kept}, put the file at {self._path}, or {self._task.fix}"

    def _wrong_hash(self, actual: str, aside: Path) -> HashMismatchError:
        host = urlsplit(self._url).hostname or "the file system"
        owner, algorithm = self._file.pinned_by, self._file.algorithm
        kind = {"sha256": "SHA-256", "md5": "MD5"}[algorithm]
        return HashMismatchError(
            f"{redact_url(self._url)} is not the file that {owner} pins",
            why=f"its {kind} is {actual}, and {owner} expects {self._file.digest}",
            fix=f"examine the file that {host} sent, which is kept as {aside}; {self._file.repin} "
            "only if you know that this is upstream's file",
        )


def download(
    file: PinnedFile,
    path: Path,
    url: str,
    *,
    console: Listener,
    retry_policy: RetryPolicy = RETRY_POLICY,
) -> None:
    """Download one file to a path of the caller's; the caller makes sure that only one does.

    Raises:
        CuwheelError: as `fetch`.
    """
    task = Task(file=file, path=path, url=url, console=console, stop=Stop(), fix=FIX)
    Download(task, retry_policy).finish()


def set_aside(found: Path, path: Path, actual: str) -> Path:
    """Give a wrong file a name that nothing searches for."""
    return found.replace(path.with_name(f"{path.name}.wrong-hash-{actual[:8]}"))


def _offset(answer: requests.Response) -> int:
    """Where in the file an answer begins; -1 when it doesn't say so clearly."""
    if answer.status_code != HTTPStatus.PARTIAL_CONTENT:
        return 0
    said = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return int(said[1]) if said else -1
