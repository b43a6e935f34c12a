"""Tiny Debian packages, and a signed archive of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import zstandard

from cuwheel.base.system.process import run
from cuwheel.build.toolchains.debian.lock_file import DebianLock, DebianPackage

SUITE = "toysuite"
_COMPRESS: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
    ".br": bytes,
}


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member of `data.tar`: a file, or of another type, such as `tarfile.SYMTYPE`."""

    name: str
    content: bytes = b""
    mode: int = 0o644
    type: bytes = tarfile.REGTYPE
    target: str = ""


def link(name: str, target: str) -> Member:
    """A symlink."""
    return Member(name=name, type=tarfile.SYMTYPE, target=target)


def hard_link(name: str, target: str) -> Member:
    """A hard link."""
    return Member(name=name, type=tarfile.LNKTYPE, target=target)


@dataclass(frozen=True, kw_only=True)
class Toy:
    """A package to be made.

    Attributes:
        scripts: maintainer scripts by name, `postinst`.
        control: further fields, `Depends: toy-data`.
    """

    name: str = "toy"
    version: str = "1.0"
    architecture: str = "amd64"
    members: tuple[Member, ...] = (Member(name="./usr/share/toy", content=b"toy\n"),)
    scripts: tuple[tuple[str, str], ...] = ()
    control: str = ""

    @property
    def path(self) -> str:
        """Its place in the pool; like Debian's, without the version's epoch."""
        version = self.version.partition(":")[2] or self.version
        return f"pool/main/t/toy/{self.name}_{version}_{self.architecture}.deb"

    @property
    def fields(self) -> str:
        """Its control file, without an end of line."""
        required = f"Package: {self.name}\nVersion: {self.version}\n"
        rest = f"Maintainer: someone <a@example.invalid>\nDescription: toy\n{self.control}"
        return f"{required}Architecture: {self.architecture}\n{rest}".strip()


def tar_of(members: Iterable[Member]) -> bytes:
    """A tar archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size, info.mode, info.type = len(member.content), member.mode, member.type
            info.linkname = member.target
            tar.addfile(info, io.BytesIO(member.content))
    return stream.getvalue()


def ar_of(members: Iterable[tuple[str, bytes]]) -> bytes:
    """An `ar` archive."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        parts.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
        parts.append(content + b"\n" * (len(content) % 2))
    return b"".join(parts)


def deb_of(toy: Toy, *, compression: str = ".xz") -> bytes:
    """A package in the form of deb(5)."""
    scripts = (Member(name=name, content=text.encode(), mode=0o755) for name, text in toy.scripts)
    control = tar_of((Member(name="./control", content=f"{toy.fields}\n".encode()), *scripts))
    data = _COMPRESS[compression](tar_of(toy.members))
    members = (("control.tar.gz", gzip.compress(control)), (f"data.tar{compression}", data))
    return ar_of((("debian-binary", b"2.0\n"), *members))


def locked(toy: Toy, content: bytes) -> DebianPackage:
    """The package as a lock has it."""
    return DebianPackage(
        name=toy.name,
        version=toy.version,
        architecture=toy.architecture,
        path=toy.path,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def lock_of(*packages: DebianPackage) -> DebianLock:
    """A lock of packages, for x86_64."""
    return DebianLock(
        suite=SUITE,
        components=("main",),
        input_digest="1" * 64,
        index_sha256="2" * 64,
        index_date="Sat, 01 Aug 2026 10:00:00 UTC",
        packages={"amd64": packages},
    )


def write_pool(folder: Path, *toys: Toy) -> DebianLock:
    """Write packages below an archive's root, and return their lock."""
    packages = []
    for toy in toys:
        content = deb_of(toy)
        path = folder / toy.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        packages.append(locked(toy, content))
    return lock_of(*sorted(packages, key=lambda package: package.name))


@contextmanager
def signing_key() -> Iterator[Path]:
    """A folder with a new key for gpg, and its public half in `debian-archive-toy.gpg`."""
    # gpg-agent's socket has to have a short path.
    with tempfile.TemporaryDirectory(prefix="gpg") as name:
        folder = Path(name)
        _gpg(folder, "--passphrase", "", "--quick-gen-key", "toy", "ed25519", "sign", "never")
        _gpg(folder, "--output", str(folder / "debian-archive-toy.gpg"), "--export")
        try:
            yield folder
        finally:
            run(["gpgconf", "--kill", "all"], env=_env(folder))


def _env(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "GNUPGHOME": str(folder)}


def _gpg(folder: Path, *arguments: str) -> None:
    run(["gpg", "--batch", "--quiet", "--yes", *arguments], env=_env(folder))


def write_archive(
    folder: Path, toys: Iterable[Toy], key: Path | None, *, codename: str = SUITE
) -> None:
    """Write an archive with one suite for amd64 and arm64.

    Args:
        key: of `signing_key`; None: the suite isn't signed.
        codename: in its index.
    """
    toys = tuple(toys)
    write_pool(folder, *toys)
    suite = folder / "dists" / SUITE
    sums = []
    for architecture in ("amd64", "arm64"):
        name = f"main/binary-{architecture}/Packages"
        fitting = (toy for toy in toys if toy.architecture in {architecture, "all"})
        content = "\n".join(_stanza(folder, toy) for toy in fitting).encode()
        (suite / name).parent.mkdir(parents=True, exist_ok=True)
        (suite / name).write_bytes(content)
        sums.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
    release = suite / "Release"
    release.write_text(
        f"Origin: Toy\nSuite: {codename}\nCodename: {codename}\n"
        "Date: Sat, 01 Aug 2026 10:00:00 UTC\nArchitectures: amd64 arm64\nComponents: main\n"
        "SHA256:\n" + "\n".join(sums) + "\n"
    )
    if key:
        _gpg(key, "--output", str(suite / "InRelease"), "--clearsign", str(release))


def _stanza(folder: Path, toy: Toy) -> str:
    content = (folder / toy.path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{toy.fields}\nFilename: {toy.path}\nSize: {len(content)}\nSHA256: {digest}\n"
