"""The one runner for every program that cuwheel starts; nothing else imports `subprocess`."""

from __future__ import annotations

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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from cuwheel.errors import CommandFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_TAIL = 20  # lines of a failed command's output that the error shows
_SAMPLE = 0.2  # seconds between two samples of the memory
_SAMPLES_PER_TICK = 5  # so that a caller hears of a silent program every second
_GRACE = 2.0  # seconds that a process group gets between SIGTERM and SIGKILL
_LONG_GRACE = 15.0  # the same for a whole build that runs elsewhere, which has to tidy up


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
    """Run a program to its end, in a process group of its own.

    Whatever ends this call (success, failure, Ctrl-C, an exception) ends the whole group.

    Args:
        command: program and arguments.
        env: all of its environment; nothing is inherited.
        cwd: where it runs.
        log: file that gets every line of its output; without it the output is returned.
        error_log: file that its standard error is added to; without it that is part of the output.
        on_line: called with each line as it comes, and with an empty one each second, and with
            the bytes of memory in use. The calls come from two threads.
        gives_up: asked each second in another thread, with the program's id; where it says so,
            the program is ended, with status -9.
        check: raise when the status is not 0.
        error: the class to raise then.
        what: the fact for that error; by default the program's name and its status.
        fix: the way out for that error.
        timeout: seconds after which it is ended, with status -9.
        shown: what the error calls the command, where that is wrapped in something long.

    Raises:
        CommandFailedError: (or `error`) the program can't be started, or failed and `check` is set.
    """
    words = [str(word) for word in command]
    started = time.monotonic()
    tail: collections.deque[str] = collections.deque(maxlen=_TAIL if log else None)

    def start() -> subprocess.Popen[bytes]:
        with error_log.open("ab") if error_log else contextlib.nullcontext() as errors:
            return subprocess.Popen(  # noqa: S603 - the runner
                words,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors or subprocess.STDOUT,
                start_new_session=True,
            )

    with contextlib.ExitStack() as stack:
        try:
            with _signals_held():
                child = start()
                stack.enter_context(_ended(child))
                # Only long programs have a log; a guard for each `--version` would cost more than
                # it saves.
                if log or error_log:
                    stack.enter_context(_guarded(child.pid))
        except OSError as problem:
            raise error(
                what or f"{words[0]} could not be started",
                command=words,
                status=127,
                log=None,
                tail=(),
                why=str(problem),
                fix=fix,
            ) from problem
        memory = _Memory(child.pid)

        def tell(line: str) -> None:
            if on_line:
                on_line(line, memory.now)

        stack.enter_context(_watched(child.pid, timeout, memory, tell, gives_up))
        _drain(child, log, tail, tell)
        status = child.wait()
    finished = Finished(
        status=status,
        output="".join(tail),
        duration=time.monotonic() - started,
        peak_memory=memory.peak,
    )
    if check and status:
        last = [line.rstrip("\n") for line in tail][-_TAIL:]
        summary = what or f"{os.path.basename(words[0])} failed"  # noqa: PTH119
        raise error(summary, command=shown or words, status=status, log=log, tail=last, fix=fix)
    return finished


def attach(
    command: Sequence[str | Path], *, env: Mapping[str, str], when_killed: Sequence[str] = ()
) -> int:
    """Run a program that writes to our own terminal, and return its exit status.

    Args:
        command: program and arguments.
        env: all of its environment; nothing is inherited.
        when_killed: a command that ends what this one has started elsewhere. It is run when an
            exception ends this call, and when this process dies, even by `kill -9`.
    """
    with contextlib.ExitStack() as stack:
        with _signals_held():
            child = subprocess.Popen(  # noqa: S603 - the runner
                [str(word) for word in command],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches it through us, and once
            )
            stack.enter_context(_ended(child))
            stack.enter_context(_guarded(child.pid, when_killed, env))
            stack.enter_context(_terminated_on_error(child, when_killed, env))
        return child.wait()


class Conversation:
    """A program that answers each line with a line.

    Args:
        child: the program, its standard input and output as pipes.
    """

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._rest = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def ask(self, line: str, *, timeout: float) -> str | None:
        """Write a line and read the answer.

        Args:
            line: without its end.
            timeout: seconds to wait for the answer.

        Returns:
            The answer; None: the program has ended.

        Raises:
            TimeoutError: there is none yet.
        """
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
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise TimeoutError(f"no answer within {timeout:.0f} s")
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return None
            self._rest += piece
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer.decode("utf-8", "replace")

    def status(self) -> int | None:
        """Its exit status, once it has ended; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(_GRACE)
        return None


@contextlib.contextmanager
def open_conversation(
    command: Sequence[str | Path], *, env: Mapping[str, str], log: Path
) -> Iterator[Conversation]:
    """Start a program that answers lines with lines, in a process group that ends with the block.

    Args:
        command: program and arguments.
        env: all of its environment; nothing is inherited.
        log: file that its standard error is added to.

    Raises:
        OSError: it can't be started.
    """
    with log.open("ab") as errors, contextlib.ExitStack() as stack:
        with _signals_held():
            child = subprocess.Popen(  # noqa: S603 - the runner
                [str(word) for word in command],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            stack.enter_context(_ended(child))
            stack.enter_context(_guarded(child.pid))
        try:
            yield Conversation(child)
        finally:
            if child.stdin:
                with contextlib.suppress(OSError):
                    child.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE)


def _drain(
    child: subprocess.Popen[bytes],
    log: Path | None,
    tail: collections.deque[str],
    on_line: Callable[[str], None],
) -> None:
    if child.stdout is None:  # pragma: no cover - it was asked for as a pipe
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
    """Have signals whose handlers raise wait until the block ends.

    Else one that comes while a program is being started leaves it running with nobody to end it.
    Handlers wait, not the signals themselves: a program would inherit these as blocked.
    """
    came: list[int] = []
    held = []
    if threading.current_thread() is threading.main_thread():  # nowhere else does a handler run
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                signal.signal(number, lambda number, _: came.append(number))
                held.append((number, handler))
    try:
        yield
    finally:
        for number, handler in held:
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _terminated_on_error(
    child: subprocess.Popen[bytes], when_killed: Sequence[str], env: Mapping[str, str]
) -> Iterator[None]:
    """When an exception ends the block, ask the child to end, then end what it began elsewhere."""
    try:
        yield
    except BaseException:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_LONG_GRACE)
        if when_killed:
            run(when_killed, env=env, check=False)
        raise


@contextlib.contextmanager
def _ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """See to it that nothing of the child's group outlives the block."""
    try:
        yield
    finally:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, sent)
                if child.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(_GRACE)
        if child.stdout:
            child.stdout.close()


@contextlib.contextmanager
def _guarded(
    group: int, first: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Have a process group killed when this process dies, even by `kill -9`.

    The guard waits for the end of a pipe that only we hold open: the kernel closes it for us.

    Args:
        group: its id.
        first: a command to be run before that.
        env: the environment of that command.
    """
    theirs, ours = os.pipe()
    guard = subprocess.Popen(  # noqa: S603 - our own words
        ["/bin/sh", "-c", f'cat >/dev/null; "$@"; kill -s KILL -- -{group}', "guard", *first],
        env=dict(env or {"PATH": os.defpath}),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield
    finally:
        guard.kill()
        guard.wait()
        os.close(ours)


class _Memory:
    """Resident memory of a process and all its descendants, in bytes."""

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
    tell: Callable[[str], None],
    gives_up: Callable[[int], bool],
) -> Iterator[None]:
    stop = threading.Event()
    deadline = None if timeout is None else time.monotonic() + timeout

    def watch() -> None:
        for sample in itertools.count(1):
            if stop.wait(_SAMPLE):
                return
            memory.sample()
            given_up = False
            if sample % _SAMPLES_PER_TICK == 0:
                tell("")
                given_up = gives_up(pid)
            if given_up or (deadline and time.monotonic() > deadline):
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
    """The commands of all programs that this process has started, and theirs; the oldest first."""
    found: list[tuple[float, list[str]]] = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found.append((process.create_time(), process.cmdline()))
    yield from (words for _, words in sorted(found))


def which(name: str, path: str) -> str | None:
    """The file that `name` is on a search path, links not followed; None if there is none."""
    return shutil.which(name, path=path)
