"""The survey of a source: metadata, build system, and every fact that its build files state."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.system.regular_files import read_text
from cuwheel.build.drafts.readers.cmake import read_cmake
from cuwheel.build.drafts.readers.facts import OFF, Kind, SourceFact, place_of
from cuwheel.build.drafts.readers.metadata import Metadata, read_metadata
from cuwheel.build.drafts.readers.package_imports import read_package_imports
from cuwheel.build.drafts.readers.setup_py import read_setup
from cuwheel.build.environments.requirements import BuildSystem, read_build_system

# Folders at a source's top that are no package, though some hold an `__init__.py`.
_ASIDE = {"tests", "test", "docs", "doc", "examples", "example", "benchmarks", "csrc", "scripts"}
_ASIDE |= {"build", "dist", "include", "tools", "third_party", "vendor", "hopper", "training"}
_TESTS = re.compile(r"(^|/)(tests?|examples?|benchmarks?|docs?)/")
_CMAKE_BACKENDS = {"scikit_build_core", "skbuild", "py_build_cmake", "cmake_build_extension"}

_HOST_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".pxd", ".pyx")
# `#include <cuda.h>`, Cython's `cdef extern from "cuda.h"`.
_INCLUDE = re.compile(
    r"^[ \t]*(?:#[ \t]*include|cdef extern from)[ \t]*[<\"']([\w/]+)\.h[>\"']", re.MULTILINE
)
_SAME_NAME = "cublas cublasLt cudnn cufft curand cusparse nccl nvrtc nvJitLink"
# Each header's library; NVIDIA's documentation of each library names its headers.
_LIBRARIES = {name: name for name in _SAME_NAME.split()} | {
    "cuda": "cuda",
    "cuda_profiler_api": "cudart",
    "cuda_runtime": "cudart",
    "cuda_runtime_api": "cudart",
    "cublas_v2": "cublas",
    "cufftXt": "cufft",
    "cusolverDn": "cusolver",
    "cusolverSp": "cusolver",
}


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Everything that was read of a source.

    Attributes:
        system: its table `build-system`.
        device_files: files of device code, relative to the tree, without generated ones.
        packages: that the wheel will contain, as far as is known.
        has_setup: it has a setup.py.
    """

    tree: Path
    metadata: Metadata
    system: BuildSystem
    facts: tuple[SourceFact, ...]
    device_files: tuple[str, ...]
    packages: tuple[str, ...]
    has_setup: bool

    def of(self, *kinds: Kind) -> tuple[SourceFact, ...]:
        """Return the facts of these kinds."""
        return tuple(fact for fact in self.facts if fact.kind in kinds)

    @property
    def defined(self) -> dict[str, str]:
        """CMake's definitions in its pyproject.toml."""
        cmake = self.metadata.tools.get("scikit-build", {}).get("cmake", {})
        return {name: str(value) for name, value in cmake.get("define", {}).items()}

    def relevant(self, *kinds: Kind) -> tuple[SourceFact, ...]:
        """Return the facts of these kinds that count for CUDA on Linux."""
        options = {option.name: option.default for option in self.of("option")} | self.defined
        off = {
            name
            for name, value in options.items()
            if value.upper() in OFF and not re.search(r"(?:CUDA|GPU)$", name)
        }
        off |= {name for name in options if name.endswith("NATIVE")}  # the draft switches it off
        return tuple(fact for fact in self.of(*kinds) if fact.is_relevant(off))

    def variables(self) -> dict[str, SourceFact]:
        """Return each environment variable that the build reads, where it is compared or read."""
        variables: dict[str, SourceFact] = {}
        for fact in self.relevant("variable"):
            first = variables.setdefault(fact.name, fact)
            if fact.wants and not first.wants:
                variables[fact.name] = fact
        return variables

    @property
    def missing_sources(self) -> tuple[SourceFact, ...]:
        """The files that the build compiles, as far as is known, and the source lacks."""
        has_kernels = any(name.endswith(".cu") for name in self.device_files)
        missing = self.relevant("missing")
        return tuple(file for file in missing if not (file.guard and has_kernels))

    @property
    def compiles_nothing(self) -> bool:
        """True if it has kernels that no build file compiles."""
        compiles = self.uses_cmake or self.uses_torch or self.of("extension", "program")
        return not compiles and any(name.endswith(".cu") for name in self.device_files)

    @property
    def uses_torch(self) -> bool:
        """True if it is compiled against PyTorch."""
        found = self.of("package", "import", "torch extension")
        return "torch" in {fact.name.lower() for fact in found}

    @property
    def uses_cmake(self) -> bool:
        """True if CMake compiles it."""
        if (self.tree / "CMakeLists.txt").is_file() and not self.has_setup:
            return True
        return bool({self.system.module.partition(".")[0], *self._imported} & _CMAKE_BACKENDS)

    @property
    def runs_cmake(self) -> bool:
        """True if its setup.py starts CMake."""
        return not self.uses_torch and "cmake" in {fact.name for fact in self.of("program")}

    @property
    def _imported(self) -> set[str]:
        return {module.name for module in self.of("import", "optional import")}

    @property
    def has_device_code(self) -> bool:
        """True if there is anything to compile with nvcc."""
        return bool(self.device_files or self.of("language", "gencode"))

    @property
    def has_cuda(self) -> bool:
        """True if there is anything to compile with nvcc, or to link with CUDA."""
        named = self.of("option", "package", "extension")
        is_named = any("CUDA" in fact.name for fact in named)
        return self.has_device_code or bool(self.of("header")) or is_named


def survey_source(tree: Path) -> Survey:
    """Read a source; nothing of it is run."""
    system = read_build_system(tree)
    metadata = read_metadata(tree)
    packages = tuple(dict.fromkeys(_packages(tree, metadata)))
    backend = f"{system.module.replace('.', '/')}.py"
    backends = [tree / folder / backend for folder in system.backend_path]
    facts = read_setup(tree, backends, packages)
    has_setup = (tree / "setup.py").is_file()
    # Bundled sources may have CMake files that the package's build ignores.
    runs_cmake = not has_setup or any(fact.name in {"cmake", *_CMAKE_BACKENDS} for fact in facts)
    if runs_cmake or system.module.partition(".")[0] in _CMAKE_BACKENDS:
        facts += read_cmake(tree)
    facts += tuple(read_package_imports(tree, packages))
    device_files = tuple(
        path.relative_to(tree).as_posix() for path in _compiled(tree, (".cu", ".cuh"))
    )
    if not device_files:  # with nvcc nearly every file has them, and the build names its libraries
        facts += tuple(_included_headers(tree))
    return Survey(
        tree=tree,
        metadata=metadata,
        system=system,
        facts=facts,
        device_files=device_files,
        packages=packages,
        has_setup=has_setup,
    )


def _compiled(tree: Path, suffixes: Collection[str]) -> Iterator[Path]:
    """Yield files with these suffixes, without those of tests and examples."""
    for path in sorted(tree.rglob("*")):
        is_aside = _TESTS.search(path.relative_to(tree).as_posix())
        if path.suffix in suffixes and path.is_file() and not is_aside:
            yield path


def _included_headers(tree: Path) -> Iterator[SourceFact]:
    """Yield each CUDA library whose header is included, at the first place."""
    libraries: set[str] = set()
    for path in _compiled(tree, _HOST_SUFFIXES):
        try:
            text = read_text(path, errors="replace")
        except OSError:
            continue  # a table of numbers, by its size
        for include in _INCLUDE.finditer(text):
            library = _LIBRARIES.get(include[1], "")
            if library and library not in libraries:
                libraries.add(library)
                where = place_of(tree, path, text.count("\n", 0, include.start()) + 1)
                yield SourceFact(kind="header", name=library, where=where)


def listings_of(tree: Path) -> list[Path]:
    """Return setuptools' lists of modules, which lie in the folder of `package_dir`, if set."""
    return [path for top in ("", "*/") for path in tree.glob(f"{top}*.egg-info/top_level.txt")]


def _packages(tree: Path, metadata: Metadata) -> Iterator[str]:
    """Yield packages as the backend finds them: from its settings, else from the folders."""
    named = metadata.tools.get("scikit-build", {}).get("wheel", {}).get("packages", [])
    for name in named:
        yield str(name).rpartition("/")[2]
    listings = listings_of(tree)
    for path in listings:
        yield from (name for name in read_text(path).split() if name not in _ASIDE)
    if named or listings:
        return
    for folder in (tree / "src", tree / "python", tree):
        for path in sorted(folder.glob("*/__init__.py")):
            if path.parent.name not in _ASIDE:
                yield path.parent.name
