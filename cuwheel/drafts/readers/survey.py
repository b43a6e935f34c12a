"""A source as a whole: metadata, build system, and every fact that its build files state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.drafts.readers.cmake import read_cmake
from cuwheel.drafts.readers.cuda_headers import read_cuda_headers
from cuwheel.drafts.readers.metadata import read_metadata
from cuwheel.drafts.readers.relevance import OFF, is_relevant
from cuwheel.drafts.readers.runtime_imports import read_runtime_imports
from cuwheel.drafts.readers.setup_py import read_setup
from cuwheel.pypi.build_requirements import read_build_system
from cuwheel.system.whole_files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuwheel.drafts.readers.finding import Finding, Kind
    from cuwheel.drafts.readers.metadata import Metadata
    from cuwheel.pypi.build_requirements import BuildSystem

_DEVICE_CODE = (".cu", ".cuh")
# Folders at a source's top that are no package, though some hold an `__init__.py`.
_ASIDE = {"tests", "test", "docs", "doc", "examples", "example", "benchmarks", "csrc", "scripts"}
_ASIDE |= {"build", "dist", "include", "tools", "third_party", "vendor", "hopper", "training"}
_CMAKE_BACKENDS = ("scikit_build_core", "skbuild", "py_build_cmake", "cmake_build_extension")


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What was read of a source.

    Attributes:
        tree: the folder.
        metadata: of the package.
        system: its table `build-system`.
        findings: every fact, those of setup.py first.
        device_files: files of device code, relative to the tree; those that others are generated
            from aren't among them.
        packages: import packages and modules that it seems to install.
        has_setup: whether there is a setup.py.
    """

    tree: Path
    metadata: Metadata
    system: BuildSystem
    findings: tuple[Finding, ...]
    device_files: tuple[str, ...]
    packages: tuple[str, ...]
    has_setup: bool

    def of(self, *kinds: Kind) -> tuple[Finding, ...]:
        """The facts of these kinds."""
        return tuple(finding for finding in self.findings if finding.kind in kinds)

    @property
    def defined(self) -> dict[str, str]:
        """CMake's definitions that its own pyproject.toml makes."""
        cmake = self.metadata.tools.get("scikit-build", {}).get("cmake", {})
        return {name: str(value) for name, value in cmake.get("define", {}).items()}

    def relevant(self, *kinds: Kind) -> tuple[Finding, ...]:
        """The facts of these kinds that count for CUDA on Linux."""
        given = {one.name: one.default for one in self.of("option")} | self.defined
        off = {
            name
            for name, value in given.items()
            if value.upper() in OFF and not re.search(r"(?:CUDA|GPU)$", name)
        }
        off |= {name for name in given if name.endswith("NATIVE")}  # the draft switches it off
        return tuple(finding for finding in self.of(*kinds) if is_relevant(finding, off))

    def variables(self) -> dict[str, Finding]:
        """Each environment variable that the build reads, where it is first read or compared."""
        found: dict[str, Finding] = {}
        for finding in self.relevant("variable"):
            known = found.setdefault(finding.name, finding)
            if finding.wants and not known.wants:
                found[finding.name] = finding
        return found

    @property
    def uses_torch(self) -> bool:
        """Whether it is compiled against PyTorch."""
        is_imported = any(one.name == "torch" for one in self.of("import"))
        return is_imported or any(one.name in {"Torch", "torch"} for one in self.of("package"))

    @property
    def uses_cmake(self) -> bool:
        """Whether CMake compiles it."""
        imported = {one.name for one in self.of("import")}
        backends = (self.system.module.partition(".")[0], *imported)
        is_alone = (self.tree / "CMakeLists.txt").is_file() and not self.has_setup
        return is_alone or not {*backends}.isdisjoint(_CMAKE_BACKENDS)

    @property
    def has_cuda(self) -> bool:
        """Whether there is anything to compile with nvcc, or to link with CUDA."""
        return bool(self.device_files or self.of("language", "gencode", "header")) or any(
            "CUDA" in one.name for one in self.of("option", "package", "extension")
        )


def survey_source(tree: Path) -> Survey:
    """Read a source; nothing of it is run.

    Args:
        tree: the folder that holds its setup.py or pyproject.toml.
    """
    system = read_build_system(tree)
    metadata = read_metadata(tree)
    backend = [
        path
        for folder in system.backend_path
        for path in (tree / folder / f"{system.module.replace('.', '/')}.py",)
    ]
    packages = tuple(dict.fromkeys(_packages(tree, metadata)))
    of_setup = read_setup(tree, backend)
    has_setup = (tree / "setup.py").is_file()
    # Others have CMake files too, of what they bring along, which nobody runs.
    runs_cmake = not has_setup or any(one.name in {"cmake", *_CMAKE_BACKENDS} for one in of_setup)
    is_cmake = runs_cmake or system.module.partition(".")[0] in _CMAKE_BACKENDS
    device_files = tuple(_device_files(tree))
    return Survey(
        tree=tree,
        metadata=metadata,
        system=system,
        findings=(
            *of_setup,
            *(read_cmake(tree) if is_cmake else ()),
            *read_runtime_imports(tree, packages),
            # Where nvcc compiles, nearly every file has them, and the build names its libraries.
            *(() if device_files else read_cuda_headers(tree)),
        ),
        device_files=device_files,
        packages=packages,
        has_setup=has_setup,
    )


def _device_files(tree: Path) -> Iterator[str]:
    for path in sorted(tree.rglob("*")):
        if path.suffix in _DEVICE_CODE and path.is_file():
            name = path.relative_to(tree).as_posix()
            if not re.search(r"(^|/)(tests?|examples?|benchmarks?)/", name):
                yield name


def _packages(tree: Path, metadata: Metadata) -> Iterator[str]:
    """As the backend would find them: what its settings name, else what stands there."""
    named = metadata.tools.get("scikit-build", {}).get("wheel", {}).get("packages", [])
    for name in named:
        yield str(name).rpartition("/")[2]
    for path in sorted(tree.glob("*.egg-info/top_level.txt")):
        yield from (name for name in read_text(path).split() if name not in _ASIDE)
    if named or any(tree.glob("*.egg-info/top_level.txt")):
        return
    for folder in (tree / "src", tree / "python", tree):
        for path in sorted(folder.glob("*/__init__.py")):
            if path.parent.name not in _ASIDE:
                yield path.parent.name
