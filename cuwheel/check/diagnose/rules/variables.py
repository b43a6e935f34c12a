"""Verdicts on variables of the loader, and on settings that switch GPUs off."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cuwheel.base.system.process import which
from cuwheel.base.system.regular_files import read_text
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from cuwheel.check.diagnose.facts.imports import OF_FRAMEWORK
from cuwheel.check.diagnose.facts.startup import removal_of, startup_file_with
from cuwheel.check.diagnose.facts.variables import VariableChange, entries_of, without_entry
from cuwheel.check.diagnose.verdict import Diagnosis, broken, notes, warns


def judge_start(change: VariableChange) -> Diagnosis:
    """Judge a variable with which no program runs."""
    return broken(
        "diagnose-variable",
        f"no program runs with {change.text}",
        "`true` fails with it, and succeeds without; all else is examined without",
        change.advice,
        change.command,
    )


class _Switch(NamedTuple):
    """A setting that switches GPUs off.

    Attributes:
        value: the pattern of its value.
        reader: the project that reads it; empty: NVIDIA's driver, for all programs.
        simulates: code for GPUs runs nevertheless, in a simulator, also on a machine with a GPU.
    """

    name: str
    value: str
    reader: str
    simulates: bool = False


_OFF = (
    _Switch("CUDA_VISIBLE_DEVICES", r"\s*(-1|none)?\s*(,.*)?", ""),
    _Switch("JAX_PLATFORMS", r"(?!.*(cuda|gpu)).+", "jax"),
    _Switch("JAX_PLATFORM_NAME", r"cpu", "jax"),
    _Switch("NUMBA_DISABLE_CUDA", r"[1-9]\d*", "numba"),
    _Switch("NUMBA_ENABLE_CUDASIM", r"[1-9]\d*", "numba", simulates=True),
    _Switch("TRITON_INTERPRET", r"1|true|on|yes|y", "triton", simulates=True),
)


class _SettingsFile(NamedTuple):
    """A file of the working folder whose lines `key: value` count as variables.

    Attributes:
        prefix: of the variables' names.
        needs: the project without which it isn't read.
    """

    name: str
    prefix: str
    needs: str


# Variables with a compiler, first word of a command, and what runs it.
_COMPILERS = {
    "CC": "Triton, torch.compile and builds",
    "CXX": "torch.compile and builds of C++",
    "CUDACXX": "builds by CMake",
    "CUDAHOSTCXX": "nvcc, in builds by CMake,",
    "NVCC_CCBIN": "nvcc",
    "NVCC": "CuPy and builds",
    "PYTORCH_NVCC": "torch.utils.cpp_extension",
}
# By variable: who reads it, and of its values the projects of which one has to be installed.
_BACKENDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "KERAS_BACKEND": (
        "keras",
        {
            "jax": ("jax",),
            "openvino": ("openvino",),
            "tensorflow": OF_FRAMEWORK["tensorflow"],
            "torch": ("torch",),
        },
    ),
    "DGLBACKEND": ("dgl", {"pytorch": ("torch",), "mxnet": ("mxnet",)}),
    "GEOMSTATS_BACKEND": ("geomstats", {"pytorch": ("torch",), "autograd": ("autograd",)}),
}
_DRIVER = "NUMBA_CUDA_DRIVER"
_ARCHS = "TORCH_CUDA_ARCH_LIST"
# As `_get_cuda_arch_flags` of torch.utils.cpp_extension reads a part: `9.0a`, `8.6+PTX`, `Ampere`.
_ARCH = re.compile(r"(\d+\.\d+[a-z]?|[A-Za-z]+(\+[A-Za-z]+)?)(\+PTX)?")

# Variables come first (numba/core/config.py, `_EnvReloader.update`).
_FILES = (_SettingsFile(".numba_config.yaml", "NUMBA_", "pyyaml"),)
_BOOLEANS = {"true": "1", "yes": "1", "on": "1"}  # of YAML
_SETTING = re.compile(r"(\w+)[ \t]*:[ \t]*([^\s#]+)")


def judge_switches(
    environ: Mapping[str, str], installed: Collection[str], start: Path, *, has_gpu: bool
) -> Iterator[Diagnosis]:
    """Yield a verdict on each setting that switches GPUs off, without effect where there is none.

    Args:
        installed: the names of projects.
        start: the folder that the user works in.
        has_gpu: what sees no GPU has verdicts of its own then.
    """
    for switch in _OFF:
        if switch.reader and switch.reader not in installed:
            continue
        setting = _setting_of(switch.name, environ, installed, start)
        if setting and re.fullmatch(switch.value, setting.value, re.IGNORECASE):
            if switch.simulates:
                yield _judge_simulator(switch, setting)
            elif not has_gpu:
                yield notes(
                    "no-cuda-device",
                    f"{setting.text} switches the GPU off for {switch.reader or 'all programs'}",
                    "on a machine with a GPU it would not be used either",
                    f"{setting.advice}, unless that is intended",
                    setting.command,
                )


def judge_changed(environment: PythonEnvironment, *, has_gpu: bool) -> Iterator[Diagnosis]:
    """Yield a verdict on each variable of GPUs that the interpreter's start sets."""
    for name, value in environment.variables.items():
        switches = (
            switch
            for switch in _OFF
            if switch.name == name
            and (not switch.reader or switch.reader in environment.distributions)
        )
        is_off = any(re.fullmatch(switch.value, value, re.IGNORECASE) for switch in switches)
        file = startup_file_with(environment.sites, name)
        if not is_off and not file:  # a program around it may, as conda's
            continue
        judged = (broken if has_gpu else warns) if is_off else notes
        effect = "switches GPUs off" if is_off else "changes what programs find"
        setting = f"{name}={value!r}" if is_off else name  # another value may be a secret
        yield judged(
            "diagnose-startup-file",
            f"{file or environment.python} sets {setting} at each start of Python",
            f"that {effect}, with any value that the shell gives it",
            f"remove {name} from {file}, unless that is intended"
            if file
            else f"search what starts Python, and its startup files, for {name}",
            removal_of(file, name, environment.distributions.values()) if file and is_off else "",
        )


def _judge_simulator(switch: _Switch, setting: _Setting) -> Diagnosis:
    return warns(
        "no-cuda-device",
        f"{setting.text}: {switch.reader} runs kernels in its simulator, not on a GPU",
        "the simulator runs Python on the CPU, slowly, also where there is a GPU",
        f"{setting.advice}, unless that is intended",
        setting.command,
    )


class _Setting(NamedTuple):
    """A setting, and how to remove it."""

    value: str
    text: str
    advice: str
    command: str


def _setting_of(
    name: str, environ: Mapping[str, str], installed: Collection[str], start: Path
) -> _Setting | None:
    """Return the value that counts of a variable, or of a line of a file."""
    if name in environ:
        advice = f"unset {name}"
        return _Setting(environ[name], f"{name}={environ[name]!r}", advice, advice)
    for file in _FILES:
        path = start / file.name
        if name.startswith(file.prefix) and file.needs in installed:
            for key, value in _settings_in(path):
                if f"{file.prefix}{key.upper()}" == name:
                    text, advice = f"{key}: {value} in {path}", f"remove {key} from {path}"
                    command = f"sed -i '/^{key}[[:space:]]*:/d' {shlex.quote(str(path))}"
                    return _Setting(value, text, advice, command)
    return None


def _settings_in(path: Path) -> Iterator[tuple[str, str]]:
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError):
        return
    matches = filter(None, map(_SETTING.match, lines))
    for match in matches:
        value = match[2].strip("'\"")
        yield match[1], _BOOLEANS.get(value.lower(), value)


def judge_variables(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield a verdict on each library to be loaded first that isn't there."""
    for entry in dict.fromkeys(entries_of("LD_PRELOAD", environ)):
        change = without_entry(environ, "LD_PRELOAD", entry)
        if "/" in entry and "$" not in entry and not Path(entry).exists() and change:
            yield warns(
                "diagnose-variable",
                f"LD_PRELOAD names {entry}, which isn't there",
                "the loader prints an error at the start of every program, and goes on without it",
                f"remove {entry} from LD_PRELOAD",
                change.command,
            )


def judge_named(environ: Mapping[str, str], installed: Collection[str]) -> Iterator[Diagnosis]:
    """Yield a verdict on each variable that names what isn't there, or can't be read.

    Args:
        installed: the names of projects.
    """
    yield from _absent_compilers(environ)
    yield from _absent_backends(environ, installed)
    driver = environ.get(_DRIVER, "")
    if "/" in driver and not Path(driver).exists():
        judged = warns if "numba" in installed else notes
        yield judged(
            "diagnose-variable",
            f"{_DRIVER} names {driver}, which isn't there",
            "numba opens it instead of the driver's libcuda.so.1, and sees no GPU then",
            f"unset {_DRIVER}",
            f"unset {_DRIVER}",
        )
    parts = [part for part in re.split("[ ;]", environ.get(_ARCHS, "")) if part]
    wrong = [part for part in parts if not _ARCH.fullmatch(part)]
    if wrong and "torch" in installed:
        yield warns(
            "diagnose-variable",
            f"{_ARCHS} has {wrong[0]!r}, which torch doesn't know",
            "a build of an extension ends with ValueError: Unknown CUDA arch",
            f"write it as in 8.0;9.0+PTX, or unset {_ARCHS}",
            f"unset {_ARCHS}",
        )


def _absent_compilers(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    for name, users in _COMPILERS.items():
        program = next(iter(environ.get(name, "").split()), "")
        is_there = Path(program).exists() or which(program, environ.get("PATH", os.defpath))
        if program and not is_there:
            yield broken(
                "diagnose-variable",
                f"{name} names {program}, which isn't there",
                f"{users} would run it, and fail",
                f"unset {name}, or set it to a compiler that is installed",
                f"unset {name}",
            )


def _absent_backends(environ: Mapping[str, str], installed: Collection[str]) -> Iterator[Diagnosis]:
    for name, (reader, backends) in _BACKENDS.items():
        projects = backends.get(environ.get(name, ""), ())
        if projects and reader in installed and not {*projects} & {*installed}:
            yield broken(
                "diagnose-variable",
                f"{reader} can't be imported with {name}={environ[name]}",
                f"{projects[0]} isn't installed",
                f"unset {name}, or install {projects[0]}",
                f"unset {name}",
            )
