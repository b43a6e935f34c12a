"""The target machine of a wheel: an environment of this machine, or one on paper."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cuwheel.base.errors import InterpreterNotFoundError, UsageError, suggest
from cuwheel.base.formats.binaries.archs import is_arch
from cuwheel.check.cuda.frameworks import framework_cuda
from cuwheel.check.cuda.torch_exports import minor_of, torch_exports
from cuwheel.check.diagnose.facts.environment import PythonEnvironment, read_chosen_environment
from cuwheel.check.diagnose.facts.machine import Driver, find_driver, read_host_facts
from cuwheel.check.diagnose.facts.probe import TimedCall
from cuwheel.check.diagnose.rules.installer import Installer, installer_of

FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow")
CPU_ONLY = "cpu"  # in place of a CUDA release
_DRIVER_TIME_LIMIT = 20.0  # seconds
_CPYTHON = "cpython"
_PYPY = re.compile(r"\.(pypy\d+-pp\d+)-")  # the suffix of its extension modules
_PYPY_ABI = "pp73"  # of all releases from 7.3.0 (2019) on
_FREE_THREADED = re.compile(r"\.cpython-\d+t-")
_JAX_PLUGIN = re.compile(r"jax-cuda(\d+)-plugin")
_PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}  # aliases
_MACHINES = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "loongarch64", "i686", "armv7l")
_FIELDS = ("arch", "cuda", "driver", "glibc", "platform", "python", *FRAMEWORKS)


@dataclass(frozen=True, kw_only=True)
class TargetMachine:
    """The machine that a wheel is for; what is empty isn't known.

    Attributes:
        python: its release, `3.12.4` or `3.12`; of the free-threaded one without the `t`.
        is_free_threaded: it has no GIL.
        pypy_abi: where it is PyPy, its ABI tag, `pypy310_pp73`; empty: it is CPython.
        platform: `x86_64`.
        glibc: `2.36`.
        driver: NVIDIA's, `580.65.06`.
        archs: capabilities of the GPUs, `90`.
        cuda: the release that the framework was built with, or its major; `cpu`: it knows none.
        cuda_of: the framework that says so; empty: nobody but the person.
        frameworks: version by name, of those that are installed.
        is_here: all frameworks were looked for; those that aren't named aren't installed.
        is_planned: the frameworks aren't installed yet.
    """

    SCHEMA_NAME: ClassVar[str] = "PickedMachine"
    python: str
    is_free_threaded: bool = False
    pypy_abi: str = ""
    platform: str
    glibc: str = ""
    driver: str = ""
    archs: tuple[str, ...] = ()
    cuda: str = ""
    cuda_of: str = ""
    frameworks: dict[str, str] = field(default_factory=dict)
    is_here: bool = False
    is_planned: bool = False

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor release, `(3, 12)`."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)

    @property
    def interpreter(self) -> str:
        """The tag of its interpreter: `cp312`, `pp310`."""
        return f"{'pp' if self.pypy_abi else 'cp'}{self.release[0]}{self.release[1]}"

    @property
    def abi(self) -> str:
        """The tag of its ABI: `cp312`, `cp314t`, `pypy310_pp73`."""
        return self.pypy_abi or self.interpreter + "t" * self.is_free_threaded

    @property
    def named_python(self) -> str:
        """The usual name: `Python 3.12`, `Python 3.14 without GIL`, `PyPy 3.10`."""
        name = f"{'PyPy' if self.pypy_abi else 'Python'} {self.release[0]}.{self.release[1]}"
        return name + " without GIL" * self.is_free_threaded

    def framework(self, name: str) -> str:
        """Return the version of a framework; empty if there is none."""
        return self.frameworks.get(name, "")

    @property
    def cxx11_abi(self) -> bool | None:
        """The string ABI of PyTorch's own wheels of this release; None: not known."""
        torch = self.framework("torch")
        exports = torch_exports()
        known = {minor_of(release): release for release in exports.releases}.get(minor_of(torch))
        return exports.has_new_strings(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Here:
    """An environment of this machine."""

    machine: TargetMachine
    environment: PythonEnvironment
    installer: Installer


def read_here(python: str | None, environ: Mapping[str, str], start: Path) -> Here:
    """Read the facts of this machine and one of its environments.

    Args:
        python: of `--python`; None: the active environment, else the `python3` on PATH.
        start: the base of relative paths.

    Raises:
        InterpreterNotFoundError: there is no such interpreter, or it can't be run.
    """
    gpus = TimedCall(_DRIVER_TIME_LIMIT, lambda: find_driver(environ))
    chosen, environment = read_chosen_environment(python, environ, start)
    driver, _ = gpus.answer(Driver())
    return Here(
        machine=_machine_of(environment, driver, read_host_facts(start, environ).glibc),
        environment=environment,
        installer=installer_of(environment, chosen, environ),
    )


def _machine_of(environment: PythonEnvironment, driver: Driver, glibc: str) -> TargetMachine:
    installed = environment.distributions
    cuda, cuda_of = _cuda_of(environment)
    return TargetMachine(
        python=environment.version,
        is_free_threaded=any(map(_FREE_THREADED.match, environment.suffixes)),
        pypy_abi=_pypy_abi(environment),
        platform=environment.markers.get("platform_machine", ""),
        glibc=glibc,
        driver=driver.version,
        archs=driver.capabilities,
        cuda=cuda,
        cuda_of=cuda_of,
        frameworks={name: installed[name].version for name in FRAMEWORKS if name in installed},
        is_here=True,
    )


def _pypy_abi(environment: PythonEnvironment) -> str:
    """Return the ABI tag of a PyPy; empty for CPython.

    Raises:
        InterpreterNotFoundError: for others.
    """
    kind = environment.markers.get("implementation_name", _CPYTHON)
    if kind == _CPYTHON:
        return ""
    abis = [match[1] for suffix in environment.suffixes if (match := _PYPY.match(suffix))]
    if kind != "pypy" or not abis:
        raise InterpreterNotFoundError(
            f"{environment.python} is {kind}, for which cuwheel can't choose wheels",
            why="only CPython and PyPy are supported",
            fix="name a CPython or its environment with --python; GPU packages are built for "
            "CPython",
        )
    return str(abis[0]).replace("-", "_")


def _cuda_of(environment: PythonEnvironment) -> tuple[str, str]:
    """Return the CUDA of the environment, and the framework with it."""
    if torch := environment.distributions.get("torch"):
        stated = framework_cuda(torch.site / "torch" / "version.py")
        return {None: "", "None": CPU_ONLY}.get(stated, stated or ""), "torch"
    matches = map(_JAX_PLUGIN.match, environment.distributions)
    majors = {match[1] for match in matches if match}
    return (majors.pop(), "jax") if len(majors) == 1 else ("", "")


def parse_machine(text: str) -> TargetMachine:
    """Return a machine on paper: `python=3.12,torch=2.11,cuda=13.0,arch=90`.

    Fields that aren't named are unknown, except for the platform: that is this machine's. A
    release of two parts is any of its line.

    Raises:
        UsageError: a field is unknown, given twice or malformed, or there is no Python.
    """
    fields: dict[str, str] = {}
    errors: list[UsageError] = []
    for part in filter(None, map(str.strip, text.split(","))):
        try:
            name, value = _read_field(part)
        except UsageError as error:
            errors.append(error)
            continue
        if name in fields:
            errors.append(UsageError(f"--for names {name} twice", why="a machine has one"))
        fields.setdefault(name, value)
    if errors:
        [first, *_] = errors
        raise UsageError(first.what, why=first.why, fix=_fix_of(fields, first.fix))
    if "python" not in fields:
        why = "each wheel is only for certain Python versions"
        raise UsageError("--for names no Python", why=why, fix=_fix_of(fields))
    python = fields["python"].removeprefix("pypy")
    is_pypy = python != fields["python"]
    return TargetMachine(
        python=python.removesuffix("t"),
        is_free_threaded=python.endswith("t"),
        pypy_abi=f"pypy{''.join(python.split('.')[:2])}_{_PYPY_ABI}" if is_pypy else "",
        platform=fields.get("platform", platform.machine()),
        glibc=fields.get("glibc", ""),
        driver=fields.get("driver", ""),
        archs=tuple(filter(None, [fields.get("arch", "")])),
        cuda=fields.get("cuda", ""),
        frameworks={name: fields[name] for name in FRAMEWORKS if name in fields},
    )


_EXAMPLE = "python=3.12,torch=2.11,cuda=13.0,arch=90,driver=580.65.06,glibc=2.36"
# The form of each field's value, and examples, the first one by itself.
_FORMS = {
    "arch": (r"\d{2,3}", ("90", "9.0", "sm_90")),
    "cuda": (rf"\d+(\.\d+)?|{CPU_ONLY}", ("13.0", "13", CPU_ONLY)),
    "driver": (r"\d+(\.\d+)*", ("580.65.06", "580")),
    "glibc": (r"\d+(\.\d+)+", ("2.36",)),
    "platform": ("|".join(_MACHINES), _MACHINES),
    "python": (r"3\.\d+(\.\d+)?t?|pypy3\.\d+(\.\d+)?", ("3.12", "3.12.4", "3.14t", "pypy3.10")),
}
_FRAMEWORK_RELEASE = r"\d+(\.\d+)+((a|b|rc)\d+)?(\.(post|dev)\d+)?(\+[a-z0-9.]+)?"


def _fix_of(fields: Mapping[str, str], corrected: str = "") -> str:
    """Return the machine with the fields that are right, and perhaps one more."""
    given = [f"{name}={value}" for name, value in fields.items()]
    machine = list(filter(None, [*given, corrected]))
    if not any(field.startswith("python=") for field in machine):
        machine.insert(0, "python=3.12")
    return f'write --for "{",".join(machine) if given else _EXAMPLE}"'


def _read_field(part: str) -> tuple[str, str]:
    """Return name and value of a field, the value in its normal form.

    Raises:
        UsageError: it has no such form; `fix` is an example of the field.
    """
    name, equals, value = (half.strip() for half in part.partition("="))
    if not equals:
        why = "it has no name: a field is NAME=VALUE, and has one value"
        raise UsageError(f'--for says "{part}"', why=why)
    if name not in _FIELDS:
        raise UsageError(f'--for says "{part}"', why=suggest(name, _FIELDS))
    value = _normal(name, value)
    default = (_FRAMEWORK_RELEASE, ("2.11", "2.11.0", "2.11.0+cu130"))
    form, examples = _FORMS.get(name, default)
    if not re.fullmatch(form, value) or (name == "arch" and not is_arch(value)):
        why = f"{name} is written {_or(examples)}"
        raise UsageError(f"--for says {part}", why=why, fix=f"{name}={examples[0]}")
    return name, value


def _normal(name: str, value: str) -> str:
    if name == "arch":  # sm_90 and 9.0 are the same
        return value.removeprefix("sm").removeprefix("_").replace(".", "")
    if name == "platform":
        value = value.lower().removeprefix("linux_")
        return _PLATFORMS.get(value, value)
    if name == "cuda":  # NVIDIA's third part is no release of its own here
        return re.sub(r"^(\d+\.\d+)\.\d+$", r"\1", value)
    return value


def _or(examples: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(examples[:-1]), examples[-1]]))
