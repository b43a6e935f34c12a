"""Installation of the engine's own environment from its lock, and start of the engine in it.

Runs in the Python that runs nox, with nox's `virtualenv`, or in that of a container, before any of
the engine's packages is there. Every package is installed with its hash. The environment is named
by its lock and interpreter, so a changed lock makes a new one and an unchanged one costs nothing.

An installed cuwheel lies in a `site-packages` among others, which must not get into that
environment; and a tool's own environment (uvx, pipx) may be removed while a build still runs. So
builds run a copy, `<cache>/engine/cuwheel-<version>-<digest>/`, made once, named by its contents.
"""

from __future__ import annotations

import compileall
import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from cuwheel.base.caller import Caller
from cuwheel.base.errors import (
    NO_LOCKS,
    CuwheelError,
    InstallError,
    LockError,
    of_refused_lock,
    of_system_error,
)
from cuwheel.base.fetch.pip_settings import pip_variables
from cuwheel.base.fetch.retry import SLOW_FIX, ProgramWatch, slow_factor
from cuwheel.base.fetch.urls import configured_mirror, redact_url
from cuwheel.base.last_resort import check_folder, check_open_files, report_limits
from cuwheel.base.paths import PACKAGE, ROOT
from cuwheel.base.spelling import is_console_script
from cuwheel.base.system.cache_folder import check_cache, hold
from cuwheel.version import __version__

_LOCKS = PACKAGE / "envs"  # pyproject.toml puts them there in the wheel
_TICK = 1.0  # seconds between two checks of pip
_TAIL = 15  # lines of pip's output that a failure shows
_BROKEN = "connection broken by "  # in pip's warnings
_SETTINGS = ("PIP_", "VIRTUALENV_")  # variables of pip and virtualenv
_WRITTEN = ("--dist", "--work")  # options of a build that name folders
_INTERRUPTED = 130  # what shells use for a program ended by Ctrl-C


def main(arguments: list[str]) -> int:
    """Replace this process by a Python of the locked environment, `engine` or `dev`.

    Return the exit code of the error that was printed; otherwise don't return.
    """
    report_limits()
    name, *command = arguments
    try:
        check_open_files()
        check_folder()
        caller = Caller(os.environ)
        check_cache(caller.cache, "CUWHEEL_CACHE")
        if compiles := os.environ.get("CUWHEEL_COMPILE_CACHE"):
            check_cache(caller.path(compiles), "CUWHEEL_COMPILE_CACHE")
        root = engine_root(caller.cache / "engine")
        folder = _environment(name, root, command)
        argv = [str(folder / "bin" / "python"), *command]
        os.execve(argv[0], argv, _variables(root, folder))  # noqa: S606 - that's the point
    except CuwheelError as error:
        return _report(error)
    except OSError as error:
        return _report(of_system_error(error))
    except KeyboardInterrupt:
        _print("interrupted; the next run makes the environment again")
        return _INTERRUPTED


def engine_root(folder: Path) -> Path:
    """Return the folder with `cuwheel/` and `envs/`, and nothing else that can be imported.

    It is the checkout that this module belongs to, or a copy below `folder` if cuwheel was
    installed from a wheel.
    """
    return _lay_out(folder) if _LOCKS.is_dir() else ROOT


def _lay_out(folder: Path) -> Path:
    final = folder / f"cuwheel-{__version__}-{_digest()}"
    folder.mkdir(parents=True, exist_ok=True)
    hold(final, with_children=True)  # first, so that it isn't removed after the check
    if final.is_dir():
        return final
    with tempfile.TemporaryDirectory(prefix=".cuwheel-", dir=folder) as name:
        root = Path(name, final.name)
        # With times, so that bytecode stays valid; without what another run is compiling now.
        unfinished = shutil.ignore_patterns("*.pyc.*")
        shutil.copytree(PACKAGE, root / PACKAGE.name, ignore=unfinished)
        for parent, _, _ in os.walk(root / PACKAGE.name):  # the original may be read-only
            Path(parent).chmod(0o755)
        (root / PACKAGE.name / _LOCKS.name).rename(root / _LOCKS.name)
        compileall.compile_dir(root, quiet=2)  # uv compiles nothing
        try:
            root.rename(final)
        except OSError:
            if not final.is_dir():  # another run was faster
                raise
    return final


def _digest() -> str:
    """Return 16 hexadecimal digits over every file, and over the Python that compiles them."""
    paths = []
    for parent, folders, names in os.walk(PACKAGE):
        folders[:] = [name for name in folders if name != "__pycache__"]
        paths += [Path(parent, name) for name in names]
    digest = hashlib.sha256(sys.implementation.cache_tag.encode())
    for path in sorted(paths):
        digest.update(f"{path.relative_to(PACKAGE)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _variables(root: Path, folder: Path) -> dict[str, str]:
    """Return the variables of a Python of an environment.

    A checkout's compiled modules are kept in the environment's folder: the checkout stays clean,
    and they are removed with the environment. The copy of an installed cuwheel has its own. UTF-8
    mode: paths and files mean the same under every locale.
    """
    variables = {**os.environ, "PYTHONPATH": str(root), "PYTHONUTF8": "1"}
    if home := variables.pop("PYTHONHOME", ""):  # of the caller's own Pythons
        variables.setdefault("CUWHEEL_CALLERS_PYTHONHOME", home)
    if root.is_relative_to(folder.parent):
        return {**variables, "PYTHONDONTWRITEBYTECODE": "1"}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**variables, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def _environment(name: str, root: Path, command: list[str]) -> Path:
    lock = root / "envs" / f"{name}.lock"
    if not lock.is_file():
        raise LockError(
            f"envs/{lock.name} is missing",
            why="cuwheel installs nothing without a hash, not even its own tools",
            fix=f"git checkout envs/{lock.name}",
        )
    identity = f"{sys.version}\n{sys.base_prefix}\n{lock.read_text()}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = Caller(os.environ).cache / "engine" / f"{name}-{key}"
    hold(folder, with_children=True)
    if not (folder / "complete").exists():
        _check_written(command)
        _make(folder, lock, offline="--offline" in command)
        hold(folder, with_children=True)  # before, there was perhaps no folder for its mark
    return folder


def _check_written(command: list[str]) -> None:
    """Check the folders that a build is to write, before the half minute of an installation."""
    if "build" not in command:
        return
    from cuwheel.base.system.folders.output_folder import check_writable  # noqa: PLC0415 - seldom

    caller = Caller(os.environ)
    for option, value in zip(command, [*command[1:], ""], strict=True):
        name, sign, joined = option.partition("=")
        if name in _WRITTEN and (joined if sign else value):
            check_writable(caller.path(joined if sign else value))


def _make(folder: Path, lock: Path, *, offline: bool) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as guard:
        try:
            _wait_for(guard)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise of_refused_lock(Path(guard.name), error) from error
        if (folder / "complete").exists():
            return
        venv = _venv_command()
        _print(f"making cuwheel's own environment from envs/{lock.name} (once)")
        # A venv can't be renamed (its scripts hold its path), so it is made in place; the marker
        # `complete` is written last.
        shutil.rmtree(folder, ignore_errors=True)
        pip = [str(folder / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet"]
        options, variables = _source(offline=offline)
        pip += options
        hashed = ("--no-input", "--require-hashes", "--no-deps", "--only-binary", ":all:")
        watch = None
        # From the cache: with `-m`, Python takes modules of the working directory first.
        status, lines = _run([*venv, str(folder)], {}, guard, watch, within=folder.parent)
        if not status:
            watch = ProgramWatch(slow_factor())
            status, lines = _run([*pip, *hashed, "-r", str(lock)], variables, guard, watch)
        if status:
            raise _failure(lines, status, folder, watch, offline=offline)
        (folder / "complete").touch()


def _venv_command() -> list[str]:
    if importlib.util.find_spec("virtualenv"):
        return [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update"]
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return [sys.executable, "-m", "venv"]
    raise InstallError(
        "cuwheel's own environment could not be made",
        why=f"{sys.executable} has neither virtualenv, which comes with nox, nor venv and "
        "ensurepip",
        fix="install virtualenv next to cuwheel: `pip install virtualenv`, `pipx inject cuwheel "
        "virtualenv`, or add `--with virtualenv` to `uvx`"
        if is_console_script()
        else "start cuwheel through nox, or with the Python that nox is installed for",
    )


def _source(*, offline: bool) -> tuple[list[str], dict[str, str]]:
    """Return pip's options and variables for its source: the mirror, else its own configuration.

    Every user can read a program's arguments, and the mirror's address may hold a password.
    """
    mirror = configured_mirror(os.environ, offline=offline)
    if mirror is None:
        return ["--no-index"] if offline else [], pip_variables(os.environ)
    server = urlsplit(redact_url(mirror.address))
    # pip refuses plain http from other machines; the hashes make it safe.
    trusted = ["--trusted-host", server.netloc] if server.scheme == "http" else []
    return ["--no-index", *trusted], {
        **pip_variables(os.environ),
        "PIP_FIND_LINKS": mirror.wheels,
    }


def _wait_for(guard: TextIO) -> None:
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _print("another run is making cuwheel's environment; waiting for it")
        fcntl.flock(guard, fcntl.LOCK_EX)


def _run(
    command: list[str],
    variables: Mapping[str, str],
    guard: TextIO,
    watch: ProgramWatch | None,
    *,
    within: Path | None = None,
) -> tuple[int, list[str]]:
    """Run a command that inherits the lock, and so keeps it when this process is killed.

    Only a download has a watch: venv's time depends on the disk.
    """
    # Settings that change how pip and virtualenv install don't count.
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(_SETTINGS)}
    configs = {"VIRTUALENV_CONFIG_FILE": os.devnull, "PIP_CONFIG_FILE": os.devnull}
    with subprocess.Popen(  # noqa: S603 - our own command
        command,
        cwd=within,
        env={**inherited, **configs, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=(guard.fileno(),),
    ) as child:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, _ = child.communicate(timeout=_TICK)
                    return child.returncode, output.splitlines()
                if watch and watch.is_stalled(child.pid):
                    child.kill()
        except BaseException:
            child.kill()
            raise


def _failure(
    lines: list[str],
    status: int,
    folder: Path,
    watch: ProgramWatch | None,
    *,
    offline: bool,
) -> CuwheelError:
    if watch and watch.fault:
        return InstallError(
            "cuwheel's own environment could not be made",
            why=f"pip was terminated: {watch.fault}",
            fix=SLOW_FIX,
        )
    if any("No space left on device" in line for line in lines):
        return of_system_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)))
    # pip warns of each failed attempt, and in the end only reports that nothing was found.
    relevant = [line for line in lines if line.strip() and not line.startswith("WARNING:")]
    broken = [line.partition(_BROKEN)[2] for line in lines if _BROKEN in line]
    why = f"pip's last attempt: {broken[-1]}" if broken else (relevant or [f"status {status}"])[-1]
    last = "".join(f"\n    {line}" for line in relevant[-_TAIL:])
    return InstallError(
        "cuwheel's own environment could not be made",
        why=why,
        fix="run once without --offline, which fills the cache; or set CUWHEEL_MIRROR to a folder "
        "that `nox -s mirror` wrote for this Python"
        if offline
        else "check that the package index can be reached (pip's own configuration applies here), "
        f"then run the same command again; its last lines were{last}",
    )


def _report(error: CuwheelError) -> int:
    print(error, file=sys.stderr)  # noqa: T201 - there is no console yet
    return error.exit_code


def _print(text: str) -> None:
    print(f"cuwheel: {text}", file=sys.stderr)  # noqa: T201 - there is no console yet


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
