"""Limits of the system as errors: memory, files, processes, a closed output, no folder.

Imported first by every entry point: the next import may exceed the limit. Standard library only.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
import threading
from types import TracebackType

from cuwheel.base.errors import CuwheelError, InstallError, ResourceLimitError, UsageError

_LIMITS = {
    errno.ENOMEM: "memory",
    errno.EAGAIN: "processes",
    errno.EMFILE: "files",
    errno.ENFILE: "files",
}
# Messages of the loader, Python and the kernel where an address space is full.
_NO_MEMORY = (
    *("failed to map segment", "cannot allocate", "returned null without setting"),
    "error return without exception",
)
# Message of CPython 3.10 where memory ends while an import compiles a module.
_NO_MEMORY_TO_COMPILE = re.compile(r"field '\w+' is required for \w+")
_RESERVE = [bytearray(2 << 20)]  # bytes; freed for the report where memory has run out
# With 3, no Python starts; with 4, it ends in a traceback of its own where a package's .pth holds
# code, as setuptools' does; with 15, programs of it do.
_FEWEST_FILES = 64
_FIXES = {
    "memory": "raise the limit (`ulimit -v unlimited`, `--mem` of a Slurm job, the memory of the "
    "container), or run fewer programs at once",
    "files": "raise the limit: `ulimit -n 4096`",
    "processes": "raise the limits on processes and on memory (`ulimit -u`, `ulimit -v unlimited`, "
    "`pids.max` of the container), or end other programs",
}


def limit_error(problem: BaseException) -> CuwheelError | None:
    """Return the error for an exception; None: it is no limit of the system."""
    kind = _limit_of(problem)
    text = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return _error("this process", kind, text) if kind else None


def limit_error_of_program(output: str) -> CuwheelError | None:
    """Return the error for a program's last line; None: it is no limit of the system."""
    line = (output.strip().splitlines() or [""])[-1]
    if os.strerror(errno.EAGAIN) in line:  # as each C library's fork fails
        return _error("a program of it", "processes", line[:200])
    name, _, text = line.partition(": ")
    number = re.match(r"\[Errno (\d+)\]", text)
    problem = {
        "MemoryError": MemoryError(),
        "RuntimeError": RuntimeError(text),
        "ImportError": ImportError(text),
        "SystemError": SystemError(text),
    }.get(name) or OSError(int(number[1]) if number else 0, text)
    kind = _limit_of(problem)
    return _error("a program of it", kind, line[:200]) if kind else None


def damaged_python_error(problem: BaseException) -> CuwheelError | None:
    """Return the error for an import of one of Python's own extension modules; None: it is none."""
    name = getattr(problem, "name", None) or ""
    if not isinstance(problem, ImportError) or name not in sys.stdlib_module_names:
        return None
    return InstallError(
        f"Python's own module {name} can't be imported",
        why=f"{sys.executable}: {problem}",
        fix="if LD_LIBRARY_PATH or LD_PRELOAD is set, put `env -u LD_LIBRARY_PATH -u LD_PRELOAD` "
        "before the command; else repair this Python",
    )


def _error(process: str, kind: str, why: str) -> CuwheelError:
    return ResourceLimitError(
        f"cuwheel can't go on: {process} has used up the {kind} that the system allows it",
        why=why,
        fix=_FIXES[kind],
    )


def _limit_of(problem: BaseException) -> str | None:
    text = str(problem).lower()
    if isinstance(problem, OSError):
        return _LIMITS.get(problem.errno or 0)
    if isinstance(problem, ImportError) and "too many open files" in text:
        return "files"
    if isinstance(problem, ImportError | SystemError):
        return "memory" if any(message in text for message in _NO_MEMORY) else None
    if isinstance(problem, ValueError) and _NO_MEMORY_TO_COMPILE.fullmatch(text):
        return "memory"
    if isinstance(problem, RuntimeError) and "can't start new thread" in text:
        return "processes"
    return "memory" if isinstance(problem, MemoryError) else None


def check_open_files() -> None:
    """Raise ResourceLimitError where another Python would end in a traceback for lack of files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < _FEWEST_FILES:
        raise _error("this process", "files", f"it may open {limit}, and needs {_FEWEST_FILES}")


def check_folder() -> None:
    """Raise UsageError where the working directory was removed."""
    try:
        os.getcwd()  # noqa: PTH109 - before pathlib is needed
    except OSError as error:
        raise UsageError(
            "the current folder is gone",
            why=f"system error: {error.strerror}; it was removed or replaced after you entered it",
            fix='change to a folder that exists: `cd ~`, or `cd "$PWD"` if there is a new one',
        ) from error


def _open_closed_streams() -> None:
    """Open closed standard streams on /dev/null: the next file would get the number of one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # noqa: PERF203 - three
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good


def _report(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """Print a limit or a damaged Python as an error; handle all else as Python does."""
    _RESERVE.clear()
    error = limit_error(problem) or damaged_python_error(problem)
    if error is None:
        sys.__excepthook__(kind, problem, trace)
        return
    os.write(2, f"{error}\n".encode())  # needs little memory
    os._exit(error.exit_code)


def report_limits() -> None:
    """Have limits of memory, files or threads that end this process reported as errors."""
    _open_closed_streams()
    sys.excepthook = _report

    def report_of_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and limit_error(failure.exc_value):
            _report(failure.exc_type, failure.exc_value, failure.exc_traceback)
        threading.__excepthook__(failure)

    threading.excepthook = report_of_thread
