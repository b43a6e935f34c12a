"""The memory service: what a gate gets of it, and what nobody gets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.launcher.memory_service import MEMORY_SOCKET, serve_memory
from cuwheel.paths import ROOT
from cuwheel.standalone.memory_gate.peaks import Peaks
from cuwheel.standalone.memory_gate.service_client import ServiceClient, is_there
from tests.support.gated import MIB, PYTHON, gate_folder
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HUGE = 1 << 49  # bytes: more than any machine has
# A gated process that holds a part of the memory, and a program of its that outlives it.
_HOLD = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import service_client
one = service_client.ServiceClient(sys.argv[2])
one.wait(1 << 20)
print(flush=True)
os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"echo; exec cat {sys.argv[3]}")
"""
# So many clients are served at once where a process may open few files.
_FEW_FILES = """
import resource, socket, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
from cuwheel.build.launcher.memory_service import serve_memory
folder = Path(sys.argv[1])
with serve_memory(folder / "s", folder / "memory", "tiny", 2, print):
    answers, clients = [], []
    while not answers or answers[-1]:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        client.connect(str(folder / "s"))
        clients.append(client)
        try:
            client.sendall(b"\\n")
            answers.append(client.recv(100))
        except (BrokenPipeError, ConnectionResetError):
            answers.append(b"")
    print(len(answers) - 1)
"""
_MODULES = """
import os, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
import service_client
print(*sorted(set(sys.modules) - before))
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The socket of a service whose build may run two programs at once."""
    with serve_memory(tmp_path / MEMORY_SOCKET, tmp_path / "memory", "tiny", 2, pytest.fail):
        yield tmp_path / MEMORY_SOCKET


def entries(path: Path) -> list[Path]:
    return sorted(path.parent.glob("memory/gated-*/[0-9]*"))


def say(path: Path, line: bytes) -> bytes:
    """What the service answers to a line; nothing where it hangs up."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(10)
        talk.connect(str(path))
        try:
            talk.sendall(line)
            return talk.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            return b""


def test_holds_a_promise_until_it_is_given_back(path: Path) -> None:
    client = ServiceClient(str(path))

    client.wait(MIB)
    client.tell(2 * MIB)
    assert len(entries(path)) == 1
    assert (client.must_yield(), client.is_alone("machine")) == (False, True)
    client.leave()

    assert entries(path) == []


def test_keeps_what_it_is_taught_under_the_builds_name(path: Path) -> None:
    client = ServiceClient(str(path))

    client.learn("cicc", "a.cu 90", 700 * MIB)
    client.suspect("ptxas", "a.cu 90", 100 * MIB)

    peaks = Peaks(str(path.parent / "memory"), "tiny")
    assert client.expect("cicc", "a.cu 90", 1) == peaks.expect("cicc", "a.cu 90", 1)
    assert peaks.expect("cicc", "a.cu 90", 1)[1] == 700 * MIB
    assert [one.name for one in (path.parent / "memory" / "peaks").iterdir()] == ["tiny"]


def test_keeps_little_of_a_long_key(path: Path) -> None:
    client = ServiceClient(str(path))

    client.learn("cicc", "ä" * 20_000, 700 * MIB)

    assert client.expect("cicc", "ä" * 20_000, 1)[1] == 700 * MIB
    [kept] = path.parent.glob("memory/peaks/tiny/cicc-[0-9a-f]*")
    assert kept.stat().st_size < 1100


def test_serves_as_many_as_it_may_open_files_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FEW_FILES, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert (done.stdout, done.stderr) == ("22\n", "")


def test_client_without_a_thread_takes_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("cuwheel.build.launcher.memory_service._MOST_CLIENTS", 1)
    with serve_memory(tmp_path / MEMORY_SOCKET, tmp_path / "memory", "tiny", 2, print):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert say(tmp_path / MEMORY_SOCKET, b"\n") == b""

        assert say(tmp_path / MEMORY_SOCKET, b"\n") == b"no\n"


def test_lets_so_many_of_a_build_run_at_once(path: Path) -> None:
    first, second, third = (ServiceClient(str(path)) for _ in range(3))
    first.wait(MIB)
    second.wait(MIB)
    with subprocess.Popen([PYTHON, "-ISBc", _HOLD, gate_folder(), path, os.devnull]) as started:
        wait_for(lambda: len(entries(path)) == 3)
        assert started.poll() is None

        first.leave()

        assert started.wait(20) == 0
    second.leave()
    third.leave()


def test_promise_lasts_as_long_as_the_program(path: Path, tmp_path: Path) -> None:
    """The gate may be killed alone; what it has started still has its memory."""
    os.mkfifo(tmp_path / "go")
    command: list[str | Path] = [PYTHON, "-ISBc", _HOLD, gate_folder(), path, tmp_path / "go"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as gate:
        assert gate.stdout
        gate.stdout.readline()
        gate.stdout.readline()

        gate.send_signal(signal.SIGKILL)
        gate.wait()
        assert len(entries(path)) == 1
        (tmp_path / "go").write_text("")

    wait_for(lambda: not entries(path))


def test_who_is_ended_waits_no_longer(path: Path) -> None:
    holders = [ServiceClient(str(path)) for _ in range(2)]
    for one in holders:
        one.wait(MIB)
    waiting = subprocess.Popen([PYTHON, "-ISBc", _HOLD, gate_folder(), path, os.devnull])
    wait_for(lambda: len(entries(path)) == 3)

    waiting.kill()
    waiting.wait()

    wait_for(lambda: len(entries(path)) == 2)
    for one in holders:
        one.leave()


@pytest.mark.parametrize(
    "line",
    [
        b"learn\0../../../x\0key\x001\n",
        b"learn\0cicc\0key\0-1\n",
        b"learn\0cicc\0key\0" + str(1 << 60).encode() + b"\n",
        b"wait\x001\x001\0a b\n",
        b"wait\n",
        b"__init__\n",
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_refuses_what_is_no_question(path: Path, line: bytes) -> None:
    assert say(path, line) == b"no\n"
    assert list(path.parent.rglob("x*")) == []
    assert entries(path) == []


def test_hangs_up_on_endless_questions(path: Path) -> None:
    assert say(path, b"x" * (1 << 17)) == b""


def test_who_says_too_much_harms_no_other_build(path: Path, tmp_path: Path) -> None:
    """A build may claim all memory for as long as it runs, and nothing of it stays."""
    greedy = ServiceClient(str(path))
    greedy.learn("cicc", "key", _HUGE)

    with serve_memory(tmp_path / "other.sock", tmp_path / "memory", "other", 2, pytest.fail):
        other = ServiceClient(str(tmp_path / "other.sock"))
        assert other.expect("cicc", "key", MIB)[1] == 0
        other.wait(MIB)
        other.leave()


def test_serves_nothing_where_folder_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "memory").touch()
    warnings: list[str] = []

    with serve_memory(tmp_path / MEMORY_SOCKET, tmp_path / "memory", "tiny", 2, warnings.append):
        assert not is_there(str(tmp_path / MEMORY_SOCKET))
    assert len(warnings) == 1


def test_client_imports_little() -> None:
    done = subprocess.run(
        [PYTHON, "-ISBc", _MODULES, gate_folder()], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["__future__", "_socket", "service_client"]


@pytest.fixture
def served(path: Path) -> Callable[..., int]:
    """Give what runs a compiler behind the gate, served by the engine; its status."""

    def run(script: str) -> int:
        program = path.parent / "cicc"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        source = path.parent / "a.ii"
        source.touch()
        code = f"import sys; sys.path.insert(0, {str(gate_folder())!r}); import gate; "
        code += "sys.exit(gate.main(sys.argv[1], sys.argv[2:]))"
        command: list[str | Path] = [PYTHON, "-ISBc", code, program, source]
        return subprocess.run(
            command, env={"PATH": os.defpath, "CUWHEEL_MEMORY": str(path)}, check=False
        ).returncode

    return run


def test_gate_is_served(path: Path, served: Callable[..., int]) -> None:
    assert served(f"ls {path.parent}/memory/gated-* > {path.parent}/seen; exit 0") == 0

    assert any(line[0].isdigit() for line in (path.parent / "seen").read_text().split())
    assert len(list((path.parent / "memory" / "peaks" / "tiny").glob("cicc-[0-9a-f]*"))) == 1
    assert entries(path) == []


def test_gate_runs_on_where_the_service_is_gone(path: Path, served: Callable[..., int]) -> None:
    path.unlink()

    assert served("exit 3") == 3


def test_builds_where_a_disk_knows_no_sockets(tmp_path: Path) -> None:
    """As /proc does not, whoever asks."""
    warnings: list[str] = []

    with serve_memory(Path("/proc") / MEMORY_SOCKET, tmp_path, "tiny", 2, warnings.append):
        pass

    [said] = warnings
    assert said.startswith("programs of this build start without waiting for memory: [Errno ")
