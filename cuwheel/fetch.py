"""Get a file by its SHA-256 into the cache: whole and checked, or not at all.

`<cache>/downloads/<sha256>/<name>` is the file. Beside it may lie `<name>.partial`, where the next
run goes on, and `<name>.wrong-hash-<8 digits>`, a file that was refused and that nothing uses.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from cuwheel.errors import DownloadError, HashMismatchError, OversizedDownloadError
from cuwheel.files import lock, naming_full_disk, sha256_of_file
from cuwheel.web import (
    PATIENCE,
    TIMEOUT,
    Trial,
    is_lasting,
    open_session,
    refused,
    shown,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.console import Console
    from cuwheel.web import Patience

_CHUNK = 1 << 16  # bytes
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")  # RFC 9110, section 14.4


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A file that is known by its hash.

    Attributes:
        name: what the file is called in the cache.
        sha256: of its content, 64 hexadecimal digits.
        max_size: bytes; a larger download is refused.
    """

    name: str
    sha256: str
    max_size: int


def fetch(  # noqa: PLR0913 - what, from where, to where, and how
    wanted: Wanted,
    find_url: Callable[[], str],
    *,
    cache: Path,
    console: Console,
    offline: bool = False,
    patience: Patience = PATIENCE,
) -> Path:
    """Give the file out of the cache; download it first where it isn't there.

    What is in the cache is read and checked each time. Two processes that want the same file
    download it once.

    Args:
        wanted: the file.
        find_url: gives its address (http, https or file); called only when it must be downloaded.
        cache: cuwheel's cache folder.
        console: shows progress.
        offline: download nothing.
        patience: how long to go on trying.

    Raises:
        DownloadError: it can't be had.
        HashMismatchError: what came isn't the file; it lies beside its place under another name.
        OversizedDownloadError: what comes is larger than allowed.
        DiskFullError: the cache's disk ran full.
    """
    path = cache / "downloads" / wanted.sha256 / wanted.name

    def tell() -> None:
        console.note(f"another cuwheel is downloading {wanted.name}; waiting for it")

    with naming_full_disk(path.parent), lock(path.parent / ".lock", on_wait=tell):
        if not _is_whole(path, wanted, console):
            if offline:
                raise _not_there(path)
            _Download(wanted, path, find_url(), console, patience).finish()
    return path


def _is_whole(path: Path, wanted: Wanted, console: Console) -> bool:
    if not path.is_file():
        return False
    actual = sha256_of_file(path)
    if actual == wanted.sha256:
        return True
    aside = _set_aside(path, path, actual)
    console.warn(f"{path.name} was damaged in the cache (now {aside.name}) and is downloaded again")
    return False


def _not_there(path: Path) -> DownloadError:
    return DownloadError(
        f"{path.name} is not in the cache",
        why="--offline is set, so it can't be downloaded",
        fix=f"put the file at {path}, or give the source with `-- --source FILE`",
    )


def _set_aside(found: Path, path: Path, actual: str) -> Path:
    """Give a wrong file a name that nothing looks for."""
    return found.replace(path.with_name(f"{path.name}.wrong-hash-{actual[:8]}"))


class _Download:
    """One file on its way from one address."""

    def __init__(
        self, wanted: Wanted, path: Path, url: str, console: Console, patience: Patience
    ) -> None:
        self._wanted = wanted
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._url = url
        self._console = console
        self._patience = patience

    def finish(self) -> None:
        """Bring the file under its name.

        Nothing tells whether a partial file and the rest that a server gives belong together, but
        the hash: where it is wrong after going on, the whole file is downloaded anew.
        """
        started_at = self._size()
        actual = sha256_of_file(self._partial) if started_at else ""
        if actual != self._wanted.sha256:
            self._receive_all()
            actual = sha256_of_file(self._partial)
        if actual != self._wanted.sha256 and started_at:
            self._console.note(f"the kept part of {self._wanted.name} doesn't fit; starting anew")
            self._partial.unlink()
            self._receive_all()
            actual = sha256_of_file(self._partial)
        if actual != self._wanted.sha256:
            aside = _set_aside(self._partial, self._path, actual)
            raise self._wrong_hash(actual, aside)
        self._partial.replace(self._path)

    def _receive_all(self) -> None:
        """Receive until the partial file is complete, going on after each break."""
        trial = Trial(self._patience)
        most = self._size()
        with open_session(self._url, self._patience) as session:
            while problem := self._receive(session):
                # A server that starts anew and breaks off at the same place makes no progress.
                if self._size() > most:
                    most = self._size()
                    trial.progressed()
                if is_lasting(problem) or not trial.goes_on():
                    raise unreachable(self._url, problem, fix=self._fix()) from problem

    def _receive(self, session: requests.Session) -> Exception | None:
        """Ask once, for the rest of the file where there is a part; say what went wrong."""
        done = self._size()
        # A compressed transfer would have other sizes than the file.
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
        try:
            with session.get(self._url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
                return self._take(answer, done)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            return problem

    def _take(self, answer: requests.Response, done: int) -> Exception | None:
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._partial.unlink(missing_ok=True)
            return EOFError("the server's file is shorter than the part that is here")
        if not answer.ok:
            raise refused(self._url, answer.status_code, fix=self._fix())
        offset = _offset(answer)
        if offset not in {0, done}:
            self._partial.unlink(missing_ok=True)
            return EOFError("the server sent another part of the file than it was asked for")
        self._write(answer, offset)
        return None

    def _write(self, answer: requests.Response, offset: int) -> None:
        length = answer.headers.get("Content-Length")
        total = offset + int(length) if length and length.isdigit() else None
        self._check_size(total or 0)
        bar = self._console.download(self._wanted.name, total, offset)
        with bar as progress, self._partial.open("r+b" if offset else "wb") as stream:
            stream.seek(offset)
            stream.truncate()
            for piece in answer.raw.stream(_CHUNK, decode_content=False):
                self._check_size(stream.tell() + len(piece))
                stream.write(piece)
                progress.update(progress.task_ids[0], completed=stream.tell())

    def _check_size(self, size: int) -> None:
        if size <= self._wanted.max_size:
            return
        self._partial.unlink(missing_ok=True)
        raise OversizedDownloadError(
            f"{shown(self._url)} is larger than the {self._wanted.max_size} bytes that are allowed",
            why=f"it has at least {size} bytes",
            fix="look at what the address sends; if the package grew, raise `max_size` in the "
            "recipe's source",
        )

    def _size(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self._partial.stat().st_size
        return 0

    def _fix(self) -> str:
        kept = f" (it goes on after {self._size()} bytes)" if self._size() else ""
        return f"try again later{kept}, or put the file at {self._path}"

    def _wrong_hash(self, actual: str, aside: Path) -> HashMismatchError:
        host = urlsplit(self._url).hostname or "the file system"
        return HashMismatchError(
            f"{shown(self._url)} is not the file that the recipe pins",
            why=f"its SHA-256 is {actual}, the recipe's is {self._wanted.sha256}",
            fix=f"look at what {host} sent, it lies in {aside}; correct the recipe's `sha256` only "
            "when you know that upstream's file is this one",
        )


def _offset(answer: requests.Response) -> int:
    """Where in the file an answer begins; -1 when it doesn't say so clearly."""
    if answer.status_code != HTTPStatus.PARTIAL_CONTENT:
        return 0
    said = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return int(said[1]) if said else -1
