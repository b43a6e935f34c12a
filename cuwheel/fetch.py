"""Get files by their hash into the cache: whole and checked, or not at all.

`<cache>/downloads/<sha256>/<name>` is a file. Beside it may lie `<name>.partial`, where the next
run goes on, and `<name>.wrong-hash-<8 digits>`, a file that was refused and that nothing uses.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
import urllib3.exceptions

from cuwheel.errors import DownloadError, HashMismatchError, OversizedDownloadError
from cuwheel.files import hash_of_file, lock, naming_full_disk
from cuwheel.mirrors import Mirrors
from cuwheel.parallel import Stop, StoppedError, run_all
from cuwheel.web import (
    PATIENCE,
    Trial,
    is_lasting,
    is_local,
    open_session,
    refused,
    shown,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.console import Console, Downloads, Listener
    from cuwheel.web import Patience

_CHUNK = 1 << 16  # bytes
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")  # RFC 9110, section 14.4
_FIX = "give the source with `-- --source FILE`"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A file that is known by its hash.

    Attributes:
        name: what the file is called in the cache.
        sha256: of its content, 64 hexadecimal digits; empty where only the MD5 is known.
        max_size: bytes; a larger download is refused.
        md5: of its content, 32 hexadecimal digits; counts only without `sha256`.
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


def cached_path(cache: Path, wanted: Wanted) -> Path:
    """Where a file is in the cache, or will be.

    Args:
        cache: cuwheel's cache folder.
        wanted: the file.
    """
    folder = wanted.sha256 or f"md5-{wanted.md5}"
    return cache / "downloads" / folder / wanted.name


def fetch(  # noqa: PLR0913 - what, from where, to where, and how
    wanted: Wanted,
    find_url: Callable[[], str],
    *,
    cache: Path,
    console: Listener,
    offline: bool = False,
    patience: Patience = PATIENCE,
    stop: Stop | None = None,
    fix: str = _FIX,
) -> Path:
    """Give the file out of the cache; download it first where it isn't there.

    What is in the cache is read and checked each time. Two processes that want the same file
    download it once.

    Args:
        wanted: the file.
        find_url: gives its address (http, https or file); called only when it must be downloaded,
            with `offline` too: then it must not use the network.
        cache: cuwheel's cache folder.
        console: shows progress.
        offline: use no network; a `file:` address isn't one.
        patience: how long to go on trying.
        stop: ends it early.
        fix: a way out beside putting the file into the cache by hand, for messages.

    Raises:
        DownloadError: it can't be had.
        HashMismatchError: what came isn't the file; it lies beside its place under another name.
        OversizedDownloadError: what comes is larger than allowed.
        DiskFullError: the cache's disk ran full.
        StoppedError: `stop` ended it.
    """
    stop = stop or Stop()
    path = cached_path(cache, wanted)
    guard = cache / "downloads" / ".locks" / path.parent.name

    def tell() -> None:
        console.note(f"another cuwheel is downloading {wanted.name}; waiting for it")

    with naming_full_disk(path.parent), _held(guard, tell, stop):
        if not _is_whole(path, wanted, console):
            url = _address(path, find_url, offline=offline, fix=fix)
            task = _Task(wanted=wanted, path=path, url=url, console=console, stop=stop, fix=fix)
            _Download(task, patience).finish()
    return path


def fetch_all(  # noqa: PLR0913 - what, to where, and how
    wanted: Sequence[tuple[Wanted, Callable[[], str]]],
    *,
    cache: Path,
    console: Console,
    title: str,
    offline: bool = False,
    patience: Patience = PATIENCE,
    fix: str = _FIX,
) -> tuple[Path, ...]:
    """Give many files out of the cache; download several at once where they aren't there.

    The first failure ends the others, and what they have by then is kept for the next run.

    Args:
        wanted: each file and what gives its address, as for `fetch`.
        cache: cuwheel's cache folder.
        console: shows one bar for all.
        title: names them together.
        offline: use no network.
        patience: how long to go on trying, for each.
        fix: as for `fetch`.

    Returns:
        The files, in the same order.

    Raises:
        CuwheelError: as `fetch`, of the first that failed.
    """
    tasks = {cached_path(cache, file): (file, find_url) for file, find_url in wanted}
    sizes = [file.size for file, _ in tasks.values()]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    stop = Stop()

    def get(file: Wanted, find_url: Callable[[], str], bar: Downloads) -> None:
        path = fetch(
            file,
            find_url,
            cache=cache,
            console=bar,
            offline=offline,
            patience=patience,
            stop=stop,
            fix=fix,
        )
        bar.finish(file.name, path.stat().st_size)

    with console.downloads(title, total, files=len(tasks)) as bar:
        run_all([partial(get, *task, bar) for task in tasks.values()], stop)
    return tuple(cached_path(cache, file) for file, _ in wanted)


def download(wanted: Wanted, path: Path, url: str, *, console: Listener) -> None:
    """Download one file to a place of the caller's; the caller sees to it that only one does.

    Raises:
        CuwheelError: as `fetch`.
    """
    task = _Task(wanted=wanted, path=path, url=url, console=console, stop=Stop(), fix=_FIX)
    _Download(task, PATIENCE).finish()


@contextlib.contextmanager
def _held(guard: Path, tell: Callable[[], None], stop: Stop) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock(guard, on_wait=tell, gives_up=stop.is_asked))
        except TimeoutError:
            raise StoppedError from None
        stop.check()
        yield


def _address(path: Path, find_url: Callable[[], str], *, offline: bool, fix: str) -> str:
    """Where the file is: in a mirror, or where `find_url` says; offline only on this machine.

    Raises:
        DownloadError: it isn't known, or would need a network that mustn't be used.
    """
    mirrored = Mirrors.of(os.environ, offline=offline).find(path.parent.name, path.name)
    if mirrored or not offline:
        return mirrored.url if mirrored else find_url()
    with contextlib.suppress(DownloadError):
        url = find_url()
        if is_local(url):
            return url
    raise DownloadError(
        f"{path.name} is not in the cache",
        why="--offline is set, so it can't be downloaded",
        fix=f"put the file at {path}, or {fix}",
    )


def _is_whole(path: Path, wanted: Wanted, console: Listener) -> bool:
    if not path.is_file():
        return False
    actual = hash_of_file(path, wanted.algorithm)
    if actual == wanted.digest:
        return True
    aside = _set_aside(path, path, actual)
    console.warn(f"{path.name} was damaged in the cache (now {aside.name}) and is downloaded again")
    return False


def _set_aside(found: Path, path: Path, actual: str) -> Path:
    """Give a wrong file a name that nothing looks for."""
    return found.replace(path.with_name(f"{path.name}.wrong-hash-{actual[:8]}"))


@dataclass(frozen=True, kw_only=True)
class _Task:
    """What to download, from where, to where; who is told, and who may end it."""

    wanted: Wanted
    path: Path
    url: str
    console: Listener
    stop: Stop
    fix: str

    @property
    def partial(self) -> Path:
        return self.path.with_name(f"{self.path.name}.partial")


class _Download:
    """One file on its way from one address."""

    def __init__(self, task: _Task, patience: Patience) -> None:
        self._wanted = task.wanted
        self._path = task.path
        self._partial = task.partial
        self._url = task.url
        self._task = task
        self._patience = patience
        self._trial = Trial(patience, task.stop)

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
        started_at = self._size()
        actual = self._hash() if started_at else ""
        if actual != self._wanted.digest:
            self._receive_all()
            actual = self._hash()
        if actual != self._wanted.digest and started_at:
            self._task.console.note(
                f"the kept part of {self._wanted.name} doesn't fit; starting anew"
            )
            self._partial.unlink()
            self._receive_all()
            actual = self._hash()
        if actual != self._wanted.digest:
            aside = _set_aside(self._partial, self._path, actual)
            raise self._wrong_hash(actual, aside)
        self._partial.replace(self._path)

    def _remove_nothing(self) -> None:
        """Leave no empty file and no empty folder behind."""
        if self._partial.exists() and not self._size():
            self._partial.unlink()
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()

    def _receive_all(self) -> None:
        """Receive until the partial file is complete, going on after each break."""
        self._most = self._size()
        self._trial = Trial(self._patience, self._task.stop)
        with open_session(self._url, self._patience, self._task.stop) as session:
            while problem := self._receive(session):
                if is_lasting(problem) or not self._trial.goes_on():
                    raise unreachable(self._url, problem, fix=self._fix()) from problem

    def _receive(self, session: requests.Session) -> Exception | None:
        """Ask once, for the rest of the file where there is a part; say what went wrong."""
        self._task.stop.check()
        done = self._size()
        # A compressed transfer would have other sizes than the file.
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={done}-"} if done else {})}
        timeout = self._trial.timeout
        try:
            with session.get(self._url, headers=headers, stream=True, timeout=timeout) as answer:
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
        self._path.parent.mkdir(parents=True, exist_ok=True)
        row = self._task.console.download(self._wanted.name, total, offset)
        with row as show, self._partial.open("r+b" if offset else "wb") as stream:
            stream.seek(offset)
            stream.truncate()
            for piece in answer.raw.stream(_CHUNK, decode_content=False):
                self._check_size(stream.tell() + len(piece))
                stream.write(piece)
                self._note_progress(stream.tell())
                show(stream.tell())
        self._task.stop.check()  # a connection that was cut looks like the end of the file

    def _note_progress(self, size: int) -> None:
        self._task.stop.check()
        # A server that starts anew and breaks off at the same place makes no progress.
        if size > self._most:
            self._most = size
            self._trial.progressed()

    def _check_size(self, size: int) -> None:
        if size <= self._wanted.max_size:
            return
        self._partial.unlink(missing_ok=True)
        raise OversizedDownloadError(
            f"{shown(self._url)} is larger than the {self._wanted.max_size} bytes that are allowed",
            why=f"it has at least {size} bytes",
            fix="look at what the address sends; if the file is right and has grown, "
            f"{self._wanted.regrow}",
        )

    def _size(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self._partial.stat().st_size
        return 0

    def _hash(self) -> str:
        return hash_of_file(self._partial, self._wanted.algorithm)

    def _fix(self) -> str:
        kept = f" (it goes on after {self._size()} bytes)" if self._size() else ""
        return f"try again later{kept}, put the file at {self._path}, or {self._task.fix}"

    def _wrong_hash(self, actual: str, aside: Path) -> HashMismatchError:
        host = urlsplit(self._url).hostname or "the file system"
        owner, algorithm = self._wanted.pinned_by, self._wanted.algorithm
        kind = {"sha256": "SHA-256", "md5": "MD5"}[algorithm]
        return HashMismatchError(
            f"{shown(self._url)} is not the file that {owner} pins",
            why=f"its {kind} is {actual}, that of {owner} is {self._wanted.digest}",
            fix=f"look at what {host} sent, it lies in {aside}; {self._wanted.repin} only when you "
            "know that upstream's file is this one",
        )


def _offset(answer: requests.Response) -> int:
    """Where in the file an answer begins; -1 when it doesn't say so clearly."""
    if answer.status_code != HTTPStatus.PARTIAL_CONTENT:
        return 0
    said = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    return int(said[1]) if said else -1
