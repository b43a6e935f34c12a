"""Entry point of every command, and the one place that prints an error."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from cuwheel.base.last_resort import report_limits

report_limits()  # before what follows needs memory

import ctypes

from cuwheel.base.caller import Caller, read_caller
from cuwheel.base.errors import (
    CommandFailedError,
    CuwheelError,
    InstallError,
    UsageError,
    of_system_error,
)
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import disk_full, fullest_disk, is_disk_full
from cuwheel.base.system.output.documents import ErrorDocument
from cuwheel.base.system.output.terminal import use_locale
from cuwheel.build.workspace.printed_error import print_error
from cuwheel.cli.defaults import CONFIG_VARIABLE
from cuwheel.cli.dispatch import run_command

# Commands whose next run takes what a run before has finished.
_CONTINUED = frozenset({"build", "matrix", "mirror", "nightly", "toolchain"})
_PR_SET_PDEATHSIG = 1  # prctl(2)
_INTERRUPTED = 130  # what shells use for a program ended by Ctrl-C
_TERMINATED = 143
_OF_WRITES = (errno.EFBIG, errno.EIO)  # a failed write names no file
_OF_COPIES = (shutil.Error, shutil.SpecialFileError)
_BROKEN_PIPE = 141  # what shells use for a program ended by SIGPIPE


def main(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code, or that of the error that was printed."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    _end_with_nox()
    use_locale(os.environ)
    console, caller = Console(), read_caller()
    os.environ[CONFIG_VARIABLE] = ""  # what this one starts gets options by its command line
    command, *rest = arguments or ("help",)
    try:
        return _run(command, rest, console, caller)
    except KeyboardInterrupt:
        more = ", and the next run continues from here" if command in _CONTINUED else ""
        console.warn(f"interrupted; no partial files are left{more}")
        return _INTERRUPTED
    except BrokenPipeError:  # the reader ended: `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _run(command: str, arguments: Sequence[str], console: Console, caller: Caller) -> int:
    """Run the command, and print its error: for people, and with `--json` as a document."""
    try:
        _check_projects(caller)
        return run_command(command, arguments, console, caller)
    except CuwheelError as error:
        problem = error
    except ModuleNotFoundError as error:
        package = (error.name or "cuwheel").partition(".")[0]
        if package == "cuwheel":  # its own fault
            raise
        problem = _missing_package(package, command, caller)
    except BrokenPipeError:
        raise
    except OSError as error:
        if is_disk_full(error):
            written = error.filename2 or error.filename  # of a copy the first is its source
            problem = disk_full(Path(written) if written else fullest_disk(caller.cache))
        elif error.filename or error.errno in _OF_WRITES or isinstance(error, _OF_COPIES):
            problem = of_system_error(error)
        else:  # no file's fault, so a fault of cuwheel
            raise
    print_error(problem, console, _explained(problem, console))
    if "--json" in arguments and not console.has_answered:
        console.answer(ErrorDocument.of(problem))
    return problem.exit_code


def _missing_package(package: str, command: str, caller: Caller) -> InstallError:
    fix = f"start it as `nox -s {command}`, which makes and takes the environment of its lock"
    if Path(sys.prefix).parent == caller.cache / "engine":  # only its own is removed
        fix += f"; where it was started so, remove {sys.prefix}: the next run makes it again"
    return InstallError(
        f"{command} can't run here", why=f"{sys.prefix} has no package {package}", fix=fix
    )


def _explained(error: CuwheelError, console: Console) -> str:
    if isinstance(error, CommandFailedError) and error.log:
        from cuwheel.check.explain.explain import explained  # noqa: PLC0415 - only after a failure

        with contextlib.suppress(OSError):  # the disk of the log is full, or gone
            return explained(error.log, error.known, console)
    return ""


def _check_projects(caller: Caller) -> None:
    if not caller.environ.get("CUWHEEL_PROJECT"):
        return
    from cuwheel.build.recipe.catalogue import missing_roots  # noqa: PLC0415 - most commands read none

    if missing := missing_roots(caller.roots):
        raise UsageError(
            "CUWHEEL_PROJECT is invalid",
            why="\n".join(missing),
            fix="correct it, or unset it: cuwheel's own recipes don't need it",
        )


def _end(number: int, _: object) -> NoReturn:
    """Exit through the `finally` blocks: they end processes and remove incomplete files."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_TERMINATED)


def _end_with_nox() -> None:
    """Request SIGTERM from the kernel for nox's end, so that killing nox ends the build too."""
    parent = os.environ.pop("CUWHEEL_PARENT", None)  # for this process, not for its children
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before the call above
        sys.exit(_TERMINATED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
