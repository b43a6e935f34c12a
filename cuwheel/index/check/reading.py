"""What an index serves, or holds as files: its pages and the files on them, each bounded."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import requests
import urllib3
from mailbits import ContentType

from cuwheel import limits
from cuwheel.fetch.download import Download, PinnedFile, Task
from cuwheel.fetch.remote_file import open_remote
from cuwheel.fetch.retry import Attempts
from cuwheel.fetch.urls import is_local, local_path
from cuwheel.fetch.web import ask_head, open_session, refused, unreachable
from cuwheel.pypi.pages import answered, read_page
from cuwheel.system.parallel import run_within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.fetch.web import Head
    from cuwheel.system.output.live import Listener
    from cuwheel.system.parallel import Stop

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = {
    True: _JSON,
    False: "application/vnd.pypi.simple.v1+html, text/html;q=0.5",
}
_PAGES = {True: "index.json", False: "index.html"}
_LACKING = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE, HTTPStatus.NOT_ACCEPTABLE)
_ABSENT = frozenset(map(answered, _LACKING))
_PART = 64 << 10  # bytes of a wheel that are asked for at once; METADATA and RECORD are small
_FIX = "check that the address is that of an index, with simple/ at its end; or try again later"


@dataclass(frozen=True, kw_only=True)
class RawPage:
    """A page as it came.

    Attributes:
        url: where it came from in the end.
        asked: where it was asked for; may hold a user and password.
        content: its bytes.
        is_json: its form.
        charset: of HTML, where the server says it.
    """

    url: str
    asked: str
    content: bytes
    is_json: bool
    charset: str | None = None


class Budget:
    """How many bytes of files may be downloaded; threads share it.

    What is on its way isn't counted yet, so that as many files more may come as are downloaded at
    once.

    Args:
        size: bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._guard = threading.Lock()
        self.used = 0

    @property
    def left(self) -> int:
        """Bytes."""
        return max(0, self._size - self.used)

    def count(self, size: int) -> None:
        """Count bytes that were downloaded."""
        with self._guard:
            self.used += size


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads what an index serves.

    Attributes:
        scratch: a folder for downloads.
        budget: bytes of files that may be downloaded.
        retry_policy: how long to go on trying, for each page and file.
        stop: ends it early.
        console: shows downloads.
    """

    scratch: Path
    budget: Budget
    retry_policy: RetryPolicy
    stop: Stop
    console: Listener

    def page(self, folder: str, *, is_json: bool) -> RawPage | str | None:
        """A page in one form, or why it can't be read; None where the index doesn't offer it.

        Args:
            folder: its address, with a slash at its end.
            is_json: in which form.
        """
        named = f"{folder}{_PAGES[is_json]}"
        if is_local(folder):
            return self._page(named, is_json=is_json) if local_path(named).is_file() else None
        found = self._page(folder, is_json=is_json)
        if found is None and is_json:  # a plain server of files that were written as ours are
            return self._page(named, is_json=True)
        return found

    def _page(self, url: str, *, is_json: bool) -> RawPage | str | None:
        page = read_page(url, Attempts(self.retry_policy, self.stop), _ACCEPT[is_json])
        if isinstance(page, str):
            return None if page in _ABSENT else page
        kind = ContentType.parse(page.headers.get("Content-Type", "text/html"))
        if not is_local(url) and ("json" in kind.content_type) is not is_json:
            return None
        return RawPage(
            url=page.url,
            asked=url,
            content=page.content,
            is_json=is_json,
            charset=kind.params.get("charset"),
        )

    def head(self, url: str) -> Head:
        """What stands at an address.

        Raises:
            DownloadError: a server doesn't answer, or refuses to.
        """
        return ask_head(url, Attempts(self.retry_policy, self.stop), fix=_FIX)

    def small_file(self, url: str) -> bytes | None:
        """METADATA or attestations; None where there is none.

        No more is read than any wheel's METADATA has, and one byte.

        Raises:
            DownloadError: a server doesn't answer, or refuses to.
            OSError: a local file can't be read.
        """
        most = limits.METADATA + 1
        if is_local(url):
            if not local_path(url).is_file():
                return None
            with local_path(url).open("rb") as stream:
                return stream.read(most)
        attempts = Attempts(self.retry_policy, self.stop)
        ask = partial(_ask, url, attempts, most)
        try:
            # A session's own time-outs don't end what comes slowly.
            return run_within(attempts.left, ask, self.stop)
        except TimeoutError as problem:
            raise unreachable(
                url, requests.ReadTimeout(attempts.slow_reason), fix=_FIX
            ) from problem
        except (requests.RequestException, urllib3.exceptions.HTTPError) as problem:
            raise unreachable(url, problem, fix=_FIX) from problem

    def parts(self, url: str) -> IO[bytes]:
        """A wheel of which only parts are read.

        Raises:
            DownloadError: a server doesn't answer, or gives no parts; while reading too.
            OSError: a local file can't be opened.
        """
        return open_remote(url, window=_PART)

    @contextlib.contextmanager
    def whole(self, url: str, name: str, size: int) -> Iterator[Path]:
        """A file that is there while the block runs; a local one is taken where it is.

        Args:
            url: of it.
            name: for the progress.
            size: bytes that it may have at most.

        Raises:
            DownloadError: it can't be downloaded.
            OversizedDownloadError: it is larger.
        """
        if is_local(url):
            yield local_path(url)
            return
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            path = Path(folder, "file")
            file = PinnedFile(name=name, sha256="", max_size=size)
            task = Task(
                file=file, path=path, url=url, console=self.console, stop=self.stop, fix=_FIX
            )
            Download(task, self.retry_policy).finish()
            self.budget.count(path.stat().st_size)
            yield path


def _ask(url: str, attempts: Attempts, most: int) -> bytes | None:
    """The first bytes of a file as they are; None where there is none."""
    # A compressed transfer would have other bytes than the file.
    headers = {"Accept-Encoding": "identity"}
    with (
        open_session(attempts) as session,
        session.get(url, headers=headers, stream=True) as answer,
    ):
        if answer.ok:
            return bytes(answer.raw.read(most))
        error = refused(url, answer, fix=_FIX)
        if error.is_missing:
            return None
        raise error
