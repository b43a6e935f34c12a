"""CUDA toolkits, compilers and build tools, in the order in which builds look, and verdicts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cuwheel.base.errors import CommandFailedError
from cuwheel.base.system.compilers import newest_gcc_for
from cuwheel.base.system.process import run, which
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.toolkits import TOOLKITS
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.probe import TimedCall, describe_end
from cuwheel.check.diagnose.verdict import Diagnosis, broken, not_examined, warns, works

_TIME_LIMIT = 5.0  # seconds for a program to print its version
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


def find_installations(environ: Mapping[str, str]) -> Installations:
    """Find toolkits and tools in the places where builds look."""
    sources: dict[Path, list[str]] = {}
    for source, path in _candidates(environ):
        if os.access(path, os.X_OK) and path.is_file():
            sources.setdefault(path.resolve(), []).append(source)
    nvccs = [
        TimedCall(_TIME_LIMIT + 1, partial(_read_nvcc, path, tuple(names), environ))
        for path, names in sources.items()
    ]
    host_name = next((environ[name] for name in _HOST if environ.get(name)), "g++")
    tools = [
        TimedCall(_TIME_LIMIT + 1, partial(_read_tool, name, environ))
        for name in (*_TOOLS, host_name)
    ]
    programs = [call.answer(ToolkitProgram(name="", path=None))[0] for call in tools]
    compilers = [call.answer(None)[0] for call in nvccs]
    return Installations(
        nvccs=tuple(filter(None, compilers)),
        tools=tuple(programs[:-1]),
        host=programs[-1],
        misnamed=tuple(_misnamed(environ)),
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield where an nvcc may be, in the order in which PyTorch and CMake look, with the reason."""
    if environ.get("CUDACXX"):
        yield "CUDACXX", Path(environ["CUDACXX"])
    for name in _HOMES:
        if environ.get(name):
            yield name, Path(environ[name], "bin", "nvcc")
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        yield "PATH", Path(folder or ".", "nvcc")
    if environ.get("CONDA_PREFIX"):
        yield "conda", Path(environ["CONDA_PREFIX"], "bin", "nvcc")
    for home in sorted(_LOCAL.glob("cuda*")):
        yield str(home), home / "bin" / "nvcc"
    yield "the distribution", _DISTRIBUTIONS


def _read_nvcc(path: Path, sources: tuple[str, ...], environ: Mapping[str, str]) -> Nvcc:
    output, fault = _output_of([path, "--version"], environ)
    match = _RELEASE.search(output)
    if not match:
        return Nvcc(path=path, found=sources, fault=fault or "it doesn't state its release")
    release, version = match.groups()
    known = next((toolkit.max_gcc for toolkit in TOOLKITS if toolkit.release == release), None)
    return Nvcc(
        path=path,
        found=sources,
        release=release,
        version=version,
        max_gcc=newest_gcc_for(path.parent.parent) or known,
    )


def _read_tool(name: str, environ: Mapping[str, str]) -> ToolkitProgram:
    path = which(name, environ.get("PATH", os.defpath))
    if path is None:
        return ToolkitProgram(name=name, path=None)
    is_gcc = "g++" in name or "gcc" in name  # a distribution's banner may hold other numbers
    options = ("-dumpfullversion", "-dumpversion") if is_gcc else ("--version",)
    output, fault = _output_of([path, *options], environ)
    match = _NUMBER.search(output)
    return ToolkitProgram(
        name=name,
        path=Path(path),
        version=match[0] if match else "",
        fault="" if match else fault or "it doesn't print its version",
    )


def _output_of(command: list[str | Path], environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the output of a program, and why it failed; empty if it didn't."""
    env = {**environ, "LC_ALL": "C"}
    try:
        done = run(command, env=env, timeout=_TIME_LIMIT, check=False)
    except CommandFailedError as error:
        return "", error.why
    return done.output, describe_end(done.status, _TIME_LIMIT) if done.status else ""


def _misnamed(environ: Mapping[str, str]) -> Iterator[Misnamed]:
    for name in _HOMES:
        value = environ.get(name, "")
        is_inside = Path(value).name in {"bin", "nvcc"} and not Path(value, "bin", "nvcc").exists()
        if value and (is_inside or not Path(value).is_dir()):
            why = "it has to be one folder, which contains bin, without quotes or spaces"
            fix = f"set {name} to the folder of a toolkit, or unset it"
            yield Misnamed(variable=name, value=value, why=why, fix=fix)


def judge_installations(
    installations: Installations, torch: FrameworkFacts | None, *, has_triton: bool
) -> Iterator[Diagnosis]:
    """Judge toolkits and compilers."""
    compilers = (tool for tool in installations.tools if tool.name in {"gcc", "clang"})
    if has_triton and not any(tool.path for tool in compilers):
        yield warns(
            "triton-no-c-compiler",
            "Triton finds no C compiler",
            "it compiles a small C file when a kernel is first used (torch.compile too)",
            "apt-get install gcc, or set CC",
        )
    for setting in installations.misnamed:
        yield broken(
            "malformed-cuda-home",
            f"{setting.variable} is not the folder of a CUDA toolkit",
            f'it is "{setting.value}": {setting.why}',
            setting.fix,
        )
    faults = [(nvcc.path, nvcc.fault) for nvcc in installations.nvccs]
    faults += [(tool.path, tool.fault) for tool in installations.tools if tool.path]
    yield from (not_examined(str(path), fault) for path, fault in faults if fault)
    usable = [nvcc for nvcc in installations.nvccs if nvcc.release]
    if not usable:
        return
    problems = [
        *_disagreement(installations),
        *_host_fault(installations.host, usable[0]),
        *_torch_fault(usable[0], torch),
    ]
    yield from problems
    if not problems:
        yield works(f"builds use nvcc {usable[0].version}, {usable[0].path}")


def _disagreement(installations: Installations) -> Iterator[Diagnosis]:
    """Judge CUDA_HOME and PATH, which PyTorch and CMake read in another order."""
    on_path = next((nvcc for nvcc in installations.nvccs if "PATH" in nvcc.found), None)
    if not on_path or not on_path.release:
        return
    named = next((nvcc for nvcc in installations.nvccs if _variable_of(nvcc)), None)
    if named and named.release not in ("", on_path.release):
        yield warns(
            "wrong-nvcc-picked",
            f"{_variable_of(named)} and PATH point to two releases of CUDA",
            f"{named.path} is {named.release}, {on_path.path} is {on_path.release}; some builds "
            "use one, some the other",
            f"put {named.path.parent} first on PATH, or change {_variable_of(named)}",
        )
    elif "the distribution" in on_path.found and not named:
        known = (nvcc for nvcc in installations.nvccs if nvcc.release)
        newest = version_key(on_path.release)
        newer = [nvcc for nvcc in known if version_key(nvcc.release) > newest]
        if newer:
            yield warns(
                "wrong-nvcc-picked",
                f"the distribution's nvcc {on_path.release} hides a newer one",
                f"{on_path.path} is first on PATH, {newer[0].path} is {newer[0].release}",
                f"put {newer[0].path.parent} first on PATH and set CUDA_HOME to its parent folder",
            )


def _variable_of(nvcc: Nvcc) -> str:
    variables = (name for name in nvcc.found if name in {"CUDACXX", "CUDA_HOME", "CUDA_PATH"})
    return next(variables, "")


def _host_fault(host: ToolkitProgram | None, nvcc: Nvcc) -> Iterator[Diagnosis]:
    if host is None or not host.version or nvcc.max_gcc is None or "clang" in host.name:
        return
    if int(host.version.split(".")[0]) > nvcc.max_gcc:
        yield warns(
            "host-compiler-too-new",
            f"nvcc {nvcc.release} doesn't support {host.name} {host.version}",
            f"{nvcc.path} supports GCC up to {nvcc.max_gcc}; {host.path} is the compiler "
            "that it would call",
            f"apt-get install g++-{nvcc.max_gcc} and set NVCC_CCBIN=g++-{nvcc.max_gcc}, or use "
            "a newer toolkit",
        )


def _torch_fault(nvcc: Nvcc, torch: FrameworkFacts | None) -> Iterator[Diagnosis]:
    """Judge the CUDA of torch: `torch.utils.cpp_extension` refuses another major release."""
    if torch and torch.cuda and torch.major != nvcc.release.split(".")[0]:
        yield warns(
            "torch-cuda-mismatch",
            f"extensions for this torch can't be compiled with nvcc {nvcc.release}",
            f"torch {torch.version} was built with CUDA {torch.cuda}, and builds here use "
            f"{nvcc.path}",
            f"set CUDA_HOME to a toolkit of CUDA {torch.cuda} for such a build",
        )
