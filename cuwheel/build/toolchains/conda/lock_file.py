"""Conda locks: `conda-lock.yml`, in v1 of conda-lock's format, into records and out of them.

They are read with PyYAML, so that installing from a lock doesn't need conda-lock (ADR 11). The
fields are those of conda-lock's own model (`conda_lock/lockfile/v1/models.py`). It has none for a
file's size, nor for the origin of the records: these are in `custom_metadata`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from cuwheel.base.errors import LockError
from cuwheel.base.fetch.urls import split_url
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.toolchains.conda.environment_file import (
    PLATFORM,
    name_of_lock,
    read_source,
    read_yaml,
)

NOT_FETCHED = "not downloaded: names, hashes and sizes are those of the index"

_VERSION = 1
_SIZE = "size "  # before a file's name
_STATED = re.compile(r"^    content: (?P<content>[0-9a-f]{64})$", re.MULTILINE)
_SHA256 = r"[0-9a-f]{64}"
_FIELDS = {  # of a package
    "name": r"\S+",
    "version": r"\S+",
    "manager": "conda",
    "platform": PLATFORM,
    "url": rf"\w+://\S+/(?:{PLATFORM}|noarch)/[^/\s]+(?:\.conda|\.tar\.bz2)",
}


@dataclass(frozen=True, kw_only=True)
class CondaPackage:
    """One file of a conda channel.

    Attributes:
        name: of the package, `cuda-nvcc`.
        version: `12.2.140`.
        build: build string, `hcdd1206_0`.
        url: the channel's own address of the file, also with a mirror.
        sha256: 64 hexadecimal digits; empty if the channel's index has none.
        md5: 32 hexadecimal digits.
        size: bytes; 0 if the index has none.
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
        return split_url(self.url).path.rpartition("/")[2]

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
        digest: conda-lock's content hash of the source; empty before conda-lock has read it.
        input_digest: SHA-256 over the source files' contents.
        files: `NOT_FETCHED`, or when all files were downloaded and checked.
    """

    packages: tuple[CondaPackage, ...]
    channels: tuple[str, ...]
    index: str
    digest: str = ""
    input_digest: str = ""
    files: str = NOT_FETCHED

    @property
    def download_size(self) -> int:
        """Bytes of all files; those of unknown size count nothing."""
        return sum(package.size for package in self.packages)

    @property
    def content(self) -> str:
        """SHA-256 over everything that determines the installation."""
        facts = [asdict(package) for package in self.packages]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def stated_content(path: Path) -> str:
    """Return a lock's own hash of its content, without parsing it; empty if it has none.

    `read_conda_lock` checks it; the name of an installation has to be known without that delay.

    Raises:
        OSError: the file can't be read.
    """
    line = _STATED.search(read_text(path, errors="replace"))
    return line["content"] if line else ""


def read_conda_lock(path: Path) -> CondaLock:
    """Read a `conda-lock.yml`.

    Raises:
        LockError: it is missing, isn't conda-lock's v1 format, or was edited by hand.
    """
    lock, stated = _parse(path)
    if stated != lock.content:
        raise LockError(
            f"{path.parent.name}/{path.name} was edited by hand",
            why="its packages don't match the digest in its metadata",
            fix=_fix_for_lock(path),
        )
    return lock


def faults_of_conda_lock(path: Path, source: Path) -> list[str]:
    """Return everything that is wrong with a conda lock; empty when it is valid.

    Raises:
        LockError: the source itself is missing or invalid.
    """
    required = read_source(source)
    if not path.is_file():
        return ["it is missing"]
    try:
        lock, stated = _parse(path)
    except LockError as error:
        return [error.why]
    faults = []
    if lock.input_digest != required.input_digest:
        faults.append("its input has changed since it was written")
    if stated != lock.content:
        faults.append("it was edited by hand")
    return faults


def _fix_for_lock(path: Path) -> str:
    relock = f"nox -s lock -- {name_of_lock(path.parent.name)}"
    return f"git checkout {path}, or write it again: `{relock}`"


def _parse(path: Path) -> tuple[CondaLock, str]:
    """Return the lock in a file, and its own hash of its content."""
    name = f"{path.parent.name}/{path.name}"
    try:
        return lock_of_document(read_yaml(path))
    except FileNotFoundError:
        raise LockError(
            f"{name} is missing",
            why="a conda environment is only installed from its lock",
            fix=f"nox -s lock -- {name_of_lock(path.parent.name)}",
        ) from None
    except (yaml.YAMLError, ValueError) as problem:
        kind = "it is not valid YAML: " if isinstance(problem, yaml.YAMLError) else ""
        raise LockError(
            f"{name} is not a valid conda lock",
            why=kind + " ".join(str(problem).split()),
            fix=_fix_for_lock(path),
        ) from problem


def lock_of_document(document: Any) -> tuple[CondaLock, str]:
    """Return the lock in a document, and the document's own hash of its content.

    Raises:
        ValueError: with the first thing that is wrong.
    """
    try:
        if document["version"] != _VERSION:
            raise ValueError(f"its version is {document['version']}, not {_VERSION}")
        metadata = document["metadata"]
        if PLATFORM not in metadata["platforms"]:
            raise ValueError(f"it isn't for {PLATFORM}")
        stated = metadata.get("custom_metadata", {})
        lock = CondaLock(
            packages=tuple(
                sorted(
                    (_package(package, stated) for package in document["package"]),
                    key=lambda package: package.name,
                )
            ),
            channels=tuple(_text(channel, "url", r"\S+") for channel in metadata["channels"]),
            digest=_text(metadata["content_hash"], PLATFORM, _SHA256),
            index=_text(stated, "index", default=""),
            input_digest=_text(stated, "input", default=""),
            files=_text(stated, "files", default=NOT_FETCHED),
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"it has another form than conda-lock's v1: {problem}") from problem
    counts = Counter(package.name for package in lock.packages)
    if several := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"package {several[0]} is listed twice")
    return lock, _text(stated, "content", default="")


def _text(
    content: Mapping[str, Any], key: str, pattern: str = "(?s:.*)", default: str | None = None
) -> str:
    """Return the text of a field that matches a pattern; without a default it has to be there."""
    value = content[key] if default is None else content.get(key, default)
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError(f"{content.get('name', 'it')}: `{key}` is invalid: {value!r}")
    return value


def _package(content: Mapping[str, Any], stated: Mapping[str, str]) -> CondaPackage:
    texts = {key: _text(content, key, pattern) for key, pattern in _FIELDS.items()}
    digests = {key: value for key, value in content["hash"].items() if value}
    if not digests:
        raise ValueError(f"package {texts['name']} has no hash")
    file_name = texts["url"].rpartition("/")[2]
    # The file is called `name-version-build` and its extension.
    build = file_name.removesuffix(".conda").removesuffix(".tar.bz2").rpartition("-")[2]
    depends = content["dependencies"]
    return CondaPackage(
        name=texts["name"],
        version=texts["version"],
        build=_text(content, "build", default=build),
        url=texts["url"],
        sha256=_text(digests, "sha256", f"{_SHA256}|", ""),
        md5=_text(digests, "md5", "[0-9a-f]{32}|", ""),
        size=int(_text(stated, f"{_SIZE}{file_name}", r"\d+", "0")),
        depends=tuple((name, _text(depends, name)) for name in depends),
    )


def document_of_lock(lock: CondaLock) -> dict[str, Any]:
    """Return a lock as a document."""
    sizes = {
        f"{_SIZE}{package.file_name}": str(package.size)
        for package in lock.packages
        if package.size
    }
    stated = {
        "index": lock.index,
        "files": lock.files,
        "input": lock.input_digest,
        "content": lock.content,
    }
    return {
        "version": _VERSION,
        "metadata": {
            "content_hash": {PLATFORM: lock.digest},
            "channels": [{"url": channel, "used_env_vars": []} for channel in lock.channels],
            "platforms": [PLATFORM],
            "sources": ["environment.yml"],
            "custom_metadata": {**stated, **sizes},
        },
        "package": [
            {
                "name": package.name,
                "version": package.version,
                "manager": "conda",
                "platform": PLATFORM,
                "dependencies": dict(package.depends),
                "url": package.url,
                "hash": {
                    "md5": package.md5,
                    **({"sha256": package.sha256} if package.sha256 else {}),
                },
                "category": "main",
                "optional": False,
            }
            for package in lock.packages
        ],
    }
