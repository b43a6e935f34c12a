"""CUDA toolkits, compilers and build tools, in the order in which builds look, and verdicts."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cuwheel.base.system.compilers import newest_gcc_for
from cuwheel.base.system.process import output_within, which
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.installed_toolkits import (
    TIME_LIMIT,
    InstalledToolkit,
    header_release,
    message_in,
    read_toolkit,
)
from cuwheel.check.cuda.toolkit_search import HOMES, merge_toolkits, toolkit_candidates
from cuwheel.check.cuda.toolkits import TOOLKITS
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.machine import HostFacts
from cuwheel.check.diagnose.facts.probe import TimedCall
from cuwheel.check.diagnose.facts.variables import VariableChange, find_culprit, without_entry
from cuwheel.check.diagnose.verdict import Diagnosis, broken, not_examined, notes, warns, works

_INCLUDES = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")  # of GCC and Clang
_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
_ENDED = "it ended"  # of a program that has started and failed
_MALFORMED = re.compile(r"[\s:;'\"]")
_RUNS = 3  # of nvcc, to read one toolkit
_NUMBER = re.compile(r"\b\d+(?:\.\d+)+\b")
_ROOT = Path("/")
_FOR_CLANG = Path("usr", "lib", "cuda")
_TOOLS = ("gcc", "g++", "clang", "cmake", "ninja")
_HOSTS = ("gcc", "g++")  # that nvcc, Triton and builds start by these names
_OLDEST_GCC = 9
_HOST = ("NVCC_CCBIN", "CUDAHOSTCXX")  # what nvcc and CMake take before g++


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
class FailedTrial:
    """A compilation that nvcc doesn't start, or whose headers it can't read.

    Attributes:
        fault: its message.
        change: the change of a variable with which it works; None: there is none.
    """

    fault: str
    change: VariableChange | None = None


@dataclass(frozen=True, kw_only=True)
class Misnamed:
    """A variable that names no toolkit."""

    variable: str
    value: str
    why: str
    fix: str
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Installations:
    """What a build finds on this machine.

    Attributes:
        toolkits: of CUDA; the one that a build takes first.
        tools: compilers, CMake, ninja.
        host: what nvcc hands the host's code to.
        trial: nvcc's refusal to plan a compilation with the variables that are set; None: it
            doesn't refuse.
        misnamed: variables that are set wrongly.
    """

    toolkits: tuple[InstalledToolkit, ...] = ()
    tools: tuple[ToolkitProgram, ...] = ()
    host: ToolkitProgram | None = None
    trial: FailedTrial | None = None
    misnamed: tuple[Misnamed, ...] = ()


def find_installations(environ: Mapping[str, str], root: Path | None = None) -> Installations:
    """Find toolkits and tools in the places where builds look.

    Args:
        root: the machine's root folder.
    """
    toolkits = [
        TimedCall(TIME_LIMIT * _RUNS + 1, partial(read_toolkit, place, environ))
        for place in toolkit_candidates(environ, root or _ROOT)
    ]
    host_name = next((environ[name] for name in _HOST if environ.get(name)), "g++")
    tools = [
        TimedCall(TIME_LIMIT + 1, partial(_read_tool, name, environ))
        for name in (*_TOOLS, host_name)
    ]
    programs = [call.answer(ToolkitProgram(name="", path=None))[0] for call in tools]
    found = merge_toolkits(call.answer(None)[0] for call in toolkits)
    usable = next((each for each in found if each.version and each.path), None)
    is_here = (root or _ROOT) == Path("/")  # else scripts lead to the machine's own compilers
    program = (usable.path if is_here else usable.nvcc) if usable else None
    return Installations(
        toolkits=found,
        trial=_try(program, environ) if program else None,
        tools=tuple(programs[:-1]),
        host=programs[-1],
        misnamed=tuple(_misnamed(environ, root or _ROOT)),
    )


def _try(nvcc: Path, environ: Mapping[str, str]) -> FailedTrial | None:
    """Let nvcc plan a compilation, for which it starts its host compiler.

    Where variables choose flags or headers it reads all headers too, which takes longer.
    """
    is_changed = any(environ.get(name) for name in (*_FLAGS, *_INCLUDES))
    command = [str(nvcc), "-E" if is_changed else "--dryrun", "-x", "cu", os.devnull]
    output, fault = output_within(command, TIME_LIMIT, environ)
    if not fault.startswith(_ENDED):
        return None
    change = find_culprit(partial(_runs, command), environ)
    return FailedTrial(fault=message_in(output) or fault, change=change)


def _read_tool(name: str, environ: Mapping[str, str]) -> ToolkitProgram:
    path = which(name, environ.get("PATH", os.defpath))
    if path is None:
        return ToolkitProgram(name=name, path=None)
    is_gcc = "g++" in name or "gcc" in name  # a distribution's banner may hold other numbers
    options = ("-dumpfullversion", "-dumpversion") if is_gcc else ("--version",)
    command = [path, *options]
    output, fault = output_within(command, TIME_LIMIT, environ)
    match = _NUMBER.search(output)
    if fault.startswith(_ENDED) and (message := message_in(output)):
        fault += f": {message}"
    if fault and (change := find_culprit(partial(_runs, command), environ)):
        fault += f"; without {change.text} it runs"
    return ToolkitProgram(
        name=name,
        path=Path(path),
        version=match[0] if match else "",
        fault="" if match else fault or "it doesn't print its version",
    )


def _runs(command: list[str], environ: Mapping[str, str]) -> bool:
    return not output_within(command, TIME_LIMIT, environ)[1]


def _misnamed(environ: Mapping[str, str], root: Path) -> Iterator[Misnamed]:
    for name in HOMES:
        value = environ.get(name, "")
        is_inside = Path(value).name in {"bin", "nvcc"} and not Path(value, "bin", "nvcc").exists()
        if value and (is_inside or not Path(value).is_dir()):
            why = "it has to be one folder, which contains bin, without quotes or spaces"
            if not is_inside and not _MALFORMED.search(value):
                why = "there is no such folder"
            fix = f"set {name} to the folder of a toolkit, or unset it"
            command = f"unset {name}"
            yield Misnamed(variable=name, value=value, why=why, fix=fix, command=command)
        elif value and Path(value) == root / _FOR_CLANG and not Path(value, "bin", "nvcc").exists():
            why = "it has no bin/nvcc; the distribution's nvidia-cuda-toolkit makes it for Clang"
            yield Misnamed(variable=name, value=value, why=why, fix=f"set {name}={root / 'usr'}")


def judge_installations(
    installations: Installations,
    torch: FrameworkFacts | None,
    environ: Mapping[str, str],
    *,
    has_triton: bool,
) -> Iterator[Diagnosis]:
    """Judge toolkits and compilers.

    Args:
        environ: has the folders of headers that all compilers search.
    """
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
            setting.command,
        )
    first = next((toolkit for toolkit in installations.toolkits if toolkit.path), None)
    failing = first if first and first.fault.startswith(_ENDED) else None
    if failing:
        path = failing.path or failing.home
        yield _judge_failing(path, failing.fault, environ, _variable_of(failing))
    nvccs = (nvcc for nvcc in installations.toolkits if nvcc is not failing)
    faults = [(nvcc.path, nvcc.fault) for nvcc in nvccs]
    for tool in installations.tools:
        if tool.path and tool.fault.startswith(_ENDED) and tool.name in _HOSTS:
            yield _judge_failing(tool.path, tool.fault, environ)
        elif tool.path:
            faults.append((tool.path, tool.fault))
    yield from (not_examined(str(path), fault) for path, fault in faults if fault)
    usable = [toolkit for toolkit in installations.toolkits if toolkit.version]
    if not usable:
        return
    problems = [
        *_refusal(installations, usable[0]),
        *_disagreement(installations),
        *_link_fault(usable[0]),
        *_incompleteness(usable[0]),
        *_foreign_headers(usable[0], installations, environ),
        *_host_fault(installations.host, usable[0], environ.get("PATH", os.defpath)),
        *_torch_fault(usable[0], torch),
    ]
    yield from problems
    named = environ.get("CUDACXX", "")
    is_misled = bool(named) and not which(named, environ.get("PATH", os.defpath))
    has_bad_host = any(
        tool.name in _HOSTS and tool.path and tool.fault for tool in installations.tools
    )
    if not (problems or failing or is_misled or has_bad_host):
        yield works(f"builds use nvcc {usable[0].version}, {usable[0].path}")


def judge_python_headers(environment: PythonEnvironment) -> Iterator[Diagnosis]:
    """Judge what the C file that Triton compiles includes."""
    folder = environment.scheme.get("include")
    if folder and not (folder / "Python.h").exists():
        yield warns(
            "triton-no-c-compiler",
            f"Triton finds no headers of Python {environment.release}",
            f"Python.h isn't in {folder}; the C file that launches a kernel includes it",
            f"apt-get install python{environment.release}-dev, or take a Python with its headers",
        )


def judge_extension_building(
    installations: Installations, host: HostFacts | None, *, has_ninja: bool
) -> Iterator[Diagnosis]:
    """Judge what `torch.utils.cpp_extension` and compiled kernels need of the machine."""
    ninja = next((tool for tool in installations.tools if tool.name == "ninja"), None)
    if ninja and not ninja.path and not has_ninja:
        yield notes(
            "ninja-missing",
            "PyTorch's extensions can't be compiled when they are used: ninja isn't installed",
            "`torch.utils.cpp_extension.load` needs it, and other builds are slower without",
            "if something compiles extensions: `pip install ninja`",
        )
    if host and host.noexec:
        yield notes(
            "permission-denied",
            f"no program can run from {host.noexec}",
            "it is mounted noexec; compiled kernels and extensions are loaded from the folder for "
            "temporary files",
            "set TMPDIR to another folder, or mount it without noexec",
        )


def _judge_failing(
    path: Path, fault: str, environ: Mapping[str, str], variable: str = ""
) -> Diagnosis:
    """Judge a compiler that comes first and doesn't run, so that builds fail with it.

    Args:
        variable: that names it; empty: PATH leads to it.
    """
    change = without_entry(environ, "PATH", str(path.parent))
    fix, command = f"install {path} again, or remove it", ""
    if variable:
        fix, command = f"unset {variable}, or set it to a toolkit that works", f"unset {variable}"
    elif change and which(path.name, change.rest):
        fix, command = f"{change.advice}, or install it again", change.command
    return broken(
        "diagnose-incomplete-toolkit",
        f"{path}, which builds take first, doesn't run",
        fault,
        fix,
        command,
    )


def _refusal(installations: Installations, nvcc: InstalledToolkit) -> Iterator[Diagnosis]:
    """Judge a compilation that nvcc doesn't start; without any g++ none is expected."""
    trial, host = installations.trial, installations.host
    if trial and trial.change:
        yield broken(
            "diagnose-variable",
            f"nvcc can't compile with {trial.change.text}",
            f"{trial.fault}; without it, {nvcc.path} compiles",
            trial.change.advice,
            trial.change.command,
        )
    elif trial and not nvcc.lacks and host and host.version:
        yield warns(
            "diagnose-incomplete-toolkit",
            f"{nvcc.path} can't compile",
            trial.fault,
            "install the host compiler, or the rest of the toolkit, that the message names",
        )


def _disagreement(installations: Installations) -> Iterator[Diagnosis]:
    """Judge CUDA_HOME and PATH, which PyTorch and CMake read in another order."""
    compilers = [each for each in installations.toolkits if each.version]
    on_path = next((each for each in compilers if "PATH" in each.found), None)
    named = next((each for each in compilers if _variable_of(each)), None)
    if on_path is None:
        return
    owner = ", the distribution's" if on_path.kind == "debian" else ""
    if named and named.release != on_path.release:
        yield warns(
            "wrong-nvcc-picked",
            f"{_variable_of(named)} and PATH point to two releases of CUDA",
            f"{named.path} is {named.release}, {on_path.path} is {on_path.release}{owner}; some "
            "builds use one, some the other",
            f"put {named.home / 'bin'} first on PATH, or set {_variable_of(named)} to "
            + (f"{on_path.path}" if _variable_of(named) == "CUDACXX" else f"{on_path.home}"),
        )
    elif on_path.kind == "debian" and not named:
        others = [each for each in compilers if each.release != on_path.release]
        newest = max(others, key=lambda each: version_key(each.release), default=None)
        if newest:
            yield warns(
                "wrong-nvcc-picked",
                f"the distribution's nvcc {on_path.release} hides CUDA {newest.release}",
                f"{on_path.path} is first on PATH, {newest.path} is {newest.release}",
                f"put {newest.home / 'bin'} first on PATH and set CUDA_HOME={newest.home}; for "
                f"builds with {on_path.release}, set CUDA_HOME={on_path.home}",
            )


def _variable_of(toolkit: InstalledToolkit) -> str:
    variables = (name for name in toolkit.found if name in {"CUDACXX", *HOMES})
    return next(variables, "")


def _link_fault(nvcc: InstalledToolkit) -> Iterator[Diagnosis]:
    """Judge a link such as /usr/local/bin/nvcc: nvcc searches its settings next to the link."""
    path, real = nvcc.path, nvcc.nvcc
    is_link = path is not None and path.is_symlink() and path.resolve() == real
    if path and real and is_link and not (path.parent / "nvcc.profile").exists():
        yield warns(
            "diagnose-incomplete-toolkit",
            f"{path} is a link by which nvcc doesn't find its headers",
            f"nvcc reads nvcc.profile from the link's folder, which has none, not from "
            f"{real.parent}",
            f"remove {path} and put {real.parent} first on PATH",
        )


def _incompleteness(nvcc: InstalledToolkit) -> Iterator[Diagnosis]:
    if nvcc.lacks:
        yield warns(
            "diagnose-incomplete-toolkit",
            f"the toolkit of {nvcc.path} has no {' and no '.join(nvcc.lacks)}",
            "it can't compile and link a CUDA program",
            "apt-get install nvidia-cuda-dev"
            if nvcc.kind == "debian"
            else "install the rest of it, or set CUDA_HOME to a complete toolkit",
        )


def _foreign_headers(
    nvcc: InstalledToolkit, installations: Installations, environ: Mapping[str, str]
) -> Iterator[Diagnosis]:
    """Judge headers of another release that compilers find before those of nvcc, or after."""
    if nvcc.header_release not in {"", nvcc.release}:
        yield warns(
            "conflicting-cuda-installs",
            f"nvcc is of CUDA {nvcc.release}, its headers of {nvcc.header_release}",
            f"{nvcc.path} compiles with {nvcc.headers}",
            "set CUDA_HOME to a toolkit with headers of its own, or reinstall this one",
        )
    for name in _INCLUDES:
        for folder in filter(None, environ.get(name, "").split(os.pathsep)):
            release = header_release(Path(folder))
            if release not in {"", nvcc.release}:
                yield warns(
                    "conflicting-cuda-installs",
                    f"{name} has headers of CUDA {release}, and nvcc is of {nvcc.release}",
                    f"{folder} is searched before /usr/include; {nvcc.path} is used",
                    f"remove {folder} from {name}",
                )
    kept = (each for each in installations.toolkits if each.kind == "debian" and each.headers)
    other = next((each for each in kept if each is not nvcc), None)
    if other and nvcc.kind != "debian" and other.header_release not in {"", nvcc.release}:
        yield notes(
            "conflicting-cuda-installs",
            f"{other.headers} has headers of CUDA {other.header_release}, and nvcc is of "
            f"{nvcc.release}",
            "a C++ compiler takes them where a build gives it no -I of the toolkit",
            "apt-get remove nvidia-cuda-dev, if nothing else needs it",
        )


def _host_fault(
    host: ToolkitProgram | None, nvcc: InstalledToolkit, path: str
) -> Iterator[Diagnosis]:
    known = next((each.max_gcc for each in TOOLKITS if each.release == nvcc.release), None)
    newest = (newest_gcc_for(nvcc.headers.parent) if nvcc.headers else None) or known
    if host is None or not host.version or newest is None or "clang" in host.name:
        return
    if nvcc.kind == "debian" and host.name == "g++":
        return  # its nvcc runs a g++ of its own, which is one that it supports
    if int(host.version.split(".")[0]) > newest:
        yield warns(
            "host-compiler-too-new",
            f"nvcc {nvcc.release} doesn't support {host.name} {host.version}",
            f"{nvcc.path} supports GCC up to {newest}; {host.path} is the compiler "
            "that it would call",
            *_older_host(newest, path),
        )


def _older_host(newest: int, path: str) -> tuple[str, str]:
    """Return fix and command that make nvcc call an older g++, an installed one if there is."""
    names = (f"g++-{major}" for major in range(newest, _OLDEST_GCC - 1, -1))
    installed = next(filter(None, (which(name, path) for name in names)), None)
    words = f"set NVCC_CCBIN to a g++ up to {newest}"
    if installed:
        return f"{words}, or use a newer toolkit", f"export NVCC_CCBIN={shlex.quote(installed)}"
    return f"install one (the newest that the system offers) and {words}, or a newer toolkit", ""


def _torch_fault(nvcc: InstalledToolkit, torch: FrameworkFacts | None) -> Iterator[Diagnosis]:
    """Judge the CUDA of torch: `torch.utils.cpp_extension` refuses another major release."""
    if torch and torch.cuda and torch.major != nvcc.release.split(".")[0]:
        yield warns(
            "torch-cuda-mismatch",
            f"extensions for this torch can't be compiled with nvcc {nvcc.release}",
            f"torch {torch.version} was built with CUDA {torch.cuda}, and builds here use "
            f"{nvcc.path}",
            f"set CUDA_HOME to a toolkit of CUDA {torch.cuda} for such a build",
        )
