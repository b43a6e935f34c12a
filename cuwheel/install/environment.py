"""An environment that a wheel is installed into, and that can be brought back to what it was."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from cuwheel import limits
from cuwheel.diagnose.facts.environment import PythonEnvironment, ask_environment
from cuwheel.errors import InstallError
from cuwheel.fetch.urls import redact_text
from cuwheel.system.process import run
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.archive import open_wheel
from cuwheel.wheel.metadata import project_of
from cuwheel.wheel.record import RecordFormatError, record_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cuwheel.diagnose.facts.environment import Distribution

_OWN_FILES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")  # of installers
_SHOWN = 8  # last lines of an installer that an error shows


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where it is installed.

    Attributes:
        environment: what it held before.
        environ: of the caller: pip and uv read their settings there.
        log: gets all that the installers say.
    """

    environment: PythonEnvironment
    environ: Mapping[str, str]
    log: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.environment.python

    def command(self, verb: str, *words: str | Path) -> list[str]:
        """What installs or removes: its own pip, else uv."""
        if "pip" in self.environment.distributions:
            start = [str(self.python), "-m", "pip", "--disable-pip-version-check", verb]
            return [*start, *["-y"] * (verb == "uninstall"), *map(str, words)]
        start = [_uv(self.environ), "pip", verb, "--python", str(self.python)]
        return [*start, *map(str, words)]

    def change(self, verb: str, *words: str | Path) -> None:
        """Install or remove.

        Raises:
            InstallError: the installer fails; its own words are the reason.
        """
        done = run(self.command(verb, *words), env=self.environ, log=None, check=False)
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(done.output)
        if done.status:
            lines = [line.strip() for line in done.output.splitlines() if line.strip()]
            raise InstallError(
                f"nothing can be installed into {self.environment.prefix}",
                why=redact_text("; ".join(lines[-_SHOWN:])),
                fix=f"the installer's full output is in {self.log}",
            )

    def now(self) -> PythonEnvironment:
        """What it holds now."""
        return ask_environment(self.python, self.environ)


def is_installed(wheel: Path, project: str, environment: PythonEnvironment) -> bool:
    """Whether an environment holds the very files of a wheel, by the hashes in both RECORDs."""
    there = environment.distributions.get(project)
    if there is None:
        return False
    try:
        installed = {(name, digest) for name, digest, _ in _rows_of(there)}
        rows = _rows_in(wheel)
    except (OSError, UnicodeDecodeError, RecordFormatError):
        return False
    wanted = {(name, digest) for name, digest, _ in rows if digest and ".data/" not in name}
    return bool(wanted) and wanted <= installed


def _rows_of(distribution: Distribution) -> Sequence[tuple[str, str, str]]:
    return record_rows(read_text(distribution.metadata / "RECORD", limit=limits.RECORD))


def _rows_in(path: Path) -> Sequence[tuple[str, str, str]]:
    with open_wheel(path) as wheel:
        return record_rows(wheel.read_text("RECORD"))


def pinned_wheel(wheel: Path, named: str, sha256: str) -> str:
    """A wheel as a requirement, of which the installer checks the hash again.

    Args:
        wheel: the file.
        named: its project, with extras.
        sha256: of it.
    """
    return f"{named} @ {wheel.absolute().as_uri()}#sha256={sha256}"


def install_wheel(destination: Destination, wheel: Path, pinned: str, more: Iterable[str]) -> None:
    """Install a wheel and what it requires that isn't there, as `install_requirements` does.

    Args:
        destination: where.
        wheel: the file.
        pinned: from `pinned_wheel`.
        more: requirements to install with it.

    Raises:
        InstallError: it can't be, and nothing was changed.
    """
    project = project_of(pinned)
    install_requirements(destination, [*more, pinned], but=project)
    if not is_installed(wheel, project, destination.now()):  # another one of this version is there
        destination.change("install", "--force-reinstall", "--no-deps", pinned)


def install_requirements(destination: Destination, wanted: Iterable[str], *, but: str) -> None:
    """Install requirements; what is there stays as it is, and nothing is compiled.

    Args:
        destination: where.
        wanted: as pip takes them.
        but: the project that may be exchanged.

    Raises:
        InstallError: they can't be, and nothing was changed.
    """
    with tempfile.TemporaryDirectory(prefix="cuwheel-") as folder:
        constraints = Path(folder) / "there.txt"
        constraints.write_text("".join(_pins(destination.environment, but)), encoding="utf-8")
        options = ("--only-binary", ":all:", "--constraint", constraints)
        destination.change("install", *options, *wanted)


def _pins(environment: PythonEnvironment, project: str) -> Iterator[str]:
    """Everything that is there, so that no installer exchanges it."""
    for name, one in environment.distributions.items():
        try:
            version = Version(one.version)
        except InvalidVersion:
            continue
        if name != project:
            yield f"{name}=={version}\n"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A project's files as they were.

    Attributes:
        folder: with copies.
        files: where each belongs, by the name of its copy.
    """

    folder: Path
    files: Mapping[str, Path]


def recorded_files(environment: PythonEnvironment, project: str) -> tuple[str, ...]:
    """The files of a project that is installed, as its RECORD names them; none where it isn't.

    Raises:
        InstallError: it has no RECORD that can be read, so nobody knows which files are its own.
    """
    there = environment.distributions.get(project)
    if there is None:
        return ()
    try:
        return tuple(name for name, _, _ in _rows_of(there))
    except (OSError, UnicodeDecodeError, RecordFormatError) as problem:
        missing = isinstance(problem, (FileNotFoundError, NotADirectoryError))
        lack = "has no RECORD" if missing else "has a RECORD that can't be read"
        raise InstallError(
            f"{project} {there.version} {lack}, so it couldn't be restored",
            why=f"{there.metadata} doesn't say which files are its own; this is so for packages "
            "of conda or the system, and for old eggs",
            fix="remove it with the tool that installed it (conda remove, apt remove, pip "
            "uninstall), or name another environment with --python: python3 -m venv DIR "
            "creates one",
        ) from problem


def save(destination: Destination, project: str, folder: Path) -> Saved:
    """Copy the files of a project that is installed; none where it isn't.

    Args:
        destination: where.
        project: its name.
        folder: for the copies.

    Raises:
        InstallError: nobody knows which files are its own.
    """
    there = destination.environment.distributions.get(project)
    files = {}
    if there is not None:
        prefix = destination.environment.prefix.resolve()
        for number, name in enumerate(recorded_files(destination.environment, project)):
            path = Path(os.path.normpath(there.site / name))
            if path.is_file() and path.resolve().is_relative_to(prefix):
                shutil.copy2(path, folder / str(number))
                files[str(number)] = path
    return Saved(folder=folder, files=files)


def restore(destination: Destination, project: str, saved: Saved) -> None:
    """Remove what was installed since, and put a project's files back.

    Raises:
        InstallError: what was installed can't be removed; the error names the command.
    """
    now = destination.now()
    added = sorted(
        now.distributions.keys() - destination.environment.distributions.keys() - {project}
    )
    gone = [*added, *[project] * (project in now.distributions)]
    if gone:
        try:
            destination.change("uninstall", *gone)
        except InstallError as error:
            words = " ".join(destination.command("uninstall", *gone))
            raise InstallError(
                f"{', '.join(gone)} can't be removed afterwards", why=error.why, fix=f"run {words}"
            ) from error
    for name, path in saved.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(saved.folder / name, path)


def _uv(environ: Mapping[str, str]) -> str:
    """The engine's own uv, which its lock pins; else the caller's."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv", path=environ.get("PATH"))
    if not found:
        raise InstallError(
            "there is no installer",
            why="the environment has no pip, and uv is neither beside cuwheel nor on PATH",
            fix="install pip into the environment (python -m ensurepip), or install uv",
        )
    return found
