"""The memory gate: starts a compiler's program when there is memory for it, and not before.

It stands in the view of the toolkit for cicc, ptxas, cudafe++ and the host compilers, below every
cache. It holds what the program will take at its peak (`peaks`) in a ledger that all builds share
(`ledger`), watches it, and where the kernel kills it for memory runs it again, alone. Input, output
and exit status are the program's own, but for one file that nothing reads (`_UNREAD`).
docs/adr/0017. Written for a short start: it imports what it can't do without. Standard library
only, Python 3.9 or newer.

Variables, each of which may be missing:
    CUWHEEL_MEMORY: socket of the engine's memory service; or the folder that all builds share, for
        gates that no engine serves; without it nothing waits and nothing is learned.
    CUWHEEL_TARGET: whose sources these are: what is learned is kept under this name.
    CUWHEEL_MEMORY_PER_JOB: bytes, what the recipe says of one compile.
    CUWHEEL_JOBS: how many programs of this build may run at once.
    CUWHEEL_EVENTS: file that gets a line of JSON for each program that ran.
    CUWHEEL_COMPILE, CUWHEEL_FILE: id and source of the compile that this is a part of.
"""

from __future__ import annotations

import os
import sys
import time

if __package__:
    from cuwheel.standalone import event_log
    from cuwheel.standalone.memory_gate import child, free_memory, ledger, peaks, service_client
else:  # in a build these scripts lie side by side
    import child  # type: ignore[import-not-found,no-redef]
    import event_log  # type: ignore[import-not-found,no-redef]
    import free_memory  # type: ignore[import-not-found,no-redef]
    import ledger  # type: ignore[import-not-found,no-redef]
    import peaks  # type: ignore[import-not-found,no-redef]
    import service_client  # type: ignore[import-not-found,no-redef]

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable

_KILLED = 137  # 128 and SIGKILL's number, as shells have it
_TRIES = 3
_AFTER_KILL = 1.5  # it would have taken more than it had reached: how much, nobody knows
# Of a limit: who is killed alone with so much will be killed each time. The rest is held by what no
# gate sees: eight nvcc, ninja and the build backend hold a fifth of 1.5 GiB.
_NEARLY_ALL = 0.7
_GIVEN_UP = "given-up"  # beside the event log: a program of this build needs more than there is

# What these programs read: GCC's manual, "Options Controlling the Kind of Output"; nvcc --dryrun.
_SOURCES = (
    *(".c", ".cc", ".cp", ".cpp", ".CPP", ".cxx", ".c++", ".C", ".i", ".ii", ".s", ".S"),
    *(".cu", ".gpu", ".ptx", ".bc", ".nvvm"),
)
_NVIDIA = ("cicc", "cudafe++", "ptxas")
# Option that names the file in which cicc leaves the device code as C, `x.cudafe1.gpu`. Nothing
# else that nvcc runs names it (`nvcc --dryrun` of 13.0, 13.2, 13.5), and a compile cache would keep
# it: 158 MB for a file of flash-attn, 95 % of what its cicc leaves.
_UNREAD = "--gen_device_file_name"
_WEIGHTY = (
    *("-O", "-g", "-G", "-lineinfo", "--generate-line-info", "-split-compile"),
    "-lgenfe",  # cicc's front end alone: `device_code`
)


class Work:
    """What a program was asked to do.

    Attributes:
        tool: `cicc`, `ptxas`, `cudafe++`, `gcc` or `g++`.
        file: the source, by the name that it has on every machine where that is known.
        arch: what the device code is for, `90a`; empty for a host compiler.
        key: what makes two processes take equal memory.
        is_host: whether it is a host compiler.
        is_repeatable: whether it can be run again: not when it reads what comes through a pipe.
        unread: a file that it writes and nothing reads; empty for none.
    """

    def __init__(self, tool: str, arguments: list[str], inputs: list[str]) -> None:
        self.tool = tool
        self.is_host = tool not in _NVIDIA
        self.file = _source(arguments, inputs)
        self.arch = ""
        if not self.is_host:
            self.arch = _value(arguments, "-arch", "--nv_arch", "--gpu-name").rpartition("_")[2]
        weighty = sorted(word for word in arguments if word.startswith(_WEIGHTY))
        self.key = " ".join([self.file, self.arch, *weighty])
        self.is_repeatable = "-" not in arguments
        self.unread = _value(arguments, _UNREAD) if tool == "cicc" else ""


def work_of(real: str, arguments: list[str]) -> Work | None:
    """What is asked of a program; None for what needs no gate: a version, a preprocessed file."""
    tool = os.path.basename(real)  # noqa: PTH119 - pathlib takes long to import
    if tool not in _NVIDIA:
        tool = "g++" if "++" in tool else "gcc"
        if "-c" not in arguments or "-E" in arguments:
            return None
    inputs = [word for word in arguments if word == "-" or _is_source(word)]
    return Work(tool, arguments, inputs) if inputs else None


def _is_source(word: str) -> bool:
    return word.endswith(_SOURCES) and word[0] != "-" and os.path.isfile(word)  # noqa: PTH113


def _source(arguments: list[str], inputs: list[str]) -> str:
    """The source's path.

    nvcc names it to cicc and cudafe++. ptxas and the host compiler get a temporary file, whose name
    holds a process id: `tmpxft_0000a1b2_00000000-7_name.compute_90.ptx`.
    """
    told = os.environ.get("CUWHEEL_FILE", "")
    named = _value(arguments, "--orig_src_path_name")
    if named and os.path.basename(named) != os.path.basename(told):  # noqa: PTH119
        return named
    if told:
        return told
    temporary = os.path.basename(inputs[-1])  # noqa: PTH119
    if temporary.startswith("tmpxft_"):
        return temporary.partition("-")[2].partition("_")[2].partition(".")[0]
    return inputs[-1]


def _value(arguments: list[str], *names: str) -> str:
    """The last value of an option, as `-name value` or `-name=value`."""
    found = ""
    for position, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else "".join(arguments[position + 1 : position + 2])
    return found


class Gate:
    """One program on its way through the gate.

    Attributes:
        expected: bytes that are held for it.
        tries: how often it was started.
        peak: bytes, the most that it took.
    """

    def __init__(self, words: list[str], work: Work) -> None:
        self.expected = 0
        self.tries = 0
        self.peak = 0
        self._words = words
        self._work = work
        self._child: child.Child | None = None
        self._is_stopping = False
        self._is_too_large = False
        self._kills = 0
        self._known = 0
        self._asked = self._started = self._ended = time.time()
        self._ledger: ledger.Ledger | service_client.ServiceClient | None = None
        self._peaks: peaks.Peaks | service_client.ServiceClient | None = None
        self._open(os.environ.get("CUWHEEL_MEMORY", ""), os.environ.get("CUWHEEL_TARGET", ""))

    def run(self) -> int:
        """Run the program to its end, again when it is killed for memory; gives its status."""
        child.on_signals(self._pass_on)
        status = self._attempt()
        while self._was_killed(status) and not self._gives_up():
            self._known = max(self._known, self.peak)
            self.expected = max(self.expected, self._known)
            status = self._attempt()
        if self._peaks and not status:
            _try(self._peaks.learn, self._work.tool, self._work.key, self.peak)
        if self._work.unread and not status:
            _try(os.truncate, self._work.unread, 0)
        self._note(status)
        return status

    def _attempt(self) -> int:
        """Wait, run, give back; the exit status."""
        if self._ledger:
            _try(self._ledger.wait, self.expected, self._known, alone=self._alone())
        if _has_given_up() and self._would_be_killed():
            self._leave()
            return _KILLED
        self.tries += 1
        if self.tries == 1:
            self._started = time.time()
        self._kills = free_memory.kills() if self._work.is_host else 0
        with child.SignalsHeld() as mask:
            running = self._child = child.Child(self._words, mask)
        while not running.has_ended():
            used = running.used()
            if self._ledger:
                _try(self._ledger.tell, used)
                if self._must_yield(self._ledger):
                    running.kill()
        self._child = None
        self._ended = time.time()
        if running.status:
            _try(self._judge, running.peak)
        self._leave()
        self.peak = max(self.peak, running.peak)
        return running.status

    def _alone(self) -> str:
        """The level in which it is to run alone: its tightest limit, and at last the machine."""
        if self.tries == 1:
            return free_memory.read_memory().tightest.name
        return free_memory.MACHINE if self.tries else ""

    def _would_be_killed(self) -> bool:
        """Whether it was killed already, or is expected to take more than there is."""
        return self.tries > 0 or self.expected > free_memory.read_memory().tightest.total

    def _judge(self, reached: int) -> None:
        """See whether a program that failed, alone, had nearly all that there is, or needs more."""
        level = free_memory.read_memory().tightest
        is_alone = not self._ledger or self._ledger.is_alone(level.name)
        has_all = reached >= _NEARLY_ALL * level.limit or self._known > level.total
        self._is_too_large = is_alone and has_all

    def _gives_up(self) -> bool:
        """Whether a program that was killed isn't run again; the first of its build says why."""
        if _has_given_up():
            return True
        if self.tries < _TRIES and not self._is_too_large:
            return False
        _try(self._say_why)
        return True

    def _say_why(self) -> None:
        """Tell the build's log, in words that the failure catalogue knows."""
        level = free_memory.read_memory().tightest
        whose = "the machine" if level.name == free_memory.MACHINE else "its cgroup"
        of_arch = f" for sm_{self._work.arch}" if self._work.arch else ""
        beside = " and nothing else was running" if self._is_too_large else ""
        os.write(
            sys.stderr.fileno(),
            f"memory gate: {self._work.tool} was killed with {_gib(self.peak)} in use, compiling "
            f"{self._work.file}{of_arch}; {whose} has {_gib(level.limit)}{beside}\n".encode(),
        )
        marker = _marker()
        if marker:
            os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))

    def _must_yield(self, shared: ledger.Ledger | service_client.ServiceClient) -> bool:
        """Whether to end the program for the sake of others; it counts as killed for memory."""
        try:
            return self._work.is_repeatable and self.tries < _TRIES and shared.must_yield()
        except OSError:
            return False

    def _was_killed(self, status: int) -> bool:
        """Whether it was killed and may run again; what it had reached is remembered.

        A host compiler is several programs; it reports the death of one as an error of its own,
        which can't be told from an error in the source. Then the kernel's count of kills decides.
        """
        is_hidden = status and self._work.is_host and free_memory.kills() > self._kills
        if self._is_stopping or not (status == _KILLED or is_hidden):
            return False
        if self._peaks:
            reached = int(self.peak * _AFTER_KILL)
            _try(self._peaks.suspect, self._work.tool, self._work.key, reached)
        return self._work.is_repeatable

    def _pass_on(self, number: int, _: object) -> None:
        self._is_stopping = True
        if not self._child:
            self._leave()
            sys.exit(child.SIGNALLED + number)
        self._child.send(number)

    def _leave(self) -> None:
        if self._ledger:
            _try(self._ledger.leave)

    def _open(self, folder: str, target: str) -> None:
        per_job = os.environ.get("CUWHEEL_MEMORY_PER_JOB", "")
        guessed = peaks.guess(self._work.tool, *([int(per_job)] if per_job.isdigit() else []))
        self.expected = guessed
        if not folder:
            return
        try:
            if service_client.is_there(folder):
                self._peaks = self._ledger = service_client.ServiceClient(folder)
            else:
                self._peaks = peaks.Peaks(folder, target)
                self._ledger = ledger.Ledger(folder, *_build())
            expected = self._peaks.expect(self._work.tool, self._work.key, guessed)
            self.expected, self._known = expected
        except OSError:
            self._peaks = self._ledger = None

    def _note(self, status: int) -> None:
        fields: dict[str, object] = {
            "kind": "tool",
            "compile": os.environ.get("CUWHEEL_COMPILE", ""),
            "name": self._work.tool,
            "file": self._work.file,
            "arch": self._work.arch,
            "called": self._asked,
            "asked": max(self._asked, self._ledger.queued_until if self._ledger else 0.0),
            "start": self._started,
            "end": self._ended,
            "peak": self.peak,
            "expected": self.expected,
            "status": status,
            "tries": self.tries,
        }
        event_log.append(os.environ.get("CUWHEEL_EVENTS", ""), fields)


def _build() -> tuple[str, int]:
    """A word that only this build has, and how many of its programs may run at once.

    The folder of its event log: in a sandbox its path is that of all builds, but not its inode.
    """
    jobs = os.environ.get("CUWHEEL_JOBS", "")
    folder = os.path.dirname(os.environ.get("CUWHEEL_EVENTS", ""))  # noqa: PTH120
    if not jobs.isdigit() or not folder:
        return "-", 0
    state = os.stat(folder)  # noqa: PTH116
    return f"{state.st_dev}:{state.st_ino}", int(jobs)


def _marker() -> str:
    """The file that says that a program of this build was given up; empty for none."""
    log = os.environ.get("CUWHEEL_EVENTS", "")
    return os.path.join(os.path.dirname(log), _GIVEN_UP) if log else ""  # noqa: PTH118, PTH120


def _has_given_up() -> bool:
    return os.path.lexists(_marker())


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _try(act: Callable[..., None], *given: object, **named: object) -> None:
    """Do what helps a build where it can be done.

    A folder that is full, or not writable, or was removed, is no reason for a compile to fail.
    """
    try:  # noqa: SIM105 - contextlib takes long to import
        act(*given, **named)
    except OSError:
        pass


def main(real: str, arguments: list[str]) -> int:
    """Run a program when there is memory for it.

    Args:
        real: its path.
        arguments: behind it.

    Returns:
        Its exit status; 128 and the signal's number where a signal ended it.

    Raises:
        OSError: it can't be started.
    """
    words = [real, *arguments]
    work = work_of(real, arguments)
    if not work:
        child.become(words)
    return Gate(words, work).run()
