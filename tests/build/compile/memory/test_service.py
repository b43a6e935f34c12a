"""The memory service: requests of gates, and refused ones."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.build.compile.memory.peaks import Peaks
from cuwheel.build.compile.memory.service import MEMORY_SOCKET, serve_memory
from cuwheel.build.compile.memory_gate.service_client import ServiceClient
from tests.support.build.gated_compiles import MIB, PYTHON, gate_folder
from tests.support.waiting import wait_for

_HUGE = 1 << 49  # bytes: more than any machine has
# A gated process that holds a part of the memory, and a program of its that outlives it.
_HOLD = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from cuwheel.build.compile.memory_gate import service_client
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
from cuwheel.build.compile.memory.service import serve_memory
folder = Path(sys.argv[1])
with serve_memory(folder / "s", folder / "memory", "tiny", jobs=2, per_job=1, warn=print):
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
from cuwheel.build.compile.memory_gate import service_client
print(*sorted(set(sys.modules) - before))
"""


@contextlib.contextmanager
def serving(
    path: Path,
    recipe: str = "tiny",
    warn: Callable[[str], None] = pytest.fail,
    folder: Path | None = None,
) -> Iterator[Path]:
    """Serve a build with two jobs."""
    folder = folder or path.parent / "memory"
    with serve_memory(path, folder, recipe, jobs=2, per_job=1, warn=warn):
        yield path


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The socket of a service for a build with two jobs."""
    with serving(tmp_path / MEMORY_SOCKET):
        yield tmp_path / MEMORY_SOCKET


def entries(path: Path) -> list[Path]:
    return sorted(path.parent.glob("memory/gated-*/[0-9]*"))


def exchange(path: Path, line: bytes) -> bytes:
    """Return the reply to a line; nothing where the service hangs up."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(10)
        talk.connect(str(path))
        try:
            talk.sendall(line)
            return talk.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            return b""


def test_reserves_memory_until_it_is_given_back(path: Path) -> None:
    client = ServiceClient(str(path))

    client.wait(MIB)
    assert client.report(2 * MIB) is False
    assert len(entries(path)) == 1
    assert client.is_alone("machine")
    client.leave()

    assert entries(path) == []


def test_keeps_what_it_is_taught_under_the_builds_name(path: Path) -> None:
    client = ServiceClient(str(path))

    client.learn("cicc", "a.cu 90", 700 * MIB)

    peaks = Peaks(path.parent / "memory", "tiny", 1)
    assert client.expect("cicc", "a.cu 90") == peaks.expect("cicc", "a.cu 90")
    assert peaks.expect("cicc", "a.cu 90")[1] == 700 * MIB
    assert [holder.name for holder in (path.parent / "memory" / "peaks").iterdir()] == ["tiny"]


def test_keeps_little_of_a_long_key(path: Path) -> None:
    client = ServiceClient(str(path))

    client.learn("cicc", "ä" * 20_000, 700 * MIB)

    assert client.expect("cicc", "ä" * 20_000)[1] == 700 * MIB
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

    monkeypatch.setattr("cuwheel.build.compile.memory.service._MOST_CLIENTS", 1)
    with serving(tmp_path / MEMORY_SOCKET, "tiny", print):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert exchange(tmp_path / MEMORY_SOCKET, b"\n") == b""

        assert exchange(tmp_path / MEMORY_SOCKET, b"\n") == b"no\n"


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


def test_memory_is_reserved_as_long_as_the_program_runs(path: Path, tmp_path: Path) -> None:
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


def test_ended_client_waits_no_longer(path: Path) -> None:
    holders = [ServiceClient(str(path)) for _ in range(2)]
    for holder in holders:
        holder.wait(MIB)
    waiting = subprocess.Popen([PYTHON, "-ISBc", _HOLD, gate_folder(), path, os.devnull])
    wait_for(lambda: len(entries(path)) == 3)

    waiting.kill()
    waiting.wait()

    wait_for(lambda: len(entries(path)) == 2)
    for holder in holders:
        holder.leave()


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
    assert exchange(path, line) == b"no\n"
    assert list(path.parent.rglob("x*")) == []
    assert entries(path) == []


def test_hangs_up_on_endless_questions(path: Path) -> None:
    assert exchange(path, b"x" * (1 << 17)) == b""


def test_many_requests_harm_no_other_build(path: Path, tmp_path: Path) -> None:
    """A build may claim all memory for as long as it runs, and nothing of it stays."""
    greedy = ServiceClient(str(path))
    greedy.learn("cicc", "key", _HUGE)

    with serving(tmp_path / "other.sock", "other"):
        other = ServiceClient(str(tmp_path / "other.sock"))
        assert other.expect("cicc", "key")[1] == 0
        other.wait(MIB)
        other.leave()


def test_serves_nothing_where_folder_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "memory").touch()
    warnings: list[str] = []

    with serving(tmp_path / MEMORY_SOCKET, "tiny", warnings.append):
        assert not (tmp_path / MEMORY_SOCKET).exists()
    assert len(warnings) == 1


def test_client_imports_little() -> None:
    done = subprocess.run(
        [PYTHON, "-ISBc", _MODULES, gate_folder()], capture_output=True, text=True, check=True
    )

    loaded = {name for name in done.stdout.split() if not name.startswith("cuwheel")}
    assert loaded == {"__future__", "_socket"}


def test_builds_where_a_disk_knows_no_sockets(tmp_path: Path) -> None:
    """As /proc does not."""
    warnings: list[str] = []

    with serving(Path("/proc") / MEMORY_SOCKET, "tiny", warnings.append, tmp_path):
        pass

    [warning] = warnings
    assert warning.startswith("programs of this build start without waiting for memory: [Errno ")
