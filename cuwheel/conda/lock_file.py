"""Conda locks: `conda-lock.yml`, in v1 of conda-lock's format.

Its own library reads and writes them, so that its command line can do the same. It takes two
seconds to import, hence only where it is used.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cuwheel.conda.environment_file import PLATFORM, digest_of_input, name_of_lock, read_source
from cuwheel.errors import LockError
from cuwheel.system.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


NOT_FETCHED = "not fetched: names, hashes and sizes are as the index states them"

_SIZE = "size "  # before a file's name: the format has no field for it
_CONTENT = "content"
_STATED = re.compile(rf"^    {_CONTENT}: (?P<content>[0-9a-f]{{64}})$", re.MULTILINE)
_WANTED = "input"
_INPUT = re.compile(rf"^    {_WANTED}: (?P<input>[0-9a-f]{{64}})$", re.MULTILINE)
_FILES = "files"
_INDEX = "index"


@dataclass(frozen=True, kw_only=True)
class CondaPackage:
    """One file of a conda channel.

    Attributes:
        name: of the package, `cuda-nvcc`.
        version: `12.2.140`.
        build: build string, `hcdd1206_0`.
        url: the channel's own address of the file, whatever mirror it is fetched from.
        sha256: 64 hexadecimal digits; empty where the channel's index has none.
        md5: 32 hexadecimal digits.
        size: bytes; 0 where the index doesn't say.
        depends: name and version constraint of what it needs.
    """

    name: str
    version: str
    build: str
    url: str
    sha256: str
    md5: str
    size: int
    depends: tuple[tuple[str, str], ...] = ()

    @property
    def file_name(self) -> str:
        """`cuda-nvcc-12.2.140-hcdd1206_0.conda`."""
        return urlsplit(self.url).path.rpartition("/")[2]

    @property
    def subdir(self) -> str:
        """`linux-64` or `noarch`, the channel's folder that holds the file."""
        return self.url.split("/")[-2]

    @property
    def channel(self) -> str:
        """The channel's address, without a slash at its end."""
        return self.url.rpartition(f"/{self.subdir}/")[0]


@dataclass(frozen=True, kw_only=True)
class CondaLock:
    """A solved environment.

    Attributes:
        packages: its files, sorted by name.
        channels: as the source names them.
        digest: content hash of the source that it was solved from.
        index: where the records came from.
        wanted: SHA-256 over what the source's files say.
        files: whether the files themselves have been seen: `NOT_FETCHED`, or when they were.
    """

    packages: tuple[CondaPackage, ...]
    channels: tuple[str, ...]
    digest: str
    index: str
    wanted: str = ""
    files: str = NOT_FETCHED
    _stated: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def download_size(self) -> int:
        """Bytes of all files; those of unknown size count nothing."""
        return sum(package.size for package in self.packages)

    @property
    def content(self) -> str:
        """SHA-256 over everything that decides what gets installed."""
        facts = [asdict(package) for package in self.packages]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def stated_content(path: Path) -> str:
    """What a lock says that it holds, read without parsing it; empty where it says nothing.

    Whoever installs from the lock compares it (`read_conda_lock`); to name what was installed, it
    has to be had in no time.

    Raises:
        OSError: the file can't be read.
    """
    found = _STATED.search(path.read_text(errors="replace"))
    return found["content"] if found else ""


def has_changed_input(path: Path) -> bool:
    """Whether the files that a lock was solved from have changed since; quick, for every build.

    Where they aren't there, nothing has: a lock can be used without them.
    """
    source = path.with_name("environment.yml")
    if not source.is_file():
        return False
    found = _INPUT.search(path.read_text(errors="replace"))
    return found is None or found["input"] != digest_of_input(source)


def read_conda_lock(path: Path) -> CondaLock:
    """Read a `conda-lock.yml`.

    Raises:
        LockError: it is missing, isn't conda-lock's v1 format, or was edited by hand.
    """
    lock = _parse(path)
    if lock._stated.get(_CONTENT) != lock.content:  # noqa: SLF001 - of this module
        raise LockError(
            f"{path.parent.name}/{path.name} was edited by hand",
            why="its packages are not those that its metadata vouches for",
            fix=_way_back(path),
        )
    return lock


def write_conda_lock(path: Path, lock: CondaLock, *, command: str) -> None:
    """Write a `conda-lock.yml`.

    Args:
        path: the file.
        lock: what to write.
        command: what writes this file again.

    Raises:
        OSError: it can't be written.
    """
    from conda_lock import lockfile  # noqa: PLC0415 - see above
    from conda_lock.lockfile.v2prelim.models import lockfile_v1_to_v2  # noqa: PLC0415

    content = lockfile_v1_to_v2(_as_model(lock))
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.name
        lockfile.write_conda_lock_file(content, plain, metadata_choices=(), include_help_text=False)
        text = plain.read_text()
    write_atomically(path, f"# Written by `{command}`; don't edit.\n{text}")


def faults_of_conda_lock(path: Path, source: Path) -> list[str]:
    """Everything that is wrong with a conda lock, in words; empty when it is sound.

    Raises:
        LockError: the source itself is missing or can't be understood.
    """
    wanted = read_source(source)
    if not path.is_file():
        return ["it is missing"]
    try:
        lock = _parse(path)
    except LockError as error:
        return [error.why]
    faults = []
    if lock.digest != wanted.digest:
        faults.append("its input has changed since it was written")
    if lock._stated.get(_CONTENT) != lock.content:  # noqa: SLF001 - of this module
        faults.append("it was edited by hand")
    return faults


def _way_back(path: Path) -> str:
    relock = f"nox -s lock -- {name_of_lock(path.parent.name)}"
    return f"git checkout {path}, or write it again: `{relock}`"


def _parse(path: Path) -> CondaLock:
    from conda_lock import lockfile  # noqa: PLC0415 - see above

    try:
        parsed = lockfile.parse_conda_lock_file(path).to_v1()
    except FileNotFoundError:
        raise LockError(
            f"{path.parent.name}/{path.name} is missing",
            why="a conda environment is installed from its lock only",
            fix=f"nox -s lock -- {name_of_lock(path.parent.name)}",
        ) from None
    except Exception as problem:  # whatever its YAML and pydantic parsers raise
        raise LockError(
            f"{path.parent.name}/{path.name} is no conda lock",
            why=f"conda-lock says: {str(problem).splitlines()[0]}",
            fix=_way_back(path),
        ) from problem
    stated = parsed.metadata.custom_metadata or {}
    packages = (_of_model(one, stated) for one in parsed.package if one.platform == PLATFORM)
    return CondaLock(
        packages=tuple(sorted(packages, key=lambda package: package.name)),
        channels=tuple(channel.url for channel in parsed.metadata.channels),
        digest=parsed.metadata.content_hash.get(PLATFORM, ""),
        index=stated.get(_INDEX, ""),
        wanted=stated.get(_WANTED, ""),
        files=stated.get(_FILES, NOT_FETCHED),
        _stated=stated,
    )


def _of_model(locked: Any, stated: Mapping[str, str]) -> CondaPackage:
    name = urlsplit(locked.url).path.rpartition("/")[2]
    return CondaPackage(
        name=locked.name,
        version=locked.version,
        build=locked.build or _build_of(name),
        url=locked.url,
        sha256=locked.hash.sha256 or "",
        md5=locked.hash.md5 or "",
        size=int(stated.get(f"{_SIZE}{name}", "0")),
        depends=tuple(locked.dependencies.items()),
    )


def _build_of(file_name: str) -> str:
    """A conda package's file is called `name-version-build` and its extension."""
    return file_name.removesuffix(".conda").removesuffix(".tar.bz2").rpartition("-")[2]


def _as_model(lock: CondaLock) -> Any:
    from conda_lock.lockfile.v1 import models  # noqa: PLC0415 - see above
    from conda_lock.models.channel import Channel  # noqa: PLC0415

    packages = [
        models.LockedDependency(
            name=package.name,
            version=package.version,
            manager="conda",
            platform=PLATFORM,
            dependencies=dict(package.depends),
            url=package.url,
            hash=models.HashModel(md5=package.md5, sha256=package.sha256 or None),
            category="main",
            optional=False,
        )
        for package in lock.packages
    ]
    stated = {
        _INDEX: lock.index,
        _FILES: lock.files,
        _WANTED: lock.wanted,
        _CONTENT: lock.content,
    }
    metadata = models.LockMeta(
        content_hash={PLATFORM: lock.digest},
        channels=[Channel.from_string(channel) for channel in lock.channels],
        platforms=[PLATFORM],
        sources=["environment.yml"],
        custom_metadata={**stated, **_sizes(lock.packages)},
    )
    return models.Lockfile(package=packages, metadata=metadata)


def _sizes(packages: Iterable[CondaPackage]) -> dict[str, str]:
    return {f"{_SIZE}{one.file_name}": str(one.size) for one in packages if one.size}
