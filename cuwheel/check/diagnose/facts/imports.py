"""Imports of an environment's frameworks and packages, and what they see of CUDA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.check.cuda.frameworks import version_constants
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.probe import probe_environment

IMPORT_TIME_LIMIT = 60.0  # seconds; the first import of torch from a slow disk
FRAMEWORKS = ("torch", "jax", "cupy", "tensorflow")
# Their distributions are named for CUDA releases.
_OF_FRAMEWORK = {"cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")}
# Its import takes long and prints much, so only its metadata count.
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
    """The libraries that the import of a package has loaded.

    Attributes:
        call: the function of the package that loads more, `package.preload()`; empty: none.
    """

    libraries: tuple[Path, ...] = ()
    call: str = ""
    called_libraries: tuple[Path, ...] = ()


def frameworks_of(environment: PythonEnvironment) -> dict[str, Distribution]:
    """Return the installed frameworks, by the name that they are imported by."""
    installed = environment.distributions
    return {
        name: installed[project]
        for name in FRAMEWORKS
        for project in _OF_FRAMEWORK.get(name, (name,))
        if project in installed
    }


def import_package(
    modules: tuple[str, ...], environment: PythonEnvironment, environ: Mapping[str, str]
) -> PackageImport:
    """Import a package, which may open libraries by path, and return which are loaded then."""
    request = {"request": "package", "modules": modules}
    answer, _, _ = probe_environment(environment.python, request, environ, IMPORT_TIME_LIMIT)
    return PackageImport(
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        call=answer.get("call", ""),
        called_libraries=tuple(map(Path, answer.get("called_libraries", ()))),
    )


def import_framework(
    name: str, environment: PythonEnvironment, environ: Mapping[str, str]
) -> FrameworkFacts:
    """Import a framework in a process of its own; read its files if that fails.

    Args:
        name: one of `frameworks_of`.
    """
    distribution = frameworks_of(environment)[name]
    if name in _ONLY_READ:
        return FrameworkFacts(name=name, version=distribution.version)
    request = {"request": "framework", "name": name}
    # JAX takes most of a GPU's memory when it starts, which other users of the GPU would notice.
    env = {**environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    answer, output, fault = probe_environment(environment.python, request, env, IMPORT_TIME_LIMIT)
    if "file" not in answer:
        failure = answer.get("failure") or f"{output}\n{fault}".strip() or "no message"
        return read_framework(name, distribution, failure)
    installed = environment.distributions
    majors = ("13", "12") if name == "jax" else ()
    plugins = (major for major in majors if f"jax-cuda{major}-plugin" in installed)
    return FrameworkFacts(
        name=name,
        version=answer["version"] or distribution.version,
        cuda=answer.get("cuda") or next(plugins, ""),
        is_cpu_only=name == "torch" and answer.get("cuda") == "" and not answer.get("hip"),
        was_imported=True,
        cxx11_abi=answer.get("cxx11_abi"),
        archs=tuple(answer.get("archs", ())),
        available=answer.get("available"),
        why_not=" ".join(answer.get("why_not", ())),
        devices=tuple(
            Device(name=gpu["name"], capability="".join(map(str, gpu["capability"])))
            for gpu in answer.get("devices", ())
        ),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        trouble=answer.get("trouble", "") or fault,
    )


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
