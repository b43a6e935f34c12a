"""Write real conda packages, and a channel of them, as conda-build and conda-index would."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rattler.index
import yaml
from conda_package_streaming.create import conda_builder

from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.toolchains.conda.environment_file import read_source
from cuwheel.build.toolchains.conda.lock_file import CondaLock, document_of_lock
from cuwheel.build.toolchains.conda.mirrors import Mirrors
from cuwheel.build.toolchains.conda.solve import solve
from tests.support.factories import make_workspace

# conda-build's own: 255 characters, so that a binary's path can be replaced by a shorter one.
PREFIX = "/opt/conda-build/_h_env" + "_placehold" * 23 + "_p"
TIMESTAMP = 1_730_000_000_000  # when the packages were built, milliseconds since 1970
SYSTEM = {"__unix": "0", "__linux": "4.18", "__glibc": "2.28", "__cuda": "13.0"}
_LEVEL = 1  # of zstd: a gigabyte in two seconds
_MODES = {False: 0o644, True: 0o755}


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A file that is there already."""

    source: Path
    executable: bool = False


@dataclass(frozen=True, kw_only=True)
class Text:
    """A file with this content; where it holds `PREFIX`, the installer puts the real folder."""

    content: str
    executable: bool = False


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A file in which `PREFIX` and a zero byte stand for a path, as in a compiled program."""

    content: bytes


@dataclass(frozen=True, kw_only=True)
class Link:
    """A symbolic link; `target` as it is written into it."""

    target: str


Entry = Copy | Text | Binary | Link


@dataclass(frozen=True, kw_only=True)
class Package:
    """A conda package.

    Attributes:
        name: of the package.
        version: of what is in it.
        build: build string; what conda-forge built has a hash there, ours says what it is.
        subdir: `linux-64` or `noarch`.
        depends: as conda writes them, `name >=1,<2`.
        constrains: likewise, for what needn't be there.
        summary: what it is, for `info/about.json`.
        timestamp: when it was built, milliseconds since 1970.
        files: by path in the prefix.
    """

    name: str
    version: str = "1.0"
    build: str = "test_0"
    subdir: str = "linux-64"
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    summary: str = ""
    timestamp: int = TIMESTAMP
    files: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """`cuda-nvcc-13.0.88-wheel_0`."""
        return f"{self.name}-{self.version}-{self.build}"


def write_source(
    folder: Path,
    *specs: str,
    channels: tuple[str, ...] = ("conda-forge",),
    system: Mapping[str, str] = SYSTEM,
) -> Path:
    """Write an `environment.yml` and the `virtual-packages.yml` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    virtual = {"subdirs": {"linux-64": {"packages": dict(system)}}}
    (folder / "virtual-packages.yml").write_text(yaml.safe_dump(virtual))
    content = {"channels": [*channels], "platforms": ["linux-64"], "dependencies": [*specs]}
    path = folder / "environment.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def write_solved_lock(source: Path, mirrors: Mirrors, cache: Path) -> Path:
    """Solve what `write_source` wrote, and write its lock beside it."""
    workspace = make_workspace(cache.parent, cache=cache)
    solved = dataclasses.replace(
        solve(read_source(source), mirrors, workspace, cooldown=7), digest="d" * 64
    )
    return write_lock(source.with_name("conda-lock.yml"), solved)


def write_lock(path: Path, lock: CondaLock) -> Path:
    """Write a lock without conda-lock: it takes seconds to start, and reads this likewise."""
    path.write_text(yaml.safe_dump(document_of_lock(lock), sort_keys=False))
    return path


def write_channel(folder: Path, packages: Iterable[Package]) -> Path:
    """Write packages into `linux-64` and `noarch`, and the index of each.

    Returns:
        The folder; `as_uri()` of it is the channel's address.
    """
    for subdir in ("linux-64", "noarch"):
        (folder / subdir).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda package: write_package(folder / package.subdir, package), packages))
    write_index(folder)
    return folder


def write_index(folder: Path) -> None:
    """Write `repodata.json` for the packages that are in a channel's folders."""
    asyncio.run(rattler.index.index_fs(folder, force=True, write_zst=False, write_shards=False))
    for index in folder.glob("*/repodata.json"):
        content = json.loads(index.read_text())
        for record in content["packages.conda"].values():
            # conda-forge's index doesn't say when it learned of a package: a cooldown counts from
            # when it was built.
            record.pop("indexed_timestamp", None)
        index.write_text(json.dumps(content, indent=1))


def write_package(folder: Path, package: Package) -> Path:
    """Write one `.conda` file."""
    with conda_builder(
        package.stem, folder, compression_level=_LEVEL, compression_threads=0
    ) as archive:
        paths = [_add(archive, path, entry) for path, entry in sorted(package.files.items())]
        _add_text(archive, "info/index.json", _index(package))
        _add_text(archive, "info/paths.json", {"paths": paths, "paths_version": 1})
        _add_text(archive, "info/about.json", {"summary": package.summary, "license": "see below"})
        _add_text(archive, "info/files", "".join(f"{path}\n" for path in sorted(package.files)))
    return folder / f"{package.stem}.conda"


def _index(package: Package) -> dict[str, Any]:
    noarch = {"noarch": "generic"} if package.subdir == "noarch" else {}
    return {
        "name": package.name,
        "version": package.version,
        "build": package.build,
        "build_number": 0,
        "subdir": package.subdir,
        "arch": None if noarch else "x86_64",
        "platform": None if noarch else "linux",
        "depends": list(package.depends),
        "constrains": list(package.constrains),
        "license": "see below",
        "timestamp": package.timestamp,
        **noarch,
    }


def _add(archive: tarfile.TarFile, path: str, entry: Entry) -> dict[str, Any]:
    """Put a file into the archive, and return its entry in `info/paths.json`."""
    info = tarfile.TarInfo(path)
    info.mtime = TIMESTAMP // 1000
    if isinstance(entry, Link):
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        archive.addfile(info)
        empty = hashlib.sha256(b"").hexdigest()
        return {"_path": path, "path_type": "softlink", "sha256": empty, "size_in_bytes": 0}
    replaced: dict[str, str] = {}
    info.mode = _MODES[getattr(entry, "executable", True)]
    if isinstance(entry, Copy):
        info.size = entry.source.stat().st_size
        with entry.source.open("rb") as stream:
            archive.addfile(info, stream)
        digest = sha256_of_file(entry.source)
    else:
        content = entry.content.encode() if isinstance(entry, Text) else entry.content
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
        digest = hashlib.sha256(content).hexdigest()
        if PREFIX.encode() in content:
            mode = "text" if isinstance(entry, Text) else "binary"
            replaced = {"prefix_placeholder": PREFIX, "file_mode": mode}
    return {
        "_path": path,
        "path_type": "hardlink",
        "sha256": digest,
        "size_in_bytes": info.size,
        **replaced,
    }


def _add_text(archive: tarfile.TarFile, path: str, content: object) -> None:
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    info = tarfile.TarInfo(path)
    info.size, info.mtime = len(text.encode()), TIMESTAMP // 1000
    archive.addfile(info, io.BytesIO(text.encode()))


def toy_packages() -> tuple[Package, ...]:
    """Small packages that hold each kind of thing a package can hold."""
    script = Text(content=f"#!/bin/sh\necho {PREFIX}/share/toy\n", executable=True)
    library = Binary(content=b"\x7fELF" + PREFIX.encode() + b"/lib\0the end")
    toy = Package(
        name="toy",
        depends=("__glibc >=2.17,<3.0.a0", "toy-data >=1,<2"),
        files={
            "bin/toy": script,
            "lib/libtoy.so.1": library,
            "lib/libtoy.so": Link(target="libtoy.so.1"),
        },
    )
    data = Package(
        name="toy-data",
        subdir="noarch",
        files={
            "share/toy/data": Text(content="words\n" * 1000),
            "share/toy/empty": Text(content=""),
        },
    )
    return toy, data
