"""Let an environment's frameworks and packages be imported, and say what they see of CUDA."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuwheel.diagnose.facts.probe import ask_probe
from cuwheel.system.parsed_files import read_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment


IMPORT_TIME_LIMIT = 60.0  # seconds; the first import of torch from a slow disk
FRAMEWORKS = ("torch", "jax", "cupy", "tensorflow")
# Their distributions are named for CUDA releases.
_OF_FRAMEWORK = {"cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")}
# Its import takes long and prints much, so nothing is asked of it.
_ONLY_READ = ("tensorflow",)


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

    @property
    def last_words(self) -> str:
        """The last line of the failure."""
        return self.failure.strip().rpartition("\n")[2]

    @property
    def major(self) -> str:
        """`13` of CUDA 13.0; empty where it isn't known."""
        return self.cuda.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class ModuleRun:
    """What `python -m` of a package gave.

    Attributes:
        status: its exit status; None where it was ended or crashed.
        output: all that it said.
        libraries: what was loaded at its end.
        fault: why it didn't come to an end.
    """

    status: int | None
    output: str
    libraries: tuple[Path, ...]
    fault: str = ""


def frameworks_of(environment: PythonEnvironment) -> dict[str, Distribution]:
    """The frameworks that are installed, by the name that they are imported by."""
    found = {}
    for name in FRAMEWORKS:
        for project in _OF_FRAMEWORK.get(name, (name,)):
            if project in environment.distributions:
                found[name] = environment.distributions[project]
    return found


@dataclass(frozen=True, kw_only=True)
class PackageImport:
    """What importing a package has loaded.

    Attributes:
        libraries: by its import alone.
        call: what it offers to load more with, `package.preload()`; empty: nothing.
        called_libraries: what was loaded after that too.
    """

    libraries: tuple[Path, ...] = ()
    call: str = ""
    called_libraries: tuple[Path, ...] = ()


def ask_package(
    modules: tuple[str, ...], environment: PythonEnvironment, environ: Mapping[str, str]
) -> PackageImport:
    """Import a package, which may open libraries by path, and see which are loaded then.

    Args:
        modules: what it is imported by.
        environment: which has it.
        environ: what it is to see.
    """
    question = {"ask": "package", "modules": modules}
    answer, _, _ = ask_probe(environment.python, question, environ, IMPORT_TIME_LIMIT)
    return PackageImport(
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        call=answer.get("call", ""),
        called_libraries=tuple(map(Path, answer.get("called_libraries", ()))),
    )


def ask_framework(
    name: str, environment: PythonEnvironment, environ: Mapping[str, str]
) -> FrameworkFacts:
    """Import a framework in a process of its own and ask it; else read its files.

    Args:
        name: one of `frameworks_of`.
        environment: which has it.
        environ: what it is to see.
    """
    distribution = frameworks_of(environment)[name]
    if name in _ONLY_READ:
        return FrameworkFacts(name=name, version=distribution.version)
    question = {"ask": "framework", "name": name}
    # JAX takes most of a GPU's memory when it starts; whoever uses the GPU now would notice.
    env = {**environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    answer, output, fault = ask_probe(environment.python, question, env, IMPORT_TIME_LIMIT)
    if "file" not in answer:
        failure = answer.get("failure") or f"{fault}\n{output}".strip() or "no message"
        if fault and not answer.get("failure"):
            failure = f"{output}\n{fault}".strip()
        return read_framework(name, distribution, failure)
    return FrameworkFacts(
        name=name,
        version=answer["version"] or distribution.version,
        cuda=answer.get("cuda", "") or _cuda_of_plugins(name, environment),
        is_cpu_only=name == "torch" and answer.get("cuda") == "" and not answer.get("hip"),
        was_imported=True,
        cxx11_abi=answer.get("cxx11_abi"),
        archs=tuple(answer.get("archs", ())),
        available=answer.get("available"),
        why_not=" ".join(answer.get("why_not", ())),
        devices=tuple(
            Device(name=one["name"], capability="".join(map(str, one["capability"])))
            for one in answer.get("devices", ())
        ),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        trouble=answer.get("trouble", "") or fault,
    )


def _cuda_of_plugins(name: str, environment: PythonEnvironment) -> str:
    """JAX is for the CUDA of its plugin."""
    if name != "jax":
        return ""
    plugins = (f"jax-cuda{major}-plugin" for major in (13, 12))
    found = next((one for one in plugins if one in environment.distributions), "")
    return found.removeprefix("jax-cuda").partition("-")[0]


def read_framework(name: str, distribution: Distribution, failure: str) -> FrameworkFacts:
    """What torch/version.py says, without running it.

    Args:
        name: that it is imported by.
        distribution: which brings it.
        failure: why it can't be asked itself.
    """
    answer: dict[str, Any] = {}
    path = distribution.site / name / "version.py"
    try:
        statements = read_module(path).body
    except (OSError, ValueError):
        statements = []
    for statement in statements:
        target = getattr(statement, "target", None) or next(
            iter(getattr(statement, "targets", ())), None
        )
        value = getattr(statement, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
            answer[target.id] = value.value
    return FrameworkFacts(
        name=name,
        version=str(answer.get("__version__") or distribution.version),
        cuda=str(answer.get("cuda") or ""),
        is_cpu_only="cuda" in answer and answer["cuda"] is None and answer.get("hip") is None,
        failure=failure,
    )


def ask_module(name: str, environment: PythonEnvironment, environ: Mapping[str, str]) -> ModuleRun:
    """Run a package as `python -m` does, and see which libraries it has loaded.

    Args:
        name: the package.
        environment: which has it.
        environ: what it is to see.
    """
    question = {"ask": "module", "name": name}
    answer, output, fault = ask_probe(environment.python, question, environ, IMPORT_TIME_LIMIT)
    failure = answer.get("failure", "")
    return ModuleRun(
        status=answer.get("status"),
        output=f"{output}\n{failure}".strip(),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        fault="" if answer.get("complete") else fault or "it crashed",
    )
