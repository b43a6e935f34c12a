"""Get one commit of a git repository into the cache: whole and proven, or not at all.

`<cache>/downloads/git-<commit>/<name>-<commit>.pack` is the file, a git pack: it proves itself.
Whoever uses it has git compute the id of every object in it (see git-index-pack(1)), so that what
is then reached from the commit's id is that commit, wherever the pack came from. Beside it may lie
`….pack.wrong-<8 digits>`, a file that was refused and that nothing uses.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from cuwheel.errors import CommandFailedError, DownloadError, HashMismatchError
from cuwheel.fetch.download import PinnedFile, download
from cuwheel.fetch.git_pack import WrongPackError, archive_pack, new_repository, run_git, words_of
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.store import find_mirrored
from cuwheel.fetch.urls import is_local, redact_url, without_credentials
from cuwheel.fetch.web import open_session, unreachable
from cuwheel.system.files import file_lock, naming_full_disk, remove_leftovers, sha256_of_file
from cuwheel.system.process import which

if TYPE_CHECKING:
    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.system.console import Console


_MAX_SIZE = 4 << 30  # bytes of a mirrored pack


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
        """`<name>-<commit>`: the tar's one top folder, and the pack's name without `.pack`."""
        name = urlsplit(self.repository).path.rstrip("/").rpartition("/")[2]
        return f"{name.removesuffix('.git') or 'repository'}-{self.id}"

    @property
    def origin(self) -> str:
        """`git+https://…@<commit>`, as pip and purl write it."""
        return f"git+{redact_url(self.repository)}@{self.id}"


def fetch_commit(  # noqa: PLR0913 - what, from where, to where, and how
    commit: Commit,
    *,
    cache: Path,
    console: Console,
    tar: Path | None = None,
    offline: bool = False,
    retry_policy: RetryPolicy = RETRY_POLICY,
    fix: str = "",
) -> Path:
    """Give the commit's pack out of the cache, proven; fetch it first where it isn't there.

    Hooks, templates and settings of the user and the system don't count; proxies do.

    Args:
        commit: of which repository, and which.
        cache: cuwheel's cache folder.
        console: shows what takes long.
        tar: where `git archive` writes the commit's files, in a folder that is there; None: they
            are read all the same, but not kept.
        offline: use no network; a `file:` repository isn't one.
        retry_policy: how long to go on trying.
        fix: a way out beside putting the pack into the cache by hand, for messages.

    Raises:
        DownloadError: git isn't there, or the commit can't be fetched.
        HashMismatchError: the tar isn't the one that the recipe pins.
        DiskFullError: a disk ran full.
    """
    path = path_of_commit(commit, cache)
    _check_git(commit, fix)
    task = _Task(
        commit=commit,
        path=path,
        tar=tar,
        console=console,
        offline=offline,
        retry_policy=retry_policy,
        fix=_fix_for(commit, path, fix),
    )

    def note_wait() -> None:
        console.note(f"another cuwheel is fetching {commit.stem}; waiting for it")

    guard = cache / "downloads" / ".locks" / path.parent.name
    with naming_full_disk(path.parent), file_lock(guard, on_wait=note_wait):
        remove_leftovers(path.parent)
        if not _is_intact(task) and not _take_mirrored(task):
            _fetch(task)
    return path


def path_of_commit(commit: Commit, cache: Path) -> Path:
    """Where a commit's pack is in the cache, or will be."""
    return cache / "downloads" / f"git-{commit.id}" / f"{commit.stem}.pack"


@dataclass(frozen=True, kw_only=True)
class _Task:
    """Which commit, where its pack and tar go, and how; `fix` is for messages."""

    commit: Commit
    path: Path
    tar: Path | None
    console: Console
    offline: bool
    retry_policy: RetryPolicy
    fix: str

    def aside(self) -> tempfile.TemporaryDirectory[str]:
        """A folder for the time of a block; `remove_leftovers` knows its name."""
        folder = self.path.parent
        return tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.")


def _fix_for(commit: Commit, path: Path, fix: str) -> str:
    where = redact_url(commit.repository)
    return (
        f"try again later, or copy downloads/{path.parent.name}/{path.name} from the cache of a "
        f"machine that can reach {where} to {path}{f', or {fix}' if fix else ''}"
    )


def _check_git(commit: Commit, fix: str) -> None:
    if which("git", os.environ.get("PATH", os.defpath)):
        return
    raise DownloadError(
        f"{commit.origin} could not be fetched",
        why="`git` isn't on PATH; it fetches the commit, and reads what is in the cache",
        fix=f"install git{f', or {fix}' if fix else ''}",
    )


def _is_intact(task: _Task) -> bool:
    """Whether the pack is there and is the commit; a wrong one gets a name that nothing uses."""
    path = task.path
    if not path.is_file():
        return False
    try:
        _verify(path, task)
    except WrongPackError as fault:
        aside = path.replace(path.with_name(f"{path.name}.wrong-{sha256_of_file(path)[:8]}"))
        task.console.warn(
            f"{path.name} is damaged or of another commit, and isn't used (now {aside.name}): "
            f"{fault}"
        )
        return False
    return True


def _take_mirrored(task: _Task) -> bool:
    """Take the pack from the mirror, where it has one that is the commit."""
    path, policy = task.path, task.retry_policy
    url = find_mirrored(path, Attempts(policy), offline=task.offline)
    if url is None:
        return False
    file = PinnedFile(name=path.name, sha256="", max_size=_MAX_SIZE)  # git proves it
    download(file, path, url, console=task.console, retry_policy=policy)
    return _is_intact(task)


def _verify(pack: Path, task: _Task) -> None:
    """See that a pack holds the whole commit, and make its tar.

    Raises:
        WrongPackError: it doesn't.
        HashMismatchError: the tar isn't the one that the recipe pins.
    """
    commit = task.commit
    with task.aside() as name:
        tar = task.tar or Path(name) / f"{commit.stem}.tar"
        try:
            archive_pack(pack, commit.id, tar, prefix=f"{commit.stem}/", home=Path(name))
        except CommandFailedError as error:
            raise _failed(task, error) from error
        _check_hash(commit, tar)


def _check_hash(commit: Commit, tar: Path) -> None:
    if commit.sha256 and (actual := sha256_of_file(tar)) != commit.sha256:
        raise HashMismatchError(
            f"the tar of {commit.origin} is not the file that the recipe pins",
            why=f"its SHA-256 is {actual}, that of the recipe is {commit.sha256}",
            fix="if the commit is the right one, correct the recipe's `sha256`; the commit's own "
            "id was verified",
        )


def _fetch(task: _Task) -> None:
    """Get the pack from the repository and bring it under its name when it is proven.

    Raises:
        DownloadError: it can't be fetched.
    """
    commit = task.commit
    if task.offline and not is_local(commit.repository):
        raise DownloadError(
            f"{task.path.name} is not in the cache",
            why="--offline is set, so it could not be fetched",
            fix=task.fix,
        )
    _check_reachable(task)
    task.console.note(f"fetching commit {commit.id[:12]} of {redact_url(commit.repository)}")
    with task.aside() as name:
        pack = _fetch_pack(task, Path(name))
        try:
            _verify(pack, task)
        except WrongPackError as fault:
            raise DownloadError(
                f"{commit.origin} could not be fetched",
                why=f"what was fetched is not that commit: {fault}",
                fix=f"check that the recipe's `commit` is right, or {task.fix}",
            ) from fault
        pack.chmod(0o644)
        task.path.parent.mkdir(exist_ok=True)
        pack.replace(task.path)


def _fetch_pack(task: _Task, home: Path) -> Path:
    commit = task.commit
    bare = without_credentials(commit.repository)
    words = ("fetch", "--quiet", "--no-tags", "--depth=1", bare, commit.id)
    try:
        repository = new_repository(home)
        run_git(*words, repository=repository, remote=commit.repository)
    except CommandFailedError as error:
        raise _failed(task, error) from error
    packs = list((repository / "objects" / "pack").glob("*.pack"))
    if len(packs) != 1:
        raise DownloadError(
            f"{commit.origin} could not be fetched",
            why=f"git kept {len(packs)} packs instead of one",
            fix=task.fix,
        )
    return packs[0]


def _failed(task: _Task, error: CommandFailedError) -> DownloadError:
    where, id_ = redact_url(task.commit.repository), task.commit.id
    if any("not our ref" in line for line in error.tail):
        return DownloadError(
            f"{where} has no commit {id_}",
            why=f"git says: {words_of(error)}",
            fix="correct the recipe's `commit`",
        )
    return DownloadError(
        f"{task.commit.origin} could not be fetched",
        why=f"git says: {words_of(error)}",
        fix=task.fix,
    )


def _check_reachable(task: _Task) -> None:
    """Ask for the first thing that git would ask for: git waits minutes for a silent server.

    The address is that of git's http protocol (gitprotocol-http(5), "Smart Clients").

    Raises:
        DownloadError: nothing answers.
    """
    repository = task.commit.repository
    if is_local(repository):
        return
    url = f"{repository.rstrip('/')}/info/refs?service=git-upload-pack"
    try:
        with (
            open_session(Attempts(task.retry_policy)) as session,
            session.get(url, stream=True) as answer,
        ):
            answer.raise_for_status()
    except requests.RequestException as problem:
        raise unreachable(repository, problem, fix=task.fix) from problem
