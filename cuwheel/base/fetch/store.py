"""Files in the cache by their hash: complete and verified, or absent.

`<cache>/downloads/<sha256>/<name>` is a file. Next to it may lie `<name>.partial`, which the next
run resumes, and `<name>.wrong-hash-<8 digits>`, a file that was refused and that nothing uses.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.download import FIX, PinnedFile, download, set_aside
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import MIRROR_VARIABLE, configured_mirror, is_local
from cuwheel.base.fetch.web import read_head
from cuwheel.base.system.console import Console, Downloads, Listener
from cuwheel.base.system.files import file_lock, hash_of_file, naming_full_disk
from cuwheel.base.system.parallel import Stop, StoppedError, run_all

_HASHES = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}


def cached_path(cache: Path, file: PinnedFile) -> Path:
    """Return the path of a file in the cache, downloaded or not; raises DownloadError."""
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
    stop: Stop | None = None,
    fix: str = FIX,
) -> Path:
    """Return the path of a file in the cache, after downloading it if needed.

    A cached file is verified each time. Two processes that need the same file download it once.

    Args:
        find_url: returns its address (http, https or file); called only for a download, with
            `offline` too: then it must not use the network.
        offline: use no network; a `file:` address isn't one.
        fix: an alternative to putting the file into the cache by hand, for messages.

    Raises:
        DownloadError: it can't be fetched.
        HashMismatchError: another file was sent; it is kept under another name.
        HashMismatchError: it is larger than allowed.
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
            attempts = Attempts(stop)
            url = _address(path, find_url, attempts, offline=offline, fix=fix)
            download(*(file, path, url), console=console, stop=stop, fix=fix)
        with contextlib.suppress(OSError):  # a read-only cache
            os.utime(path.parent)  # the time of last use for `nox -s cache`
    return path


def fetch_all(  # noqa: PLR0913 - what, to where, and how
    files: Sequence[tuple[PinnedFile, Callable[[], str]]],
    *,
    cache: Path,
    console: Console,
    title: str,
    offline: bool = False,
    fix: str = FIX,
) -> tuple[Path, ...]:
    """Return the paths of many files in the cache, after downloading several at once.

    The first failure ends the others, whose partial files are kept for the next run. Arguments and
    errors: those of `fetch`.
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
            stack.enter_context(file_lock(guard, on_wait=note_wait, gives_up=stop.is_requested))
        except TimeoutError:
            raise StoppedError from None
        stop.check()
        yield


def find_mirrored(path: Path, attempts: Attempts, *, offline: bool) -> str | None:
    """Return the address of a download in the mirror; None: no mirror, or it lacks the file."""
    mirror = configured_mirror(os.environ, offline=offline)
    if mirror is None:
        return None
    url = mirror.url_of(path.parent.name, path.name)
    head = read_head(url, attempts, fix=f"check that {MIRROR_VARIABLE} is right")
    return url if head.is_there else None


def _address(
    path: Path, find_url: Callable[[], str], attempts: Attempts, *, offline: bool, fix: str
) -> str:
    """Return the file's address: in a mirror, or from `find_url`; offline only on this machine."""
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
