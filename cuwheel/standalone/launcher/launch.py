"""The compiler launcher: stands for nvcc, gcc and g++ in a build, and runs for every file.

It takes out of a command line what makes equal sources give unequal objects, adds what cures the
rest, puts the compile cache in front, and notes when each compile ran. What it does to nvcc's
arguments and why: docs/adr/0015. Written for a short start: it imports what it can't do without.
Standard library only, Python 3.9 or newer; `settings` is written by `toolkitview`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes as long as all else here
import os
import sys
import time

if __package__:
    from cuwheel.standalone import event_log
    from cuwheel.standalone.launcher import direct_mode
    from cuwheel.standalone.launcher.rewrite import (
        Command,
        Refusal,
        Settings,
        host_command,
        nvcc_command,
    )
    from cuwheel.standalone.memory_gate import child
else:  # in a build these scripts lie side by side
    import child  # type: ignore[import-not-found,no-redef]
    import direct_mode  # type: ignore[import-not-found,no-redef]
    import event_log  # type: ignore[import-not-found,no-redef]
    from rewrite import (  # type: ignore[import-not-found,no-redef]
        Command,
        Refusal,
        Settings,
        host_command,
        nvcc_command,
    )

# Python ignores these, and what it starts would.
_RESTORED = (_signal.SIGPIPE, _signal.SIGXFSZ)
_USAGE = 2  # exit status for a command line that is refused
_NOT_STARTED = 127  # as shells have it
_NO_CACHE = "CUWHEEL_NO_COMPILE_CACHE"  # set where the cache doesn't come up


class Running:
    """The program that the launcher waits for.

    Attributes:
        stopped: 128 and the number of the signal that the launcher was told to end by; else 0.
    """

    def __init__(self) -> None:
        self.stopped = 0
        self._pid = 0

    def pass_on(self, number: int, _: object) -> None:
        """Hand a signal on."""
        self.stopped = child.SIGNALLED + number
        if self._pid:
            os.kill(self._pid, number)

    def status_of(
        self, words: list[str], environment: dict[str, str], outputs: tuple[int, ...] = (1, 2)
    ) -> int:
        """Run a program to its end; gives its exit status, as shells have it.

        Args:
            words: its path and arguments.
            environment: its variables.
            outputs: files that it writes to as its standard output and standard error.

        Raises:
            OSError: it can't be started.
        """
        if self.stopped:
            return self.stopped
        written = [(os.POSIX_SPAWN_DUP2, file, to) for to, file in enumerate(outputs, 1)]
        with child.SignalsHeld() as mask:
            self._pid = os.posix_spawn(
                words[0],
                words,
                environment,
                file_actions=written,
                setsigdef=_RESTORED,
                setsigmask=mask,
            )
        status = os.waitpid(self._pid, 0)[1]
        self._pid = 0
        if os.WIFEXITED(status):
            return os.WEXITSTATUS(status)
        return child.SIGNALLED + os.WTERMSIG(status)


def run(command: Command, settings: Settings) -> int:
    """Run a command to its end; a compile with the cache, and a line in the event log.

    Returns:
        Its exit status, as shells have it.

    Raises:
        OSError: it can't be started.
    """
    if not command.source:
        child.become(command.words)
    name = f"{os.getpid()}-{time.monotonic_ns()}"
    started = time.time()
    running = Running()
    child.on_signals(running.pass_on)
    kept = direct_mode.find_entry(command, os.environ, settings)
    if kept and kept.restore(command, (1, 2)):
        cached, status = "direct mode", running.stopped
    else:
        cached, status = _compile(name, command, settings, kept, running)
    fields = {
        "kind": "compile",
        "id": name,
        "name": os.path.basename(command.words[0]),  # noqa: PTH119 - pathlib takes long to import
        "file": command.source,
        "archs": command.archs,
        "dropped": command.dropped,
        "start": started,
        "end": time.time(),
        "status": status,
        "cached": cached,
    }
    event_log.append(settings.events, fields)
    return status


def _compile(
    name: str,
    command: Command,
    settings: Settings,
    kept: direct_mode.Entry | None,
    running: Running,
) -> tuple[str, int]:
    """Compile, with the compile cache where there is one.

    Args:
        name: what the compile is known by.
        command: what is run.
        settings: of the build.
        kept: gets what the compile wrote.
        running: waits for programs.

    Returns:
        The name of the cache that did it, if one did, and the exit status.

    Raises:
        OSError: it can't be started.
    """
    environment = {**os.environ, "CUWHEEL_COMPILE": name, "CUWHEEL_FILE": command.source}
    environment.update(_threads(command))
    cache = () if environment.get(_NO_CACHE) else settings.cache
    held = _held_outputs(name) if cache else ()
    if cache and not _is_done_by(cache, command, running, environment, held):
        cache = ()
    status = 0 if cache else running.status_of(command.words, environment)
    if not status or running.stopped:
        _show(held)
    if kept and cache and held and not running.stopped:
        # A header may have been made meanwhile.
        now = direct_mode.find_entry(command, os.environ, settings)
        if now and now.path == kept.path:
            kept.keep(command, held)
    return (os.path.basename(cache[0]) if cache else ""), status  # noqa: PTH119


def _threads(command: Command) -> dict[str, str]:
    """Let nvcc compile for several archs at once, which doesn't change what it writes.

    By a variable: ccache takes `--threads=2` and `--threads=4` for two compiles. How many parts run
    at once, the memory gate decides.
    """
    jobs = os.environ.get("CUWHEEL_JOBS", "")
    count = min(int(jobs) if jobs.isdigit() else 1, len(command.archs))
    return {"NVCC_APPEND_FLAGS": f"--threads={count}"} if count > 1 else {}


def _is_done_by(
    cache: tuple[str, ...],
    command: Command,
    running: Running,
    environment: dict[str, str],
    held: tuple[int, ...],
) -> bool:
    """Whether the compile succeeded behind the cache; what was said lies in the held outputs.

    sccache refuses some command lines that nvcc takes, and once left no object without a word. So
    what fails is done again without it. Where that fails too, the source is in error, which is told
    once: the held outputs aren't shown.
    """
    output = command.output
    if os.path.isfile(output) and not os.path.islink(output):  # noqa: PTH113, PTH114
        os.unlink(output)  # noqa: PTH108 - an old object would pass for the new one
    try:
        status = running.status_of([*cache, *command.words], environment, held)
    except OSError:
        return False
    return not status and (not output or os.path.exists(output))  # noqa: PTH110


def _held_outputs(name: str) -> tuple[int, ...]:
    """Two files without names; nothing where there can be none: then all is written at once."""
    files = []
    for end in ("out", "err"):
        path = f"{os.environ.get('TMPDIR') or '/tmp'}/cuwheel-{name}.{end}"  # noqa: S108
        try:
            files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(path)  # noqa: PTH108
        except OSError:
            return ()
    return tuple(files)


def _show(held: tuple[int, ...]) -> None:
    for to, file in enumerate(held, 1):
        os.lseek(file, 0, os.SEEK_SET)
        while piece := os.read(file, 1 << 16):
            while piece:
                piece = piece[os.write(to, piece) :]


def main(name: str, arguments: list[str], settings: Settings) -> int:
    """Do what `name` was asked for; gives back the exit status."""
    try:
        if name == "nvcc":
            command = nvcc_command(arguments, settings)
        else:
            command = host_command(name, arguments, settings)
    except Refusal as problem:
        print(problem, file=sys.stderr)
        return _USAGE
    try:
        return run(command, settings)
    except OSError as problem:
        print(
            f"cuwheel: {command.words[0]} can't be started\ncuwheel: because  {problem.strerror}\n"
            "cuwheel: to fix   build again: each build sets up its compilers again",
            file=sys.stderr,
        )
        return _NOT_STARTED
