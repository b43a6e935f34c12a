"""Trial of a framework's headers: compiled alone, before anything of the package is.

Headers state by `#error` which C++, GCC and Python they need, so no table of releases grows old
here. One source includes those that the package's own files include. It is compiled with the
target's compilers and the C++ standards that the package's build sets, nothing else of it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from cuwheel.base import limits
from cuwheel.base.errors import PreflightError
from cuwheel.base.system.compilers import SYSTEM_PATH
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import read_text
from cuwheel.build.compile.environment import BuildInputs
from cuwheel.build.recipe.recipe import CXX_STANDARDS, TorchExtension
from cuwheel.build.recipe.target import Target
from cuwheel.check.explain.compiler_error import first_compiler_error

# Folders of headers in site-packages: `include_paths` of torch 2.14.0's cpp_extension.py,
# `include_dir` of jax 0.8.0's ffi.py.
_FOLDERS = ("torch/include", "torch/include/torch/csrc/api/include", "jaxlib/include")
_INCLUDE = re.compile(
    r"""^[ \t]*#[ \t]*include[ \t]*[<"]((?:torch|ATen|c10|xla)/[\w/+-]+\.h(?:pp)?)[>"]""",
    re.MULTILINE,
)
_ANY_INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)""", re.MULTILINE)
# Of other devices, whose own headers aren't here; and those that are no interface.
_LEFT_OUT = re.compile(r"/(detail|hip|impl|miopen|mps|mtia|xpu)/")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp")
_CMAKE_STANDARD = re.compile(r"(?:std=(?:c|gnu)\+\+|(?:CXX|CUDA)_STANDARD[ =]|cxx_std_)(\d\d)\b")
_BUILDERS_STANDARD = re.compile(r"cpp_flag = cpp_flag_prefix \+ 'c\+\+(\d+)'")
# GCC's and nvcc's messages for a standard that they don't have.
_STATED = re.compile(r"#error|unrecognized command-line option|is not defined for option")


def check_framework_headers(
    target: Target,
    inputs: BuildInputs,
    standards: tuple[str, ...],
    sources: tuple[str, ...],
    *,
    cache: Path,
) -> Iterator[PreflightError]:
    """Yield an error where the framework's headers don't compile with a C++ standard of the build.

    It is one that the headers state, or one that another standard cures: others may come from what
    else the package's build sets. Nothing is tried for another kind of machine.

    Args:
        standards: those that setup.py sets, `17`, an empty one where it sets none; none: not known,
            and CMakeLists.txt may name several, of which one that works is enough; where it names
            none, so is one that nothing names.
        sources: those of setup.py's extensions, relative to the package; none: all.
    """
    trial = _Trial(inputs=inputs, included=_included(inputs.tree, sources), cache=cache)
    if target.platform.is_foreign or not trial.headers:
        return
    default, declared = _builders_standard(target, inputs), target.cxx_standard
    named = standards or _standards_of_cmake(target, inputs.tree)
    used = sorted({max(standard or default, declared) for standard in named})
    faults = {standard: trial.fault(standard) for standard in used}
    faulty = [standard for standard in used if faults[standard]]
    if not faulty or (not standards and faulty != used):
        return
    is_stated = bool(_STATED.search(faults[faulty[0]]))
    newer = [each for each in CXX_STANDARDS if each > faulty[0]]
    works = next((each for each in newer if not trial.fault(each, is_quick=is_stated)), "")
    is_known = standards or used != [""]  # a CMake package's other lists may set a newer one
    if (works and is_known) or (is_stated and not works):
        yield _refusal(target, faults[faulty[0]], faulty[0], works)


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """What is compiled; `included`: the framework's headers, as the package names them."""

    inputs: BuildInputs
    included: tuple[str, ...]
    cache: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the framework's headers."""
        folders = (self.inputs.python.site_packages / name for name in _FOLDERS)
        return tuple(folder for folder in folders if folder.is_dir())

    @property
    def headers(self) -> tuple[str, ...]:
        """Those headers that the framework has."""
        return tuple(
            name
            for name in self.included
            if any((folder / name).is_file() for folder in self.folders)
        )

    def fault(self, standard: str, *, is_quick: bool = False) -> str:
        """Return the first error with a C++ standard; empty: none.

        The cache remembers a success, by all that is compiled.

        Args:
            standard: `17`; empty: the compilers' default.
            is_quick: only preprocess, which finds each `#error`.
        """
        python, toolchain, machine = self.inputs.python, self.inputs.toolchain, self.inputs.machine
        parts = (python.fingerprint, toolchain.fingerprint, machine.host_compiler_version)
        text = "\n".join((*parts, standard, *self.headers, read_text(Path(__file__))))
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        passed = self.cache / "canaries" / f"headers-{name}"
        if passed.is_file():
            return ""
        kinds = ("i",) if is_quick else ("cpp", "cu")
        with temporary_folder() as folder:
            trials = tuple(partial(self._compile, kind, standard, folder) for kind in kinds)
            fault = next(filter(None, run_all(trials, Stop())), "")
        if not (fault or is_quick):
            write_atomically(passed, "")
        return fault

    def _compile(self, kind: str, standard: str, folder: Path) -> str:
        """Compile for the host; of CUDA only PyTorch's base for the device, which is quick."""
        python, home = self.inputs.python, self.inputs.toolchain.home
        cxx = self.inputs.machine.host_compiler or Path("g++")
        base = python.base_python.resolve().parent.parent / "include"
        searched = (*self.folders, *sorted(base.glob("python3*")), home / "include")
        headers, dialect = self.headers, "gnu++"
        command: list[str | Path] = [cxx, "-w", "-fmax-errors=1", "-x", "c++"]
        command += ["-E", "-o", os.devnull] if kind == "i" else ["-fsyntax-only"]
        if kind == "cu":
            headers, dialect = tuple(name for name in headers if name.startswith("c10/")), "c++"
            command = [home / "bin" / "nvcc", "-ccbin", cxx, "-ptx", "-o", folder / "headers.ptx"]
        source, log = folder / f"headers.{kind}", folder / f"{kind}.log"
        source.write_text("".join(f"#include <{header}>\n" for header in headers))
        command += [f"-I{path}" for path in searched]
        command += [f"-std={dialect}{standard}"] if standard else []
        env = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)}
        if not run([*command, source], env=env, log=log, check=False).status:
            return ""
        first = first_compiler_error(log)
        text = first.text if first else read_text(log, errors="replace").strip()
        return text.replace(f"{python.site_packages}/", "")


def _included(tree: Path, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the framework's headers that the sources include, or what they include, sorted.

    Args:
        sources: none: every file of the package.
    """
    texts: dict[str, str] = {}
    for file in tree.rglob("*"):
        if file.suffix in _SOURCES and file.is_file() and file.stat().st_size <= limits.TEXT:
            texts[str(file.relative_to(tree))] = read_text(file, errors="replace")
    by_name: dict[str, list[str]] = {}
    for path in texts:
        by_name.setdefault(PurePath(path).name, []).append(path)
    queue = [path for path in sources or texts if path in texts]
    found = dict.fromkeys(queue)
    for path in queue:  # it grows
        own = {PurePath(name).name for name in _ANY_INCLUDE.findall(texts[path])}
        new = [each for name in own for each in by_name.get(name, ()) if each not in found]
        found |= dict.fromkeys(new)
        queue += dict.fromkeys(new)
    names = {name for path in found for name in _INCLUDE.findall(texts[path])}
    return tuple(sorted(name for name in names if not _LEFT_OUT.search(name)))


def _builders_standard(target: Target, inputs: BuildInputs) -> str:
    """Return the standard that PyTorch's builder sets where a package sets none."""
    builder = inputs.python.site_packages / "torch" / "utils" / "cpp_extension.py"
    if not isinstance(target.recipe.build, TorchExtension) or not builder.is_file():
        return ""
    standard = _BUILDERS_STANDARD.search(read_text(builder))
    return standard[1] if standard else ""


def _standards_of_cmake(target: Target, tree: Path) -> tuple[str, ...]:
    """Return the standards that CMakeLists.txt and the recipe name; an empty one: none is."""
    lists = tree / "CMakeLists.txt"
    settings = target.recipe.settings_for(target.toolkit.release).items()
    texts = [f"{name}={value}" for name, value in settings]
    texts += [read_text(lists, errors="replace")] if lists.is_file() else []
    return tuple(_CMAKE_STANDARD.findall("\n".join(texts))) or ("",)


def _refusal(target: Target, fault: str, standard: str, works: str) -> PreflightError:
    framework = target.framework
    name = f"{framework.name} {framework.version}" if framework else "jaxlib"
    value = f'"{works}"'
    if framework:
        value = f'{{"{framework.name}>={framework.version}": {value}}}'
    return PreflightError(
        f"the headers of {name} don't compile" + (f" as C++{standard}" if standard else ""),
        why=fault + (f"; the package's build sets C++{standard}" if standard else ""),
        fix=f"add `cxx_standard={value},` to {target.recipe.module}"
        if works
        else f"use another compiler or Python (-- --host-compiler gcc12, -- --python 3.12), or "
        f"another release of {name.partition(' ')[0]}",
    )
