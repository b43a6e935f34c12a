"""The compiler launcher: runs in place of nvcc, gcc and g++ in a build, for every file.

It removes from a command line what makes equal sources give unequal objects, adds what cures the
rest, puts the compile cache in front, and records when each compile ran. Its changes to nvcc's
arguments and their reasons: docs/adr/0015. `toolkit_view` writes `settings`.
"""

from __future__ import annotations

import os
import sys
import time

from cuwheel.build.compile.launcher import direct_mode, kept_files, kept_inputs, standin
from cuwheel.build.compile.launcher.rewrite import (
    CompilerCommand,
    Refusal,
    Settings,
    host_command,
    nvcc_command,
)
from cuwheel.build.compile.memory_gate import child, event_log

_USAGE = 2  # exit status for a command line that is refused
_NOT_STARTED = 127  # as shells have it
_ONLY_ARCHS = "CUWHEEL_ONLY_ARCHS"  # `own_archs`, which takes long to import
_NO_CACHE = "CUWHEEL_NO_COMPILE_CACHE"  # set where the cache doesn't come up


class Running:
    """The program that the launcher waits for.

    Attributes:
        stopped: 128 and the number of the signal by which the launcher was ended; else 0.
    """

    def __init__(self) -> None:
        self.stopped = 0
        self._pid = 0

    def forward(self, number: int, _: object) -> None:
        """Forward a signal to the program."""
        self.stopped = child.SIGNALLED + number
        if self._pid:
            os.kill(self._pid, number)

    def status_of(
        self, argv: list[str], environment: dict[str, str], outputs: tuple[int, ...] = (1, 2)
    ) -> int:
        """Run a program to its end; return its exit status, as shells have it."""
        if self.stopped:
            return self.stopped
        actions = [(os.POSIX_SPAWN_DUP2, file, to) for to, file in enumerate(outputs, 1)]
        with child.SignalsHeld() as mask:
            self._pid = os.posix_spawn(
                argv[0],
                argv,
                environment,
                file_actions=actions,
                setsigdef=child.RESTORED,
                setsigmask=mask,
            )
        status = os.waitpid(self._pid, 0)[1]
        self._pid = 0
        return child.shell_status(status)


def run(command: CompilerCommand, settings: Settings) -> int:
    """Run a command, a compile with cache and a line in the event log; return its status."""
    if not command.source:
        child.become(command.argv)
    name = f"{os.getpid()}-{time.monotonic_ns()}"
    started = time.time()
    begin = kept_inputs.log_size(settings.events)
    running = Running()
    child.on_signals(running.forward)
    share = tuple(os.environ.get(_ONLY_ARCHS, "").split())
    entry = direct_mode.find_entry(command, os.environ, settings)
    if entry and direct_mode.restore(entry, command):
        cached, status = "direct mode", running.stopped
    elif share:
        cached, status = _compile_share(name, command, settings, running)
    else:
        cached, status = _compile(name, command, settings, entry, running)
        if not status:
            kept_inputs.note(name, command, settings, begin)
    fields = {
        "kind": "compile",
        "id": name,
        "name": os.path.basename(command.argv[0]),  # noqa: PTH119 - pathlib takes long to import
        "file": command.source,
        "archs": command.archs,
        "share": share,
        "dropped": command.dropped,
        "start": started,
        "end": time.time(),
        "status": status,
        "cached": cached,
    }
    event_log.append(settings.events, fields)
    return status


def _compile(
    name: str, command: CompilerCommand, settings: Settings, entry: str, running: Running
) -> tuple[str, int]:
    """Compile, with the compile cache where there is one.

    Returns:
        The name of the cache that succeeded, if one did, and the exit status.
    """
    environment = _environment(name, command)
    cache = () if environment.get(_NO_CACHE) else settings.cache
    held = _held_outputs(name) if cache else ()
    if cache and not _cache_succeeds(cache, command, running, environment, held):
        cache = ()
        environment.pop("CUWHEEL_DEVICE_CODE", None)  # cicc's `-keep` may have filled the disk
    status = 0 if cache else running.status_of(command.argv, environment)
    if not status or running.stopped:
        for to, file in enumerate(held, 1):
            kept_files.write_all(to, kept_files.read_held(file))
    # A header may have been made meanwhile: then it isn't the same entry any more.
    is_sound = entry and cache and held and not running.stopped
    if is_sound and direct_mode.find_entry(command, os.environ, settings) == entry:
        direct_mode.keep(entry, command, held)
    return (os.path.basename(cache[0]) if cache else ""), status  # noqa: PTH119


def _compile_share(
    name: str, command: CompilerCommand, settings: Settings, running: Running
) -> tuple[str, int]:
    """Have sccache make and keep the device code for some archs, and no object; as `_compile`.

    Without a cache there is nothing to do: nothing would be kept.
    """
    environment = _environment(name, command)
    if not settings.cache or environment.get(_NO_CACHE):
        return "", 0
    argv = [*settings.cache, settings.nvcc_of_shares, *command.argv[1:]]
    return os.path.basename(argv[0]), running.status_of(argv, environment)  # noqa: PTH119


def _environment(name: str, command: CompilerCommand) -> dict[str, str]:
    named = {"CUWHEEL_COMPILE": name, "CUWHEEL_FILE": command.source}
    return {**os.environ, **named, **_threads(command)}


def _threads(command: CompilerCommand) -> dict[str, str]:
    """Have nvcc compile for several archs at once, which doesn't change its output.

    By a variable: ccache takes `--threads=2` and `--threads=4` for two compiles. The memory gate
    decides how many parts run at once.
    """
    jobs = os.environ.get("CUWHEEL_JOBS", "")
    count = min(int(jobs) if jobs.isdigit() else 1, len(command.archs))
    return {"NVCC_APPEND_FLAGS": f"--threads={count}"} if count > 1 else {}


def _cache_succeeds(
    cache: tuple[str, ...],
    command: CompilerCommand,
    running: Running,
    environment: dict[str, str],
    held: tuple[int, ...],
) -> bool:
    """Return True if the compile succeeded behind the cache; its messages are in the held outputs.

    sccache refuses some command lines that nvcc takes, and once left no object without an error. So
    what fails is done again without it. If that fails too, the source is in error, which is printed
    once: the held outputs aren't shown.
    """
    output = command.output
    if os.path.isfile(output) and not os.path.islink(output):  # noqa: PTH113, PTH114
        os.unlink(output)  # noqa: PTH108 - an old object would pass for the new one
    try:
        status = running.status_of([*cache, *command.argv], environment, held)
    except OSError:
        return False
    return not status and (not output or os.path.exists(output))  # noqa: PTH110


def _held_outputs(name: str) -> tuple[int, ...]:
    """Open two files without names; none where there can be none: then output isn't held."""
    files = []
    for end in ("out", "err"):
        path = f"{os.environ.get('TMPDIR') or '/tmp'}/cuwheel-{name}.{end}"  # noqa: S108
        try:
            files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            os.unlink(path)  # noqa: PTH108
        except OSError:
            return ()
    return tuple(files)


def main(name: str, arguments: list[str], settings: Settings) -> int:
    """Run the compiler `name` through the launcher; return the exit status."""
    variables = standin.own_variables()  # before nvcc's own are folded into its arguments
    try:
        if name == "nvcc":
            command = nvcc_command(arguments, settings)
        else:
            command = host_command(name, arguments, settings)
    except Refusal as problem:
        print(problem, file=sys.stderr)
        return _USAGE
    try:
        if standin.is_own(command):
            standin.stand_in(name, arguments, variables, command, settings)
        if not command.source and standin.stand_in_for_link(name, arguments, settings):
            return 0
        return run(command, settings)
    except OSError as problem:
        print(
            f"cuwheel: {command.argv[0]} can't be started\ncuwheel: because  {problem.strerror}\n"
            "cuwheel: to fix   build again: each build sets up its compilers again",
            file=sys.stderr,
        )
        return _NOT_STARTED
