"""What a conda lock holds, and the request to the program that renders one: records."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

NOT_FETCHED = "not downloaded: names, hashes and sizes are those of the index"


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
        digest: conda-lock's content hash of the source that it was solved from.
        index: where the records came from.
        input_digest: SHA-256 over what the source's files say.
        files: whether the files themselves have been fetched: `NOT_FETCHED`, or when they were.
    """

    packages: tuple[CondaPackage, ...]
    channels: tuple[str, ...]
    digest: str
    index: str
    input_digest: str = ""
    files: str = NOT_FETCHED

    @property
    def download_size(self) -> int:
        """Bytes of all files; those of unknown size count nothing."""
        return sum(package.size for package in self.packages)

    @property
    def content(self) -> str:
        """SHA-256 over everything that decides what gets installed."""
        facts = [asdict(package) for package in self.packages]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RenderRequest:
    """A request to `conda_lock_process`.

    Attributes:
        document: a lock, in v1 of conda-lock's format.
        source: the `environment.yml` that it was solved from; empty where it needn't be compared.
        platform: `linux-64`.
        answer: the file that gets the answer.
    """

    document: dict[str, Any]
    source: str
    platform: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """What it answers.

    Attributes:
        text: the lock as conda-lock writes it.
        digest: conda-lock's content hash of the source; empty where there was none.
        refused: why conda-lock takes the document or the source for malformed; empty when it
            doesn't.
    """

    text: str = ""
    digest: str = ""
    refused: str = ""
