"""The toolkit as a build sees it: a folder of links in which the compilers are our own scripts.

`bin/nvcc` is the launcher, which takes what is irreproducible out of each command line, and the
programs that need memory are gated. nvcc takes its home from the path it was called by, so the
nvcc of `bin-real` calls the `cicc` and `ptxas` of this folder. It has to have its own name there:
CMake knows it by what it says of itself, and that starts with its name. docs/adr/0015.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError
from cuwheel.standalone import script
from cuwheel.system.compilers import SYSTEM_PATH
from cuwheel.system.files import sha256_of_file
from cuwheel.system.parallel import Stop, run_all
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping


_LAUNCHER = (
    "event_log.py",
    *(f"launcher/{name}.py" for name in ("command_line", "device_bitcode", "device_code")),
    *(f"launcher/{name}.py" for name in ("device_command", "device_store")),
    *(f"launcher/{name}.py" for name in ("direct_mode", "kept_files", "launch", "rewrite")),
    *(f"memory_gate/{name}.py" for name in ("child", "free_memory", "gate", "ledger", "peaks")),
    *(f"memory_gate/{name}.py" for name in ("scheduler", "service_client")),
)
LAUNCHER_FILES = tuple(map(script, _LAUNCHER))  # copied side by side: their names are unique

# The programs of nvcc that take memory: at 3.75 GB for one file of flash-attn, cicc above all.
_GATED = ("cicc", "cudafe++", "ptxas")
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
    "nvcc": 'launch.main("nvcc", sys.argv[1:], settings.SETTINGS)',
    "host": "launch.main(sys.argv[1], sys.argv[2:], settings.SETTINGS)",
    "gate": "gate.main(sys.argv[1], sys.argv[2:])",
    "device": "device_code.main(sys.argv[1], sys.argv[2:])",
}
_IMPORTS = {"gate": "import gate\n", "device": "import device_code\n"}


@dataclass(frozen=True, kw_only=True)
class ViewPaths:
    """Paths of the view and of what it refers to, as the build sees them.

    Attributes:
        view: the folder of links: `CUDA_HOME`.
        launcher: folder with the launcher and the stand-ins of the host compilers.
        toolkit: the toolchain's own CUDA home.
        python: an interpreter without environment, which runs launcher and gate.
        cc: the real C compiler.
        cxx: the real C++ compiler.
    """

    view: Path
    launcher: Path
    toolkit: Path
    python: Path
    cc: Path
    cxx: Path

    @property
    def nvcc(self) -> Path:
        """The nvcc that does compile."""
        return self.view / _REAL / "nvcc"

    @property
    def programs(self) -> Path:
        """Folder with `gcc`, `g++`, `cc` and `c++`."""
        return self.launcher / "bin"

    @property
    def gated(self) -> Path:
        """Folder with the compilers that nvcc and the compile cache get to call."""
        return self.launcher / "gated"


def make_view(
    folder: Path, home: Path, inside: ViewPaths, fingerprint: str, driver_stub: bytes = b""
) -> None:
    """Fill an empty folder with links to a CUDA home, and with our scripts.

    Args:
        folder: to be `inside.view`.
        home: the CUDA home on this machine, to be `inside.toolkit`.
        inside: the paths at which the build will find it all.
        fingerprint: of the compilers. It stands in each script, so a compile cache that looks at
            "the compiler" sees another one when the real one is another.
        driver_stub: the library to put where linkers look for the driver's, if the toolkit itself
            has none there; empty: none.
    """
    overlaid: dict[str, str | bytes] = {
        f"{place}/{name}": _gate(inside, inside.toolkit / place / name, fingerprint)
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
    (folder / _REAL).mkdir()
    _overlay(folder / _REAL, home / "bin", inside.toolkit / "bin", real)
    _overlay(
        folder,
        home,
        inside.toolkit,
        overlaid | {"bin/nvcc": _script(inside, "nvcc", (), fingerprint)},
    )


def make_launcher(
    folder: Path, inside: ViewPaths, settings: Mapping[str, object], python: Path, fingerprint: str
) -> None:
    """Fill an empty folder with the launcher, compiled, and the host compilers' stand-ins.

    Args:
        folder: to be `inside.launcher`.
        inside: the paths at which the build will find it all.
        settings: the attributes of `launch.Settings`.
        python: `inside.python` on this machine.
        fingerprint: of the compilers.

    Raises:
        CommandFailedError: that interpreter can't compile them.
    """
    for module in LAUNCHER_FILES:
        shutil.copyfile(module, folder / module.name)
    (folder / "settings.py").write_text(_settings_module(settings))
    for name, call in _STUBS.items():
        start = f"import os, sys\nsys.path.insert(0, {str(inside.launcher)!r})\n"
        modules = _IMPORTS.get(name, "import launch\nimport settings\n")
        (folder / f"run_{name}.py").write_text(f"{start}{modules}os._exit({call})\n")
    (folder / _PYTHON).symlink_to(inside.python)
    compile_all = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", folder)
    run([python, "-IS", *compile_all], env={})
    for name, kind in _HOST_NAMES.items():
        _write(folder / "bin" / name, _script(inside, "host", (name,), fingerprint))
        real = inside.cxx if kind == "cxx" else inside.cc
        _write(folder / "gated" / name, _gate(inside, real, fingerprint, only_compiles=True))


def launcher_settings(
    inside: ViewPaths,
    real: ViewPaths,
    *,
    maps: tuple[tuple[str, str], ...],
    flags: tuple[str, ...],
) -> dict[str, object]:
    """Those attributes of `launch.Settings` that follow from where things are.

    Args:
        inside: the paths at which the build will find it all.
        real: the same on this machine.
        maps: what compilers replace in the names of files.
        flags: the options for equal bytes that this nvcc has.
    """
    host = {"cc": str(inside.gated / "gcc"), "cxx": str(inside.gated / "g++")}
    standins = {str(inside.programs / name): str(inside.gated / name) for name in _HOST_NAMES}
    standins |= {name: str(inside.gated / name) for name in _HOST_NAMES}
    standins |= {str(path): host["cc"] for path in _names_of(inside.cc, real.cc)}
    standins |= {str(path): host["cxx"] for path in _names_of(inside.cxx, real.cxx)}
    return {
        "nvcc": str(inside.nvcc),
        "host": host,
        "standins": standins,
        "maps": maps,
        "flags": flags,
    }


def _names_of(inside: Path, real: Path) -> set[Path]:
    """Every path in its folder that leads to a compiler: `x86_64-linux-gnu-g++`, `g++-12`."""
    pattern = "*++*" if "++" in real.name else "*cc*"
    same = (path for path in real.parent.glob(pattern) if path.resolve() == real.resolve())
    return {inside, *(inside.with_name(path.name) for path in same)}


def fingerprint_of(toolchain: str, cxx: Path, banner: str) -> str:
    """SHA-256 of all that compiles: the toolchain, and the host compiler's and assembler's parts.

    Args:
        toolchain: the toolchain's own fingerprint.
        cxx: the host's C++ compiler on this machine.
        banner: its version in its own words.
    """
    programs = run_all([partial(_program_of, cxx, name) for name in _COMPILES], Stop())
    return hashlib.sha256("\n".join((toolchain, banner, *programs)).encode()).hexdigest()


def _program_of(cxx: Path, name: str) -> str:
    """SHA-256 of a program that a GCC starts; what the GCC says where there is none."""
    said = _ask(cxx, f"-print-prog-name={name}")
    found = shutil.which(said, path=SYSTEM_PATH)  # a bare name: GCC would search for it
    return sha256_of_file(Path(found)) if found else said


def _ask(program: Path, option: str) -> str:
    try:
        return run([program, option], env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}).output.strip()
    except CommandFailedError:
        return ""


def _overlay(folder: Path, real: Path, inside: Path, files: Mapping[str, str | bytes]) -> None:
    """Links to all of a folder but for the files that are given; folders on their way are real.

    What leads to such a folder does so here too: of `lib` and `lib64` that are two folders, CMake
    takes one for a place which the loader has to be told of, and writes an rpath.
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


def _script(inside: ViewPaths, stub: str, words: tuple[str, ...], fingerprint: str) -> str:
    called = [
        str(inside.launcher / _PYTHON),
        "-ISB",
        str(inside.launcher / f"run_{stub}.py"),
        *words,
    ]
    return f'#!/bin/sh\n# {fingerprint}\nexec {shlex.join(called)} "$@"\n'


def _gate(
    inside: ViewPaths, program: Path, fingerprint: str, *, only_compiles: bool = False
) -> str:
    stub = "device" if program.name in DEVICE_TOOLS else "gate"
    script = _script(inside, stub, (str(program),), fingerprint)
    if not only_compiles:
        return script
    # sccache takes the one variable from compilers; the other is its stand-in (`compilecache`).
    # Preprocessing and linking are short and small; nvcc preprocesses once for each arch.
    start, _, call = script.rpartition("exec ")
    start += '[ -z "$CUWHEEL_EPOCH" ] || export SOURCE_DATE_EPOCH="$CUWHEEL_EPOCH"\n'
    through = f'exec {shlex.quote(str(program))} "$@"'
    # CMake links CUDA's libraries with nvcc's host compiler, past what stands before the compilers.
    cases = f"-c) exec {call.rstrip()} ;;\n-shared|--shared) {through} -s ;;\n"
    return f'{start}for word do case "$word" in\n{cases}esac\ndone\n{through}\n'


def _settings_module(settings: Mapping[str, object]) -> str:
    lines = [f"SETTINGS.{name} = {value!r}" for name, value in sorted(settings.items())]
    return "\n".join(["from launch import Settings", "SETTINGS = Settings()", *lines, ""])


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.chmod(path, 0o755)  # noqa: PTH101, S103 - a program
