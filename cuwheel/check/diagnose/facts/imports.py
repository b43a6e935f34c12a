"""Imports of an environment's frameworks and packages, and what they see of CUDA."""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cuwheel.base.system import machine
from cuwheel.check.cuda.frameworks import version_constants
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.machine import total_and_free_memory
from cuwheel.check.diagnose.facts.probe import Answer, Experiment, TimedCall, probe_environment
from cuwheel.check.diagnose.facts.variables import VariableChange, find_culprit, trace

IMPORT_TIME_LIMIT = 60.0  # seconds; the first import of torch from a slow disk
_LONGER = 2  # times that limit, for a second trial: the first was late, as under load
_SLACK = 5.0  # seconds, for what a process does before and after
_MEMORY = 2 << 30  # bytes that the import of a framework and a package may take
FRAMEWORKS = ("torch", "jax", "cupy", "tensorflow")
# Their distributions are named for CUDA releases.
OF_FRAMEWORK = {
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
}
_REFUSAL = re.compile(
    r"JAX plugin .*not be used|Unable to load \w+\. Is it installed\?|Outdated .*found"
)
_UNKNOWN_CPU = re.compile(r"'\S+' is not a recognized (processor|feature)[^\n]*")  # of LLVM
_EXCEPTION = re.compile(r"\w+(Error|Exception): ")
# Its import takes long and prints much, so it is imported only as a package that is named.
ONLY_READ = ("tensorflow",)


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU as a framework sees it; its capability without dot."""

    name: str
    capability: str


@dataclass(frozen=True, kw_only=True)
class FrameworkFacts:
    """A framework of an environment.

    Attributes:
        name: `torch`.
        version: of its module, `2.11.0+cu130`; else of its metadata.
        cuda: the release of CUDA that it was built with; empty for none, or not known.
        is_cpu_only: it was built without CUDA.
        was_imported: the facts come from the module itself, not from its files.
        cxx11_abi: which string ABI its libraries have; None: not known.
        archs: for which it holds device code: `sm_90`, `compute_120`.
        available: it sees a GPU; None where it couldn't be asked.
        why_not: its own words where it sees none.
        devices: the GPUs that it sees.
        libraries: what was loaded when it had been imported.
        failure: the end of the traceback of its import; or that it took too long.
        trouble: the same of what was asked after the import.
        part: what fails then, `import jax.scipy`; empty: reporting its devices.
        lacking: libraries of CUDA that it can't use, and why.
    """

    name: str
    version: str
    cuda: str = ""
    is_cpu_only: bool = False
    was_imported: bool = False
    cxx11_abi: bool | None = None
    archs: tuple[str, ...] = ()
    available: bool | None = None
    why_not: str = ""
    devices: tuple[Device, ...] = ()
    libraries: tuple[Path, ...] = ()
    failure: str = ""
    trouble: str = ""
    part: str = ""
    lacking: Mapping[str, str] = field(default_factory=dict)

    @property
    def major(self) -> str:
        """`13` of CUDA 13.0; empty where it isn't known."""
        return self.cuda.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class ModuleRun:
    """The result of `python -m` of a package.

    Attributes:
        status: its exit status; None where it was ended or crashed.
    """

    status: int | None
    output: str
    libraries: tuple[Path, ...]
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class PackageImport:
    """The result of importing a package.

    Attributes:
        failure: the end of the traceback, or that it took too long; empty: it was imported.
        module: that can't be imported; empty where the process ended before.
        without_cuda: the end of the traceback of its part for CUDA; empty: that works.
        available: it sees a GPU; None where it couldn't be queried.
        libraries: what was loaded then.
        call: the function of the package that loads more, `package.preload()`; empty: none.
        modules: the top-level modules that are imported then.
        part: what fails with `without_cuda`, `use CUDA`.
        seen: what an experiment has recorded.
    """

    failure: str = ""
    module: str = ""
    without_cuda: str = ""
    available: bool | None = None
    libraries: tuple[Path, ...] = ()
    call: str = ""
    called_libraries: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    part: str = ""
    seen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def import_failure(self) -> str:
        """The end of the traceback of its import alone."""
        return self.failure

    @property
    def problem(self) -> str:
        """The end of the traceback of its import, or of its part for CUDA; empty: all works."""
        return self.failure or self.without_cuda


@dataclass(frozen=True, kw_only=True)
class FrameworkImport:
    """The result of importing a framework.

    Attributes:
        modules: the top-level modules that are imported then.
        seen: what an experiment has recorded.
    """

    facts: FrameworkFacts
    modules: tuple[str, ...] = ()
    seen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def import_failure(self) -> str:
        """The end of the traceback of its import alone."""
        return self.facts.failure

    @property
    def problem(self) -> str:
        """The end of the traceback of its import, or of what followed; empty: all works."""
        return self.facts.failure or self.facts.trouble


class ImportCall(Protocol):
    """An import with other variables, in an experiment also with other changes."""

    def __call__(
        self, environ: Mapping[str, str], /, experiment: Experiment | None = None
    ) -> FrameworkImport | PackageImport:
        """Import it in a process of its own."""


def start_imports(
    calls: Mapping[str, Callable[[], Answer]], environ: Mapping[str, str]
) -> dict[str, TimedCall[Answer]]:
    """Start calls in processes of their own, at most one for each core and 2 GiB of memory."""
    _, memory = total_and_free_memory()
    width = max(1, min(machine.usable_cores(environ), memory // _MEMORY, len(calls)))
    slots = threading.BoundedSemaphore(width)

    def wait_and_call(call: Callable[[], Answer]) -> Answer:
        with slots:
            return call()

    limit = (IMPORT_TIME_LIMIT * (1 + _LONGER) + _SLACK) * -(-len(calls) // width)
    return {name: TimedCall(limit, partial(wait_and_call, call)) for name, call in calls.items()}


def _probe_import(
    request: Mapping[str, object],
    environment: PythonEnvironment,
    environ: Mapping[str, str],
    experiment: Experiment | None,
) -> tuple[dict[str, Any], str, str]:
    """Run the probe; what is late gets more time once."""
    # JAX takes most of a GPU's memory when it starts, which other users of the GPU would notice.
    env = {**environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if experiment:
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        changed = {**request, "changes": experiment.request}
        limit = min(experiment.seconds, IMPORT_TIME_LIMIT)
        return probe_environment(
            environment.python, changed, env, limit, options=experiment.options
        )
    result = probe_environment(environment.python, request, env, IMPORT_TIME_LIMIT)
    if not is_late(result[2]):
        return result
    return probe_environment(environment.python, request, env, IMPORT_TIME_LIMIT * _LONGER)


def is_late(failure: str) -> bool:
    """Return True if there was no answer in time, which tells nothing of what was asked."""
    return failure.rpartition("\n")[2].startswith("no answer within")


def find_variable(  # noqa: PLR0913 - each of another kind
    call: ImportCall,
    environ: Mapping[str, str],
    fixed: Iterable[str],
    known: list[VariableChange],
    *,
    is_import: bool,
    end: float = math.inf,
) -> VariableChange | None:
    """Repeat what failed without variables, but `fixed`, and return which one is the cause.

    Args:
        known: those of other imports, which are tried first; gets this one's.
        is_import: the import itself failed; what follows may fail for another reason.
        end: after which no trial begins, by `time.monotonic`.
    """

    def works(changed: Mapping[str, str]) -> bool:
        if time.monotonic() > end:
            return False
        result = call(changed)
        return not (result.import_failure if is_import else result.problem)

    change = next((one for one in [*known] if works(one.apply(environ))), None)
    change = change or find_culprit(works, environ, fixed)
    if change and change.taken.startswith("/"):
        change = trace(change, call(environ, Experiment()).seen)
    known += [change] if change and change not in known else []
    return change


def frameworks_of(environment: PythonEnvironment) -> dict[str, Distribution]:
    """Return the installed frameworks, by the name that they are imported by."""
    installed = environment.distributions
    return {
        name: installed[project]
        for name in FRAMEWORKS
        for project in OF_FRAMEWORK.get(name, (name,))
        if project in installed
    }


def import_package(
    modules: Iterable[str],
    before: Iterable[str],
    environment: PythonEnvironment,
    environ: Mapping[str, str],
    experiment: Experiment | None = None,
) -> PackageImport:
    """Import a package in a process of its own, and return which libraries are loaded then.

    Args:
        before: frameworks that are imported first.
    """
    first = tuple(before)
    request = {"request": "package", "before": first, "modules": tuple(modules)}
    answer, output, fault = _probe_import(request, environment, environ, experiment)
    failure, module = answer.get("failure", ""), answer.get("module", "")
    if "libraries" not in answer:  # it crashed, or took too long
        module = answer.get("importing", "")
        failure = f"{output}\n{fault}".strip()
    without_cuda, part = answer.get("without_cuda", ""), answer.get("part", "")
    if not without_cuda and (match := _UNKNOWN_CPU.search(output)):
        without_cuda, part = match[0], "compile for the CPU that is named"
    return PackageImport(
        failure="" if module in first else failure,
        module=module,
        without_cuda=without_cuda,
        part=part,
        available=answer.get("available"),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        call=answer.get("call", ""),
        called_libraries=tuple(map(Path, answer.get("called_libraries", ()))),
        modules=tuple(answer.get("modules", ())),
        seen=answer.get("seen", {}),
    )


def import_framework(
    name: str,
    environment: PythonEnvironment,
    environ: Mapping[str, str],
    experiment: Experiment | None = None,
) -> FrameworkImport:
    """Import a framework in a process of its own; read its files if that fails.

    Args:
        name: one of `frameworks_of`.
    """
    distribution = frameworks_of(environment)[name]
    if name in ONLY_READ:
        return FrameworkImport(facts=FrameworkFacts(name=name, version=distribution.version))
    request = {"request": "framework", "name": name}
    answer, output, fault = _probe_import(request, environment, environ, experiment)
    modules, seen = tuple(answer.get("modules", ())), answer.get("seen", {})
    if "file" not in answer:
        failure = answer.get("failure") or f"{output}\n{fault}".strip() or "no message"
        facts = read_framework(name, distribution, failure)
        return FrameworkImport(facts=facts, modules=modules, seen=seen)
    installed = environment.distributions
    majors = ("13", "12") if name == "jax" else ()
    plugins = (major for major in majors if f"jax-cuda{major}-plugin" in installed)
    facts = FrameworkFacts(
        name=name,
        version=answer["version"] or distribution.version,
        cuda=answer.get("cuda") or next(plugins, ""),
        is_cpu_only=name == "torch" and answer.get("cuda") == "" and not answer.get("hip"),
        was_imported=True,
        cxx11_abi=answer.get("cxx11_abi"),
        archs=tuple(answer.get("archs", ())),
        available=answer.get("available"),
        why_not="; ".join((*_refusals(output), *answer.get("why_not", ()))),
        devices=tuple(
            Device(name=gpu["name"], capability="".join(map(str, gpu["capability"])))
            for gpu in answer.get("devices", ())
        ),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        part=answer.get("part", ""),
        lacking=answer.get("lacking", {}),
        trouble=answer.get("trouble", "") or (f"{output}\n{fault}" if fault else ""),
    )
    return FrameworkImport(facts=facts, modules=modules, seen=seen)


def _refusals(output: str) -> Iterator[str]:
    """Yield what JAX prints about a plugin that it doesn't use, or can't start."""
    is_error = False
    for line in output.splitlines():
        if match := _REFUSAL.search(line):
            yield match[0]
        elif is_error and _EXCEPTION.match(line):
            yield line
            is_error = False
        is_error = is_error or "plugin configuration error" in line.lower()


def read_framework(name: str, distribution: Distribution, failure: str) -> FrameworkFacts:
    """Read torch/version.py without running it."""
    constants = version_constants(distribution.site / name / "version.py")
    has_no_cuda = "cuda" in constants and constants["cuda"] is None
    return FrameworkFacts(
        name=name,
        version=str(constants.get("__version__") or distribution.version),
        cuda=str(constants.get("cuda") or ""),
        is_cpu_only=has_no_cuda and constants.get("hip") is None,
        failure=failure,
    )


def run_module(name: str, environment: PythonEnvironment, environ: Mapping[str, str]) -> ModuleRun:
    """Run a package as `python -m` does, and return which libraries it has loaded."""
    request = {"request": "module", "name": name}
    answer, output, fault = probe_environment(
        environment.python, request, environ, IMPORT_TIME_LIMIT
    )
    return ModuleRun(
        status=answer.get("status"),
        output=f"{output}\n{answer.get('failure', '')}".strip(),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        fault=fault,
    )
