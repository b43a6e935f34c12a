"""`redist.in`, and `redist.lock` with one archive a line: its hash and path, and no server.

`redist.in` has a line for each product: `cuda[cuda_nvcc,cuda_cudart]==12.2.2`, with the names that
NVIDIA's manifest gives to the components.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cuwheel.base import limits
from cuwheel.base.errors import LockError
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.environments.lock_file import digest_of_text, read_input

# Where NVIDIA releases: its folder of all products, `<product>/redist/<component>/<platform>/`
# (README of its build-system-archive-import-examples).
RELEASES = "https://developer.download.nvidia.com/compute"
# NVIDIA's platforms by `uname -m`; sbsa are arm64 servers.
PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-sbsa"}
NOT_FETCHED = "not downloaded: hashes are those of the manifest"

_PRODUCT = re.compile(r"([a-z]\w*)\[([\w, ]+)\]==(\d[\d.]*)")
_HEADER = re.compile(r"^# (input|content|manifest|files) +(.+)$", re.MULTILINE)
# No part of a path begins with a dot, so none leads upward.
_ARCHIVE = re.compile(
    r"(?P<name>[a-z]\w*) (?P<version>\d[\w.]*) (?P<platform>linux-\w+) (?P<sha256>[0-9a-f]{64})"
    r" (?P<size>\d+) (?P<path>(?:[\w+-][\w.+-]*/)+[\w+-][\w.+-]*\.tar\.xz)"
)


@dataclass(frozen=True, kw_only=True)
class Product:
    """A line of `redist.in`.

    Attributes:
        name: NVIDIA's folder of it, `cuda`.
        release: its manifest, `12.2.2`.
    """

    name: str
    release: str
    components: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RedistArchive:
    """The archive of a component for one platform.

    Attributes:
        name: of the component, `cuda_nvcc`.
        version: of the component, `12.2.140`.
        platform: `linux-x86_64` or `linux-sbsa`.
        size: bytes; 0 where it isn't known.
        path: below NVIDIA's folder `compute`, and below that of a mirror.
    """

    name: str
    version: str
    platform: str
    sha256: str
    size: int
    path: str

    @property
    def file_name(self) -> str:
        """`cuda_nvcc-linux-x86_64-12.2.140-archive.tar.xz`."""
        return PurePosixPath(self.path).name

    @property
    def url(self) -> str:
        """NVIDIA's own address of the file, also with a mirror."""
        return f"{RELEASES}/{self.path}"

    @property
    def line(self) -> str:
        """The line of the lock."""
        return " ".join(
            (self.name, self.version, self.platform, self.sha256, str(self.size), self.path)
        )


@dataclass(frozen=True, kw_only=True)
class RedistLock:
    """A lock.

    Attributes:
        manifest: name and SHA-256 of each manifest that was read.
        input_digest: SHA-256 of `redist.in`.
        files: `NOT_FETCHED`, or when all files were downloaded and checked.
    """

    archives: tuple[RedistArchive, ...]
    manifest: str
    input_digest: str
    files: str = NOT_FETCHED

    def for_machine(self, machine: str) -> tuple[RedistArchive, ...]:
        """Return the archives for one kind of machine, `aarch64`."""
        platform = PLATFORMS.get(machine)
        return tuple(archive for archive in self.archives if archive.platform == platform)


def read_products(source: Path) -> tuple[Product, ...]:
    """Read a `redist.in`.

    Raises:
        LockError: it is missing or empty, or a line isn't of its form.
    """
    products = []
    for line in read_input(source).splitlines():
        match = _PRODUCT.fullmatch(line)
        if match is None:
            raise LockError(
                f"{source.parent.name}/{source.name} can't be read",
                why=f"{line!r} isn't of the form product[component,component]==release",
                fix=f"correct {source}; envs/cuda122/redist.in shows one",
            )
        components = tuple(sorted({name.strip() for name in match[2].split(",")} - {""}))
        products.append(Product(name=match[1], release=match[3], components=components))
    return tuple(products)


def digest_of_redist_input(source: Path) -> str:
    """Return the SHA-256 of a `redist.in` without its comments; raises LockError if missing."""
    return digest_of_text(read_input(source))


def read_redist_lock(path: Path) -> RedistLock:
    """Read a `redist.lock`.

    Raises:
        LockError: it is missing or invalid, or was edited by hand.
    """
    name = f"{path.parent.name}/{path.name}"
    relock = f"nox -s lock -- toolchain:{path.parent.name.removeprefix('cuda')}:redist"
    try:
        text = read_text(path, limit=limits.LOCK, errors="replace")
    except FileNotFoundError:
        raise LockError(
            f"{name} is missing",
            why="a toolchain of NVIDIA's archives is only installed from its lock",
            fix=relock,
        ) from None
    header = dict(_HEADER.findall(text))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if fault := _fault(lines, header):
        raise LockError(
            f"{name} can't be used",
            why=fault,
            fix=f"git checkout {path}, or write it again: `{relock}`",
        )
    return RedistLock(
        archives=tuple(filter(None, map(parse_line, lines))),
        manifest=header.get("manifest", ""),
        input_digest=header.get("input", "").removeprefix("sha256:"),
        files=header.get("files", NOT_FETCHED),
    )


def faults_of_redist_lock(path: Path, source: Path) -> list[str]:
    """Return everything that is wrong with a lock; empty when it is valid.

    Raises:
        LockError: its input is missing.
    """
    digest = digest_of_redist_input(source)
    if not path.is_file():
        return ["it is missing"]
    try:
        lock = read_redist_lock(path)
    except LockError as error:
        return [error.why]
    return [] if lock.input_digest == digest else ["its input has changed since it was written"]


def render_redist_lock(lock: RedistLock, *, command: str) -> str:
    """Return a lock file's whole text."""
    archives = sorted(lock.archives, key=lambda archive: (archive.platform, archive.name))
    body = _body(archive.line for archive in archives)
    return (
        f"# Written by `{command}`; don't edit.\n"
        f"# input     sha256:{lock.input_digest}\n"
        f"# content   sha256:{digest_of_text(body)}\n"
        f"# manifest  {lock.manifest}\n"
        f"# files     {lock.files}\n"
        f"# component, version, platform, SHA-256, bytes, path\n{body}"
    )


def parse_line(line: str) -> RedistArchive | None:
    """Return the archive of a line; None: it isn't of the form."""
    match = _ARCHIVE.fullmatch(line)
    if match is None:
        return None
    return RedistArchive(
        name=match["name"],
        version=match["version"],
        platform=match["platform"],
        sha256=match["sha256"],
        size=int(match["size"]),
        path=match["path"],
    )


def content_of(archives: Iterable[RedistArchive]) -> str:
    """Return the SHA-256 over everything that determines the installation of archives."""
    return digest_of_text("\n".join(f"{archive.name} {archive.sha256}" for archive in archives))


def _fault(lines: list[str], header: dict[str, str]) -> str:
    if bad := [line for line in lines if not _ARCHIVE.fullmatch(line)]:
        return f"this line isn't `component version platform SHA-256 bytes path`: {bad[0]}"
    if header.get("content") != f"sha256:{digest_of_text(_body(lines))}":
        return "it was edited by hand: its lines don't match the digest in its header"
    parts = [tuple(line.split()[:3:2]) for line in lines]
    if twice := next((part for part in parts if parts.count(part) > 1), None):
        return f"{twice[0]} is listed twice for {twice[1]}"
    return "" if lines else "it lists no archive"


def _body(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
