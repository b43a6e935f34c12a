"""Search for the Python that a wheel is for."""

from __future__ import annotations

import functools
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import CommandFailedError, InterpreterNotFoundError
from cuwheel.base.paths import find_python_lock
from cuwheel.base.system.process import run
from cuwheel.base.system.regular_files import parse_json
from cuwheel.base.system.versions import plain_release, version_key

_SHOWN = 100  # characters of a program's answer that a message shows
_TIME_LIMIT = 20.0  # seconds for an interpreter to describe itself
_DESCRIBE = (
    "import json, platform, sys, sysconfig; print(json.dumps(dict("
    "executable=getattr(sys, '_base_executable', '') or sys.executable, "
    "version=platform.python_version(), implementation=sys.implementation.name, "
    "abi=sysconfig.get_config_var('SOABI') or '', prefix=sys.base_prefix, "
    "include=sysconfig.get_paths()['include'])))"
)


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python that runs.

    Attributes:
        path: of its own executable: behind a shim, and outside of a virtual environment.
        version: full, `3.12.1`.
        abi: `cpython-312-x86_64-linux-gnu`; `cpython-314t-…` for a free-threaded one.
        include: where its `Python.h` should be.
    """

    path: Path
    version: str
    abi: str
    prefix: Path
    include: Path

    @property
    def release(self) -> str:
        """`3.12` of 3.12.1, `3.14t` of a free-threaded 3.14.0."""
        return ".".join(self.version.split(".")[:2]) + self._kind

    @property
    def names(self) -> tuple[str, str]:
        """Names for `--python`, `3.14t` and `3.14.0t`: without the `t` it is another one."""
        return self.release, self.version + self._kind

    @property
    def _kind(self) -> str:
        """`t` for a build without the global lock (PEP 703), by its ABI."""
        return "t" if re.match(r"cpython-\d+t-", self.abi) else ""

    @property
    def is_of_system(self) -> bool:
        """True if its headers and libraries are among the system's own.

        Such a Python can be compiled against with the system's C library only: its headers include
        others by names that a compiler with another one doesn't find, and its build settings lead
        the linker to the system's libraries.
        """
        usr = Path("/usr")
        return self.include.is_relative_to(usr) and not self.include.is_relative_to(usr / "local")


def own_python() -> Interpreter:
    """Return the Python that runs nox: the one that the engine's environment was made from."""
    # A program itself, not a shim: it needs no variables.
    return _described(Path(getattr(sys, "_base_executable", sys.executable)), ())


def find_python(request: str, environ: Mapping[str, str]) -> Interpreter:
    """Find an interpreter.

    Args:
        request: a release (`3.12`, `3.14t`), a version (`3.12.1`), or the path of an executable.
        environ: `PATH`, `HOME`, `PYENV_ROOT`, `UV_PYTHON_INSTALL_DIR` are read from it.

    Raises:
        InterpreterNotFoundError: with every location searched and the Pythons there.
    """
    if os.sep in request:
        return _interpreter(Path(request).absolute(), environ)
    searched = []
    for source, path in _candidates(request, environ):
        try:
            interpreter = _interpreter(path, environ)
        except InterpreterNotFoundError as error:
            searched.append(f"{source}: {path}: {error.why}")
            continue
        if request in interpreter.names:
            return interpreter
        searched.append(f"{source}: {path} is {interpreter.names[1]}")
    for source, folder in _stores(environ):
        content = "doesn't exist, or this user can't read it"
        if os.access(folder, os.R_OK | os.X_OK):
            names = sorted(path.parents[1].name for path in folder.glob("*/bin/python"))
            content = f"has {', '.join(names) or 'no Python'}"
        searched.append(f"{source}: {folder} {content}")
    lock = find_python_lock(request, Caller(environ).roots)
    searched.append(f"conda lock: {lock or f'none for {request}'}")
    raise InterpreterNotFoundError(
        f"no Python {request} was found on this machine",
        why="\n".join(["searched", *searched]),
        fix=f"install Python {request} (`uv python install {request}`, pyenv, your system's "
        "packages) or give its path: -- --python /path/to/python",
    )


def _candidates(request: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    plain = ".".join(plain_release(request).split(".")[:2])
    release = plain + request[len(plain_release(request)) :]
    yield "the Python of nox", Path(getattr(sys, "_base_executable", sys.executable))
    yield from (("PATH", path) for path in programs_on_path((f"python{release}",), environ))
    for source, store in _stores(environ):
        if not os.access(store, os.R_OK | os.X_OK):  # of another user: glob raises before 3.13
            continue
        paths = list(store.glob(f"*{plain}*/bin/python{release}"))
        paths.sort(key=lambda path: version_key(path.parents[1].name), reverse=True)
        yield from ((source, path) for path in paths)
    # Of any release: only starting them shows which.
    yield from (("PATH", path) for path in programs_on_path(("python3", "python"), environ))


def read_interpreter(path: Path, environ: Mapping[str, str]) -> Interpreter:
    """Start an interpreter anew, without the cache, and return its description."""
    return _described.__wrapped__(path, tuple(environ.items()))


def programs_on_path(names: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the programs of these names in the order of `PATH`, working or not."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in names:
            path = Path(folder or ".") / name
            if os.access(path, os.X_OK) and path.is_file():
                yield path


def starts(path: str | Path, environ: Mapping[str, str]) -> bool:
    """Return True if an interpreter of any release starts; some shims of pyenv don't."""
    command = [path, "-c", ""]
    try:
        return run(command, env=environ, check=False, timeout=_TIME_LIMIT).status == 0
    except CommandFailedError:
        return False


def _stores(environ: Mapping[str, str]) -> tuple[tuple[str, Path], ...]:
    home = Path(environ.get("HOME") or Path.home())
    shares = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv = Path(environ.get("UV_PYTHON_INSTALL_DIR") or shares / "uv" / "python")
    return (("pyenv", _pyenv_root(environ, home) / "versions"), ("uv", uv))


def _pyenv_root(environ: Mapping[str, str], home: Path) -> Path:
    """Return pyenv's folder; that of a pyenv in another home than `HOME` is known by its shims."""
    if environ.get("PYENV_ROOT"):
        return Path(environ["PYENV_ROOT"])
    folders = map(Path, environ.get("PATH", "").split(os.pathsep))
    roots = (path.parent for path in folders if path.name == "shims")
    return next((root for root in roots if (root / "versions").is_dir()), home / ".pyenv")


def _interpreter(path: Path, environ: Mapping[str, str]) -> Interpreter:
    """Start an interpreter, once for each path, and return its description."""
    if os.path.isdir(path):  # noqa: PTH112 - Path's raises for what this user can't enter
        program = path / "bin" / "python"
        is_there = os.path.exists(program)  # noqa: PTH110 - likewise
        raise InterpreterNotFoundError(
            f"{path} is a folder, not an interpreter",
            why=f"its interpreter is {program}" if is_there else f"there is no {program}",
            fix=f"name {program if is_there else 'one'} with -- --python",
        )
    # pyenv's shims and conda's wrappers need PATH and HOME.
    needed = tuple((key, environ[key]) for key in ("PATH", "HOME") if key in environ)
    return _described(path, needed)


@functools.cache  # the matrix needs it for each of its cells
def _described(path: Path, environ: tuple[tuple[str, str], ...]) -> Interpreter:
    try:
        finished = run([path, "-I", "-c", _DESCRIBE], env=dict(environ), timeout=_TIME_LIMIT)
        answer = parse_json(finished.output.strip().splitlines()[-1], is_own=True)
    except (CommandFailedError, ValueError, IndexError) as error:
        first_lines = error.tail[:1] if isinstance(error, CommandFailedError) else ()
        detail = f": {textwrap.shorten(first_lines[0], _SHOWN)}" if first_lines else ""
        cause = error.why if isinstance(error, CommandFailedError) else "its answer makes no sense"
        raise InterpreterNotFoundError(
            f"{path} is not a working Python",
            why=f"{cause}{detail}",
            fix="choose another one with -- --python",
        ) from error
    if answer["implementation"] != "cpython":
        raise InterpreterNotFoundError(
            f"{path} is not CPython",
            why=f"it is {answer['implementation']}, and the wheels use CPython's C API",
            fix="choose another one with -- --python",
        )
    return Interpreter(
        path=Path(answer["executable"]),
        version=answer["version"],
        abi=answer["abi"],
        prefix=Path(answer["prefix"]),
        include=Path(answer["include"]),
    )
