"""The records that each stage leaves for the next, as JSON in the work folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """A CUDA home on disk, and the host compiler where the toolchain has one of its own.

    Attributes:
        home: holds `bin/nvcc`, `include`, `lib64`, `nvvm`.
        provider: `pypi`, `conda`, `redist` or `system`.
        fingerprint: SHA-256 over the names and contents of its files; over the hashes of its
            packages for `conda`, whose files hold the folder's name; of nvcc alone for `system`.
        cc: path of its C compiler; None: the machine's is used.
        cxx: path of its C++ compiler; None: the machine's is used.
        programs: folder with its compilers and binutils under their plain names (`gcc`, `ld`, …).
        compiler: folder of a host compiler that is installed apart from the CUDA home.
        libraries: folder of the C library's files for the linker of these compilers.
        packages: kind and name, version, address and SHA-256 of each package that it is made of,
            where no lock of wheels names them.
        linked: folders that the links of a home of `system` lead to.
    """

    home: Path
    version: str
    provider: str
    fingerprint: str
    pinned: bool
    cc: Path | None = None
    cxx: Path | None = None
    programs: Path | None = None
    compiler: Path | None = None
    libraries: Path | None = None
    packages: tuple[tuple[str, str, str, str], ...] = ()
    linked: tuple[Path, ...] = ()

    @property
    def release(self) -> str:
        """`13.0` of 13.0.88."""
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A Python environment with the build requirements.

    Attributes:
        fingerprint: SHA-256 of the lock and the interpreter's identity.
        base_version: full version of that, `3.12.1`.
        foreign_packages: the same packages for another kind of machine; None: the wheel is for
            this one's.
    """

    python: Path
    site_packages: Path
    fingerprint: str
    base_python: Path
    base_version: str
    foreign_packages: Path | None = None

    @property
    def linked_packages(self) -> Path:
        """The packages that are compiled against: those for the machine that the wheel is for."""
        return self.foreign_packages or self.site_packages


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """An unpacked source.

    Attributes:
        path: the folder with `pyproject.toml` or `setup.py`.
        origin: the URL, or the path given with `--source`.
        sha256: of the archive; of names and contents for a folder.
        epoch: `SOURCE_DATE_EPOCH`, seconds since 1970, the newest time stamp in the source.
        pinned: False for `--source`.
        patches: name and SHA-256 of each patch applied so far.
        resources: name, origin and SHA-256 of each resource in the folder `resources`.
        commit: that git has checked out in a folder, 40 hexadecimal digits; empty: none.
        state: of a folder under version control, or that it is under none; empty for archives.
        mark: what the wheel's local version says of a source that no recipe pins, behind
            `source.`; empty: it is pinned.
    """

    path: Path
    origin: str
    sha256: str
    epoch: int
    pinned: bool
    patches: tuple[tuple[str, str], ...] = ()
    resources: tuple[tuple[str, str, str], ...] = ()
    commit: str = ""
    state: str = ""
    mark: str = ""


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """The result of the checks before the first compile.

    Attributes:
        host_compiler: path of the C++ compiler; None while the toolchain that brings one isn't
            there.
        c_compiler: path of the C compiler of the same GCC; likewise.
        host_compiler_version: first line of its `--version`.
    """

    host_compiler: Path | None
    c_compiler: Path | None
    host_compiler_version: str
    jobs: int
    host_compiler_pinned: bool = False


@dataclass(frozen=True, kw_only=True)
class BuiltWheel:
    """The wheel as the package's own build made it.

    Attributes:
        peak_memory: bytes, the largest sum of resident memory over all its processes.
        started: seconds since 1970.
        cache: the compile cache's name and version; empty where there was none.
        shared: how many PTX files and cubins came from a build for another platform.
        reused: how many came from an earlier compile for this one.
    """

    path: Path
    log: Path
    peak_memory: int
    environment: tuple[tuple[str, str], ...]
    private_paths: tuple[str, ...]
    not_hermetic: tuple[str, ...]
    started: float = 0.0
    cache: str = ""
    compiles: int = 0
    hits: int = 0
    shared: int = 0
    reused: int = 0


@dataclass(frozen=True, kw_only=True)
class RepairedWheel:
    """The wheel as it will be published.

    Attributes:
        size: bytes.
        platform_tag: e.g. `manylinux_2_34_x86_64`.
        requires: the `Requires-Dist` lines that supply them.
        mode: `external`, `bundled` or `static`.
        bundled: file and size in bytes of each library that was copied in.
    """

    path: Path
    sha256: str
    size: int
    platform_tag: str
    external: tuple[str, ...]
    requires: tuple[str, ...]
    tools: tuple[tuple[str, str], ...]
    mode: str = "external"
    bundled: tuple[tuple[str, int], ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A wheel that keeps its contract."""

    sha256: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    suppliers: tuple[tuple[str, str, str], ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SmokeResult:
    """A wheel that works in a clean environment.

    Attributes:
        sha256: of the wheel that was installed.
        imported: the modules that were imported.
        libraries: soname and file of every CUDA or framework library that was loaded, relative to
            site-packages.
        own: file and state of each library of the wheel itself: what loaded it, or why nothing did.
        loaded: soname, file, supplier and requester of each of these and of the driver's libraries;
            the file is absolute outside site-packages, the requester is the first library or
            process that loaded it, empty if unknown.
        hidden: folders and files of the machine's CUDA that were hidden during the test; None: the
            system refused a mount namespace, so it was only checked that nothing came from there.
        has_driver_stub: whether a stub replaced NVIDIA's driver, which this machine doesn't have.
        served: other releases of the framework that the wheel also works with, `torch 2.13.0`.
        emulator: what ran the test, `qemu-aarch64 7.2.22`; empty: this machine itself.
        skipped: why the test wasn't run; empty: it was.
    """

    sha256: str
    imported: tuple[str, ...]
    libraries: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...] = ()
    loaded: tuple[tuple[str, str, str, str], ...] = ()
    hidden: tuple[str, ...] | None = None
    has_driver_stub: bool = False
    served: tuple[str, ...] = ()
    emulator: str = ""
    skipped: str = ""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The statement of where the wheel came from, ready to be published."""

    statement: Path
    sha256: str


@dataclass(frozen=True, kw_only=True)
class IndexedWheel:
    """The wheel in `dist/`, with its provenance and its place in the index.

    Attributes:
        index: `dist/simple`.
    """

    wheel: Path
    provenance: Path
    index: Path


@dataclass(frozen=True, kw_only=True)
class ShardResult:
    """The work of one shard.

    Attributes:
        shard: its number, from 1 on.
        plan: the plan's fingerprint.
        compiled: units of the plan for which a compiler ran: files, or files for one arch.
        hits: units of its share that were in the compile cache.
        left: units that it left to others.
        seconds: of processor time, the sum over all programs.
    """

    shard: int
    count: int
    plan: str
    compiled: int
    hits: int
    left: int
    seconds: float


# By stage, in order. The source comes first: it is small, and the likeliest to be out of reach or
# not as pinned.
RECORDS: Mapping[str, type[Any]] = {
    "source": SourceTree,
    "patch": SourceTree,
    "toolchain": Toolchain,
    "environment": Environment,
    "preflight": Preflight,
    "build": BuiltWheel,
    "repair": RepairedWheel,
    "audit": Audit,
    "smoke": SmokeResult,
    "provenance": Provenance,
    "index": IndexedWheel,
}
STAGES = tuple(RECORDS)
