"""Ask an interpreter what its environment holds, and its frameworks what they see of CUDA."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from cuwheel.errors import CommandFailedError, InterpreterNotFoundError
from cuwheel.standalone import script
from cuwheel.system.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping


_SCRIPT = script("probes/environment.py")
FACTS_TIME_LIMIT = 15.0  # seconds; a slow disk with hundreds of packages
IMPORT_TIME_LIMIT = 60.0  # seconds; the first import of torch from a slow disk
_OLDEST = (3, 8)  # that the script runs in
_VERSION = "import sys; sys.stdout.write('%d.%d.%d' % sys.version_info[:3])"  # Python 2 too
_RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+")
_KILLED = -9
FRAMEWORKS = ("torch", "jax", "cupy", "tensorflow")
# Their distributions are named for CUDA releases.
_OF_FRAMEWORK = {"cupy": ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")}
# Its import takes long and prints much, so nothing is asked of it.
_ONLY_READ = ("tensorflow",)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """An installed project.

    Attributes:
        name: normalised.
        version: as its metadata say.
        site: the folder that it is installed in.
        requires: its `Requires-Dist` lines.
        libraries: the shared libraries that it says it has installed.
    """

    name: str
    version: str
    site: Path
    requires: tuple[str, ...]
    libraries: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class PythonEnvironment:
    """What an interpreter says of its environment.

    Attributes:
        python: the program that was asked.
        version: `3.12.1`.
        prefix: folder of the environment.
        sites: the folders on its path.
        suffixes: names of extension modules end so.
        is_conda: conda made it.
        markers: what its requirements' markers are judged by.
        distributions: what is installed, the first of two with one name.
        damaged: metadata that can't be read: path and reason.
        shadowed: distributions of which another copy comes first.
    """

    python: Path
    version: str
    prefix: Path
    sites: tuple[Path, ...]
    suffixes: tuple[str, ...]
    is_conda: bool
    markers: Mapping[str, str]
    distributions: Mapping[str, Distribution]
    damaged: tuple[tuple[str, str], ...] = ()
    shadowed: tuple[Distribution, ...] = ()

    @property
    def release(self) -> str:
        """`3.12` of 3.12.1."""
        return ".".join(self.version.split(".")[:2])


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


def ask_environment(python: Path, environ: Mapping[str, str]) -> PythonEnvironment:
    """Let an interpreter describe its environment.

    Args:
        python: the program.
        environ: what it is to see.

    Raises:
        InterpreterNotFoundError: it isn't a Python that runs.
    """
    answer, output, fault = _ask(python, {"ask": "facts"}, environ, FACTS_TIME_LIMIT)
    if "version" not in answer:
        _refuse_old_python(python, environ)
        said = (output.strip().splitlines() or [""])[-1][:160]
        raise InterpreterNotFoundError(
            f"{python} is no Python that can be asked",
            why=": ".join(part for part in (fault or "it gave no sensible answer", said) if part),
            fix="name an interpreter of 3.8 or newer, or its environment, with --python",
        )
    found: dict[str, Distribution] = {}
    shadowed = []
    rows = answer.get("distributions", ())
    for row in rows:
        if row["name"]:
            one = _distribution(row)
            if one.name not in found:
                found[one.name] = one
            elif found[one.name].site != one.site:
                shadowed.append(one)
    return PythonEnvironment(
        python=python,
        version=answer["version"],
        prefix=Path(answer["prefix"]),
        sites=tuple(Path(entry) for entry in answer["path"]),
        suffixes=tuple(answer["suffixes"]),
        is_conda=answer["is_conda"],
        markers=answer["markers"],
        distributions=found,
        damaged=tuple((row["place"], row["fault"]) for row in rows if row["fault"]),
        shadowed=tuple(shadowed),
    )


def _refuse_old_python(python: Path, environ: Mapping[str, str]) -> None:
    """See that it isn't older than what describes environments; an older one calls that an error.

    Raises:
        InterpreterNotFoundError: it is.
    """
    try:
        done = run([python, "-c", _VERSION], env=environ, timeout=FACTS_TIME_LIMIT, check=False)
    except CommandFailedError:
        return
    found = _RELEASE.fullmatch(done.output.strip())
    if found and (int(found[1]), int(found[2])) < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise InterpreterNotFoundError(
            f"{python} is Python {found[0]}, and diagnose needs {needed} or newer",
            why="what describes its packages doesn't run in older ones, and no GPU package of the "
            "last years does",
            fix=f"name an interpreter of {needed} or newer, or its environment, with --python",
        )


def _distribution(row: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=canonicalize_name(row["name"]),
        version=row["version"],
        site=Path(row["place"]).parent,
        requires=tuple(row["requires"]),
        libraries=tuple(map(Path, row["libraries"])),
    )


def frameworks_of(environment: PythonEnvironment) -> dict[str, Distribution]:
    """The frameworks that are installed, by the name that they are imported by."""
    found = {}
    for name in FRAMEWORKS:
        for project in _OF_FRAMEWORK.get(name, (name,)):
            if project in environment.distributions:
                found[name] = environment.distributions[project]
    return found


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
    answer, output, fault = _ask(environment.python, question, env, IMPORT_TIME_LIMIT)
    if "file" not in answer:
        failure = answer.get("failure") or f"{fault}\n{output}".strip() or "no word"
        if fault and not answer.get("failure"):
            failure = f"{output}\n{fault}".strip()
        return _read_framework(name, distribution, failure)
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


def _read_framework(name: str, distribution: Distribution, failure: str) -> FrameworkFacts:
    """What torch/version.py says, without running it."""
    answer: dict[str, Any] = {}
    path = distribution.site / name / "version.py"
    try:
        statements = ast.parse(path.read_text(errors="replace")).body
    except (OSError, SyntaxError, ValueError):
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
    answer, output, fault = _ask(environment.python, question, environ, IMPORT_TIME_LIMIT)
    failure = answer.get("failure", "")
    return ModuleRun(
        status=answer.get("status"),
        output=f"{output}\n{failure}".strip(),
        libraries=tuple(map(Path, answer.get("libraries", ()))),
        fault="" if answer.get("complete") else fault or "it crashed",
    )


def _ask(
    python: Path, question: Mapping[str, str], environ: Mapping[str, str], limit: float
) -> tuple[dict[str, Any], str, str]:
    """The answer as far as it came, what was said beside it, and why it isn't complete."""
    with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
        written = Path(folder, "answer.json")
        try:
            done = run(
                [python, _SCRIPT, json.dumps(question), written],
                env=environ,
                cwd=Path(folder),
                timeout=limit,
                check=False,
            )
        except CommandFailedError as error:
            return {}, "", error.why
        try:
            answer: dict[str, Any] = json.loads(written.read_text())
        except (OSError, ValueError):
            answer = {}
    if answer.get("complete"):
        return answer, done.output, ""
    if done.status == _KILLED:
        return answer, done.output, f"no answer within {limit:.0f} s"
    how = f"signal {-done.status}" if done.status < 0 else f"status {done.status}"
    return answer, done.output, f"it ended with {how}"
