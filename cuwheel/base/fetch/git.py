"""Git commits in the cache, each as a verified pack.

`<cache>/downloads/git-<commit>/<name>-<commit>.pack` is a git pack, which needs no hash: git
computes the id of every object in it each time it is used (see git-index-pack(1)), so that the
commit's id leads to that commit only, from any source. A file next to it named
`….pack.wrong-<8 digits>` was refused, and nothing uses it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

from cuwheel.base.errors import CommandFailedError, DownloadError, HashMismatchError
from cuwheel.base.fetch.download import PinnedFile, download
from cuwheel.base.fetch.retry import Attempts, slow_factor
from cuwheel.base.fetch.store import find_mirrored
from cuwheel.base.fetch.urls import (
    credentials_of,
    is_local,
    redact_url,
    split_url,
    without_credentials,
)
from cuwheel.base.fetch.web import open_session, unreachable
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import (
    PART,
    disk_full,
    file_lock,
    has_disk_full_message,
    naming_full_disk,
    remove_leftovers,
    sha256_of_file,
)
from cuwheel.base.system.process import inherited, run, which

_MAX_SIZE = 4 << 30  # bytes of a mirrored pack
_TIME_LIMIT = 1800.0  # seconds for a fetch that goes on; git itself ends one that stalls
_LOW_SPEED_TIME = 20.0  # seconds
_SHOWN = 3  # last lines of git's output that the error shows
_NO_PROGRAM = 127  # status of a program that couldn't be started
_USER, _PASSWORD = "CUWHEEL_GIT_USER", "CUWHEEL_GIT_PASSWORD"
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "protocol.version=2",  # serves any commit by its id, not only the tips of branches
    "http.lowSpeedLimit=1000",  # bytes a second
    "fetch.unpackLimit=1",  # objects from which on the pack is kept unchanged
    "gc.auto=0",  # no work in the background
    "maintenance.auto=false",
    "tar.umask=0022",  # the user's own would be in the modes
    "core.abbrev=40",  # else `$Format:%h$` would depend on what else the pack holds
)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit of a repository.

    Attributes:
        id: 40 hexadecimal digits.
        sha256: of the tar, 64 hexadecimal digits; empty where only the id is known.
    """

    repository: str
    id: str
    sha256: str = ""

    @property
    def stem(self) -> str:
        """`<name>-<commit>`: the tar's one top folder, and the pack's name without `.pack`."""
        name = split_url(self.repository).path.rstrip("/").rpartition("/")[2]
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
    fix: str = "",
) -> Path:
    """Return the path of the commit's verified pack in the cache, after fetching it if needed.

    Hooks, templates and settings of the user and the system don't count; proxies do.

    Args:
        tar: output of `git archive`, in an existing folder; None: the files are read, but not kept.
        offline: use no network; a `file:` repository isn't one.
        fix: an alternative to putting the pack into the cache by hand, for messages.

    Raises:
        DownloadError: git isn't installed, or the commit can't be fetched.
        HashMismatchError: the tar isn't the one that the recipe pins.
        DiskFullError: a disk ran full.
    """
    path = path_of_commit(commit, cache)
    if not which("git", inherited()["PATH"]):
        raise DownloadError(
            f"{commit.origin} could not be fetched",
            why="`git` isn't on PATH; it fetches the commit, and reads what is in the cache",
            fix=f"install git{f', or {fix}' if fix else ''}",
        )
    task = _Task(
        commit=commit,
        path=path,
        tar=tar,
        console=console,
        offline=offline,
        fix=f"try again later, or copy downloads/{path.parent.name}/{path.name} from the cache of "
        f"a machine that can reach {redact_url(commit.repository)} to {path}"
        f"{f', or {fix}' if fix else ''}",
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
    """Return the path of a commit's pack in the cache, fetched or not."""
    return cache / "downloads" / f"git-{commit.id}" / f"{commit.stem}.pack"


@dataclass(frozen=True, kw_only=True)
class _Task:
    """Fetch of one commit; `fix` is for messages."""

    commit: Commit
    path: Path
    tar: Path | None
    console: Console
    offline: bool
    fix: str

    def aside(self) -> tempfile.TemporaryDirectory[str]:
        """Return a temporary folder that `remove_leftovers` knows by its name."""
        folder = self.path.parent
        return tempfile.TemporaryDirectory(
            dir=folder.parent, prefix=f".{folder.name}.", suffix=PART
        )


def _is_intact(task: _Task) -> bool:
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
    path = task.path
    url = find_mirrored(path, Attempts(), offline=task.offline)
    if url is None:
        return False
    file = PinnedFile(name=path.name, sha256="", max_size=_MAX_SIZE)  # git verifies it
    download(file, path, url, console=task.console)
    return _is_intact(task)


def _verify(pack: Path, task: _Task) -> None:
    commit = task.commit
    with task.aside() as name:
        tar = task.tar or Path(name) / f"{commit.stem}.tar"
        try:
            archive_pack(pack, commit.id, tar, prefix=f"{commit.stem}/", home=Path(name))
        except CommandFailedError as error:
            raise _failed(task, error) from error
        if commit.sha256 and (actual := sha256_of_file(tar)) != commit.sha256:
            raise HashMismatchError(
                f"the tar of {commit.origin} is not the file that the recipe pins",
                why=f"its SHA-256 is {actual}, that of the recipe is {commit.sha256}",
                fix="if the commit is the right one, correct the recipe's `sha256`; the commit's "
                "own id was verified",
            )


def _fetch(task: _Task) -> None:
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
    argv = ("fetch", "--quiet", "--no-tags", "--depth=1", bare, commit.id)
    try:
        repository = new_repository(home)
        run_git(*argv, repository=repository, remote=commit.repository)
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
            why=f"git says: {message_of(error)}",
            fix="correct the recipe's `commit`",
        )
    return DownloadError(
        f"{task.commit.origin} could not be fetched",
        why=f"git says: {message_of(error)}",
        fix=task.fix,
    )


def _check_reachable(task: _Task) -> None:
    """Send git's first request: git itself waits minutes for a silent server.

    The address is that of git's http protocol (gitprotocol-http(5), "Smart Clients").
    """
    repository = task.commit.repository
    if is_local(repository):
        return
    url = f"{repository.rstrip('/')}/info/refs?service=git-upload-pack"
    try:
        with (
            open_session(Attempts()) as session,
            session.get(url, stream=True) as response,
        ):
            response.raise_for_status()
    except requests.RequestException as problem:
        raise unreachable(repository, problem, fix=task.fix) from problem


class WrongPackError(Exception):
    """A file isn't a pack with the whole commit; the message is git's."""


def archive_pack(pack: Path, commit: str, tar: Path, *, prefix: str, home: Path) -> None:
    """Verify that a pack holds a whole commit, and write the commit's tar.

    In an empty repository only the pack can provide the objects, and git-index-pack(1) computes
    the id of each from its content. The commit's parents needn't be there.

    Args:
        home: an empty folder.

    Raises:
        WrongPackError: it doesn't hold the commit, or not the whole of it, or is no pack.
        CommandFailedError: git couldn't be started, or was ended by a signal.
    """
    repository = new_repository(home)
    link = repository / "objects" / "pack" / f"pack-{commit}.pack"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(pack.absolute())
    try:
        run_git("index-pack", link, repository=repository)
        kind = run_git("cat-file", "-t", commit, repository=repository).strip()
        if kind != "commit":
            raise WrongPackError(f"{commit} is not a commit but a {kind}")
        run_git("rev-list", "--no-walk", "--objects", "--quiet", commit, repository=repository)
        argv = ("archive", "--format=tar", f"--prefix={prefix}", "-o", tar, commit)
        run_git(*argv, repository=repository, writes=tar)
    except CommandFailedError as error:
        if error.status < 0 or error.status == _NO_PROGRAM:  # that isn't the pack's fault
            raise
        raise WrongPackError(f"git says: {message_of(error)}") from error


def new_repository(home: Path) -> Path:
    """Create a bare repository without content in a folder; raises CommandFailedError."""
    repository = home / "repository"
    run_git("init", "--quiet", "--bare", "--template=", repository=repository)
    return repository


def run_git(
    *argv: str | Path, repository: Path, writes: Path | None = None, remote: str = ""
) -> str:
    """Run git in a repository without any user's settings, and return its output.

    Args:
        argv: every user of the machine can read it.
        repository: its folder; the one around it is git's HOME.
        writes: the output file, to name its disk when that is full.
        remote: the remote's address; user and password become variables.
    """
    factor = slow_factor()
    slow = f"http.lowSpeedTime={_LOW_SPEED_TIME * factor:.0f}"
    user, password = credentials_of(remote)
    login = _login_settings(remote) if user else ()
    settings = [option for setting in (*_SETTINGS, slow, *login) for option in ("-c", setting)]
    # With --git-dir git doesn't check the owner of the folder.
    command = ["git", f"--git-dir={repository}", *settings, *argv]
    try:
        env = _variables(repository.parent) | {_USER: user, _PASSWORD: password}
        return run(command, env=env, timeout=_TIME_LIMIT * factor).output
    except CommandFailedError as error:
        if has_disk_full_message(error.tail):
            raise disk_full((writes or repository.parent).parent) from error
        raise


def _login_settings(remote: str) -> Iterator[str]:
    """Yield settings by which git takes user and password for this host: gitcredentials(7)."""
    host = redact_url(remote).split("/")[2]
    yield "credential.helper="
    script = f'printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"'
    yield f"credential.{split_url(remote).scheme}://{host}.helper=!f() {{ {script}; }}; f"


def message_of(error: CommandFailedError) -> str:
    """Return git's own errors in one line, or else the last lines of its output."""
    lines = [line.strip() for line in error.tail if line.strip()]
    stated = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))]
    text = "; ".join([*dict.fromkeys(stated or lines)][-_SHOWN:])
    return text or f"nothing; its exit status is {error.status}"


def _variables(home: Path) -> dict[str, str]:
    names = [name for upper in _PROXIES for name in (upper, upper.lower())]
    env = {
        **inherited(*names),
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_DEFAULT_HASH": "sha1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:http:https",
    }
    bundle = inherited("SSL_CERT_FILE").get("SSL_CERT_FILE")
    return {**env, "GIT_SSL_CAINFO": bundle} if bundle else env
