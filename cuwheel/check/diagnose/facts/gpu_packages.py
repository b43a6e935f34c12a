"""GPU packages of an environment: device code of their libraries, and what the loader finds."""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.base.formats.binaries.elf import Elf, ElfFormatError, read_elf
from cuwheel.base.formats.binaries.elf_symbols import Symbols
from cuwheel.base.formats.binaries.fatbin import (
    LOADED_SECTION,
    FatbinFormatError,
    code_of,
    hop_fatbins,
)
from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.system.regular_files import open_file
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.components import COMPONENTS
from cuwheel.check.cuda.suppliers import (
    component_of,
    cuda_major_of,
    is_cuda_library,
    is_from_driver,
    is_other_accelerator,
)
from cuwheel.check.diagnose.facts.builds import elf_at
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, PackageImport
from cuwheel.check.diagnose.facts.installed_files import modules_of
from cuwheel.check.diagnose.facts.torch_symbols import Missing, find_missing
from cuwheel.check.linkage.installed_loader import DRIVER, FoundLibrary, InstalledLoader
from cuwheel.check.linkage.loader_graph import LoaderGraph

# Not examined as packages: frameworks are imported, NVIDIA's wheels are compared with the
# requirements of others.
_NO_PACKAGES = re.compile(
    r"torch|jax|jaxlib|jax-cuda\d+-(plugin|pjrt)|tensorflow(-cpu)?|cupy(-cuda\d+x)?"
    r"|nvidia-.*|cuda-(toolkit|python)"
)
_NVIDIAS = frozenset(part.distribution for part in COMPONENTS if part.name != "torch")
# Packages whose own code opens the driver, and requirements that show it.
_OPENERS = frozenset({"cuda-bindings", "cuda-core", "numba", "taichi", "triton", "warp-lang"})
# Whose import fails without what the system has, or shows what is wrong with NumPy.
_COMMON = re.compile(r"onnxruntime|opencv-(contrib-)?python(-headless)?")
_OPENED = re.compile(r"cuda-(bindings|core|python)|numba-cuda|cupy-cuda\d+x|.+-cu1\d")
# cuDNN as a package bundles it, auditwheel's hash in its name; and the part that it opens first.
_CUDNN = re.compile(r"libcudnn(?:-[0-9a-f]{8})?\.so\.(\d+)[.\d]*")
PARTS_OF_CUDNN = {"8": "libcudnn_ops_infer.so.8", "9": "libcudnn_ops.so.9"}
# Libraries that a program opens by name as it uses a GPU, with the release in their name.
_NAME = re.compile(
    rb"(?:\A|\0)(lib(?:cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse)\.so\.\d+)(?=\0)"
)
_CONSTANTS = 1 << 28  # bytes that are read of a library's constants
_EXTRAS = {"tensorflow": "and-cuda"}
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


@dataclass(frozen=True, kw_only=True)
class DiagnosedPackage:
    """A package with GPU code.

    Attributes:
        name, version: of its distribution.
        archs: compute capabilities of its machine code.
        ptx_archs: compute capabilities of its PTX.
        suppliers: who supplies what it needs, by soname; empty: nobody.
        other_libraries: how many it has beside those that are judged.
        libraries: those that are judged.
        loaded: the files of GPU libraries that are mapped after its import.
        failure: the end of the traceback of its import; empty: it was imported, or has no module.
        without_cuda: the end of the traceback of its part for CUDA; empty: that works.
        part: what fails with it, `use CUDA`.
        available: it sees a GPU; None where it couldn't be queried.
        unopened: libraries of CUDA that it opens by name, and doesn't find; empty where it finds
            one of them, or links any.
    """

    name: str
    version: str
    archs: tuple[str, ...]
    ptx_archs: tuple[str, ...]
    suppliers: dict[str, str]
    other_libraries: int
    libraries: tuple[InstalledLibrary, ...]
    loaded: tuple[Path, ...] = ()
    failure: str = ""
    without_cuda: str = ""
    part: str = ""
    available: bool | None = None
    unopened: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`flash-attn 2.8.3`."""
        return f"{self.name} {self.version}"

    @property
    def cuda(self) -> frozenset[str]:
        """Major releases of CUDA that its libraries need."""
        return frozenset(major for library in self.libraries for major in library.cuda)

    @property
    def code(self) -> DeviceCode:
        """Device code of all its libraries."""
        codes = [library.code for library in self.libraries if library.code]
        return DeviceCode(
            sass=self.archs,
            ptx=self.ptx_archs,
            ptx_version=max((code.ptx_version for code in codes), default=(0, 0)),
            is_zstd=any(code.is_zstd for code in codes),
        )

    @property
    def is_for_torch(self) -> bool:
        """True if it links PyTorch."""
        return any(library.is_for_torch for library in self.libraries)


def loader_of(
    environment: PythonEnvironment,
    environ: Mapping[str, str],
    frameworks: Iterable[FrameworkFacts],
    cache: Mapping[str, Path],
) -> InstalledLoader:
    """Return the loader in processes of an environment's interpreter."""
    return InstalledLoader(
        conda=environment.prefix if environment.is_conda else None,
        library_path=environ.get("LD_LIBRARY_PATH", ""),
        owners={
            Path(os.path.realpath(path)): distribution.title
            for distribution in environment.distributions.values()
            for path in distribution.libraries
        },
        preloaded={
            path.name: (path, framework.name)
            for framework in frameworks
            if framework.was_imported
            for path in framework.libraries
        },
        cache=cache,
    )


def may_be_gpu_package(distribution: Distribution) -> bool:
    """Return True if a distribution is neither a framework nor an NVIDIA wheel of libraries."""
    if not _NO_PACKAGES.fullmatch(distribution.name) and distribution.name not in _NVIDIAS:
        return True
    return _has_modules(distribution)


def _has_modules(distribution: Distribution) -> bool:
    """Return True for an NVIDIA wheel that is imported by a name of its own, as `cudnn`."""
    is_nvidias = distribution.name.startswith("nvidia-")
    return is_nvidias and bool(set(modules_of(distribution)) - {"nvidia"})


def uses_gpu(distribution: Distribution) -> bool:
    """Return True if a distribution needs a GPU, or opens CUDA's libraries; a few do without."""
    is_opener = any(_OPENED.fullmatch(project_of(line)) for line in distribution.requires)
    is_opener |= distribution.name in _OPENERS or distribution.name.startswith("nvidia-")
    is_opener |= bool(_COMMON.fullmatch(distribution.name))
    return is_opener or needs_gpu(distribution)


def links_torch(distribution: Distribution) -> bool:
    """Return True if a library of a distribution needs one of PyTorch's."""
    for path in distribution.libraries:
        with contextlib.suppress(OSError, ElfFormatError, struct.error), open_file(path) as stream:
            if any(map(_is_torchs, Symbols(stream).needed)):
                return True
    return False


def needs_gpu(distribution: Distribution) -> bool:
    """Return True if a library of a distribution needs CUDA or PyTorch, or has device code."""
    for path in distribution.libraries:
        with contextlib.suppress(OSError, ElfFormatError, struct.error), open_file(path) as stream:
            symbols = Symbols(stream)
            if any(map(_is_watched, symbols.needed)) or symbols.has_section(LOADED_SECTION):
                return True
    return False


def needs_any(distribution: Distribution, sonames: Collection[str]) -> bool:
    """Return True if a library of a distribution needs one of some libraries."""
    for path in distribution.libraries if sonames else ():
        with contextlib.suppress(OSError, ElfFormatError, struct.error), open_file(path) as stream:
            if not {*sonames}.isdisjoint(Symbols(stream).needed):
                return True
    return False


def read_package(
    distribution: Distribution,
    environment: PythonEnvironment,
    loader: InstalledLoader,
    *,
    major: str = "",
    only: Iterable[str] = (),
) -> DiagnosedPackage:
    """Read a package's libraries.

    Args:
        major: the framework's CUDA; of libraries for several, those for others aren't judged: the
            package chooses one, none for a framework without CUDA (empty).
        only: file names of the libraries that count; none: all.
    """
    names = frozenset(only)
    paths = [path for path in distribution.libraries if os.access(path, os.F_OK)]
    elves = {str(path): elf for path in paths if (elf := elf_at(path))}
    reader = _Reader(distribution, environment, loader, LoaderGraph(elves=elves))
    libraries = [reader.read(path) for path in paths if path.name in names or not names]
    is_for_several = len({release for library in libraries for release in library.cuda}) > 1
    judged = tuple(
        library
        for library in libraries
        if not library.is_for_other
        and (not is_for_several or not library.cuda or major in library.cuda)
    )
    codes = [library.code for library in judged if library.code]
    links_cuda = any(not is_from_driver(soname) for soname in _suppliers(judged))
    return DiagnosedPackage(
        name=distribution.name,
        version=distribution.version,
        archs=tuple(dict.fromkeys(arch for code in codes for arch in code.sass)),
        ptx_archs=tuple(dict.fromkeys(arch for code in codes for arch in code.ptx)),
        suppliers=_suppliers(judged),
        other_libraries=len(distribution.libraries) - len(judged),
        libraries=judged,
        unopened=tuple(reader.unopened(judged)) if codes and not links_cuda else (),
    )


def with_loaded(
    package: DiagnosedPackage, loader: InstalledLoader, result: PackageImport
) -> DiagnosedPackage:
    """Take the libraries that are mapped after a package's import for those that a search finds."""
    mapped = {path.name: path for path in result.libraries}
    called = {path.name: path for path in result.called_libraries}

    def source(soname: str, found: FoundLibrary | None) -> FoundLibrary | None:
        if path := _mapped(soname, mapped):
            condition = found.condition if found else ""
            return FoundLibrary(path=path, supplier=loader.supplier(path), condition=condition)
        if found is None and (path := _mapped(soname, called)):
            return FoundLibrary(path=path, supplier=loader.supplier(path), call=result.call)
        return found

    libraries = tuple(
        replace(
            library,
            needs=tuple((soname, source(soname, found)) for soname, found in library.needs),
        )
        for library in package.libraries
    )
    return replace(
        package,
        libraries=libraries,
        suppliers=_suppliers(libraries),
        loaded=tuple(path for path in result.libraries if _is_watched(path.name)),
        failure=result.failure,
        without_cuda=result.without_cuda,
        part=result.part,
        available=result.available,
        unopened=()
        if any(_mapped(name, mapped) for name in package.unopened)
        else package.unopened,
    )


def _mapped(soname: str, paths: Mapping[str, Path]) -> Path | None:
    """Return the mapped file of a soname: links are followed, `libcudart.so.12.8.90`."""
    longer = (path for name, path in paths.items() if name.startswith(f"{soname}."))
    return paths.get(soname) or next(longer, None)


def _suppliers(libraries: Iterable[InstalledLibrary]) -> dict[str, str]:
    needs = (need for library in libraries for need in library.needs)
    return {soname: source.supplier if source else "" for soname, source in needs}


@dataclass(frozen=True)
class _Reader:
    """The reader of one package's libraries, which the loader links as in `package`."""

    distribution: Distribution
    environment: PythonEnvironment
    loader: InstalledLoader
    package: LoaderGraph

    def read(self, path: Path) -> InstalledLibrary:
        """Read a library; a damaged one has no facts but its damage."""
        try:
            with open_file(path) as stream:
                elf = read_elf(stream)
                section = elf.section(LOADED_SECTION)
                code = code_of(hop_fatbins(stream, section)) if section else None
                needs = self._needs(path, elf)
                symbols = self._missing_symbols(stream, needs)
                needs += self._parts(path)
        except OSError as problem:
            return InstalledLibrary(path=path, damage=problem.strerror or str(problem))
        except (ElfFormatError, FatbinFormatError, struct.error) as problem:
            return InstalledLibrary(path=path, damage=str(problem))
        is_module = bool(elf.python_modules)
        matches = filter(None, (_VERSION.fullmatch(name) for _, name in elf.versions))
        ordered = sorted(matches, key=lambda match: version_key(match[2]))
        versions = {match[1]: match[2] for match in ordered}
        return InstalledLibrary(
            path=path,
            code=code,
            needs=needs,
            cuda=tuple(dict.fromkeys(filter(None, map(cuda_major_of, elf.needed)))),
            symbols=symbols,
            versions=tuple(versions.items()),
            folders=tuple(map(Path, self.package.folders(str(path)))),
            is_module=is_module,
            is_for_torch=any(map(_is_torchs, elf.needed)),
            is_for_other=any(map(is_other_accelerator, elf.needed)),
            is_unimportable=is_module and _is_for_other_python(path, self.environment),
        )

    def _needs(self, path: Path, elf: Elf) -> tuple[tuple[str, FoundLibrary | None], ...]:
        """Find the libraries; a framework that is required, or linked, is imported before."""
        imports = {project_of(line) for line in self.distribution.requires}
        imports |= {"torch"} if any(map(_is_torchs, elf.needed)) else set()
        watched = filter(_is_watched, elf.needed)
        return tuple(
            (soname, self.loader.find(str(path), soname, self.package, imports))
            for soname in watched
        )

    def _parts(self, path: Path) -> tuple[tuple[str, FoundLibrary | None], ...]:
        """Find a library that one of the package's opens by its name: cuDNN is several."""
        match = _CUDNN.fullmatch(path.name)
        soname = PARTS_OF_CUDNN.get(match[1]) if match else None
        if soname is None:
            return ()
        return ((soname, self.loader.find(str(path), soname, self.package, ())),)

    def unopened(self, libraries: Iterable[InstalledLibrary]) -> list[str]:
        """Return what its code opens by name; none if one is found, in any release.

        TensorFlow puts the names together: its extra has the wheels.
        """
        paths = [library.path for library in libraries if not library.damage]
        opened = {soname: path for path in paths for soname in _opened(path)}
        if not opened and (extra := _EXTRAS.get(self.distribution.name)) and paths:
            lines = [line for line in self.distribution.requires if extra in line]
            wheels = {project_of(line) for line in lines}
            parts = [part for part in COMPONENTS if part.distribution in wheels]
            opened = {name: paths[0] for part in parts for name in part.sonames if "*" not in name}
        imports = {project_of(line) for line in self.distribution.requires}
        found = (
            self.loader.find(str(path), soname, self.package, imports)
            for soname, path in opened.items()
        )
        return [] if any(found) else sorted(opened)

    def _missing_symbols(
        self, stream: IO[bytes], needs: Iterable[tuple[str, FoundLibrary | None]]
    ) -> Missing | None:
        """Return PyTorch's symbols that neither it, the package nor a needed library defines."""
        torch = self.environment.distributions.get("torch")
        if torch is None:
            return None
        own = [path for path in self.distribution.libraries if os.access(path, os.R_OK)]
        needed = [lib.path for _, lib in needs if lib and lib.path and lib.supplier != DRIVER]
        return find_missing(stream, torch.site / "torch" / "lib", (*needed, *own))


def _opened(path: Path) -> Iterator[str]:
    """Yield libraries of CUDA that the constants of a library name."""
    with contextlib.suppress(OSError, ElfFormatError, struct.error), open_file(path) as stream:
        elf = read_elf(stream)
        constants = elf.section(".rodata") if elf.uses_dlopen else None
        if constants:
            stream.seek(constants.offset)
            content = stream.read(min(constants.size, _CONSTANTS))
            yield from dict.fromkeys(name.decode() for name in _NAME.findall(content))


def _is_for_other_python(path: Path, environment: PythonEnvironment) -> bool:
    """Return True for `ext.cpython-310-….so` under another Python, without one for this one."""
    tagged = tuple(suffix for suffix in environment.suffixes if suffix != ".so")
    if not _TAGGED.search(path.name) or path.name.endswith(tagged):
        return False
    stem = path.name.partition(".")[0]
    return not any((path.parent / f"{stem}{suffix}").exists() for suffix in environment.suffixes)


def _is_watched(soname: str) -> bool:
    return is_cuda_library(soname) or is_from_driver(soname) or component_of(soname) is not None


def _is_torchs(soname: str) -> bool:
    component = component_of(soname)
    return component is not None and component.name == "torch"
