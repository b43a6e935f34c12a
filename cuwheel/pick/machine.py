"""The machine that a wheel is to fit: this one with one of its environments, or one on paper."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.binaries.archs import is_arch
from cuwheel.cuda.torch_exports import minor_of, torch_exports
from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.diagnose.facts.environment import ask_environment
from cuwheel.diagnose.facts.gpus import Driver, find_driver
from cuwheel.diagnose.facts.host import read_host_facts
from cuwheel.diagnose.facts.python_choice import find_environment
from cuwheel.diagnose.rules.installer import Installer, installer_of
from cuwheel.errors import InterpreterNotFoundError, UsageError, suggest
from cuwheel.paths import project_folder
from cuwheel.pypi.build_requirements import framework_cuda

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cuwheel.diagnose.facts.environment import PythonEnvironment

FRAMEWORKS = ("torch", "jax", "jaxlib", "tensorflow")
CPU_ONLY = "cpu"  # in place of a CUDA release
_DRIVER_TIME_LIMIT = 20.0  # seconds
_CPYTHON = "cpython"
_PYPY = re.compile(r"\.(pypy\d+-pp\d+)-")  # how names of its extension modules end
_PYPY_ABI = "pp73"  # of all releases from 7.3.0 (2019) on
_FREE_THREADED = re.compile(r"\.cpython-\d+t-")
_JAX_PLUGIN = re.compile(r"jax-cuda(\d+)-plugin")
_VERSION = re.compile(r"\d+(\.\d+)+")
_PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}  # other names of the same
_FIELDS = ("arch", "cuda", "driver", "glibc", "platform", "python", *FRAMEWORKS)


@dataclass(frozen=True, kw_only=True)
class TargetMachine:
    """What decides whether a wheel fits; what is empty isn't known.

    Attributes:
        python: its release, `3.12.4` or `3.12`; of the free-threaded one without the `t`.
        is_free_threaded: it has no GIL.
        pypy_abi: where it is PyPy, its ABI tag, `pypy310_pp73`; empty: it is CPython.
        platform: `x86_64`.
        glibc: `2.36`.
        driver: NVIDIA's, `580.65.06`.
        archs: capabilities of the GPUs, `90`.
        cuda: the release that the framework was built with, `13.0`, or its major; `cpu`: it knows
            none.
        cuda_of: the framework that says so; empty: nobody but the person.
        frameworks: version by name, of those that are installed.
        is_here: all frameworks were looked for; those that aren't named aren't installed.
    """

    python: str
    is_free_threaded: bool = False
    pypy_abi: str = ""
    platform: str
    glibc: str = ""
    driver: str = ""
    archs: tuple[str, ...] = ()
    cuda: str = ""
    cuda_of: str = ""
    frameworks: tuple[tuple[str, str], ...] = ()
    is_here: bool = False

    @property
    def release(self) -> tuple[int, int]:
        """`(3, 12)`."""
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
        """What people call it: `Python 3.12`, `Python 3.14 without GIL`, `PyPy 3.10`."""
        name = f"{'PyPy' if self.pypy_abi else 'Python'} {self.release[0]}.{self.release[1]}"
        return name + " without GIL" * self.is_free_threaded

    def framework(self, name: str) -> str:
        """The version of a framework; empty where there is none."""
        return dict(self.frameworks).get(name, "")

    @property
    def cxx11_abi(self) -> bool | None:
        """The string ABI of PyTorch's own wheels of this release; None: not known."""
        torch = self.framework("torch")
        exports = torch_exports()
        known = {minor_of(one): one for one in exports.releases}.get(minor_of(torch))
        return exports.has_new_strings(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Here:
    """An environment of this machine.

    Attributes:
        machine: what decides.
        environment: what it holds.
        installer: writes the lines to type.
    """

    machine: TargetMachine
    environment: PythonEnvironment
    installer: Installer


def read_here(asked: str | None, environ: Mapping[str, str], start: Path) -> Here:
    """Ask this machine and one of its environments.

    Args:
        asked: what `--python` said; None: the active environment, else the `python3` on PATH.
        environ: of the caller.
        start: the folder that paths are relative to.

    Raises:
        InterpreterNotFoundError: there is no such interpreter, or it can't be asked.
    """
    gpus = TimedCall(_DRIVER_TIME_LIMIT, lambda: find_driver(environ))
    chosen = find_environment(asked, environ, start)
    if chosen.path is None:
        raise InterpreterNotFoundError(
            "there is no Python to find a wheel for", why=chosen.fault, fix=chosen.fix
        )
    environment = ask_environment(chosen.path, environ)
    driver, _ = gpus.answer(Driver())
    return Here(
        machine=_machine_of(environment, driver, read_host_facts(project_folder()).glibc),
        environment=environment,
        installer=installer_of(environment, chosen, environ),
    )


def _machine_of(environment: PythonEnvironment, driver: Driver, glibc: str) -> TargetMachine:
    found = environment.distributions
    cuda, cuda_of = _cuda_of(environment)
    return TargetMachine(
        python=environment.version,
        is_free_threaded=any(map(_FREE_THREADED.match, environment.suffixes)),
        pypy_abi=_pypy_abi(environment),
        platform=environment.markers.get("platform_machine", ""),
        glibc=glibc,
        driver=driver.version,
        archs=tuple(sorted({gpu.capability for gpu in driver.gpus if gpu.capability}, key=int)),
        cuda=cuda,
        cuda_of=cuda_of,
        frameworks=tuple((one, found[one].version) for one in FRAMEWORKS if one in found),
        is_here=True,
    )


def _pypy_abi(environment: PythonEnvironment) -> str:
    """The ABI tag of a PyPy; empty for CPython.

    Raises:
        InterpreterNotFoundError: it is neither.
    """
    kind = environment.markers.get("implementation_name", _CPYTHON)
    if kind == _CPYTHON:
        return ""
    found = [abi[1] for one in environment.suffixes if (abi := _PYPY.match(one))]
    if kind != "pypy" or not found:
        raise InterpreterNotFoundError(
            f"{environment.python} is {kind}, for which cuwheel can't choose wheels",
            why="only CPython and PyPy are supported",
            fix="name a CPython or its environment with --python; GPU packages are built for "
            "CPython",
        )
    return str(found[0]).replace("-", "_")


def _cuda_of(environment: PythonEnvironment) -> tuple[str, str]:
    """The CUDA of the environment, and the framework that brings it."""
    if torch := environment.distributions.get("torch"):
        stated = framework_cuda(torch.site / "torch" / "version.py")
        return {None: "", "None": CPU_ONLY}.get(stated, stated or ""), "torch"
    majors = {found[1] for name in environment.distributions if (found := _JAX_PLUGIN.match(name))}
    return (majors.pop(), "jax") if len(majors) == 1 else ("", "")


def parse_machine(text: str) -> TargetMachine:
    """A machine on paper: `python=3.12,torch=2.11,cuda=13.0,arch=90`.

    What isn't named isn't known, but for the platform: that is this machine's.

    Raises:
        UsageError: a field is unknown, given twice or malformed, or there is no Python.
    """
    given: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = (one.strip() for one in part.partition("="))
        if name not in _FIELDS:
            raise UsageError(f'--for says "{part}"', why=suggest(name, _FIELDS), fix=_EXAMPLE)
        if name in given:
            raise UsageError(f"--for names {name} twice", why="a machine has one", fix=_EXAMPLE)
        given[name] = _checked(name, value)
    if "python" not in given:
        raise UsageError(
            "--for names no Python",
            why="each wheel is only for certain Python versions",
            fix=_EXAMPLE,
        )
    python = given["python"].removeprefix("pypy")
    is_pypy = python != given["python"]
    return TargetMachine(
        python=python.removesuffix("t"),
        is_free_threaded=python.endswith("t"),
        pypy_abi=f"pypy{''.join(python.split('.')[:2])}_{_PYPY_ABI}" if is_pypy else "",
        platform=given.get("platform", platform.machine()),
        glibc=given.get("glibc", ""),
        driver=given.get("driver", ""),
        archs=tuple(filter(None, [given.get("arch", "")])),
        cuda=given.get("cuda", ""),
        frameworks=tuple((one, given[one]) for one in FRAMEWORKS if one in given),
    )


_EXAMPLE = 'write --for "python=3.12,torch=2.11,cuda=13.0,arch=90,driver=580.65.06,glibc=2.36"'
_FORMS = {
    "arch": re.compile(r"\d{2,3}"),
    "cuda": re.compile(rf"\d+(\.\d+)?|{CPU_ONLY}"),
    "driver": re.compile(r"\d+(\.\d+)*"),
    "platform": re.compile(r"\w+"),
    "python": re.compile(r"3\.\d+(\.\d+)?t?|pypy3\.\d+(\.\d+)?"),
}
_EXAMPLES = {
    "arch": "90",
    "cuda": f"13.0, 13 or {CPU_ONLY}",
    "driver": "580.65.06",
    "glibc": "2.36",
    "platform": "x86_64",
    "python": "3.12, 3.12.4, 3.14t or pypy3.10",
}


def _checked(name: str, value: str) -> str:
    """A field's value in the one form that is used here.

    Raises:
        UsageError: it has none of the forms that people write.
    """
    if name == "arch":  # sm_90 and 9.0 mean the same
        value = value.removeprefix("sm_").replace(".", "")
    if name == "platform":
        value = value.removeprefix("linux_").lower()
        value = _PLATFORMS.get(value, value)
    if not _FORMS.get(name, _VERSION).fullmatch(value) or (name == "arch" and not is_arch(value)):
        why = f"{name} is a version with two or more parts, such as {_EXAMPLES.get(name, '2.11')}"
        if name in _FORMS:
            why = f"{name} is written {_EXAMPLES[name]}"
        raise UsageError(f"--for says {name}={value}", why=why, fix=_EXAMPLE)
    return value
