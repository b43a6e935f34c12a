"""Upload of a release to a package index: existing wheels are compared, missing ones uploaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pypi_simple

from cuwheel.base.caller import Caller
from cuwheel.base.errors import (
    DownloadError,
    PublishedWheelError,
    UsageError,
    WheelIndexError,
)
from cuwheel.base.fetch.indexes.pages import PageFault, read_page, read_project_page
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import credentials_of, redact_url, split_url
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.process import run
from cuwheel.base.system.quantities import plural
from cuwheel.build.locks.tool_environment import tool_python
from cuwheel.build.wheelhouse.entries import Entry
from cuwheel.build.workspace.workspace import bare_workspace

# They would send the wheels to another index than the compared one.
_OTHER_PLACES = ("TWINE_REPOSITORY", "TWINE_REPOSITORY_URL")
_ACCEPT = "text/html, application/vnd.pypi.simple.v1+json;q=0.9"


@dataclass(frozen=True, kw_only=True)
class UploadRequest:
    """The destination of an upload.

    Attributes:
        repository: the index's address for uploads, or a name that `~/.pypirc` knows.
        index: address of its simple API (PEP 503 or 691), which lists its files.
        twine: its command; empty: that of `envs/twine.lock`, in an environment that is made for the
            first upload (docs/adr/0037).
    """

    repository: str
    index: str
    log: Path
    caller: Caller
    twine: tuple[str, ...] = ()


def make_upload(repository: str, index: str, log: Path, caller: Caller) -> UploadRequest:
    """Return the destination that a command line names.

    Args:
        index: empty: `simple/` below an address, and PyPI's for the name `pypi`.

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
    if not index and split_url(repository).scheme in {"http", "https"}:
        index = f"{repository.rstrip('/')}/simple/"
    if not index and repository == "pypi":
        index = pypi_simple.PYPI_SIMPLE_ENDPOINT
    if not index:
        raise UsageError(
            f"the index that lists the files of {repository} isn't known",
            why="before an upload, existing files are compared by hash",
            fix="give the address that pip installs from: -- --index https://HOST/PATH/simple/",
        )
    index = f"{index.rstrip('/')}/"
    return UploadRequest(repository=repository, index=index, log=log, caller=caller)


def compare_with_index(wheels: Iterable[Entry], request: UploadRequest) -> dict[str, bool]:
    """Return True for each wheel that the index has; with other bytes, raise an error.

    Raises:
        PublishedWheelError: it has a name with other bytes.
        WheelIndexError: it gives no SHA-256 of a file.
        DownloadError: it doesn't answer.
        UsageError: there is no index.
    """
    wheels = tuple(wheels)
    attempts = Attempts()
    there: dict[str, str] | None = None
    for project in sorted({wheel.project for wheel in wheels}):
        attempts.reset_count()
        listed = read_project_page(request.index, project, attempts)
        if not isinstance(listed, PageFault):
            files = {file.filename: file.digests.get("sha256", "") for file in listed.packages}
            there = {**(there or {}), **files}
        elif listed.kind != "missing":
            raise _no_index(request, listed)
    if there is None:  # it may be empty, or none
        attempts.reset_count()
        page = read_page(request.index, attempts, _ACCEPT)
        if isinstance(page, PageFault) and page.kind != "unreadable":  # of PyPI, which is too large
            raise _no_index(request, page)
        there = {}
    _check_bytes(wheels, there, redact_url(request.index))
    return {wheel.name: wheel.name in there for wheel in wheels}


def upload(
    wheels: Mapping[str, Path], entries: Iterable[Entry], request: UploadRequest, console: Console
) -> tuple[str, ...]:
    """Upload missing wheels to the index, and check that it has all of them then.

    Returns:
        The names of those that were uploaded.

    Raises:
        CommandFailedError: twine failed; some wheels may be uploaded.
        PublishedWheelError: the index has a name with other bytes.
        WheelIndexError: a file isn't the wheel that was released.
        CuwheelError: as for `compare_with_index`.
    """
    entries = tuple(entries)
    missing = [
        name for name, is_there in compare_with_index(entries, request).items() if not is_there
    ]
    there = len(entries) - len(missing)
    console.note(f"{redact_url(request.index)} has {there} of {plural(len(entries), 'wheel')}")
    if not missing:
        return ()
    _check_files(missing, wheels, {entry.name: entry.sha256 for entry in entries})
    request.log.parent.mkdir(parents=True, exist_ok=True)
    request.log.unlink(missing_ok=True)
    twine, caller = request.twine, request.caller
    if not twine:
        python = tool_python("twine", bare_workspace(console, caller))
        twine = (str(python), "-B", "-m", "twine")
    with console.stage("upload"):
        for name in missing:
            console.note(name)
        run(
            [
                *twine,
                *("upload", "--non-interactive", "--disable-progress-bar"),
                *_repository(request.repository),
                *(str(wheels[name]) for name in missing),
            ],
            env={name: text for name, text in caller.environ.items() if name not in _OTHER_PLACES},
            log=request.log,
            what=f"the upload to {redact_url(request.repository)} failed",
            fix="fix what its last lines report, then run the same command again: files that "
            "are there by then aren't uploaded again",
            shown=("twine", "upload", *_repository(request.repository), *missing),
        )
    after = compare_with_index(entries, request)
    if late := [name for name in missing if not after[name]]:
        console.warn(
            f"{redact_url(request.index)} doesn't list {', '.join(late)} yet; run the same "
            "command again to check"
        )
    return tuple(missing)


def _check_files(
    names: Iterable[str], wheels: Mapping[str, Path], sha256: Mapping[str, str]
) -> None:
    for name in names:
        path = wheels[name]
        digest = sha256_of_file(path) if path.is_file() else "none, the file is missing"
        if digest != sha256[name]:
            raise WheelIndexError(
                f"{path} is not the wheel that was released, so nothing is uploaded",
                why=f"its SHA-256 was {sha256[name]}, it is {digest}",
                fix="restore that wheel from a backup, and run the same command again",
            )


def _repository(repository: str) -> tuple[str, str]:
    is_address = "://" in repository
    return ("--repository-url" if is_address else "--repository", repository)


def _check_bytes(wheels: Iterable[Entry], there: Mapping[str, str], index: str) -> None:
    listed = [wheel for wheel in wheels if wheel.name in there]
    changed = [
        f"{entry.name}: {index} has {there[entry.name]}, the release has {entry.sha256}"
        for entry in listed
        if there[entry.name] not in {"", entry.sha256}
    ]
    if changed:
        raise PublishedWheelError(
            f"the index has other files with the names of {plural(len(changed), 'wheel')}, so "
            "nothing is uploaded",
            why="\n".join(changed),
            fix="ask the operator of the index where these came from; to publish yours beside "
            "them, build with `-- --build-tag N` and release again",
        )
    if unknown := [entry.name for entry in listed if not there[entry.name]]:
        raise WheelIndexError(
            f"{index} gives no SHA-256 for {unknown[0]}",
            why="so it isn't known whether it has this release's wheel; nothing is uploaded",
            fix="configure the index to give hashes (pypiserver: --hash-algo sha256), or upload "
            "missing files with twine itself",
        )


def _no_index(request: UploadRequest, fault: PageFault) -> UsageError | DownloadError:
    kind = UsageError if fault.kind == "missing" else DownloadError
    return kind(
        f"{redact_url(request.index)} {fault}, so its files can't be compared",
        why="before an upload, existing files are compared by hash",
        fix="give the address that pip installs from: -- --index https://HOST/PATH/simple/",
    )
