"""Verdicts on variables of the loader, and on settings that switch GPUs off."""

from __future__ import annotations

import difflib
import os
import pwd
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cuwheel.base.system.process import which
from cuwheel.base.system.regular_files import read_text
from cuwheel.base.system.versions import version_key
from cuwheel.check.diagnose.facts.builds import elf_at
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


class _Form(NamedTuple):
    """The form of a value.

    Attributes:
        reader: the project that reads it; empty: NVIDIA's driver.
        effect: of another form.
    """

    names: tuple[str, ...]
    reader: str
    pattern: str
    example: str
    effect: str


class _SettingsFile(NamedTuple):
    """A file of the working folder whose lines `key: value` count as variables.

    Attributes:
        prefix: of the variables' names.
        needs: the project without which it isn't read.
    """

    name: str
    prefix: str
    needs: str


_FORMS = (
    _Form(
        ("CUDA_VISIBLE_DEVICES",),
        "",
        r"none|nodevfiles|((-?\d+|(MIG-GPU|GPU|MIG)-[\da-f][\da-f/-]*)\s*(,\s*|$))+",
        "0,1",
        "programs see the GPUs before the first entry that it doesn't know, and none after it",
    ),
    _Form(
        ("CUDA_DEVICE_ORDER",),
        "",
        "FASTEST_FIRST|PCI_BUS_ID",
        "PCI_BUS_ID",
        "GPUs keep their usual order",
    ),
    _Form(
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"),
        "jax",
        r"0?\.\d+|[01](\.0*)?",
        ".75",
        "it is a part of the memory; JAX ends with an error, or asks for more than there is",
    ),
    _Form(
        ("XLA_PYTHON_CLIENT_ALLOCATOR",),
        "jax",
        "default|platform|bfc|cuda_async|address",
        "platform",
        "JAX ends with an error when it starts a GPU",
    ),
    _Form(
        ("NUMBA_CPU_FEATURES",),
        "numba",
        r"([+-][\w.-]+(,|$))+",
        "+avx2,-avx512f",
        "each program ends in LLVM when numba first compiles",
    ),
)
_ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# Of PyTorch's documentation, "Optimizing memory usage with PYTORCH_ALLOC_CONF".
_OPTIONS = (
    *("max_split_size_mb", "expandable_segments", "garbage_collection_threshold", "backend"),
    *("roundup_power2_divisions", "roundup_bypass_threshold_mb", "max_non_split_rounding_mb"),
    *("pinned_use_cuda_host_register", "pinned_num_register_threads"),
    *("pinned_use_background_threads", "pinned_use_hip_host_register"),
    *("release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "per_process_memory_fraction"),
)
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
# Variables with a file or folder, and what fails if that isn't there.
_PLACES = {
    "SSL_CERT_FILE": "Python's ssl and uv take the certificates from it, and trust no server then",
    "REQUESTS_CA_BUNDLE": "pip and all that uses requests end with an error, as they can't read it",
    "CURL_CA_BUNDLE": "pip and all that uses requests end with an error, as they can't read it",
    "PIP_CERT": "pip ends with an error at each download",
    "PIP_CONSTRAINT": "pip ends with an error at each installation",
    "PIP_REQUIREMENT": "pip ends with an error at each installation",
    "PIP_PYTHON": "pip runs with that Python, and ends with an error",
    "UV_CONSTRAINT": "uv ends with an error at each installation",
    "UV_CONFIG_FILE": "uv ends with an error at each start",
    "UV_PYTHON": "uv looks for that Python, and ends with an error",
    "PIP_INDEX_URL": "pip finds no package",
    "PIP_FIND_LINKS": "pip finds no package there",
    "UV_INDEX_URL": "uv finds no package",
    "UV_DEFAULT_INDEX": "uv finds no package",
    "UV_FIND_LINKS": "uv finds no package there",
    "TMPDIR": "nvcc can't write there, nor can other programs that take it as it is",
}
_DRIVER = "NUMBA_CUDA_DRIVER"
_USERS = ("LOGNAME", "USER", "LNAME", "USERNAME")  # that `getpass` reads
_LAYER = "NUMBA_THREADING_LAYER"
_DISTUTILS = "SETUPTOOLS_USE_DISTUTILS"
_LAST_DISTUTILS = (3, 11)  # the last Python with it
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
    layer = _setting_of(_LAYER, environ, installed, start) if "numba" in installed else None
    if layer and layer.value == "tbb" and "tbb" not in installed:
        yield warns(
            "diagnose-variable",
            f"{layer.text}: numba has no such threads here",
            "the package tbb isn't installed; the first parallel function ends with an error, "
            "unless the system has a libtbb",
            f"{layer.advice}, or install tbb",
            layer.command,
        )


def judge_changed(
    environment: PythonEnvironment, failed: Collection[str] = (), *, has_gpu: bool
) -> Iterator[Diagnosis]:
    """Yield a verdict on each variable of GPUs that the interpreter's start sets.

    Args:
        failed: names of what doesn't work then, for which no other cause was found.
    """
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
        victim = next((one for one in failed if name.lower().startswith(f"{one}_")), "")
        if victim:
            judged = broken
        effect = "switches GPUs off" if is_off else "changes what programs find"
        is_known = is_off or name.startswith(("JAX_", "NUMBA_"))  # another may be a secret
        setting = f"{name}={value!r}" if is_known else name
        yield judged(
            "diagnose-startup-file",
            f"{file or environment.python} sets {setting} at each start of Python",
            f"that {effect}, with any value that the shell gives it"
            + f"; {victim} doesn't work with it" * bool(victim),
            f"remove {name} from {file}, unless that is intended"
            if file
            else f"search what starts Python, and its startup files, for {name}",
            removal_of(file, name, environment.distributions.values())
            if file and (is_off or victim)
            else "",
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
    """Yield a verdict on each library to be loaded first that isn't there, or is none."""
    for name in ("LD_PRELOAD", "LD_AUDIT"):
        for entry in dict.fromkeys(entries_of(name, environ)):
            change = without_entry(environ, name, entry)
            is_there, absent = Path(entry).exists(), "isn't there"
            if "/" in entry and "$" not in entry and not elf_at(Path(entry)) and change:
                yield warns(
                    "diagnose-variable",
                    f"{name} names {entry}, which {'is no library' if is_there else absent}",
                    "the loader prints an error at the start of every program, and goes on without",
                    f"remove {entry} from {name}",
                    change.command,
                )


def judge_named(
    environ: Mapping[str, str], installed: Collection[str], release: str = ""
) -> Iterator[Diagnosis]:
    """Yield a verdict on each variable that names what isn't there, or can't be read.

    Args:
        installed: the names of projects.
        release: of Python, `3.12`; empty: it isn't known.
    """
    is_new = bool(release) and version_key(release)[:2] > _LAST_DISTUTILS
    if is_new and "setuptools" in installed and environ.get(_DISTUTILS) == "stdlib":
        yield broken(
            "diagnose-variable",
            f"setuptools can't be imported with {_DISTUTILS}=stdlib",
            f"Python {release} has no distutils of its own; extensions can't be built either",
            f"unset {_DISTUTILS}",
            f"unset {_DISTUTILS}",
        )
    yield from _absent_compilers(environ)
    yield from _nameless(environ, installed)
    for name, effect in _PLACES.items():
        place = environ.get(name, "").removeprefix("file://")
        if place.startswith("/") and not os.path.lexists(place):
            yield warns(
                "diagnose-variable",
                f"{name} names {place}, which isn't there",
                effect,
                f"unset {name}, or name what is there",
                f"unset {name}",
            )
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
    yield from _wrong_values(environ, installed)
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


def _wrong_values(environ: Mapping[str, str], installed: Collection[str]) -> Iterator[Diagnosis]:
    """Yield a verdict on each value that its reader doesn't take, when it first uses a GPU."""
    for form in _FORMS:
        for name in form.names:
            value = environ.get(name, "").strip()
            is_read = not form.reader or form.reader in installed
            if value and is_read and not re.fullmatch(form.pattern, value, re.IGNORECASE):
                yield warns(
                    "diagnose-variable",
                    f"{name}={value!r} isn't what {form.reader or 'the driver'} reads there",
                    form.effect,
                    f"write it as in {form.example}, or unset {name}",
                    f"unset {name}",
                )
    for name in _ALLOCATORS if "torch" in installed else ():
        for part in filter(None, map(str.strip, environ.get(name, "").split(","))):
            key, colon, _ = part.partition(":")
            like = next(iter(difflib.get_close_matches(key, _OPTIONS, 1, 0.8)), "")
            # An option that isn't listed here may be of another release.
            if part[0].isalpha() and (not colon or (like and key not in _OPTIONS)):
                yield warns(
                    "diagnose-variable",
                    f"{name} has {part!r}, which torch doesn't know",
                    "it ends with an error when it first allocates memory of a GPU",
                    f"write it as in {like or _OPTIONS[0]}:VALUE, or unset {name}",
                    f"unset {name}",
                )


def _nameless(environ: Mapping[str, str], installed: Collection[str]) -> Iterator[Diagnosis]:
    """Judge a user without a name, as in a container that was started with a number only."""
    user = os.getuid()
    if "torch" not in installed or any(environ.get(name) for name in _USERS):
        return
    try:
        pwd.getpwuid(user)
    except KeyError:
        yield notes(
            "diagnose-variable",
            f"the user {user} has no name",
            "/etc/passwd has no entry, and USER isn't set: getpass.getuser() raises KeyError, "
            "and torch.compile of older releases with it",
            "give it a name",
            f"export USER=user{user}",
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
