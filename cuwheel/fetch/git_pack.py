"""Run git with nobody's settings, and have it prove that a pack holds a commit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cuwheel.errors import CommandFailedError
from cuwheel.fetch.slow import slow_factor
from cuwheel.fetch.urls import credentials_of, redact_url
from cuwheel.system.files import disk_full, says_disk_full
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_TIME_LIMIT = 1800.0  # seconds for a fetch that goes on; git itself ends one that stalls
_LOW_SPEED_TIME = 20.0  # seconds
_SHOWN = 3  # last lines of git's words that the error shows
_NO_PROGRAM = 127  # status of a program that couldn't be started
_USER, _PASSWORD = "CUWHEEL_GIT_USER", "CUWHEEL_GIT_PASSWORD"
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "protocol.version=2",  # serves any commit by its id, not only the tips of branches
    "http.lowSpeedLimit=1000",  # bytes a second
    "fetch.unpackLimit=1",  # objects from which on the pack is kept as it came
    "gc.auto=0",  # nothing goes on in the background
    "maintenance.auto=false",
    "tar.umask=0022",  # the user's own would be in the modes
    "core.abbrev=40",  # else `$Format:%h$` would depend on what else the pack holds
)


class WrongPackError(Exception):
    """A file isn't a pack with the whole commit; the message says what git found."""


def archive_pack(pack: Path, commit: str, tar: Path, *, prefix: str, home: Path) -> None:
    """Prove that a pack holds a whole commit, and make the commit's tar of it.

    In an empty repository nothing but the pack can give the objects, and git-index-pack(1) computes
    the id of each from its content. The commit's parents needn't be there.

    Args:
        pack: the file, of any origin.
        commit: its id, 40 hexadecimal digits.
        tar: what git-archive(1) writes.
        prefix: in front of each name in the tar.
        home: an empty folder.

    Raises:
        WrongPackError: it doesn't hold the commit, or not the whole of it, or is no pack.
        CommandFailedError: git couldn't be started, or was ended by a signal.
        DiskFullError: a disk ran full.
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
        words = ("archive", "--format=tar", f"--prefix={prefix}", "-o", tar, commit)
        run_git(*words, repository=repository, writes=tar)
    except CommandFailedError as error:
        if error.status < 0 or error.status == _NO_PROGRAM:  # that isn't the pack's fault
            raise
        raise WrongPackError(f"git says: {words_of(error)}") from error


def new_repository(home: Path) -> Path:
    """Make a bare repository without content in a folder.

    Raises:
        CommandFailedError: git failed.
    """
    repository = home / "repository"
    run_git("init", "--quiet", "--bare", "--template=", repository=repository)
    return repository


def run_git(
    *words: str | Path, repository: Path, writes: Path | None = None, remote: str = ""
) -> str:
    """Run git in a repository with nobody's settings.

    Args:
        words: command and arguments; everybody can read them.
        repository: its folder; the one around it is git's HOME.
        writes: what it writes, where that isn't in the repository.
        remote: the address that it speaks to, with user and password; they become variables.

    Returns:
        What it says.

    Raises:
        CommandFailedError: it failed.
        DiskFullError: because a disk ran full.
    """
    factor = slow_factor()
    slow = f"http.lowSpeedTime={_LOW_SPEED_TIME * factor:.0f}"
    user, password = credentials_of(remote)
    login = _login_settings(remote) if user else ()
    settings = [word for setting in (*_SETTINGS, slow, *login) for word in ("-c", setting)]
    # A folder that is named isn't searched for, and may belong to whom it will.
    command = ["git", f"--git-dir={repository}", *settings, *words]
    try:
        env = _variables(repository.parent) | {_USER: user, _PASSWORD: password}
        return run(command, env=env, timeout=_TIME_LIMIT * factor).output
    except CommandFailedError as error:
        if says_disk_full(error.tail):
            raise disk_full((writes or repository.parent).parent) from error
        raise


def _login_settings(remote: str) -> Iterator[str]:
    """Have git ask for user and password, at this host alone: gitcredentials(7)."""
    host = redact_url(remote).split("/")[2]
    yield "credential.helper="
    asked = f'printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"'
    yield f"credential.{urlsplit(remote).scheme}://{host}.helper=!f() {{ {asked}; }}; f"


def words_of(error: CommandFailedError) -> str:
    """The last of what git said, in one line."""
    said = "; ".join(line.strip() for line in error.tail[-_SHOWN:])
    return said or f"nothing; its exit status is {error.status}"


def _variables(home: Path) -> dict[str, str]:
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_DEFAULT_HASH": "sha1",
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
