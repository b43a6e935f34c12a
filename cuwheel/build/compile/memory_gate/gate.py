"""The memory gate: starts a compiler's program when there is memory for it, and not before.

It is in the view of the toolkit in place of cicc, ptxas, cudafe++ and the host compilers, below
every cache. It has the engine reserve the program's expected peak (`build/compile/memory`),
measures it, and where the kernel kills it for memory runs it again, alone. Input, output and exit
status are the program's own, but for one file that nothing reads (`_UNREAD`). docs/adr/0017.

Variables, each of which may be missing:
    CUWHEEL_MEMORY: socket of the engine's memory service; without it nothing waits and nothing is
        learned.
    CUWHEEL_EVENTS: file that gets a line of JSON for each program that ran.
    CUWHEEL_COMPILE, CUWHEEL_FILE: id and source of the compile that this is a part of.
"""

from __future__ import annotations

import os
import sys
import time

from cuwheel.base import free_memory
from cuwheel.build.compile.memory_gate import child, event_log
from cuwheel.build.compile.memory_gate.service_client import ServiceClient

_KILLED = 137  # 128 and SIGKILL's number, as shells have it
_TRIES = 3
# Of a limit: what is killed alone with so much will be killed each time. The rest is used by
# programs without a gate: eight nvcc, ninja and the build backend use a fifth of 1.5 GiB.
_NEARLY_ALL = 0.7
_GIVEN_UP = "given-up"  # next to the event log: a program of this build needs more than there is

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
    """The work of one program.

    Attributes:
        tool: `cicc`, `ptxas`, `cudafe++`, `gcc` or `g++`.
        file: the source, by the name that it has on every machine where that is known.
        arch: of the device code, `90a`; empty for a host compiler.
        is_repeatable: False if it reads a pipe, so that it can't run again.
        unread: an output that nothing reads; empty for none.
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
    """Return a program's work; None for what needs no gate: a version, a preprocessed file."""
    tool = os.path.basename(real)  # noqa: PTH119 - pathlib takes long to import
    if tool not in _NVIDIA:
        tool = "g++" if "++" in tool else "gcc"
        if "-c" not in arguments or "-E" in arguments:
            return None
    inputs = [
        word
        for word in arguments
        if word == "-" or (word.endswith(_SOURCES) and word[0] != "-" and os.path.isfile(word))  # noqa: PTH113
    ]
    return Work(tool, arguments, inputs) if inputs else None


def _source(arguments: list[str], inputs: list[str]) -> str:
    """Return the source's path.

    nvcc passes it to cicc and cudafe++. ptxas and the host compiler get a temporary file, whose
    name holds a process id: `tmpxft_0000a1b2_00000000-7_name.compute_90.ptx`.
    """
    file = os.environ.get("CUWHEEL_FILE", "")
    option = _value(arguments, "--orig_src_path_name")
    if option and os.path.basename(option) != os.path.basename(file):  # noqa: PTH119
        return option
    if file:
        return file
    temporary = os.path.basename(inputs[-1])  # noqa: PTH119
    if temporary.startswith("tmpxft_"):
        return temporary.partition("-")[2].partition("_")[2].partition(".")[0]
    return inputs[-1]


def _value(arguments: list[str], *names: str) -> str:
    """Return the last value of an option, as `-name value` or `-name=value`."""
    last = ""
    for position, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in names:
            last = value if equals else "".join(arguments[position + 1 : position + 2])
    return last


class Gate:
    """A program under the gate.

    Attributes:
        expected: bytes that are reserved for it.
        peak: bytes, the most that it took.
    """

    def __init__(self, argv: list[str], work: Work) -> None:
        self.tries = 0
        self.peak = 0
        self._argv = argv
        self._work = work
        self._child: child.Child | None = None
        self._cpu = 0.0
        self._is_stopping = False
        self._is_too_large = False
        self._kills = 0
        self._called = self._started = self._ended = time.time()
        self._service = ServiceClient(os.environ.get("CUWHEEL_MEMORY", ""))
        self.expected, self._known = self._service.expect(work.tool, work.key)

    def run(self) -> int:
        """Run the program to its end, again when it is killed for memory; return its status."""
        child.on_signals(self._forward)
        while True:
            status = self._attempt()
            runs_again = self._was_killed(status) and not self._gives_up()
            # Not before: what waits for this memory must see that the build has given up.
            self._service.leave()
            if not runs_again:
                break
            self._known = max(self._known, self.peak)
            self.expected = max(self.expected, self._known)
        if not status:
            self._service.learn(self._work.tool, self._work.key, self.peak)
            if self._work.unread:
                _empty(self._work.unread)
        self._log(status)
        return status

    def _attempt(self) -> int:
        """Wait for memory and run; return the exit status."""
        # A killed one runs alone in its tightest limit, and at last on the machine.
        alone = free_memory.MACHINE if self.tries else ""
        if self.tries == 1:
            alone = free_memory.read_memory().tightest.name
        self._service.wait(self.expected, self._known, alone=alone)
        if _has_given_up() and (
            self.tries or self.expected > free_memory.read_memory().tightest.total
        ):
            return _KILLED
        self.tries += 1
        if self.tries == 1:
            self._started = time.time()
        self._kills = free_memory.kills() if self._work.is_host else 0
        with child.SignalsHeld() as mask:
            running = self._child = child.Child(self._argv, mask)
        while not running.has_ended():
            must_yield = self._service.report(running.used())
            if must_yield and self._work.is_repeatable and self.tries < _TRIES:
                running.kill()  # for others; it counts as a kill for memory
        self._child = None
        self._ended = time.time()
        self.peak = max(self.peak, running.peak)
        self._cpu = running.cpu
        if running.status:
            self._is_too_large = self._has_all_memory(running.peak)
        return running.status

    def _has_all_memory(self, reached: int) -> bool:
        """Return True if a failed program, alone, had nearly all memory, or needs more."""
        try:
            level = free_memory.read_memory().tightest
        except OSError:
            return False
        has_all = reached >= _NEARLY_ALL * level.limit or self._known > level.total
        return has_all and self._service.is_alone(level.name)

    def _gives_up(self) -> bool:
        """Return True if a killed program isn't run again; the first of its build prints why."""
        if _has_given_up():
            return True
        if self.tries < _TRIES and not self._is_too_large:
            return False
        self._print_reason()
        return True

    def _print_reason(self) -> None:
        """Print the reason in words that the failure catalogue knows."""
        level = free_memory.read_memory().tightest
        owner = "the machine" if level.name == free_memory.MACHINE else "its cgroup"
        of_arch = f" for sm_{self._work.arch}" if self._work.arch else ""
        alone = " and nothing else was running" if self._is_too_large else ""
        try:
            reason = (
                f"memory gate: {self._work.tool} was killed with {_gib(self.peak)} in use, "
                f"compiling {self._work.file}{of_arch}; {owner} has {_gib(level.limit)}{alone}\n"
            )
            os.write(sys.stderr.fileno(), reason.encode())
            marker = _marker()
            if marker:
                os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))
        except OSError:  # nobody reads this, or the disk is full
            pass

    def _was_killed(self, status: int) -> bool:
        """Return True if it was killed and may run again.

        A host compiler is several programs; it reports the death of one as an error of its own,
        which can't be distinguished from an error in the source. Then the kernel's count of kills
        decides.
        """
        is_hidden = status and self._work.is_host and free_memory.kills() > self._kills
        if self._is_stopping or not (status == _KILLED or is_hidden):
            return False
        return self._work.is_repeatable

    def _forward(self, number: int, _: object) -> None:
        self._is_stopping = True
        if not self._child:
            self._service.leave()
            sys.exit(child.SIGNALLED + number)
        self._child.send(number)

    def _log(self, status: int) -> None:
        fields: dict[str, object] = {
            "kind": "tool",
            "compile": os.environ.get("CUWHEEL_COMPILE", ""),
            "name": self._work.tool,
            "file": self._work.file,
            "arch": self._work.arch,
            "called": self._called,
            "asked": max(self._called, self._service.queued_until),
            "start": self._started,
            "end": self._ended,
            "cpu": self._cpu,
            "peak": self.peak,
            "expected": self.expected,
            "status": status,
            "tries": self.tries,
        }
        event_log.append(os.environ.get("CUWHEEL_EVENTS", ""), fields)


def _empty(path: str) -> None:
    try:  # noqa: SIM105 - contextlib takes long to import
        os.truncate(path, 0)
    except OSError:
        pass


def _marker() -> str:
    """Return the file that exists once a program of this build was given up; empty for none."""
    log = os.environ.get("CUWHEEL_EVENTS", "")
    return os.path.join(os.path.dirname(log), _GIVEN_UP) if log else ""  # noqa: PTH118, PTH120


def _has_given_up() -> bool:
    return os.path.lexists(_marker())


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def main(real: str, arguments: list[str]) -> int:
    """Run a program when there is memory for it.

    Returns:
        Its exit status; 128 and the signal's number where a signal ended it.

    Raises:
        OSError: it can't be started.
    """
    argv = [real, *arguments]
    work = work_of(real, arguments)
    if not work:
        child.become(argv)
    return Gate(argv, work).run()
