"""The solver of conda environments: py-rattler, without conda, mamba or micromamba."""

from __future__ import annotations

import asyncio
import datetime
import re
import time
from collections.abc import Mapping
from pathlib import Path

import rattler
import rattler.exceptions

from cuwheel.base.errors import DownloadError, LockError, UsageError
from cuwheel.base.fetch.retry import SLOW_FIX, Attempts, slow_factor
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.fetch.web import read_head
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.toolchains.conda.environment_file import PLATFORM, CondaSource
from cuwheel.build.toolchains.conda.lock_file import CondaLock, CondaPackage
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.workspace.workspace import Workspace

_SUBDIRS = (rattler.Subdir(PLATFORM), rattler.Subdir("noarch"))

_REFUSED = (
    "check that the URL is that of the channel (or of its mirror, if CUWHEEL_CONDA_MIRROR is set), "
    "and that it contains user and password if the server needs them: https://me:secret@…"
)
_LIMIT = 300.0  # seconds; conda-forge's index takes some on a slow line
# Seconds in which rattler's threads release the interpreter's lock after their result. Python 3.10
# is aborted if it ends before: "PyGILState_Release: thread state … must be current".
_RELEASE_TIME = 0.1
_UNSOLVABLE = (rattler.exceptions.SolverError, rattler.exceptions.InvalidMatchSpecError)

_MIRROR = "use a mirror of the channel: CUWHEEL_CONDA_MIRROR=https://… or file://…"
UNREACHABLE_FIX = (
    "check that the machine can reach it (behind a proxy set HTTPS_PROXY, for your own certificate "
    f"authority SSL_CERT_FILE);\nor {_MIRROR};\nor make a mirror with everything that a build "
    "needs, on a machine with a network, and copy it here: `nox -s mirror -- RECIPE-TOOLKIT --to "
    "DIR`, docs/how-to/offline.md"
)


def solve(  # noqa: PLR0913 - input, channels and limits
    source: CondaSource,
    mirrors: Mirrors,
    workspace: Workspace,
    *,
    cooldown: int,
    note: str = "",
    limit: float = _LIMIT,
) -> CondaLock:
    """Choose the packages of an environment, for the system that the source describes.

    Nothing of this machine counts: neither its glibc nor its GPU.

    Args:
        mirrors: in place of the channels, which the lock names.
        cooldown: days that a package has to be public.
        note: is added to the lock's field `index`.
        limit: seconds that reading the indexes and solving may take.

    Raises:
        DownloadError: a channel can't be read.
        LockError: nothing satisfies the source.
    """
    channels = [rattler.Channel(channel).base_url.rstrip("/") for channel in source.channels]
    # Each channel's mirror, or its own address.
    addresses = [mirrors.url_for(url).rstrip("/") for url in channels]
    if len({*addresses}) < len({*channels}):
        raise UsageError(
            f"{MIRRORS_VARIABLE} names one mirror for several channels",
            why=f"of a file in it, its channel isn't known: {', '.join(channels)}",
            fix="name one for each, `conda-forge=https://HOST/PATH`, separated by spaces",
        )
    for address in addresses:
        _check_channel(address)
    newest = datetime.datetime.now(tz=datetime.timezone.utc) - datetime.timedelta(days=cooldown)
    try:
        limit *= slow_factor()
        solving = _solve(source, addresses, workspace.cache, newest)
        records = asyncio.run(asyncio.wait_for(solving, limit))
        time.sleep(_RELEASE_TIME)
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
    owners = dict(zip(map(redact_url, addresses), channels, strict=True))
    packages = (_package(record, owners) for record in records)
    return CondaLock(
        packages=tuple(sorted(packages, key=lambda package: package.name)),
        channels=source.channels,
        input_digest=source.input_digest,
        index=_describe_index(channels, addresses, note),
    )


def _check_channel(address: str) -> None:
    """Request an index once: rattler itself would retry for minutes."""
    url = f"{address}/noarch/repodata.json"
    if not read_head(url, Attempts(), fix=_REFUSED).is_there:
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


def _package(record: rattler.RepoDataRecord, owners: Mapping[str, str]) -> CondaPackage:
    """Return a package with its channel's own address.

    Args:
        owners: channels by the addresses that they were read from.
    """
    read_from, subdir, file_name = redact_url(record.url).rsplit("/", 2)
    if read_from not in owners:
        raise LockError(
            f"{record.file_name} has a URL outside of the channels",
            why=f"{read_from} is not {' or '.join(owners)}",
            fix="set CUWHEEL_CONDA_MIRROR to the mirror's URL as its index states it",
        )
    depends: dict[str, str] = {}
    for text in record.depends:  # a name can occur twice, each time with one bound
        name, _, bound = text.partition(" ")
        depends[name] = ",".join(filter(None, (depends.get(name, ""), bound)))
    return CondaPackage(
        name=record.name.normalized,
        version=str(record.version),
        build=str(record.build),
        url=f"{owners[read_from]}/{subdir}/{file_name}",
        sha256=record.sha256.hex() if record.sha256 else "",
        md5=record.md5.hex() if record.md5 else "",
        size=record.size or 0,
        depends=tuple(sorted(depends.items())),
    )


def _describe_index(channels: list[str], addresses: list[str], note: str) -> str:
    """Return the origin of the records; local folders by their index files' hashes, not paths."""
    digests = [
        f"{subdir}/repodata.json sha256:{sha256_of_file(index)}"
        for address in addresses
        for subdir in map(str, _SUBDIRS)
        if is_local(address) and (index := local_path(address) / subdir / "repodata.json").is_file()
    ]
    read = f", read from {'; '.join(digests)}" if digests else ""
    return f"{', '.join(channels)}{read}{f' ({note})' if note else ''}"


def _plain(text: str) -> str:
    """Return a message of rattler without its box drawing, on few lines."""
    lines = (re.sub(r"[\s│├└─┌╭╰]+", " ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
