"""The toolkit as a build sees it: a folder of links in which the compilers are our own scripts.

`bin/nvcc` is the launcher, which removes what is irreproducible from each command line, and the
programs that need memory are gated. nvcc takes its home from the path it was called by, so the
nvcc of `bin-real` calls the `cicc` and `ptxas` of this folder. It has to have its own name there:
CMake knows it by its version message, which starts with its name. docs/adr/0015.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cuwheel.base.paths import script
from cuwheel.base.system.compilers import SYSTEM_PATH, output_of
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.base.system.process import run

_SCRIPTS = (
    "base/free_memory.py",
    "build/compile/launcher/command_line.py",
    "build/compile/launcher/cxx_standard.py",
    "build/compile/launcher/device_code.py",
    "build/compile/launcher/direct_mode.py",
    "build/compile/launcher/kept_files.py",
    "build/compile/launcher/kept_inputs.py",
    "build/compile/launcher/launch.py",
    "build/compile/launcher/module_id.py",
    "build/compile/launcher/own_archs.py",
    "build/compile/launcher/rewrite.py",
    "build/compile/launcher/standin.py",
    "build/compile/memory_gate/child.py",
    "build/compile/memory_gate/event_log.py",
    "build/compile/memory_gate/gate.py",
    "build/compile/memory_gate/service_client.py",
)
LAUNCHER_FILES = tuple(map(script, _SCRIPTS))

# The programs of nvcc that take memory; cicc the most, 3.75 GB for one file of flash-attn.
_GATED = {"cicc": "device", "cudafe++": "front", "ptxas": "device"}  # by their scripts below
DEVICE_TOOLS = ("cicc", "ptxas")  # their output is the same for every platform: `device_code`
_COMPILES = ("cc1plus", "cc1", "as")  # what a GCC starts
# Folders of a toolkit with programs: NVIDIA's own layout, and conda-forge's.
_PROGRAMS = (
    *("bin", "nvvm/bin"),
    *("targets/x86_64-linux/bin", "targets/x86_64-linux/nvvm/bin"),
)
_REAL = "bin-real"
_LIBRARIES, _DRIVER_STUB = "lib64", "stubs/libcuda.so"  # where nvcc makes linkers search
# The scripts call Python by this link: a cache takes their text for the compiler, so it has to be
# the same for every Python.
_PYTHON = "python"
_HOST_NAMES = {"gcc": "cc", "g++": "cxx", "cc": "cc", "c++": "cxx"}

_STUBS = {
    "nvcc": ("launcher", 'launch.main("nvcc", sys.argv[1:], settings.SETTINGS)'),
    "host": ("launcher", "launch.main(sys.argv[1], sys.argv[2:], settings.SETTINGS)"),
    "share": ("launcher", "own_archs.main(sys.argv[1:], settings.SETTINGS.nvcc)"),
    "gate": ("memory_gate", "gate.main(sys.argv[1], sys.argv[2:])"),
    "device": ("launcher", "device_code.main(sys.argv[1], sys.argv[2:])"),
    "front": ("launcher", "module_id.main(sys.argv[1], sys.argv[2:], settings.SETTINGS.flags)"),
}


@dataclass(frozen=True, kw_only=True)
class ViewPaths:
    """Paths of the view and of what it refers to, as the build sees them."""

    view: Path
    launcher: Path
    toolkit: Path
    python: Path
    cc: Path
    cxx: Path

    @property
    def programs(self) -> Path:
        """Folder with `gcc`, `g++`, `cc` and `c++`."""
        return self.launcher / "bin"

    @property
    def nvcc_of_shares(self) -> Path:
        """The nvcc for some archs of a compile."""
        return self.launcher / "share" / "nvcc"

    @property
    def gated(self) -> Path:
        """Folder with the compilers that nvcc and the compile cache get to call."""
        return self.launcher / "gated"


@dataclass(frozen=True, kw_only=True)
class ToolkitView:
    """The view of a toolkit, and the launcher.

    Attributes:
        real: paths on this machine; the folders of view and launcher are empty.
        inside: the same as the build sees them.
        fingerprint: of the compilers. It is in each script, so a compile cache that looks at "the
            compiler" sees another one when the real one is another.
    """

    real: ViewPaths
    inside: ViewPaths
    fingerprint: str

    def make(self, driver_stub: bytes = b"") -> None:
        """Fill the view with links to the CUDA home, and with our scripts.

        Args:
            driver_stub: the library for linkers to find in place of the driver's, if the toolkit
                itself has none; empty: none.
        """
        home, toolkit = self.real.toolkit, self.inside.toolkit
        overlaid: dict[str, str | bytes] = {
            f"{place}/{name}": self._gate(toolkit / place / name)
            for place in _PROGRAMS
            for name in _GATED
            if (home / place / name).exists()
        }
        real = {
            name.removeprefix("bin/"): content
            for name, content in overlaid.items()
            if name.startswith("bin/")
        }
        libraries = home / _LIBRARIES
        if driver_stub and not (libraries / _DRIVER_STUB).exists():
            leads_to = libraries.readlink().as_posix() if libraries.is_symlink() else _LIBRARIES
            overlaid[f"{leads_to}/{_DRIVER_STUB}"] = driver_stub
        overlaid["bin/nvcc"] = self._script("nvcc")
        view = self.real.view
        (view / _REAL).mkdir()
        _overlay(view / _REAL, home / "bin", toolkit / "bin", real)
        _overlay(view, home, toolkit, overlaid)

    def make_launcher(self, settings: Mapping[str, object]) -> None:
        """Fill the launcher's folder with its scripts, compiled, and the host compilers' stand-ins.

        Args:
            settings: the attributes of `rewrite.Settings`.

        Raises:
            CommandFailedError: the interpreter can't compile them.
        """
        folder, inside = self.real.launcher, self.inside
        copy_scripts(folder)
        rewrite = "from cuwheel.build.compile.launcher.rewrite import Settings"
        lines = [f"SETTINGS.{name} = {value!r}" for name, value in sorted(settings.items())]
        lines = [rewrite, "SETTINGS = Settings()", *lines, ""]
        (folder / "settings.py").write_text("\n".join(lines))
        for name, (package, call) in _STUBS.items():
            lines = ["import os, sys", f"sys.path.insert(0, {str(inside.launcher)!r})"]
            lines.append(f"from cuwheel.build.compile.{package} import {call.partition('.')[0]}")
            lines += ["import settings"] if "settings" in call else []
            (folder / f"run_{name}.py").write_text("\n".join([*lines, f"os._exit({call})", ""]))
        (folder / _PYTHON).symlink_to(inside.python)
        _write(self.real.nvcc_of_shares, self._script("share"))
        compile_all = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", folder)
        run([self.real.python, "-IS", *compile_all], env={})
        for name, kind in _HOST_NAMES.items():
            _write(folder / "bin" / name, self._script("host", name))
            compiler = inside.cxx if kind == "cxx" else inside.cc
            _write(folder / "gated" / name, self._gated_compiler(compiler))

    def settings(
        self, *, maps: tuple[tuple[str, str], ...], flags: tuple[str, ...]
    ) -> dict[str, object]:
        """Return those attributes of `rewrite.Settings` that follow from paths."""
        inside, real = self.inside, self.real
        host = {"cc": str(inside.gated / "gcc"), "cxx": str(inside.gated / "g++")}
        standins = {str(inside.programs / name): str(inside.gated / name) for name in _HOST_NAMES}
        standins |= {name: str(inside.gated / name) for name in _HOST_NAMES}
        standins |= {str(path): host["cc"] for path in _names_of(inside.cc, real.cc)}
        standins |= {str(path): host["cxx"] for path in _names_of(inside.cxx, real.cxx)}
        nvcc = str(inside.view / _REAL / "nvcc")
        names = {"nvcc": nvcc, "nvcc_of_shares": str(inside.nvcc_of_shares)}
        return {**names, "host": host, "standins": standins, "maps": maps, "flags": flags}

    def _script(self, stub: str, *words: str) -> str:
        launcher = self.inside.launcher
        argv = [str(launcher / _PYTHON), "-ISB", str(launcher / f"run_{stub}.py"), *words]
        return f'#!/bin/sh\n# {self.fingerprint}\nexec {shlex.join(argv)} "$@"\n'

    def _gate(self, program: Path) -> str:
        return self._script(_GATED.get(program.name, "gate"), str(program))

    def _gated_compiler(self, program: Path) -> str:
        # sccache removes the one variable for compilers; the other replaces it (`compile.cache`).
        # Preprocessing and linking are short and small; nvcc preprocesses once for each arch.
        start, _, call = self._gate(program).rpartition("exec ")
        start += '[ -z "$CUWHEEL_EPOCH" ] || export SOURCE_DATE_EPOCH="$CUWHEEL_EPOCH"\n'
        through = f'exec {shlex.quote(str(program))} "$@"'
        # CMake links CUDA's libraries with nvcc's host compiler, without the launcher.
        cases = f"-c) exec {call.rstrip()} ;;\n-shared|--shared) {through} -s ;;\n"
        return f'{start}for word do case "$word" in\n{cases}esac\ndone\n{through}\n'


def copy_scripts(folder: Path) -> None:
    """Copy the launcher's scripts into a package `cuwheel` that holds nothing else."""
    for name in _SCRIPTS:
        path = Path("cuwheel", name)
        (folder / path.parent).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(script(name), folder / path)
        for package in path.parents[:-1]:
            (folder / package / "__init__.py").touch()


def _names_of(inside: Path, real: Path) -> set[Path]:
    """Return each path in its folder that leads to a compiler: `x86_64-linux-gnu-g++`, `g++-12`."""
    pattern = "*++*" if "++" in real.name else "*cc*"
    same = (path for path in real.parent.glob(pattern) if path.resolve() == real.resolve())
    return {inside, *(inside.with_name(path.name) for path in same)}


def fingerprint_of(toolchain: str, cxx: Path, banner: str) -> str:
    """Return SHA-256 of all that compiles: toolchain, parts of host compiler and assembler."""
    programs = run_all([partial(_program_of, cxx, name) for name in _COMPILES], Stop())
    return hashlib.sha256("\n".join((toolchain, banner, *programs)).encode()).hexdigest()


def _program_of(cxx: Path, name: str) -> str:
    """Return SHA-256 of a program that a GCC starts; the GCC's output where there is none."""
    output = output_of(cxx, f"-print-prog-name={name}")
    path = shutil.which(output, path=SYSTEM_PATH)  # a bare name: GCC would search for it
    return sha256_of_file(Path(path)) if path else output


def _overlay(folder: Path, real: Path, inside: Path, files: Mapping[str, str | bytes]) -> None:
    """Link to all of a folder but for some files, which are written; folders on their way are real.

    A link that leads to such a folder does so here too: of `lib` and `lib64` that are two folders,
    CMake takes one for a place that the loader doesn't search, and writes an rpath.
    """
    nested: dict[str, dict[str, str | bytes]] = {}
    for name, content in files.items():
        first, _, rest = name.partition("/")
        if rest:
            nested.setdefault(first, {})[rest] = content
        else:
            _write(folder / first, content)
    for name, inner in nested.items():
        (folder / name).mkdir(exist_ok=True)
        _overlay(folder / name, real / name, inside / name, inner)
    for entry in sorted(real.iterdir()) if real.is_dir() else ():
        if entry.name in nested or entry.name in files:
            continue
        leads_to = entry.readlink().as_posix() if entry.is_symlink() else ""
        is_ours = leads_to.partition("/")[0] in nested
        (folder / entry.name).symlink_to(leads_to if is_ours else inside / entry.name)


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.chmod(path, 0o755)  # noqa: PTH101, S103 - a program
