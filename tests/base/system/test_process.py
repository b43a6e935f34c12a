from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import BuildFailedError, CommandFailedError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from tests.support.waiting import wait_for

_PATH = {"PATH": os.defpath}
_MIB = 1 << 20

# Prints the id of its grandchild, and ends with it.
_FAMILY = "sleep 300 & echo $!; wait"


def shell(script: str, **options: object) -> process.Finished:
    return process.run(["sh", "-c", script], env=_PATH, **options)  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    """Return True if a process runs; a zombie doesn't."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_until_dead(pids: list[int], seconds: float = 20.0) -> list[int]:
    """Return those that still run after the time is up."""
    deadline = time.monotonic() + seconds
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive


def test_gives_exactly_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda")

    finished = process.run(["/usr/bin/env"], env={"ONLY": "this"})

    assert finished.output == "ONLY=this\n"


def test_keeps_errors_apart(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")

    finished = shell("echo one; echo two >&2", error_log=tmp_path / "log")

    assert finished.output == "one\n"
    assert (tmp_path / "log").read_text() == "before\ntwo\n"


def test_ends_program_that_is_given_up() -> None:
    finished = shell("echo one; sleep 300", gives_up=lambda _: True, check=False)

    assert (finished.status, finished.output) == (-9, "one\n")


def test_returns_output_and_errors_in_order() -> None:
    assert shell("echo one; echo two >&2; echo three").output == "one\ntwo\nthree\n"


def test_survives_output_that_is_no_text() -> None:
    assert shell(r"printf '\377\n'").output == "\N{REPLACEMENT CHARACTER}\n"


def test_raises_given_error_with_facts() -> None:
    with pytest.raises(BuildFailedError) as caught:
        shell("exit 3", error=BuildFailedError, what="x: failed", fix="fix it")

    assert (caught.value.what, caught.value.fix) == ("x: failed", "fix it")
    assert caught.value.status == 3


def test_names_program_that_failed() -> None:
    with pytest.raises(CommandFailedError) as caught:
        shell("exit 3")

    assert caught.value.what == "sh failed"


def test_names_program_that_is_missing() -> None:
    with pytest.raises(CommandFailedError) as caught:
        process.run(["/nowhere/ninja"], env=_PATH)

    assert caught.value.what == "/nowhere/ninja could not be started"
    assert "No such file" in caught.value.why


@pytest.mark.parametrize("logged", [True, False])
def test_error_shows_last_lines(tmp_path: Path, logged: bool) -> None:  # noqa: FBT001
    log = tmp_path / "log" if logged else None

    with pytest.raises(CommandFailedError) as caught:
        shell("seq 1 30; exit 1", log=log)

    assert caught.value.tail == tuple(map(str, range(11, 31)))


def test_log_holds_every_line_and_is_continued(tmp_path: Path) -> None:
    log = tmp_path / "log"

    shell("seq 1 30", log=log)
    shell("seq 31 40", log=log)

    assert log.read_text().split() == list(map(str, range(1, 41)))


def test_reports_each_line_as_it_comes(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    lines = []

    def report(line: str, _: int) -> None:
        lines.append(line)
        mark.touch()

    shell(f"echo one; until test -e {mark}; do sleep 0.02; done; echo two", on_line=report)

    assert lines == ["one", "two"]


@pytest.mark.e2e
def test_timeout_ends_whole_family() -> None:
    finished = shell(_FAMILY, timeout=2.0, check=False)

    assert finished.status == -9
    assert wait_until_dead([int(finished.output)]) == []


@pytest.mark.parametrize(
    "script",
    [_FAMILY, "trap '' TERM; echo $$; while :; do sleep 0.05; done"],
    ids=["whole family", "program that ignores SIGTERM"],
)
def test_interrupt_ends(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE", 0.2)
    pids = []

    def interrupt(line: str, _: int) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell(script, on_line=interrupt)

    assert wait_until_dead(pids) == []


def test_ends_processes_that_program_left() -> None:
    finished = shell("sleep 300 >/dev/null 2>&1 & echo $!")

    assert wait_until_dead([int(finished.output)]) == []


def test_measures_memory_of_grandchild(tmp_path: Path) -> None:
    """The grandchild holds the memory until a sample has it."""
    seen = tmp_path / "seen"
    child = (
        "import os, time; held = bytearray(b'x') * (200 << 20)\n"
        f"while not os.path.exists({str(seen)!r}): print(flush=True); time.sleep(0.05)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"

    def look(_: str, memory: int) -> None:
        if memory >= 200 * _MIB:
            seen.touch()

    finished = process.run([sys.executable, "-c", parent], env=_PATH, on_line=look)

    assert 200 * _MIB <= finished.peak_memory <= 260 * _MIB


def test_finds_program_on_this_path_only(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.touch(mode=0o755)

    assert process.which("tool", str(tmp_path)) == str(tool)
    assert process.which("sh", str(tmp_path)) is None


@pytest.mark.e2e
def test_kill_of_starter_ends_a_logged_program_and_its_children(tmp_path: Path) -> None:
    """`kill -9` can't be caught: a guard on a pipe does it, where there is no namespace."""
    code = (
        "import sys; from pathlib import Path; from cuwheel.base.system.process import run; "
        "run(['sh', '-c', 'sleep 300 & sleep 300; true'], env={'PATH': '/usr/bin:/bin'}, "
        f"log=Path({str(tmp_path / 'log')!r}))"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    family = _wait_for_sleepers(starter.pid)

    starter.kill()
    starter.wait()

    assert psutil.wait_procs(family, timeout=10)[1] == []


def test_attached_program_writes_to_our_own_output(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]

    status = process.attach(command, env={"PATH": "/usr/bin:/bin"})

    assert (status, *capfd.readouterr()) == (3, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_end_of_starter_ends_what_an_attached_program_began(tmp_path: Path, number: int) -> None:
    ended, ready = tmp_path / "ended", tmp_path / "ready"
    code = (
        "import signal, sys; from cuwheel.base.system.process import attach; "
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); "
        f"attach(['sh', '-c', 'touch {ready}; sleep 300'], env={{'PATH': '/usr/bin:/bin'}}, "
        f"when_killed=('touch', {str(ended)!r}))"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_for(ready.exists)
    wait_for(lambda: len(psutil.Process(starter.pid).children()) > 1)  # the guard runs, too

    starter.send_signal(number)
    starter.wait()

    wait_for(ended.exists)


def test_signal_while_a_program_is_started_ends_it(tmp_path: Path) -> None:
    """Each program first sends its starter a signal."""
    ended, sleeper = tmp_path / "ended", tmp_path / "sleeper"
    code = (
        "import signal, sys; from cuwheel.base.system.process import attach; "
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); "
        f"attach(['sh', '-c', 'kill -TERM $PPID; echo $$ > {sleeper}; exec sleep 300'], "
        f"env={{'PATH': '/usr/bin:/bin'}}, when_killed=('touch', {str(ended)!r}))"
    )

    for _ in range(5):
        ended.unlink(missing_ok=True)
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 143
        assert ended.exists()
        written = sleeper.read_text() if sleeper.exists() else ""  # empty: ended while it wrote
        assert not written or not psutil.pid_exists(int(written))
        sleeper.unlink(missing_ok=True)


def _wait_for_sleepers(pid: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        family = psutil.Process(pid).children(recursive=True)
        if sum("sleep" in child.name() for child in family) == 2:
            return family
        time.sleep(0.05)
    pytest.fail("the program's children never ran")


_THREADS = """
import subprocess, sys, threading, time
from pathlib import Path
from cuwheel.base.system.process import run
pids = Path(sys.argv[1])
class Slow(subprocess.Popen):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        time.sleep(0.2)  # it runs before its starter knows it
subprocess.Popen = Slow
def work():
    while True:
        script = f"echo $$ >> {pids}; sleep 300"
        run(["sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, check=False)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
while not pids.exists() or pids.read_text().count("\\n") < 4:
    time.sleep(0.05)
"""


def test_end_of_starter_ends_what_its_threads_run(tmp_path: Path) -> None:
    """Each thread would start another program where its first one is killed."""
    pids = tmp_path / "pids"

    subprocess.run(
        [sys.executable, "-c", _THREADS, pids], env={"PYTHONPATH": str(ROOT)}, check=True
    )

    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 4
    assert wait_until_dead(started) == []
