"""Get one commit of a git repository into the cache as a tar: whole and checked, or not at all.

`<cache>/downloads/git-<commit>/<name>-<commit>.tar` is the file, and `….tar.sha256` beside it says
what it has to be when it is used again. git computes the id of everything that it receives (see
git-index-pack(1)), so what it has under the commit's id is that commit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from cuwheel.errors import CommandFailedError, DownloadError, HashMismatchError
from cuwheel.fetch import Wanted, download
from cuwheel.files import lock, naming_full_disk, new_folder, remove_tree, sha256_of_file
from cuwheel.mirrors import Mirrors
from cuwheel.process import run, which
from cuwheel.web import PATIENCE, TIMEOUT, is_local, open_session, shown, unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.console import Console

_PATIENCE = 1800.0  # seconds for a fetch that goes on; git itself ends one that stalls
_MAX_SIZE = 4 << 30  # bytes of a mirrored tar
_SHOWN = 3  # last lines of git's words that the error shows
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "protocol.version=2",  # serves any commit by its id, not only the tips of branches
    "http.lowSpeedLimit=1000",  # bytes a second
    "http.lowSpeedTime=20",  # seconds
    "tar.umask=0022",  # the user's own would be in the modes
)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit of a repository.

    Attributes:
        repository: http(s) or file.
        id: 40 hexadecimal digits.
        sha256: of the tar, 64 hexadecimal digits; empty where only the id is known.
    """

    repository: str
    id: str
    sha256: str = ""

    @property
    def stem(self) -> str:
        """`<name>-<commit>`: the archive's one top folder, and its file name without `.tar`."""
        name = urlsplit(self.repository).path.rstrip("/").rpartition("/")[2]
        return f"{name.removesuffix('.git') or 'repository'}-{self.id}"

    @property
    def origin(self) -> str:
        """`git+https://…@<commit>`, as pip and purl write it."""
        return f"git+{shown(self.repository)}@{self.id}"


def fetch_commit(
    wanted: Commit, *, cache: Path, console: Console, offline: bool = False, fix: str = ""
) -> Path:
    """Give the commit's tar out of the cache; fetch it first where it isn't there.

    Hooks, templates and settings of the user and the system don't count; proxies do.

    Args:
        wanted: the commit.
        cache: cuwheel's cache folder.
        console: is told about what takes long.
        offline: use no network; a `file:` repository isn't one.
        fix: a way out beside putting the tar into the cache by hand, for messages.

    Raises:
        DownloadError: git isn't there, or the commit can't be had.
        HashMismatchError: the tar isn't the one that the recipe pins.
        DiskFullError: the cache's disk ran full.
    """
    path = path_of_commit(wanted, cache)
    folder = path.parent
    way_out = _way_out(wanted, path, fix)

    def tell() -> None:
        console.note(f"another cuwheel is fetching {wanted.stem}; waiting for it")

    guard = cache / "downloads" / ".locks" / folder.name
    with naming_full_disk(folder), lock(guard, on_wait=tell):
        if not _is_whole(path, wanted, console) and not _take_mirrored(
            path, wanted, console, offline=offline
        ):
            if offline and not is_local(wanted.repository):
                raise DownloadError(
                    f"{path.name} is not in the cache",
                    why="--offline is set, so it can't be fetched",
                    fix=way_out,
                )
            _check_reachable(wanted, way_out)
            console.note(f"fetching commit {wanted.id[:12]} of {shown(wanted.repository)}")
            with new_folder(folder) as aside:
                _fetch(wanted, aside, way_out)
    return path


def path_of_commit(wanted: Commit, cache: Path) -> Path:
    """Where a commit's tar is in the cache, or will be."""
    return cache / "downloads" / f"git-{wanted.id}" / f"{wanted.stem}.tar"


def _take_mirrored(path: Path, wanted: Commit, console: Console, *, offline: bool) -> bool:
    """Take the tar from a full mirror, where one has it.

    Nothing in a tar proves the commit's id: the hash is the recipe's, else the mirror's own.
    """
    found = Mirrors.of(os.environ, offline=offline).find(path.parent.name, path.name)
    if found is None:
        return False
    sha256 = wanted.sha256 or found.sha256
    file = Wanted(name=path.name, sha256=sha256, max_size=_MAX_SIZE, pinned_by="the mirror")
    download(file, path, found.url, console=console)
    return _is_whole(path, wanted, console)


def _way_out(wanted: Commit, path: Path, fix: str) -> str:
    where = shown(wanted.repository)
    words = f"where {where} can be reached: `git archive --prefix={wanted.stem}/ {wanted.id}`"
    # A file put there by hand has no record beside it yet: its own hash becomes it.
    return (
        f"try again later, or make the tar {words}, put it at {path}{f', or {fix}' if fix else ''}"
    )


def _is_whole(path: Path, wanted: Commit, console: Console) -> bool:
    """Whether the tar is there and is what it was when it was made; a new one is recorded."""
    if not path.is_file():
        return False
    actual, record = sha256_of_file(path), path.with_name(f"{path.name}.sha256")
    recorded = record.read_text().strip() if record.is_file() else actual
    if actual != recorded:
        console.warn(f"{path.name} was damaged in the cache and is fetched again")
        return False
    _check_hash(wanted, actual)
    record.write_text(f"{actual}\n")
    return True


def _check_hash(wanted: Commit, actual: str) -> None:
    if wanted.sha256 and actual != wanted.sha256:
        raise HashMismatchError(
            f"the tar of {wanted.origin} is not the file that the recipe pins",
            why=f"its SHA-256 is {actual}, that of the recipe is {wanted.sha256}",
            fix="correct the recipe's `sha256` when you know that the commit is the right one; "
            "the commit's own id was checked",
        )


def _check_reachable(wanted: Commit, way_out: str) -> None:
    """Ask for the first thing that git would ask for: git waits minutes for a silent server.

    The address is that of git's http protocol (gitprotocol-http(5), "Smart Clients").

    Raises:
        DownloadError: git isn't there, or nothing answers.
    """
    if not which("git", os.environ.get("PATH", os.defpath)):
        raise DownloadError(
            f"{wanted.origin} can't be fetched",
            why="there is no program `git` on PATH",
            fix=f"install git, or: {way_out}",
        )
    if is_local(wanted.repository):
        return
    url = f"{wanted.repository.rstrip('/')}/info/refs?service=git-upload-pack"
    try:
        with (
            open_session(url, PATIENCE) as session,
            session.get(url, stream=True, timeout=TIMEOUT) as answer,
        ):
            answer.raise_for_status()
    except requests.RequestException as problem:
        raise unreachable(wanted.repository, problem, fix=way_out) from problem


def _fetch(wanted: Commit, folder: Path, way_out: str) -> None:
    """Fill a new folder with the tar and its record."""
    repository = folder / "repository"
    made = folder / f"{wanted.stem}.tar"
    steps = (
        ("init", "--quiet", "--bare", "--template=", repository),
        ("-C", repository, "fetch", "--quiet", "--depth=1", wanted.repository, wanted.id),
        ("-C", repository, "rev-parse", "FETCH_HEAD"),
        ("-C", repository, "archive", f"--prefix={wanted.stem}/", "-o", made, "FETCH_HEAD"),
    )
    said = [_git(*words, wanted=wanted, home=folder, way_out=way_out) for words in steps]
    got = said[2].strip()
    if got != wanted.id:
        raise DownloadError(
            f"{wanted.origin} can't be fetched", why=f"git fetched {got} instead", fix=way_out
        )
    remove_tree(repository)
    digest = sha256_of_file(made)
    _check_hash(wanted, digest)
    made.with_name(f"{made.name}.sha256").write_text(f"{digest}\n")


def _git(*words: str | Path, wanted: Commit, home: Path, way_out: str) -> str:
    """Run git with nobody's settings; gives back what it says.

    Raises:
        DownloadError: it failed.
    """
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        return run(["git", *settings, *words], env=_variables(home), timeout=_PATIENCE).output
    except CommandFailedError as error:
        is_missing = any("not our ref" in line for line in error.tail)
        said = "; ".join(line.strip() for line in error.tail[-_SHOWN:])
        raise DownloadError(
            f"{shown(wanted.repository)} has no commit {wanted.id}"
            if is_missing
            else f"{wanted.origin} can't be fetched",
            why=f"git says: {said or error.why}",
            fix="correct the recipe's `commit`" if is_missing else way_out,
        ) from error


def _variables(home: Path) -> dict[str, str]:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:http:https",
    }
    names = [name for upper in _PROXIES for name in (upper, upper.lower())]
    env |= {name: os.environ[name] for name in names if name in os.environ}
    bundle = os.environ.get("SSL_CERT_FILE")
    return {**env, "GIT_SSL_CAINFO": bundle} if bundle else env
