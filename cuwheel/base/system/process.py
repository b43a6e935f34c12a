"""The runner of every program that cuwheel starts; nothing else imports `subprocess`."""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cuwheel.base.errors import CommandFailedError

_TAIL = 20  # lines of a failed command's output that the error shows
_SAMPLE = 0.2  # seconds between two samples of the memory
_SAMPLES_PER_TICK = 5  # one call of `on_line` each second
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL of a process group
_LONG_GRACE = 15.0  # the same for a whole build that runs elsewhere, which has to clean up

_groups: set[int] = set()  # of running programs, by their first process
_is_ending = threading.Event()  # set when this process ends
_starting = threading.Lock()  # held while a program starts and until its group is in `_groups`
_START_LIMIT = 10.0  # seconds that the end of this process waits for starts, as on a slow disk


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A program that has ended.

    Attributes:
        status: exit status; negative for a signal.
        output: standard output and error together; only the last lines where a log was given.
        duration: seconds.
        peak_memory: bytes, the largest sum of resident memory over it and its children, sampled.
    """

    status: int
    output: str
    duration: float
    peak_memory: int


def run(  # noqa: PLR0913 - one runner, every caller names what it needs
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    log: Path | None = None,
    error_log: Path | None = None,
    on_line: Callable[[str, int], None] | None = None,
    gives_up: Callable[[int], bool] = lambda _: False,
    check: bool = True,
    error: type[CommandFailedError] = CommandFailedError,
    what: str = "",
    fix: str = "",
    timeout: float | None = None,
    shown: Sequence[str] = (),
) -> Finished:
    """Run a program to its end, in a process group that ends with this call, however that ends.

    Args:
        env: all of its environment; nothing is inherited.
        log: file that gets every line of its output; without it the output is returned.
        error_log: file that its standard error is added to; without it that is part of the output.
        on_line: called with each line as it comes, with an empty one each second, and with the
            bytes of memory in use. The calls come from two threads.
        gives_up: called each second in another thread, with the program's id; True ends the
            program, with status -9.
        check: raise when the status is not 0.
        what: the fact for that error; by default the program's name and its status.
        timeout: seconds after which it is ended, with status -9.
        shown: the command for the error, where the real one is a long wrapper.

    Raises:
        CommandFailedError: (or `error`) the program can't be started, or failed and `check` is set.
    """
    argv = [str(part) for part in command]
    started = time.monotonic()
    tail: collections.deque[str] = collections.deque(maxlen=_TAIL if log else None)
    with contextlib.ExitStack() as stack:
        try:
            with error_log.open("ab") if error_log else contextlib.nullcontext() as stderr:
                child = _start(
                    *(stack, argv, env),
                    is_guarded=bool(log or error_log),  # too costly for each `--version`
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=stderr or subprocess.STDOUT,
                )
        except OSError as problem:
            raise error(
                what or f"{argv[0]} could not be started",
                command=argv,
                status=127,
                log=None,
                tail=(),
                why=str(problem),
                fix=fix,
            ) from problem
        memory = _Memory(child.pid)

        def report(line: str) -> None:
            if on_line:
                on_line(line, memory.now)

        stack.enter_context(_watched(child.pid, timeout, memory, report, gives_up))
        _drain(child, log, tail, report)
        status = child.wait()
    finished = Finished(
        status=status,
        output="".join(tail),
        duration=time.monotonic() - started,
        peak_memory=memory.peak,
    )
    if check and status:
        last = [line.rstrip("\n") for line in tail][-_TAIL:]
        summary = what or f"{os.path.basename(argv[0])} failed"  # noqa: PTH119
        raise error(summary, command=shown or argv, status=status, log=log, tail=last, fix=fix)
    return finished


def output_within(
    command: Sequence[str | Path], seconds: float, env: Mapping[str, str]
) -> tuple[str, str]:
    """Return the output of a program, and why it failed or was ended; empty if it didn't fail."""
    try:
        done = run(command, env={**env, "LC_ALL": "C"}, timeout=seconds, check=False)
    except CommandFailedError as error:
        return "", error.why
    return done.output, describe_end(done.status, seconds) if done.status else ""


def describe_end(status: int, limit: float) -> str:
    """Return how a program ended that `run` started with a limit, in seconds."""
    if status == -signal.SIGKILL:
        return f"no answer within {limit:.0f} s"
    return f"it ended with {'signal' if status < 0 else 'status'} {abs(status)}"


def attach(
    command: Sequence[str | Path], *, env: Mapping[str, str], when_killed: Sequence[str] = ()
) -> int:
    """Run a program on this terminal with this environment only, and return its exit status.

    Args:
        when_killed: a command that ends what this one has started elsewhere. It is run when an
            exception ends this call, and when this process dies, even by `kill -9`.
    """
    with contextlib.ExitStack() as stack:
        return _start(stack, command, env, when_killed=when_killed, stdin=subprocess.DEVNULL).wait()


class Conversation:
    """Program that answers each line with a line."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._rest = b""

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def exchange(self, line: str, *, timeout: float) -> str | None:
        """Write a line and read the answer; None: the program has ended; raises TimeoutError."""
        if self._child.stdin is None or self._child.stdout is None:  # pragma: no cover - pipes
            return None
        try:
            self._child.stdin.write(f"{line}\n".encode())
            self._child.stdin.flush()
        except OSError:
            return None
        deadline = time.monotonic() + timeout
        pipe = self._child.stdout.fileno()
        while b"\n" not in self._rest:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([pipe], [], [], remaining)[0]:
                raise TimeoutError(f"no answer within {timeout:.0f} s")
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return None
            self._rest += piece
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer.decode("utf-8", "replace")

    def status(self) -> int | None:
        """Return its exit status; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(_GRACE)
        return None


@contextlib.contextmanager
def open_conversation(
    command: Sequence[str | Path], *, env: Mapping[str, str], log: Path
) -> Iterator[Conversation]:
    """Start a program that answers lines with lines, in a process group of the block."""
    with log.open("ab") as stderr, contextlib.ExitStack() as stack:
        pipe = subprocess.PIPE
        child = _start(stack, command, env, stdin=pipe, stdout=pipe, stderr=stderr)
        try:
            yield Conversation(child)
        finally:
            if child.stdin:
                with contextlib.suppress(OSError):
                    child.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE)


def _start(
    stack: contextlib.ExitStack,
    command: Sequence[str | Path],
    env: Mapping[str, str],
    *,
    is_guarded: bool = True,
    when_killed: Sequence[str] | None = None,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a program in a process group that ends with a stack of contexts, however that ends."""
    guard_env = {"PATH": os.defpath} if when_killed is None else env
    with _signals_held():
        with _starting:
            if _is_ending.is_set():
                raise InterruptedError("this process ends")
            child = subprocess.Popen(  # noqa: S603 - the runner
                [str(part) for part in command],
                env=dict(env),
                start_new_session=True,  # Ctrl-C reaches it through us, and once
                **options,
            )
            stack.enter_context(_ended(child))
        if is_guarded:
            stack.enter_context(_guarded(child.pid, when_killed or (), guard_env))
        if when_killed is not None:
            stack.enter_context(_terminated_on_error(child, when_killed, env))
    return child


def _drain(
    child: subprocess.Popen[bytes],
    log: Path | None,
    tail: collections.deque[str],
    on_line: Callable[[str], None],
) -> None:
    if child.stdout is None:  # pragma: no cover - always a pipe
        return
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("ab")) if log else None
        for raw in child.stdout:
            if file:
                file.write(raw)
                file.flush()
            line = raw.decode("utf-8", "replace")
            tail.append(line)
            on_line(line.rstrip("\n"))


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Delay signal handlers that raise until the block ends.

    Otherwise a signal while a program is being started would leave that running. Handlers are
    delayed, not the signals themselves: a program would inherit these as blocked.
    """
    received: list[int] = []
    handlers = []
    if threading.current_thread() is threading.main_thread():  # the only one that runs handlers
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                signal.signal(number, lambda number, _: received.append(number))
                handlers.append((number, handler))
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


@contextlib.contextmanager
def _terminated_on_error(
    child: subprocess.Popen[bytes], when_killed: Sequence[str], env: Mapping[str, str]
) -> Iterator[None]:
    """At an exception in the block, end the child, then what it began elsewhere."""
    try:
        yield
    except BaseException:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_LONG_GRACE)
        if when_killed:
            run(when_killed, env=env, check=False)
        raise


@atexit.register
def _end_all() -> None:
    """Kill what daemon threads still run when this process ends; they can start nothing more."""
    _is_ending.set()
    is_held = _starting.acquire(timeout=_START_LIMIT)  # else a starting program isn't known yet
    for group in list(_groups):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    if is_held:
        _starting.release()


@contextlib.contextmanager
def _ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    _groups.add(child.pid)
    try:
        yield
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, sent)
                if child.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(_GRACE)
        _groups.discard(child.pid)
        if child.stdout:
            child.stdout.close()


@contextlib.contextmanager
def _guarded(group: int, first: Sequence[str], env: Mapping[str, str]) -> Iterator[None]:
    """Have a process group killed when this process dies, even by `kill -9`.

    The guard waits for the end of a pipe that only this process holds open: the kernel closes it.
    """
    read_end, write_end = os.pipe()
    guard = subprocess.Popen(  # noqa: S603 - a fixed script
        ["/bin/sh", "-c", f'cat >/dev/null; "$@"; kill -s KILL -- -{group}', "guard", *first],
        env=dict(env),
        stdin=read_end,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(read_end)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        os.close(write_end)


class _Memory:
    def __init__(self, pid: int) -> None:
        self.now = 0
        self.peak = 0
        self._root = pid

    def sample(self) -> None:
        total = 0
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._root)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        self.now = total
        self.peak = max(self.peak, total)


@contextlib.contextmanager
def _watched(
    pid: int,
    timeout: float | None,
    memory: _Memory,
    report: Callable[[str], None],
    gives_up: Callable[[int], bool],
) -> Iterator[None]:
    stop = threading.Event()
    deadline = None if timeout is None else time.monotonic() + timeout

    def watch() -> None:
        for sample in itertools.count(1):
            if stop.wait(_SAMPLE):
                return
            memory.sample()
            gives_up_now = False
            if sample % _SAMPLES_PER_TICK == 0:
                report("")
                gives_up_now = gives_up(pid)
            if gives_up_now or (deadline and time.monotonic() > deadline):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def running_commands() -> Iterator[list[str]]:
    """Yield the commands of all descendants of this process, the oldest first."""
    commands: list[tuple[float, list[str]]] = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                commands.append((process.create_time(), process.cmdline()))
    yield from (argv for _, argv in sorted(commands))


def inherited(*names: str) -> dict[str, str]:
    """Return `PATH` and these of this process's variables: what a helper such as git inherits."""
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    return path | {name: os.environ[name] for name in names if name in os.environ}


def which(name: str, path: str) -> str | None:
    """Return the path of a program on a search path, links not followed; None if there is none."""
    return shutil.which(name, path=path)
