"""Find the Python that a wheel is for, or say where it was searched for."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.errors import CommandFailedError, InterpreterNotFoundError
from cuwheel.paths import find_python_lock
from cuwheel.system.process import run
from cuwheel.system.versions import plain_release, version_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_SHOWN = 100  # characters of a program's answer that a message shows
_TIME_LIMIT = 20.0  # seconds for an interpreter to say who it is
_QUESTION = (
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
        prefix: where it is installed.
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
        """What `--python` may call it, `3.14t` and `3.14.0t`: it isn't the one without `t`."""
        return self.release, self.version + self._kind

    @property
    def _kind(self) -> str:
        """`t` for a build without the global lock, as its ABI says (PEP 703)."""
        return "t" if re.match(r"cpython-\d+t-", self.abi) else ""

    @property
    def is_of_system(self) -> bool:
        """Whether its headers and libraries are among the system's own.

        Such a Python can be compiled against with the system's C library only: its headers include
        others by names that a compiler with another one doesn't find, and its build settings lead
        the linker to the system's libraries.
        """
        usr = Path("/usr")
        return self.include.is_relative_to(usr) and not self.include.is_relative_to(usr / "local")


def own_python() -> Interpreter:
    """The Python that runs nox: the one that the engine's environment was made from."""
    return _ask(Path(getattr(sys, "_base_executable", sys.executable)))


def find_python(asked: str, environ: Mapping[str, str]) -> Interpreter:
    """Find an interpreter.

    Args:
        asked: a release (`3.12`, `3.14t`), a version (`3.12.1`), or the path of an executable.
        environ: where `PATH`, `HOME`, `PYENV_ROOT`, `UV_PYTHON_INSTALL_DIR` are read from.

    Raises:
        InterpreterNotFoundError: with every location searched and what was found there.
    """
    if os.sep in asked:
        return _ask(Path(asked).absolute())
    searched = []
    for source, path in _candidates(asked, environ):
        try:
            found = _ask(path)
        except InterpreterNotFoundError as error:
            searched.append(f"{source}: {path}: {error.why}")
            continue
        if asked in found.names:
            return found
        searched.append(f"{source}: {path} is {found.names[1]}")
    searched += [_describe_store(source, folder) for source, folder in _stores(environ)]
    searched.append(f"conda lock: {find_python_lock(asked) or f'none for {asked}'}")
    raise InterpreterNotFoundError(
        f"no Python {asked} was found on this machine",
        why="\n".join(["searched", *searched]),
        fix=f"install Python {asked} (`uv python install {asked}`, pyenv, your system's packages) "
        "or give its path: -- --python /path/to/python",
    )


def _candidates(asked: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    plain = ".".join(plain_release(asked).split(".")[:2])
    release = plain + asked[len(plain_release(asked)) :]
    yield "the Python of nox", Path(getattr(sys, "_base_executable", sys.executable))
    yield from _on_path((f"python{release}",), environ)
    for source, store in _stores(environ):
        found = list(store.glob(f"*{plain}*/bin/python{release}"))
        found.sort(key=lambda path: version_key(path.parents[1].name), reverse=True)
        yield from ((source, path) for path in found)
    # Of whichever release they are: each has to be started to know.
    yield from _on_path(("python3", "python"), environ)


def _on_path(names: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in names:
            path = Path(folder or ".") / name
            if os.access(path, os.X_OK):
                yield "PATH", path


def _stores(environ: Mapping[str, str]) -> tuple[tuple[str, Path], ...]:
    """The folders in which pyenv and uv keep one Python in each subfolder."""
    home = Path(environ.get("HOME") or Path.home())
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    shares = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    uv = Path(environ.get("UV_PYTHON_INSTALL_DIR") or shares / "uv" / "python")
    return (("pyenv", pyenv), ("uv", uv))


def _describe_store(source: str, folder: Path) -> str:
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"{source}: {folder} doesn't exist, or this user can't read it"
    names = sorted(path.parents[1].name for path in folder.glob("*/bin/python"))
    return f"{source}: {folder} has {', '.join(names) or 'no Python'}"


def _ask(path: Path) -> Interpreter:
    """Let an interpreter say who it is.

    Raises:
        InterpreterNotFoundError: it doesn't run, or isn't CPython.
    """
    # pyenv's shims and conda's wrappers need to find themselves.
    given = tuple((key, os.environ[key]) for key in ("PATH", "HOME") if key in os.environ)
    return _answer_of(path, given)


@functools.cache  # the matrix asks for each of its cells
def _answer_of(path: Path, environ: tuple[tuple[str, str], ...]) -> Interpreter:
    try:
        done = run([path, "-I", "-c", _QUESTION], env=dict(environ), timeout=_TIME_LIMIT)
        answer = json.loads(done.output.strip().splitlines()[-1])
    except (CommandFailedError, ValueError, IndexError) as error:
        words = error.tail[:1] if isinstance(error, CommandFailedError) else ()
        said = f": {textwrap.shorten(words[0], _SHOWN)}" if words else ""
        cause = error.why if isinstance(error, CommandFailedError) else "its answer makes no sense"
        raise InterpreterNotFoundError(
            f"{path} is not a working Python",
            why=f"{cause}{said}",
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
