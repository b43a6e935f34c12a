"""Get files by their hash into the cache: whole and checked, or not at all.

`<cache>/downloads/<sha256>/<name>` is a file. Beside it may lie `<name>.partial`, where the next
run goes on, and `<name>.wrong-hash-<8 digits>`, a file that was refused and that nothing uses.
"""

from __future__ import annotations

import contextlib
import os
import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.errors import DownloadError
from cuwheel.fetch.download import FIX, Download, PinnedFile, Task, set_aside
from cuwheel.fetch.mirror import MIRROR_VARIABLE, configured_mirror
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.urls import is_local
from cuwheel.fetch.web import ask_head
from cuwheel.system.files import file_lock, hash_of_file, naming_full_disk
from cuwheel.system.parallel import Stop, StoppedError, run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.system.console import Console
    from cuwheel.system.output.live import Downloads, Listener

_HASHES = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}


def cached_path(cache: Path, file: PinnedFile) -> Path:
    """Where a file is in the cache, or will be.

    Args:
        cache: cuwheel's cache folder.
        file: the one that is pinned.

    Raises:
        DownloadError: its name or hash would lead out of the cache.
    """
    if not _HASHES[file.algorithm].fullmatch(file.digest):
        raise _refused_place(file, f"{file.pinned_by} gives {file.digest!r} as {file.algorithm}")
    if file.name in {"", ".."} or file.name != PurePosixPath(file.name).name:
        raise _refused_place(file, "it is not a valid file name")
    folder = file.sha256 or f"md5-{file.md5}"
    return cache / "downloads" / folder / file.name


def _refused_place(file: PinnedFile, why: str) -> DownloadError:
    return DownloadError(
        f"{file.name!r} can't be stored in the cache",
        why=why,
        fix="don't use the source of this name: correct it, or ask its operator",
    )


def fetch(  # noqa: PLR0913 - what, from where, to where, and how
    file: PinnedFile,
    find_url: Callable[[], str],
    *,
    cache: Path,
    console: Listener,
    offline: bool = False,
    retry_policy: RetryPolicy = RETRY_POLICY,
    stop: Stop | None = None,
    fix: str = FIX,
) -> Path:
    """Give the file out of the cache; download it first where it isn't there.

    What is in the cache is read and checked each time. Two processes that want the same file
    download it once.

    Args:
        file: the one that is pinned.
        find_url: gives its address (http, https or file); called only when it must be downloaded,
            with `offline` too: then it must not use the network.
        cache: cuwheel's cache folder.
        console: shows progress.
        offline: use no network; a `file:` address isn't one.
        retry_policy: how long to go on trying.
        stop: ends it early.
        fix: a way out beside putting the file into the cache by hand, for messages.

    Raises:
        DownloadError: it can't be fetched.
        HashMismatchError: what came isn't the file; it lies beside its path under another name.
        OversizedDownloadError: what comes is larger than allowed.
        DiskFullError: the cache's disk ran full.
        StoppedError: `stop` ended it.
    """
    stop = stop or Stop()
    path = cached_path(cache, file)
    guard = cache / "downloads" / ".locks" / path.parent.name

    def note_wait() -> None:
        console.note(f"another cuwheel is downloading {file.name}; waiting for it")

    with naming_full_disk(path.parent), _held(guard, note_wait, stop):
        if not _is_whole(path, file, console):
            attempts = Attempts(retry_policy, stop)
            url = _address(path, find_url, attempts, offline=offline, fix=fix)
            task = Task(file=file, path=path, url=url, console=console, stop=stop, fix=fix)
            Download(task, retry_policy).finish()
        with contextlib.suppress(OSError):  # of a cache that may only be read
            os.utime(path.parent)  # `nox -s cache` takes it for the time of its last use
    return path


def fetch_all(  # noqa: PLR0913 - what, to where, and how
    files: Sequence[tuple[PinnedFile, Callable[[], str]]],
    *,
    cache: Path,
    console: Console,
    title: str,
    offline: bool = False,
    retry_policy: RetryPolicy = RETRY_POLICY,
    fix: str = FIX,
) -> tuple[Path, ...]:
    """Give many files out of the cache; download several at once where they aren't there.

    The first failure ends the others, and what they have by then is kept for the next run.

    Args:
        files: each file and what gives its address, as for `fetch`.
        cache: cuwheel's cache folder.
        console: shows one bar for all.
        title: names them together.
        offline: use no network.
        retry_policy: how long to go on trying, for each.
        fix: as for `fetch`.

    Returns:
        The files, in the same order.

    Raises:
        CuwheelError: as `fetch`, of the first that failed.
    """
    tasks = {cached_path(cache, file): (file, find_url) for file, find_url in files}
    sizes = [file.size for file, _ in tasks.values()]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    stop = Stop()

    def get(file: PinnedFile, find_url: Callable[[], str], bar: Downloads) -> None:
        path = fetch(
            file,
            find_url,
            cache=cache,
            console=bar,
            offline=offline,
            retry_policy=retry_policy,
            stop=stop,
            fix=fix,
        )
        bar.finish(file.name, path.stat().st_size)

    with console.downloads(title, total, files=len(tasks)) as bar:
        run_all([partial(get, *task, bar) for task in tasks.values()], stop)
    return tuple(cached_path(cache, file) for file, _ in files)


@contextlib.contextmanager
def _held(guard: Path, note_wait: Callable[[], None], stop: Stop) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock(guard, on_wait=note_wait, gives_up=stop.is_asked))
        except TimeoutError:
            raise StoppedError from None
        stop.check()
        yield


def find_mirrored(path: Path, attempts: Attempts, *, offline: bool) -> str | None:
    """The address of a download in the mirror; None where there is none, or it doesn't hold it.

    Args:
        path: where it goes in the cache.
        attempts: at asking the mirror's server.
        offline: use no network.

    Raises:
        DownloadError: the server doesn't answer.
        UsageError: what should name the mirror names none.
    """
    mirror = configured_mirror(os.environ, offline=offline)
    if mirror is None:
        return None
    url = mirror.url_of(path.parent.name, path.name)
    head = ask_head(url, attempts, fix=f"check that {MIRROR_VARIABLE} is right")
    return url if head.is_there else None


def _address(
    path: Path, find_url: Callable[[], str], attempts: Attempts, *, offline: bool, fix: str
) -> str:
    """Where the file is: in a mirror, or where `find_url` says; offline only on this machine.

    Raises:
        DownloadError: it isn't known, or would need a network that mustn't be used.
    """
    if mirrored := find_mirrored(path, attempts, offline=offline):
        return mirrored
    if not offline:
        return find_url()
    with contextlib.suppress(DownloadError):
        url = find_url()
        if is_local(url):
            return url
    raise DownloadError(
        f"{path.name} is not in the cache",
        why="--offline is set, so it can't be downloaded",
        fix=f"copy the file to {path}, or {fix}",
    )


def _is_whole(path: Path, file: PinnedFile, console: Listener) -> bool:
    if not path.is_file():
        return False
    actual = hash_of_file(path, file.algorithm)
    if actual == file.digest:
        return True
    aside = set_aside(path, path, actual)
    console.warn(f"{path.name} was damaged (now {aside.name}) and is downloaded again")
    return False
