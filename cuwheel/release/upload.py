"""Wheels of a release on a package index: what is there is compared, the rest is uploaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pypi_simple

from cuwheel.errors import (
    DownloadError,
    PublishedWheelError,
    UploadError,
    UsageError,
    WheelIndexError,
)
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.urls import credentials_of, redact_url
from cuwheel.locks.tool_environment import tool_python
from cuwheel.pypi.pages import PageFault, read_page, read_project_page
from cuwheel.system.files import sha256_of_file
from cuwheel.system.process import run
from cuwheel.system.quantities import plural
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.index.entries import Entry
    from cuwheel.system.console import Console

# They would send the wheels elsewhere than to the index that they were compared with.
_OTHER_PLACES = ("TWINE_REPOSITORY", "TWINE_REPOSITORY_URL")
_ACCEPT = "text/html, application/vnd.pypi.simple.v1+json;q=0.9"


@dataclass(frozen=True, kw_only=True)
class UploadRequest:
    """Where wheels are uploaded to.

    Attributes:
        repository: the index's address for uploads, or a name that `~/.pypirc` knows.
        index: address of its simple API (PEP 503 or 691), which says what is there.
        log: file that gets what twine says.
        twine: the command that starts it; empty: the one that `envs/twine.lock` pins, in an
            environment that is made when something is uploaded (docs/adr/0037).
        retry_policy: how long to go on asking the index.
    """

    repository: str
    index: str
    log: Path
    twine: tuple[str, ...] = ()
    retry_policy: RetryPolicy = RETRY_POLICY


def make_upload(repository: str, index: str, log: Path) -> UploadRequest:
    """Where wheels are uploaded to, as a command line says it.

    Args:
        repository: as it was given.
        index: likewise; empty: `simple/` below an address, and PyPI's for the name `pypi`.
        log: file for twine's words.

    Raises:
        UsageError: an address holds a password, or the index isn't known.
    """
    for option, address in (("--upload", repository), ("--index", index)):
        if any(credentials_of(address)):
            raise UsageError(
                f"{option} {redact_url(address)} contains a user or a password",
                why="all users of this machine can read a program's arguments",
                fix="set TWINE_USERNAME and TWINE_PASSWORD, or put them into ~/.pypirc; for "
                "reading an index, into ~/.netrc",
            )
    if not index and urlsplit(repository).scheme in {"http", "https"}:
        index = f"{repository.rstrip('/')}/simple/"
    if not index and repository == "pypi":
        index = pypi_simple.PYPI_SIMPLE_ENDPOINT
    if not index:
        raise UsageError(
            f"the index that lists the files of {repository} isn't known",
            why="before an upload, existing files are compared by hash",
            fix="give the address that pip installs from: -- --index https://HOST/PATH/simple/",
        )
    return UploadRequest(repository=repository, index=f"{index.rstrip('/')}/", log=log)


def compare_with_index(wheels: Iterable[Entry], asked: UploadRequest) -> dict[str, bool]:
    """Whether the index has each wheel; with other bytes, none may be uploaded.

    Raises:
        PublishedWheelError: it has a name with other bytes.
        WheelIndexError: it says no SHA-256 of a file, so that can't be told.
        DownloadError: it doesn't answer.
        UsageError: there is no index.
    """
    wheels = tuple(wheels)
    attempts = Attempts(asked.retry_policy)
    there: dict[str, str] | None = None
    for project in sorted({one.project for one in wheels}):
        attempts.reset_count()
        listed = read_project_page(asked.index, project, attempts)
        if not isinstance(listed, PageFault):
            found = {file.filename: file.digests.get("sha256", "") for file in listed.packages}
            there = {**(there or {}), **found}
        elif listed.kind != "missing":
            raise _no_index(asked, listed)
    if there is None:  # it may be empty, or none
        attempts.reset_count()
        page = read_page(asked.index, attempts, _ACCEPT)
        if isinstance(page, PageFault) and page.kind != "unreadable":  # of PyPI, which is too large
            raise _no_index(asked, page)
        there = {}
    _check_bytes(wheels, there, redact_url(asked.index))
    return {one.name: one.name in there for one in wheels}


def upload(
    wheels: Mapping[str, Path], entries: Iterable[Entry], asked: UploadRequest, console: Console
) -> tuple[str, ...]:
    """Upload what the index hasn't got, and see that it has all of it then.

    Args:
        wheels: files by name.
        entries: the same wheels.
        asked: where to.
        console: shows how it goes.

    Returns:
        The names of those that were uploaded.

    Raises:
        UploadError: twine failed; what it had uploaded is there.
        PublishedWheelError: the index has a name with other bytes.
        WheelIndexError: a file isn't the wheel that was released.
        CuwheelError: as for `compare_with_index`.
    """
    entries = tuple(entries)
    missing = [
        name for name, is_there in compare_with_index(entries, asked).items() if not is_there
    ]
    there = len(entries) - len(missing)
    console.note(f"{redact_url(asked.index)} has {there} of {plural(len(entries), 'wheel')}")
    if not missing:
        return ()
    _check_files(missing, wheels, {one.name: one.sha256 for one in entries})
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    asked.log.unlink(missing_ok=True)
    python = None if asked.twine else tool_python("twine", bare_workspace(console))
    twine = (str(python), "-B", "-m", "twine") if python else asked.twine
    with console.stage("upload"):
        for name in missing:
            console.note(name)
        run(
            [
                *twine,
                *("upload", "--non-interactive", "--disable-progress-bar"),
                *_repository(asked.repository),
                *(str(wheels[name]) for name in missing),
            ],
            env={name: value for name, value in os.environ.items() if name not in _OTHER_PLACES},
            log=asked.log,
            error=UploadError,
            what=f"the upload to {redact_url(asked.repository)} failed",
            fix="fix what its last lines report, then run the same command again: files that "
            "are there by then aren't uploaded again",
            shown=("twine", "upload", *_repository(asked.repository), *missing),
        )
    after = compare_with_index(entries, asked)
    if late := [name for name in missing if not after[name]]:
        console.warn(
            f"{redact_url(asked.index)} doesn't list {', '.join(late)} yet; run the same "
            "command again to check"
        )
    return tuple(missing)


def _check_files(
    names: Iterable[str], wheels: Mapping[str, Path], sha256: Mapping[str, str]
) -> None:
    """See that the files are what was released: what is uploaded can't be taken back.

    Raises:
        WheelIndexError: one isn't.
    """
    for name in names:
        path = wheels[name]
        found = sha256_of_file(path) if path.is_file() else "none, the file is missing"
        if found != sha256[name]:
            raise WheelIndexError(
                f"{path} is not the wheel that was released, so nothing is uploaded",
                why=f"its SHA-256 was {sha256[name]}, it is {found}",
                fix="restore that wheel from a backup, and run the same command again",
            )


def _repository(repository: str) -> tuple[str, str]:
    is_address = "://" in repository
    return ("--repository-url" if is_address else "--repository", repository)


def _check_bytes(wheels: Iterable[Entry], there: Mapping[str, str], index: str) -> None:
    """See that what is there is what is to be there."""
    listed = [one for one in wheels if one.name in there]
    changed = [
        f"{one.name}: {index} has {there[one.name]}, the release has {one.sha256}"
        for one in listed
        if there[one.name] not in {"", one.sha256}
    ]
    if changed:
        raise PublishedWheelError(
            f"the index has other files with the names of {plural(len(changed), 'wheel')}, so "
            "nothing is uploaded",
            why="\n".join(changed),
            fix="ask the operator of the index where these came from; to publish yours beside "
            "them, build with `-- --build-tag N` and release again",
        )
    if unknown := [one.name for one in listed if not there[one.name]]:
        raise WheelIndexError(
            f"{index} gives no SHA-256 for {unknown[0]}",
            why="so it isn't known whether it has this release's wheel; nothing is uploaded",
            fix="configure the index to give hashes (pypiserver: --hash-algo sha256), or upload "
            "missing files with twine itself",
        )


def _no_index(asked: UploadRequest, fault: PageFault) -> UsageError | DownloadError:
    kind = UsageError if fault.kind == "missing" else DownloadError
    return kind(
        f"{redact_url(asked.index)} {fault}, so its files can't be compared",
        why="before an upload, existing files are compared by hash",
        fix="give the address that pip installs from: -- --index https://HOST/PATH/simple/",
    )
