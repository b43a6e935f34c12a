"""Solve a conda environment with py-rattler: no conda, mamba or micromamba is needed."""

from __future__ import annotations

import asyncio
import datetime
import re
import time
from typing import TYPE_CHECKING

import rattler
import rattler.exceptions

from cuwheel.conda.environment_file import PLATFORM
from cuwheel.conda.records import CondaLock, CondaPackage
from cuwheel.errors import DownloadError, LockError
from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.fetch.slow import SLOW_FIX, slow_factor
from cuwheel.fetch.urls import is_local, local_path, redact_url
from cuwheel.fetch.web import ask_head
from cuwheel.system.files import sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.conda.environment_file import CondaSource
    from cuwheel.conda.mirrors import Mirrors
    from cuwheel.fetch.retry import RetryPolicy


_SUBDIRS = (rattler.Subdir(PLATFORM), rattler.Subdir("noarch"))

_REFUSED = (
    "check that the URL is that of the channel (or of its mirror, if CUWHEEL_CONDA_MIRROR is set), "
    "and that it contains user and password if the server needs them: https://me:secret@…"
)
_LIMIT = 300.0  # seconds; conda-forge's index takes some on a slow line
# Seconds in which rattler's threads let go of the interpreter's lock behind their answer. Python
# 3.10 is aborted where it ends before: "PyGILState_Release: thread state … must be current".
_LETS_GO = 0.1
_UNSOLVABLE = (rattler.exceptions.SolverError, rattler.exceptions.InvalidMatchSpecError)

_MIRROR = "use a mirror of the channel: CUWHEEL_CONDA_MIRROR=https://… or file://…"
UNREACHABLE_FIX = (
    "check that the machine can reach it (behind a proxy set HTTPS_PROXY, for your own certificate "
    f"authority SSL_CERT_FILE);\nor {_MIRROR};\nor make a mirror with everything that a build "
    "needs, on a machine with a network, and copy it here: `nox -s mirror -- RECIPE-TOOLKIT --to "
    "DIR`, docs/how-to/offline.md"
)


def solve(  # noqa: PLR0913 - what, from where, and how
    source: CondaSource,
    mirrors: Mirrors,
    *,
    cache: Path,
    cooldown: int,
    offline: bool = False,
    note: str = "",
    retry_policy: RetryPolicy = RETRY_POLICY,
    limit: float = _LIMIT,
) -> CondaLock:
    """Choose the packages of an environment, for the system that the source describes.

    Nothing of this machine counts: neither its glibc nor its GPU.

    Args:
        source: what is required.
        mirrors: where the channels are read from; the lock names the channels themselves.
        cache: cuwheel's cache, keeps the channels' indexes.
        cooldown: days that a package has to have been there to be considered.
        offline: read no channel over the network.
        note: words for the lock on where the index came from.
        retry_policy: how long to go on when a channel doesn't answer.
        limit: seconds that reading the indexes and solving may take.

    Raises:
        DownloadError: a channel can't be read.
        LockError: nothing satisfies the source.
    """
    own = tuple(rattler.Channel(channel).base_url for channel in source.channels)
    # Each channel's mirror, or its own address, without a slash at its end.
    addresses = [mirrors.url_for(url.rstrip("/")).rstrip("/") for url in own]
    for address in addresses:
        _check_answers(address, offline=offline, retry_policy=retry_policy)
    newest = datetime.datetime.now(tz=datetime.timezone.utc) - datetime.timedelta(days=cooldown)
    try:
        limit *= slow_factor()
        records = asyncio.run(asyncio.wait_for(_solve(source, addresses, cache, newest), limit))
        time.sleep(_LETS_GO)
    except (TimeoutError, asyncio.TimeoutError) as problem:
        raise DownloadError(
            f"the index of {', '.join(map(redact_url, addresses))} can't be read",
            why=f"it answered, but reading and solving took more than {limit:.0f} seconds",
            fix=f"{SLOW_FIX};\nor {UNREACHABLE_FIX}",
        ) from problem
    except _UNSOLVABLE as problem:
        raise LockError(
            f"{source.path.parent.name}/{source.path.name} could not be solved",
            why=_plain(str(problem)),
            fix="correct its pins: each has to have been in the channel for longer than the "
            "cooldown (`--cooldown DAYS`), and all have to be compatible",
        ) from problem
    except (rattler.exceptions.GatewayError, rattler.exceptions.FetchRepoDataError) as problem:
        raise DownloadError(
            f"the index of {', '.join(map(redact_url, addresses))} can't be read",
            why=_plain(str(problem)),
            fix=UNREACHABLE_FIX,
        ) from problem
    packages = (_package(record, mirrors, own) for record in records)
    return CondaLock(
        packages=tuple(sorted(packages, key=lambda package: package.name)),
        channels=source.channels,
        digest=source.digest,
        input_digest=source.input_digest,
        index=_describe_index(source.channels, addresses, note),
    )


def _check_answers(address: str, *, offline: bool, retry_policy: RetryPolicy) -> None:
    """Request an index once: rattler itself would go on trying for minutes."""
    url = f"{address}/noarch/repodata.json"
    if offline and not is_local(address):
        raise DownloadError(
            f"the channel {redact_url(address)} can't be read", why="--offline is set", fix=_MIRROR
        )
    if not ask_head(url, Attempts(retry_policy), fix=_REFUSED).is_there:
        raise DownloadError(
            f"{redact_url(address)} is not a readable channel",
            why="it has no noarch/repodata.json",
            fix=_REFUSED,
        )


async def _solve(
    source: CondaSource, addresses: list[str], cache: Path, newest: datetime.datetime
) -> list[rattler.RepoDataRecord]:
    system = [
        rattler.GenericVirtualPackage(
            rattler.PackageName(name), rattler.Version(version), rattler.BuildString("0")
        )
        for name, version in source.virtual
    ]
    return await rattler.solve(
        sources=[rattler.Channel(address) for address in addresses],
        specs=[rattler.MatchSpec(spec) for spec in source.specs],
        platforms=_SUBDIRS,
        virtual_packages=system,
        gateway=rattler.Gateway(cache_dir=cache / "conda" / "repodata"),
        exclude_newer=newest,
        timestamp_policy="allow-missing",
    )


def _package(
    record: rattler.RepoDataRecord, mirrors: Mirrors, own: tuple[str, ...]
) -> CondaPackage:
    url = mirrors.canonical(record.url)
    if not url.startswith(own):
        raise LockError(
            f"{record.file_name} has a URL outside of the channels",
            why=f"{redact_url(url)} is not below {' or '.join(own)}",
            fix="set CUWHEEL_CONDA_MIRROR to the mirror's URL as its index states it",
        )
    depends: dict[str, str] = {}
    for text in record.depends:  # a name can stand there twice, each time with one bound
        name, _, bound = text.partition(" ")
        depends[name] = ",".join(filter(None, (depends.get(name, ""), bound)))
    return CondaPackage(
        name=record.name.normalized,
        version=str(record.version),
        build=str(record.build),
        url=url,
        sha256=record.sha256.hex() if record.sha256 else "",
        md5=record.md5.hex() if record.md5 else "",
        size=record.size or 0,
        depends=tuple(sorted(depends.items())),
    )


def _describe_index(channels: Iterable[str], addresses: list[str], note: str) -> str:
    """Where the records came from; a folder of this machine only by what its index files are."""
    owners = ", ".join(rattler.Channel(channel).base_url.rstrip("/") for channel in channels)
    digests = [
        f"{subdir}/repodata.json sha256:{sha256_of_file(index)}"
        for address in addresses
        for subdir in map(str, _SUBDIRS)
        if is_local(address) and (index := local_path(address) / subdir / "repodata.json").is_file()
    ]
    read = f", read from {'; '.join(digests)}" if digests else ""
    return f"{owners}{read}{f' ({note})' if note else ''}"


def _plain(text: str) -> str:
    """A message of rattler without its box drawing, on few lines."""
    lines = (re.sub(r"[\s│├└─┌╭╰]+", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
