"""Choice of an interpreter, and the facts of its environment: distributions, paths, markers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from cuwheel.base.errors import CuwheelError, InterpreterNotFoundError
from cuwheel.base.formats.wheel.record import RecordFormatError, record_rows
from cuwheel.base.last_resort import limit_error_of_program
from cuwheel.base.system.process import output_within
from cuwheel.base.system.pythons import programs_on_path, starts
from cuwheel.base.system.regular_files import parse_json, read_text
from cuwheel.check.diagnose.facts.machine import mount_without_programs
from cuwheel.check.diagnose.facts.probe import ProbePlace, probe_environment

FACTS_TIME_LIMIT = 15.0  # seconds; a slow disk with hundreds of packages
# Debian's packages with the headers, by the module that a build of Python leaves out otherwise.
LACKING_MODULES = {
    "_bz2": "libbz2-dev",
    "_ctypes": "libffi-dev",
    "_lzma": "liblzma-dev",
    "_sqlite3": "libsqlite3-dev",
    "_ssl": "libssl-dev",
}
_PYTHONS_ERROR = re.compile(r"[A-Z]\w*Error: |Fatal Python error")
# Of `site.py`.
_STARTUP = re.compile(
    r"Error processing line \d+ of (.*):$|Error in (sitecustomize|usercustomize);"
)
_OLDEST = (3, 8)  # that the script runs in
# Of the error about an older one.
OLD_RELEASE = re.compile(r"Python ([\d.]+) is older than")
_RELEASE = "import sys; print('%d.%d.%d' % sys.version_info[:3])"  # in the syntax of any Python
_RENAMING = "~-.=%0123456789"  # characters that pip puts before a name
_PROGRAMS = ("python3", "python")
# Installers that write every file of a wheel, and list it.
WITH_RECORD = frozenset({"pip", "uv", "poetry", "pdm", "hatch"})
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


@dataclass(frozen=True, kw_only=True)
class ChosenPython:
    """An interpreter, or why there is none.

    Attributes:
        path: the program, links not followed; None where there is none.
        packages: a folder of packages without a Python, which are examined with that one.
    """

    path: Path | None
    how: str
    packages: Path | None = None
    fault: str = ""
    fix: str = ""
    command: str = ""

    @property
    def is_active(self) -> bool:
        """True if it is the activated environment."""
        return self.how.startswith("$")


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """An installed project.

    Attributes:
        metadata: its own folder there, `torch-2.11.0.dist-info`.
        requires: its `Requires-Dist` lines.
    """

    name: str
    version: str
    site: Path
    metadata: Path
    requires: tuple[str, ...]
    libraries: tuple[Path, ...]

    @property
    def title(self) -> str:
        """`torch 2.11.0`."""
        return f"{self.name} {self.version}"

    @property
    def origin(self) -> dict[str, Any]:
        """What an installer has noted of where it came from (PEP 610); empty: of an index."""
        try:
            origin = parse_json(read_text(self.metadata / "direct_url.json"))
        except (OSError, ValueError):
            return {}
        return origin if isinstance(origin, dict) else {}

    @property
    def editable_folder(self) -> str:
        """The folder of an editable project; empty for all others."""
        origin = self.origin
        is_editable = bool((origin.get("dir_info") or {}).get("editable"))
        return unquote(urlsplit(str(origin.get("url", ""))).path) if is_editable else ""

    @property
    def installer(self) -> str:
        """The program that has installed it, `pip`; empty: none has written its name."""
        try:
            return read_text(self.metadata / "INSTALLER").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    @property
    def lacks_record(self) -> bool:
        """True if pip can't replace it: no list of its files is left.

        conda and Debian remove theirs on purpose.
        """
        if self.metadata.suffix != ".dist-info" or (self.metadata / "RECORD").exists():
            return False
        return self.installer in WITH_RECORD


@dataclass(frozen=True, kw_only=True)
class PythonEnvironment:
    """The environment of an interpreter.

    Attributes:
        version: `3.12.1`.
        shadowed: distributions that another one of the same name comes before on the path, or that
            are there with the metadata of another release.
        leftovers: pip's folders, `~orch`, of an interrupted installation or removal.
        lost: the projects that these held, which are installed no more.
        managed: the file by which a system keeps installers out of its own Python; empty elsewhere.
        startup_faults: by file, the exception of a `.pth` or a `sitecustomize` at each start.
        scheme: folders that wheels are installed into, by sysconfig's names: `purelib`, `data`.
        lacking: modules that this Python was built without, of a few that packages need.
        variables: of GPUs and the loader, by name, that each start sets, with their values.
        started: modules that each start has imported before it comes to the working folder.
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
    leftovers: tuple[Path, ...] = ()
    lost: tuple[Distribution, ...] = ()
    managed: str = ""
    startup_faults: Mapping[str, str] = field(default_factory=dict)
    scheme: Mapping[str, Path] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    started: frozenset[str] = frozenset()

    @property
    def journal(self) -> Path:
        """The folder in which `install` keeps what it needs to undo a run that was killed."""
        return self.prefix / ".cuwheel-install"

    @property
    def is_musl(self) -> bool:
        """True if its Python is for musl, as Alpine's."""
        return any("-musl" in suffix for suffix in self.suffixes)

    @property
    def release(self) -> str:
        """`3.12` of 3.12.1."""
        return ".".join(self.version.split(".")[:2])


def find_environment(request: str | None, environ: Mapping[str, str], start: Path) -> ChosenPython:
    """Find the interpreter of the environment to examine.

    Args:
        request: the value of `--python`: a program, the folder of an environment, or the name of a
            conda environment; None: the active environment's, else the `python3` on `PATH`.
        start: the folder that paths are relative to.
    """
    if request is None:
        return _default(environ)
    path, how = start / Path(request).expanduser(), f"--python {request}"
    if path.is_dir():
        chosen = _in_folder(path, how)
        has_program = any(os.path.lexists(path / "bin" / name) for name in _PROGRAMS)
        packages = _packages_in(path) if chosen.path is None and not has_program else None
        return _with_packages(packages, how, environ) if packages else chosen
    if path.exists():
        is_program = os.access(path, os.X_OK)
        return ChosenPython(path=path, how=how) if is_program else _without_permission(path, how)
    return _without_base(path, how) if path.is_symlink() else _by_name(request, how, environ)


def _by_name(request: str, how: str, environ: Mapping[str, str]) -> ChosenPython:
    """Find a conda environment, or a program on `PATH`."""
    folders = list(_conda_folders(environ))
    for folder in folders:
        if folder.name == request and folder.is_dir():
            return _in_folder(folder, f"the conda environment {request}")
    if os.sep not in request and (program := _first_on_path((request,), environ)):
        return ChosenPython(path=program, how=f"{request} on PATH")
    names = ", ".join(sorted({folder.name for folder in folders})) or "none"
    return ChosenPython(
        path=None,
        how=how,
        fault=f"{request} is neither a file, a folder, a program on PATH nor a conda environment "
        f"(found: {names})",
        fix="name an interpreter, the folder of an environment, or a conda environment",
    )


def _packages_in(folder: Path) -> Path | None:
    """Return the folder of packages that a folder is, or has as an environment without programs."""
    folders = (folder, *sorted(folder.glob("lib/python3*/site-packages")))
    return next((each for each in folders if any(each.glob("*.dist-info"))), None)


def _with_packages(folder: Path, how: str, environ: Mapping[str, str]) -> ChosenPython:
    """Return the interpreter that examines a folder of packages, as `pip --target` makes it."""
    python = _default(environ)
    if python.path is None:
        return python
    how = f"{how}, a folder of packages, with {python.how}"
    return ChosenPython(path=python.path, how=how, packages=folder)


def _default(environ: Mapping[str, str]) -> ChosenPython:
    for name in _ACTIVE:
        if environ.get(name):
            return _in_folder(Path(environ[name]), f"${name}")
    if program := _first_on_path(_PROGRAMS, environ):
        return ChosenPython(path=program, how=f"{program.name} on PATH")
    return ChosenPython(
        path=None,
        how="PATH",
        fault="there is no python3 on PATH, and no environment is active",
        fix="activate an environment, or name one with --python",
    )


def _first_on_path(names: tuple[str, ...], environ: Mapping[str, str]) -> Path | None:
    """Return the first program that runs; the first one if none does, so that it is diagnosed."""
    programs = list(programs_on_path(names, environ))
    running = (path for path in programs if len(programs) == 1 or starts(path, environ))
    return next(running, programs[0] if programs else None)


def _in_folder(folder: Path, how: str) -> ChosenPython:
    programs = [folder / "bin" / name for name in _PROGRAMS]
    for path in programs:
        if os.access(path, os.X_OK):
            return ChosenPython(path=path, how=how)
    if program := next(filter(Path.is_file, programs), None):
        return _without_permission(program, how)
    fault = f"the folder {folder} {'has no bin/python' if folder.is_dir() else 'does not exist'}"
    fix = "name an interpreter or another environment with --python, or activate another one"
    if link := next(filter(Path.is_symlink, programs), None):
        return _without_base(link, how)
    return ChosenPython(path=None, how=how, fault=fault, fix=fix)


def _without_base(link: Path, how: str) -> ChosenPython:
    try:
        fault = f"{link} points to {link.resolve()}, which no longer exists"
    except (OSError, RuntimeError):  # Python 3.12 and older
        fault = f"{link} leads to itself"
    fix = "create the environment again: the Python that it was created from was removed"
    command = command_to_relink(link)
    fix = "put back the links to the Python that it was created from" if command else fix
    return ChosenPython(path=None, how=how, fault=fault, fix=fix, command=command)


def command_to_relink(program: Path, release: str = "") -> str:
    """Return the command that links an environment to the Python that its pyvenv.cfg names.

    Args:
        release: `3.12` of its packages; empty: that of pyvenv.cfg. Empty without such a Python.
    """
    folder = program.parent.parent
    try:
        lines = [line.partition("=") for line in read_text(folder / "pyvenv.cfg").splitlines()]
    except (OSError, UnicodeDecodeError):
        return ""
    named = {name.strip(): value.strip() for name, _, value in lines}
    version = named.get("version") or named.get("version_info", "")
    minor = release or ".".join(version.split(".")[:2])
    base = Path(named.get("home", ""), f"python{minor}")
    if not minor or not os.access(base, os.X_OK) or base.parent == program.parent:
        return ""
    links = shlex.quote(str(folder / "bin")) + "/$name"
    names = f"python python3 python{minor}"
    return f"for name in {names}; do ln -sf {shlex.quote(str(base))} {links}; done"


def _without_permission(program: Path, how: str) -> ChosenPython:
    if mount := mount_without_programs(program):
        fault = f"{program} can't be executed: {mount} is mounted with noexec"
        fix = "create the environment on another file system, or mount this one without noexec"
        return ChosenPython(path=None, how=how, fault=fault, fix=fix)
    fault = f"{program} can't be executed: its permissions don't allow it"
    command = shlex.join(("chmod", "+x", str(program)))
    fix = f"{command}, if that is the interpreter"
    return ChosenPython(path=None, how=how, fault=fault, fix=fix, command=command)


def _conda_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield conda's environments: next to the active one, and those in conda's own list."""
    if prefix := environ.get("CONDA_PREFIX"):
        active = Path(prefix)
        folder = active.parent if active.parent.name == "envs" else active / "envs"
        yield from sorted(folder.glob("*"))
    for name in filter(None, environ.get("CONDA_ENVS_PATH", "").split(os.pathsep)):
        yield from sorted(Path(name).glob("*"))
    home = Path(environ.get("HOME") or Path.home())
    try:
        lines = read_text(home / ".conda" / "environments.txt").splitlines()
    except OSError:
        return
    yield from (Path(line.strip()) for line in lines if line.strip())


def read_chosen_environment(
    request: str | None, environ: Mapping[str, str], start: Path
) -> tuple[ChosenPython, PythonEnvironment]:
    """Find the interpreter of `--python`, as `find_environment` does, and read its environment.

    Raises:
        InterpreterNotFoundError: there is none, or it can't be run.
    """
    chosen = find_environment(request, environ, start)
    if chosen.path is None:
        raise InterpreterNotFoundError(
            "there is no Python to look into", why=chosen.fault, fix=chosen.fix
        )
    return chosen, read_environment(chosen.path, environ)


def read_environment(
    python: Path, environ: Mapping[str, str], place: ProbePlace | None = None
) -> PythonEnvironment:
    """Read the environment of an interpreter, by a script that the interpreter runs.

    Args:
        place: where it runs, if the environment holds code that has never run.

    Raises:
        InterpreterNotFoundError: it isn't a Python that runs.
        ResourceLimitError: the system doesn't let it run.
    """
    request = {"request": "facts"}
    answer, output, fault = probe_environment(python, request, environ, FACTS_TIME_LIMIT, place)
    if "version" not in answer:
        raise _unread(python, output, fault, environ)
    installed = answer.get("distributions", ())
    # Pip renames what it removes so, and gives it the name back where the removal fails.
    leftovers = [Path(row["place"]) for row in installed if Path(row["place"]).name.startswith("~")]
    rows = [row for row in installed if Path(row["place"]) not in leftovers]
    distributions: dict[str, Distribution] = {}
    shadowed = []
    for distribution in (_distribution(row) for row in rows if row["name"]):
        first = distributions.setdefault(distribution.name, distribution)
        if first.metadata == distribution.metadata:
            continue
        is_real = first.site == distribution.site and _fit(first) < _fit(distribution)
        if is_real:
            distributions[distribution.name] = distribution
        shadowed.append(first if is_real else distribution)
    folders = (path for metadata in leftovers for path in _leftovers(metadata))
    left = [_distribution(row) for row in installed if row["name"] and row not in rows]
    return PythonEnvironment(
        python=python,
        version=answer["version"],
        prefix=Path(answer["prefix"]),
        sites=tuple(map(Path, answer["path"])),
        suffixes=tuple(answer["suffixes"]),
        is_conda=answer["is_conda"],
        markers=answer["markers"],
        distributions=distributions,
        damaged=tuple((row["place"], row["fault"]) for row in rows if row["fault"]),
        shadowed=tuple(shadowed),
        leftovers=tuple(dict.fromkeys(folders)),
        lost=tuple(one for one in left if one.name not in distributions),
        managed=answer.get("managed", ""),
        startup_faults=_startup_faults(output),
        scheme={name: Path(path) for name, path in answer.get("scheme", {}).items()},
        lacking=tuple(answer.get("lacking", ())),
        variables={
            name: value
            for name, value in answer.get("variables", {}).items()
            if environ.get(name) != value
        },
        started=frozenset(answer.get("started", ())),
    )


def _fit(distribution: Distribution) -> tuple[int, bool]:
    """Return how many files have the size that the metadata say, and whether these list itself."""
    own = f"{distribution.metadata.name}/"
    try:
        rows = list(record_rows(read_text(distribution.metadata / "RECORD")))
        sizes = {distribution.site / name: size for name, _, size in rows if size.isdecimal()}
    except (OSError, UnicodeDecodeError, RecordFormatError):
        return 0, False
    files = ((path, size) for path, size in sizes.items() if os.access(path, os.R_OK))
    count = sum(str(path.stat().st_size) == size for path, size in files)
    return count, any(name.startswith(own) for name, _, _ in rows)


def _startup_faults(output: str) -> dict[str, str]:
    """Return what Python prints at its start about `.pth` files and `sitecustomize`."""
    faults: dict[str, str] = {}
    name = ""
    for line in map(str.strip, output.splitlines()):
        if match := _STARTUP.match(line):
            name = match[1] or match[2]
        elif name and _PYTHONS_ERROR.match(line):
            faults[name], name = line, ""
    return faults


def _leftovers(metadata: Path) -> Iterator[Path]:
    """Yield the renamed metadata of a distribution, then the renamed folders that RECORD names.

    Any other folder with `~` before its name may be a person's own.
    """
    if metadata.suffix != ".dist-info":
        return
    yield metadata
    try:
        names = [name for name, _, _ in record_rows(read_text(metadata / "RECORD"))]
    except (OSError, UnicodeDecodeError, RecordFormatError):
        return
    folders = {name.partition("/")[0] for name in names if "/" in name}
    for path in sorted(metadata.parent.glob("~*")):
        if path.is_dir() and any(_is_renamed(path.name, folder) for folder in folders):
            yield path


def _is_renamed(name: str, folder: str) -> bool:
    """Return True if pip may have renamed a folder so, as its `AdjacentTempDirectory` does.

    `~` and some of a few characters take the place of the first letters, or come before all.
    """
    rest = name.lstrip(_RENAMING)
    is_end = bool(rest) and name != rest and folder.endswith(rest)
    return is_end and (len(name) == len(folder) or rest == folder)


def _old_release(python: Path, environ: Mapping[str, str]) -> str:
    """Return the release of a Python that is too old for the script; empty: it isn't."""
    output, fault = output_within([python, "-c", _RELEASE], FACTS_TIME_LIMIT, environ)
    lines = output.splitlines()
    numbers = re.findall(r"\d+", lines[-1]) if lines and not fault else []
    return ".".join(numbers) if numbers and tuple(map(int, numbers)) < _OLDEST else ""


def _unread(python: Path, output: str, fault: str, environ: Mapping[str, str]) -> CuwheelError:
    """Return the error about a program that hasn't answered."""
    oldest = ".".join(map(str, _OLDEST))
    if limit := limit_error_of_program(output or f"OSError: {fault}"):
        return limit
    if not fault.startswith("no answer") and (release := _old_release(python, environ)):
        return InterpreterNotFoundError(
            f"Python {release} is older than {oldest}",
            why="environments of older ones can't be examined",
            fix=f"create an environment with Python {oldest} or newer, and name it with --python",
        )
    errors = [line[:160] for line in output.splitlines() if _PYTHONS_ERROR.search(line)]
    return InterpreterNotFoundError(
        f"{python} can't be examined as a Python of {oldest} or newer",
        why=": ".join((fault or "it printed no valid answer", *errors[-1:])),
        fix=f"name an interpreter of {oldest} or newer, or its environment, with --python",
    )


def _distribution(row: Mapping[str, Any]) -> Distribution:
    return Distribution(
        name=canonicalize_name(row["name"]),
        version=row["version"],
        site=Path(row["place"]).parent,
        metadata=Path(row["place"]),
        requires=tuple(row["requires"]),
        libraries=tuple(map(Path, row["libraries"])),
    )
