"""The CUDA toolkits, compilers and build tools of this machine, and which of them a build takes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.cuda.toolkits import TOOLKITS
from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.errors import CommandFailedError
from cuwheel.system.compilers import newest_gcc_for
from cuwheel.system.process import run, which

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_TIME_LIMIT = 5.0  # seconds for a program to tell its version
_RELEASE = re.compile(r"\brelease (\d+\.\d+), V(\d+(?:\.\d+)+)")  # nvcc --version
_NUMBER = re.compile(r"\b\d+(?:\.\d+)+\b")
_HOMES = ("CUDA_HOME", "CUDA_PATH")
_LOCAL = Path("/usr/local")
_DISTRIBUTIONS = Path("/usr/bin/nvcc")
_TOOLS = ("gcc", "g++", "clang", "cmake", "ninja")
_HOST = ("NVCC_CCBIN", "CUDAHOSTCXX")  # what nvcc and CMake take before g++


@dataclass(frozen=True, kw_only=True)
class Nvcc:
    """A CUDA compiler.

    Attributes:
        path: the program.
        found: what leads to it: `PATH`, `CUDA_HOME`, `/usr/local`, in the order of those who ask.
        release: `13.0`; empty where it doesn't tell.
        version: `13.0.88`.
        max_gcc: the newest major version of GCC that it supports; None: not known.
        fault: why it doesn't tell.
    """

    path: Path
    found: tuple[str, ...]
    release: str = ""
    version: str = ""
    max_gcc: int | None = None
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolkitProgram:
    """A compiler or build tool.

    Attributes:
        name: as it was searched for.
        path: the program; None where there is none.
        version: `12.2.0`; empty where it doesn't tell.
        fault: why not.
    """

    name: str
    path: Path | None
    version: str = ""
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class Misnamed:
    """A variable that names no toolkit."""

    variable: str
    value: str
    why: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Installations:
    """What a build finds on this machine.

    Attributes:
        nvccs: the CUDA compilers; the one that a build takes first.
        tools: compilers, CMake, ninja.
        host: what nvcc hands the host's code to.
        misnamed: variables that are set wrongly.
    """

    nvccs: tuple[Nvcc, ...] = ()
    tools: tuple[ToolkitProgram, ...] = ()
    host: ToolkitProgram | None = None
    misnamed: tuple[Misnamed, ...] = ()

    def nvcc_found_by(self, name: str) -> Nvcc | None:
        """The one that a variable or `PATH` leads to."""
        return next((nvcc for nvcc in self.nvccs if name in nvcc.found), None)


def find_installations(environ: Mapping[str, str]) -> Installations:
    """Find them where builds do.

    Args:
        environ: of the caller.
    """
    named: dict[Path, list[str]] = {}
    for source, path in _candidates(environ):
        named.setdefault(path, []).append(source)
    nvccs = [
        TimedCall[Nvcc | None](_TIME_LIMIT + 1, partial(_read_nvcc, path, tuple(found), environ))
        for path, found in named.items()
    ]
    host_name = next((environ[name] for name in _HOST if environ.get(name)), "g++")
    tools = [
        TimedCall(_TIME_LIMIT + 1, partial(_read_tool, name, environ))
        for name in (*_TOOLS, host_name)
    ]
    programs = [question.answer(ToolkitProgram(name="", path=None))[0] for question in tools]
    compilers = [question.answer(None)[0] for question in nvccs]
    return Installations(
        nvccs=tuple(nvcc for nvcc in compilers if nvcc),
        tools=tuple(programs[:-1]),
        host=programs[-1],
        misnamed=tuple(_misnamed(environ)),
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Who leads to which nvcc, in the order in which PyTorch and CMake ask."""
    if environ.get("CUDACXX"):
        yield from _existing("CUDACXX", Path(environ["CUDACXX"]))
    for name in _HOMES:
        if environ.get(name):
            yield from _existing(name, Path(environ[name], "bin", "nvcc"))
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        yield from _existing("PATH", Path(folder or ".", "nvcc"))
    if environ.get("CONDA_PREFIX"):
        yield from _existing("conda", Path(environ["CONDA_PREFIX"], "bin", "nvcc"))
    for home in sorted(_LOCAL.glob("cuda*")):
        yield from _existing(str(home), home / "bin" / "nvcc")
    yield from _existing("the distribution", _DISTRIBUTIONS)


def _existing(source: str, path: Path) -> Iterator[tuple[str, Path]]:
    if os.access(path, os.X_OK) and path.is_file():
        yield source, path.resolve()


def _read_nvcc(path: Path, found: tuple[str, ...], environ: Mapping[str, str]) -> Nvcc:
    said, fault = _output_of([path, "--version"], environ)
    match = _RELEASE.search(said)
    if not match:
        return Nvcc(path=path, found=found, fault=fault or "it doesn't state its release")
    release, version = match.groups()
    known = next((one.max_gcc for one in TOOLKITS if one.release == release), None)
    return Nvcc(
        path=path,
        found=found,
        release=release,
        version=version,
        max_gcc=newest_gcc_for(path.parent.parent) or known,
    )


def _read_tool(name: str, environ: Mapping[str, str]) -> ToolkitProgram:
    path = which(name, environ.get("PATH", os.defpath))
    if path is None:
        return ToolkitProgram(name=name, path=None)
    said, fault = _output_of([path, "--version"], environ)
    if "g++" in name or "gcc" in name:  # a distribution's banner may hold other numbers
        said, fault = _output_of([path, "-dumpfullversion", "-dumpversion"], environ)
    match = _NUMBER.search(said)
    return ToolkitProgram(
        name=name,
        path=Path(path),
        version=match[0] if match else "",
        fault="" if match else fault or "it doesn't print its version",
    )


def _output_of(command: list[str | Path], environ: Mapping[str, str]) -> tuple[str, str]:
    """What a program says, and why it doesn't."""
    env = {**environ, "LC_ALL": "C"}
    try:
        done = run(command, env=env, timeout=_TIME_LIMIT, check=False)
    except CommandFailedError as error:
        return "", error.why
    if done.status == -9:  # noqa: PLR2004 - SIGKILL, by `process.run`
        return "", f"no answer within {_TIME_LIMIT:.0f} s"
    return done.output, f"it ended with status {done.status}" if done.status else ""


def _misnamed(environ: Mapping[str, str]) -> Iterator[Misnamed]:
    for name in _HOMES:
        value = environ.get(name, "")
        if value and (found := _fault_of_home(value)):
            why, better = found
            fix = (
                f"export {name}={better}" if better else f"unset {name}, or name a toolkit's folder"
            )
            yield Misnamed(variable=name, value=value, why=why, fix=fix)


def _fault_of_home(value: str) -> tuple[str, str] | None:
    """What is wrong with a folder that should be a toolkit's, and the right one if it is near."""
    bare = value.strip("\"' ")
    if bare != value:
        return "its value contains quotes or spaces", bare
    if ":" in value:
        return "it is a list, and has to be one folder", next(
            filter(_is_home, value.split(":")), ""
        )
    home = Path(value)
    if home.name in {"bin", "nvcc"} and not _is_home(value):
        above = home.parent if home.name == "bin" else home.parent.parent
        return "it has to be the folder that contains bin", str(above) if _is_home(
            str(above)
        ) else ""
    if not home.is_dir():
        return "there is no such folder", ""
    return None


def _is_home(folder: str) -> bool:
    return Path(folder, "bin", "nvcc").exists()
