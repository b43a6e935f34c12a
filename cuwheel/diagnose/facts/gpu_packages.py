"""The GPU packages of an environment: what their libraries hold, need and find there."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING

from cuwheel.binaries.archs import DeviceCode
from cuwheel.binaries.elf import ElfFormatError, read_elf
from cuwheel.binaries.elf_symbols import Symbols
from cuwheel.binaries.fatbin import LOADED_SECTION, FatbinFormatError, code_of, hop_fatbins
from cuwheel.cuda.components import COMPONENTS
from cuwheel.cuda.suppliers import (
    component_of,
    cuda_major_of,
    is_cuda_library,
    is_from_driver,
    is_other_accelerator,
)
from cuwheel.diagnose.facts.loader import DRIVER, SearchContext, rpath_folders
from cuwheel.diagnose.facts.torch_symbols import Missing, find_missing
from cuwheel.system.versions import version_key
from cuwheel.wheel.metadata import project_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.binaries.elf import Elf
    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.imports import PackageImport
    from cuwheel.diagnose.facts.loader import FoundLibrary, Loader


# Not examined as packages: frameworks are asked themselves, NVIDIA's wheels are held to what
# requires them.
_OTHERS = re.compile(
    r"torch|triton|jax|jaxlib|jax-cuda\d+-(plugin|pjrt)|tensorflow(-cpu)?|cupy(-cuda\d+x)?"
    r"|nvidia-.*|cuda-(bindings|core|toolkit|pathfinder|python)"
)
_NVIDIAS = frozenset(one.distribution for one in COMPONENTS if one.name != "torch")
_VERSION = re.compile(r"(GLIBC|GLIBCXX)_([\d.]+)")
_TAGGED = re.compile(r"\.cpython-\d+[a-z]*-.*\.so$")


@dataclass(frozen=True, kw_only=True)
class InstalledLibrary:
    """A shared library of an installed package.

    Attributes:
        path: the file.
        code: archs of its device code; None without any.
        needs: sonames of CUDA, of a framework or of the C++ library that it needs, and where the
            loader finds each.
        cuda: major releases of CUDA that these tell.
        symbols: what it expects of PyTorch and PyTorch hasn't; None where nothing is missing.
        versions: the newest symbol versions that it needs, by `GLIBC` and `GLIBCXX`.
        folders: where its own rpath leads.
        is_module: Python imports it.
        is_for_torch: it needs one of PyTorch's libraries.
        is_for_other: it is for an accelerator of another maker.
        is_unimportable: its name is that of an extension for another Python.
        damage: why it can't be read.
    """

    path: Path
    code: DeviceCode | None = None
    needs: tuple[tuple[str, FoundLibrary | None], ...] = ()
    cuda: tuple[str, ...] = ()
    symbols: Missing | None = None
    versions: tuple[tuple[str, str], ...] = ()
    folders: tuple[Path, ...] = ()
    is_module: bool = False
    is_for_torch: bool = False
    is_for_other: bool = False
    is_unimportable: bool = False
    damage: str = ""

    @property
    def is_for_gpu(self) -> bool:
        """Whether it has to do with CUDA, or with a framework that has."""
        return bool(self.code or self.needs) and not self.is_for_other


@dataclass(frozen=True, kw_only=True)
class InstalledPackage:
    """A package with GPU code.

    Attributes:
        name, version: of its distribution.
        requires: its requirements.
        libraries: those that are judged.
        others: how many it has beside them, for other releases of CUDA or other GPUs.
    """

    name: str
    version: str
    requires: tuple[str, ...]
    libraries: tuple[InstalledLibrary, ...]
    others: int = 0

    @property
    def cuda(self) -> frozenset[str]:
        """Major releases of CUDA that its libraries tell."""
        return frozenset(one for library in self.libraries for one in library.cuda)

    @property
    def is_complete(self) -> bool:
        """Whether the loader finds all that its libraries need."""
        return all(found for library in self.libraries for _, found in library.needs)

    @property
    def code(self) -> DeviceCode | None:
        """All its device code."""
        codes = [one.code for one in self.libraries if one.code]
        if not codes:
            return None
        return DeviceCode(
            sass=tuple(dict.fromkeys(arch for one in codes for arch in one.sass)),
            ptx=tuple(dict.fromkeys(arch for one in codes for arch in one.ptx)),
        )

    @property
    def suppliers(self) -> dict[str, str]:
        """Each soname of CUDA or of a framework that it needs, and who supplies it."""
        return {
            soname: found.supplier if found else ""
            for library in self.libraries
            for soname, found in library.needs
        }


def may_be_gpu_package(distribution: Distribution) -> bool:
    """Whether a distribution is one to look at: no framework, none of NVIDIA's wheels."""
    return not _OTHERS.fullmatch(distribution.name) and distribution.name not in _NVIDIAS


def needs_gpu(distribution: Distribution) -> bool:
    """Whether a library of a distribution has to do with CUDA or with PyTorch, at a glance."""
    return any(map(_is_for_gpu, distribution.libraries))


def _is_for_gpu(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            symbols = Symbols(stream)
            needed = symbols.links.needed
            return any(map(_is_watched, needed)) or LOADED_SECTION in symbols.section_names
    except (OSError, ElfFormatError, struct.error):
        return False


def read_package(
    distribution: Distribution,
    environment: PythonEnvironment,
    loader: Loader,
    *,
    major: str = "",
    only: Iterable[str] = (),
) -> InstalledPackage:
    """Read a package's libraries.

    Args:
        distribution: of the package.
        environment: where it is installed.
        loader: finds what libraries need.
        major: the framework's CUDA; of libraries for several, those for others aren't judged.
        only: file names of the libraries that count; none: all.
    """
    names = frozenset(only)
    chosen = [path for path in distribution.libraries if not names or path.name in names]
    read = [_read(path, distribution, environment, loader) for path in chosen if path.exists()]
    releases_found = {one for library in read for one in library.cuda}
    judged = [
        library
        for library in read
        if not library.is_for_other
        and (len(releases_found) < 2 or not library.cuda or major in ("", *library.cuda))  # noqa: PLR2004
    ]
    return InstalledPackage(
        name=distribution.name,
        version=distribution.version,
        requires=distribution.requires,
        libraries=tuple(judged),
        others=len(distribution.libraries) - len(judged),
    )


def with_opened(package: InstalledPackage, loader: Loader, done: PackageImport) -> InstalledPackage:
    """The package, with what it was seen to load by itself taken for found."""
    seen = {
        **{path.name: (path, done.call) for path in done.called_libraries},
        **{path.name: (path, "") for path in done.libraries},
    }

    def look(soname: str, found: FoundLibrary | None) -> FoundLibrary | None:
        return loader.opened(*seen[soname]) if found is None and soname in seen else found

    libraries = (
        replace(one, needs=tuple((soname, look(soname, found)) for soname, found in one.needs))
        for one in package.libraries
    )
    return replace(package, libraries=tuple(libraries))


def _read(
    path: Path, distribution: Distribution, environment: PythonEnvironment, loader: Loader
) -> InstalledLibrary:
    try:
        with path.open("rb") as stream:
            elf = read_elf(stream)
            section = elf.section(LOADED_SECTION)
            code = code_of(hop_fatbins(stream, section)) if section else None
            needs = _needs(path, elf, distribution, loader)
            symbols = _symbols(stream, distribution, environment, needs)
    except OSError as problem:
        return InstalledLibrary(path=path, damage=problem.strerror or str(problem))
    except (ElfFormatError, FatbinFormatError, struct.error) as problem:
        return InstalledLibrary(path=path, damage=str(problem))
    releases = filter(None, map(cuda_major_of, elf.needed))
    return InstalledLibrary(
        path=path,
        code=code,
        needs=needs,
        cuda=tuple(dict.fromkeys(releases)),
        symbols=symbols,
        versions=tuple(_newest_versions(elf)),
        folders=(*rpath_folders(path, elf.rpath), *rpath_folders(path, elf.runpath)),
        is_module=bool(elf.python_modules),
        is_for_torch=any(_is_torchs(soname) for soname in elf.needed),
        is_for_other=any(map(is_other_accelerator, elf.needed)),
        is_unimportable=bool(elf.python_modules) and _is_for_other_python(path, environment),
    )


def _needs(
    path: Path, elf: Elf, distribution: Distribution, loader: Loader
) -> tuple[tuple[str, FoundLibrary | None], ...]:
    """What requires a framework, or links it, imports it first."""
    imports = {project_of(line) for line in distribution.requires}
    imports |= {"torch"} if any(map(_is_torchs, elf.needed)) else set()
    context = SearchContext(rpath=elf.rpath, runpath=elf.runpath, imports=tuple(imports))
    watched = (soname for soname in elf.needed if _is_watched(soname))
    return tuple((soname, loader.find(path, soname, context)) for soname in watched)


def _symbols(
    stream: IO[bytes],
    distribution: Distribution,
    environment: PythonEnvironment,
    needs: Iterable[tuple[str, FoundLibrary | None]],
) -> Missing | None:
    """What it expects of PyTorch and finds nowhere: not in its package, nor in what it needs."""
    torch = environment.distributions.get("torch")
    if torch is None:
        return None
    own = [path for path in distribution.libraries if path.is_file()]
    found = [one.path for _, one in needs if one and one.path and one.supplier != DRIVER]
    return find_missing(stream, torch.site / "torch" / "lib", (*found, *own))


def _newest_versions(elf: Elf) -> Iterable[tuple[str, str]]:
    newest: dict[str, str] = {}
    for _, name in elf.versions:
        if match := _VERSION.fullmatch(name):
            family, version = match.groups()
            newest[family] = max(newest.get(family, "0"), version, key=version_key)
    return newest.items()


def _is_for_other_python(path: Path, environment: PythonEnvironment) -> bool:
    """`ext.cpython-310-….so` under another Python, with none for this one beside it."""
    own = tuple(suffix for suffix in environment.suffixes if suffix != ".so")
    if not _TAGGED.search(path.name) or path.name.endswith(own):
        return False
    stem = path.name.partition(".")[0]
    return not any((path.parent / f"{stem}{suffix}").exists() for suffix in environment.suffixes)


def _is_watched(soname: str) -> bool:
    return is_cuda_library(soname) or is_from_driver(soname) or component_of(soname) is not None


def _is_torchs(soname: str) -> bool:
    component = component_of(soname)
    return component is not None and component.name == "torch"
