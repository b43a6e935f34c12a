"""Start of every command, and the one place that prints an error."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cuwheel.cli.dispatch import run_command
from cuwheel.errors import (
    CommandFailedError,
    CuwheelError,
    InstallError,
    UsageError,
    of_system_error,
)
from cuwheel.paths import default_cache, project_roots
from cuwheel.system.console import Console, print_error
from cuwheel.system.files import disk_full
from cuwheel.system.output.documents import ErrorDocument
from cuwheel.system.output.terminal import use_locale

if TYPE_CHECKING:
    from collections.abc import Sequence


_PR_SET_PDEATHSIG = 1  # prctl(2)
_INTERRUPTED = 130  # what shells use for a program ended by Ctrl-C
_TERMINATED = 143
_BROKEN_PIPE = 141  # what shells use for a program that writes where nobody reads


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        What the command gives back, else 0; or the exit code of the error that was printed.
    """
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    _end_with_nox()
    use_locale(os.environ)
    console = Console()
    command, *rest = arguments or ("help",)
    try:
        return _run(command, rest, console)
    except KeyboardInterrupt:
        console.warn("interrupted; no partial files are left, and the next run continues from here")
        return _INTERRUPTED
    except BrokenPipeError:  # who read the report has enough: `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _run(command: str, arguments: Sequence[str], console: Console) -> int:
    """Run it, and say why it failed if it does: to a person, and with `--json` to a program."""
    try:
        _check_projects()
        return run_command(command, arguments, console)
    except CuwheelError as error:
        problem = error
    except ModuleNotFoundError as error:
        package = (error.name or "cuwheel").partition(".")[0]
        if package == "cuwheel":  # its own fault
            raise
        problem = _missing_package(package, command)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            problem = disk_full(Path(error.filename or default_cache()))
        elif error.filename:
            problem = of_system_error(error)
        else:  # no file's fault, so a fault of cuwheel
            raise
    print_error(problem, console, _explained(problem, console))
    if "--json" in arguments and not console.has_answered:
        console.answer(ErrorDocument.of(problem))
    return problem.exit_code


def _missing_package(package: str, command: str) -> InstallError:
    """A command was started in an environment that isn't for it, or in a damaged one."""
    fix = f"start it as `nox -s {command}`, which makes and takes the environment of its lock"
    if Path(sys.prefix).parent == default_cache() / "engine":  # never advise that of another one
        fix += f"; where it was started so, remove {sys.prefix}: the next run makes it again"
    return InstallError(
        f"{command} can't run here", why=f"{sys.prefix} has no package {package}", fix=fix
    )


def _explained(error: CuwheelError, console: Console) -> str:
    """What the log of a failed program says."""
    if isinstance(error, CommandFailedError) and error.log:
        from cuwheel.explain.session import explained  # noqa: PLC0415 - only where it failed

        with contextlib.suppress(OSError):  # the log went with the disk: the error says enough
            return explained(error.log, error.known, console)
    return ""


def _check_projects() -> None:
    if not os.environ.get("CUWHEEL_PROJECT"):
        return
    from cuwheel.model.catalogue import missing_roots  # noqa: PLC0415 - most commands read none

    if lost := missing_roots(project_roots()):
        raise UsageError(
            "CUWHEEL_PROJECT is invalid",
            why="\n".join(lost),
            fix="correct it, or unset it: cuwheel's own recipes don't need it",
        )


def _end(number: int, _: object) -> NoReturn:
    """Leave through the `finally` blocks: they end processes and remove what is half made."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_TERMINATED)


def _end_with_nox() -> None:
    """Ask the kernel for SIGTERM when nox dies, so that killing nox ends the build too."""
    parent = os.environ.pop("CUWHEEL_PARENT", None)  # for this process, not for its children
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before the call above
        sys.exit(_TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
