"""Compiles in less memory than they want together: without the gate the kernel kills some."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.cgroup import Cgroup, limited
from cuwheel.base.errors import UsageError
from cuwheel.base.free_memory import MACHINE, boot
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run, which
from cuwheel.build.compile.memory.scheduler import Claim
from tests.support.build.gated_compiles import MIB, PYTHON, Gated, gate_folder
from tests.support.engine import PACKAGES, make_engine
from tests.support.requirements import lack
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

_PLENTY = 1 << 40  # bytes, until a test sets a limit
_GATE = """
import sys
sys.path.insert(0, sys.argv[1])
from cuwheel.build.compile.memory_gate import gate
sys.exit(gate.main(sys.argv[2], sys.argv[3:]))
"""
# The memory service, which is in the cgroup of its build as an engine is, until its input ends.
_SERVE = """
import sys
from pathlib import Path
from cuwheel.build.compile.memory.service import serve_memory
folder, per_job = Path(sys.argv[1]), int(sys.argv[2])
socket = folder / "memory.sock"
with serve_memory(socket, folder / "memory", "tiny", jobs=16, per_job=per_job, warn=print):
    print(flush=True)
    sys.stdin.read()
"""
# A build that asks to run alone, and says from time to time that it still does.
_GREEDY = """
import os, socket, time
with socket.socket(socket.AF_UNIX) as service:
    service.connect(os.environ["CUWHEEL_MEMORY"])
    service.sendall(b"wait\\x001\\x000\\x00machine\\n")
    while service.recv(100):
        time.sleep(0.2)
        service.sendall(b"report\\x001\\n")
"""
# The engine, where builds are patient for so many seconds.
_PATIENT = """
import sys
from cuwheel.build.compile.memory import queue
from cuwheel.__main__ import main
queue.WAIT_LIMIT, queue._WARNED_AFTER = float(sys.argv[1]), 0.5
sys.exit(main(sys.argv[2:]))
"""
# 676 MB of cicc with nvcc 13.0, for one arch.
_SORT = """
#include <thrust/device_vector.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
void sort(thrust::device_vector<float> &keys, thrust::device_vector<int> &values) {
  thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
  thrust::inclusive_scan(keys.begin(), keys.end(), keys.begin());
}
"""


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    with contextlib.ExitStack() as stack:
        try:
            cgroup = stack.enter_context(limited(_PLENTY))
        except UsageError as error:
            lack("cgroup", f"{error.what}: {error.why}", "the gate where memory runs out")
        yield cgroup


def start(cgroup: Cgroup, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(cgroup.within(command), **options)


@pytest.fixture
def serve(cgroup: Cgroup, tmp_path: Path) -> Iterator[Callable[..., Gated]]:
    """Return a function that starts an engine's memory service in the cgroup."""
    with contextlib.ExitStack() as stack:

        def make(per_job: int = 2048) -> Gated:
            words = [sys.executable, "-c", _SERVE, str(tmp_path), str(per_job * MIB)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            engine = start(cgroup, words, env={"PYTHONPATH": str(ROOT)}, **pipes)
            stack.enter_context(engine)  # its end closes the pipes, and waits
            assert engine.stdout
            assert engine.stdout.readline() == b"\n"
            return Gated(folder=tmp_path)

        yield make


@pytest.fixture
def gated(serve: Callable[..., Gated]) -> Gated:
    return serve()


def hogs(gated: Gated, count: int, mib: int) -> list[list[str]]:
    """Commands of programs that want so much each, all at the same time."""
    words = [str(mib), "700", "700"]
    return [[str(gated.hog()), str(gated.source(f"s{number}")), *words] for number in range(count)]


def run_all(cgroup: Cgroup, commands: list[list[str]], gated: Gated) -> list[int]:
    started = [start(cgroup, command, env=gated.environment()) for command in commands]
    return [process.wait(300) for process in started]


@pytest.fixture
def cc1plus() -> Path:
    """The compiler proper of g++."""
    located = run(["g++", "-print-prog-name=cc1plus"], env={"PATH": os.environ["PATH"]})
    return Path(located.output.strip())


def forget(path: Path) -> Path:
    """Have the kernel drop what it keeps of a file: who reads it next is charged for it."""
    with path.open("rb") as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def through_gate(commands: list[list[str]]) -> list[list[str]]:
    return [[str(PYTHON), "-ISBc", _GATE, str(gate_folder()), *command] for command in commands]


def test_kernel_kills_without_gate(cgroup: Cgroup, gated: Gated) -> None:
    cgroup.limit(800 * MIB)

    statuses = run_all(cgroup, hogs(gated, 8, 300), gated)

    assert cgroup.kills > 0
    assert -9 in statuses


@pytest.mark.parametrize("taught", [300, None, 30], ids=["known", "unknown", "much less"])
def test_all_finish(cgroup: Cgroup, gated: Gated, taught: int | None) -> None:
    cgroup.limit(900 * MIB)
    for number in range(8) if taught else ():
        gated.teach(f"s{number}", taught or 0)

    statuses = run_all(cgroup, through_gate(hogs(gated, 8, 300)), gated)

    assert statuses == [0] * 8
    events = sorted(gated.events(), key=lambda event: event["start"])
    is_repeated = max(event["tries"] for event in events) > 1
    assert is_repeated == (taught == 30)
    if taught != 30:
        assert cgroup.kills == 0
    if taught == 300:
        assert any(
            later["start"] < first["end"] - 0.2 for first, later in itertools.pairwise(events)
        )


def test_what_no_limit_holds_is_killed_once_and_the_rest_not_started(
    cgroup: Cgroup, gated: Gated
) -> None:
    cgroup.limit(400 * MIB)

    statuses = run_all(cgroup, through_gate(hogs(gated, 4, 600)), gated)

    assert statuses == [137] * 4
    assert cgroup.kills == 1
    assert sorted(event["tries"] for event in gated.events()) == [0, 0, 0, 1]


def test_alone_in_one_cgroup_stops_nobody_in_another(cgroup: Cgroup, gated: Gated) -> None:
    cgroup.limit(400 * MIB)
    other = Gated(folder=gated.folder / "outside", shared=gated.memory)
    other.folder.mkdir()
    other.teach("s0", 30)
    script = f"[ -e {gated.go} ] && exec {gated.hog()} - 10 1 {gated.folder}/end; touch {gated.go}"
    killed = gated.program("ptxas", f"{script}; kill -9 $$")
    [command] = through_gate([[str(killed), str(gated.source("a"))]])
    inside = start(cgroup, command, env=gated.environment())
    wait_for(lambda: gated.go.exists() and again_alone(gated))

    with other.served():
        assert other.start_hog("s0", 30).wait(60) == 0
    assert inside.poll() is None
    (gated.folder / "end").touch()
    assert inside.wait(60) == 0


def again_alone(gated: Gated) -> bool:
    """Whether the program runs that was killed the first time."""
    return any(claim.alone and claim.started for claim in claims(gated))


def claims(gated: Gated) -> list[Claim]:
    entries = []
    for path in gated.entries():
        with contextlib.suppress(OSError, ValueError):
            entries.append(Claim.read(path.name, path.read_bytes()))
    return entries


def test_finishes_beside_programs_that_nobody_gates(cgroup: Cgroup, gated: Gated) -> None:
    cgroup.limit(800 * MIB)
    for number in range(4):
        gated.teach(f"s{number}", 300)
    other = start(cgroup, [str(gated.hog("other")), "-", "350", "1", "6000"])
    wait_for(lambda: cgroup.used >= 350 * MIB)

    statuses = run_all(cgroup, through_gate(hogs(gated, 4, 300)), gated)

    assert (statuses, other.wait(60)) == ([0] * 4, 0)
    assert cgroup.kills == 0


@pytest.fixture
def host_compiles(tmp_path: Path) -> list[list[str]]:
    """Commands that compile a file which takes 268 MB of cc1plus (GCC 12), three times."""
    source = tmp_path / "numbers.cpp"
    numbers = ",".join(map(str, range(1_000_000)))
    source.write_text(f"int numbers[] = {{{numbers}}};\n")
    words = [str(which("g++", os.environ["PATH"])), "-c", str(source), "-o"]
    return [[*words, str(tmp_path / f"{number}.o")] for number in range(3)]


def test_runs_host_compiler_again_that_hides_a_kill(
    cgroup: Cgroup, serve: Callable[..., Gated], host_compiles: list[list[str]], cc1plus: Path
) -> None:
    """GCC reports the death of its cc1plus with status 1 and a message, as for a wrong source."""
    gated = serve(per_job=20)
    cgroup.limit(500 * MIB)
    # Read from outside, its code is nothing that the kernel could take away instead of killing.
    forget(cc1plus).read_bytes()
    other = start(cgroup, [str(gated.hog("other")), "-", "350", "1", "600000"])
    wait_for(lambda: cgroup.used >= 350 * MIB)

    [command] = through_gate(host_compiles[:1])
    # The kernel takes the compiler first, though the other is larger: proc_pid_oom_score_adj(5).
    first = ["sh", "-c", 'echo 1000 > /proc/self/oom_score_adj; exec "$@"', "sh", *command]
    compile_ = start(cgroup, first, env=gated.environment())
    wait_for(lambda: cgroup.kills > 0)
    assert other.poll() is None
    other.kill()

    assert (compile_.wait(60), other.wait(60)) == (0, -signal.SIGKILL)
    assert [event["tries"] > 1 for event in gated.events()] == [True]


def test_ends_one_of_those_that_keep_each_other_from_getting_on(
    cgroup: Cgroup, serve: Callable[..., Gated], host_compiles: list[list[str]], cc1plus: Path
) -> None:
    """Where their code was read in the cgroup, the kernel takes that away and may kill nobody."""
    gated = serve(per_job=20)
    cgroup.limit(500 * MIB)
    forget(cc1plus)

    statuses = run_all(cgroup, through_gate(host_compiles), gated)

    assert statuses == [0] * 3
    assert max(event["tries"] for event in gated.events()) > 1


@pytest.fixture
def view(tmp_path: Path, cuda_home: Path) -> Path:
    """A CUDA home whose cicc, ptxas and cudafe++ are gated."""
    folder = tmp_path / "view"
    for place in (".", "bin", "nvvm", "nvvm/bin"):
        (folder / place).mkdir()
        for entry in (cuda_home / place).iterdir():
            if entry.name not in {"bin", "nvvm", "cicc", "ptxas", "cudafe++"}:
                (folder / place / entry.name).symlink_to(entry)
    for place in ("bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc"):
        (folder / place).write_text(
            f"#!/bin/sh\nexec {PYTHON} -ISBc '{_GATE}' {gate_folder()} {cuda_home / place} \"$@\"\n"
        )
        (folder / place).chmod(0o755)
    return folder


@pytest.fixture
def compiles(tmp_path: Path, view: Path) -> list[list[str]]:
    """Commands that compile four files with gated tools."""
    commands = []
    for number in range(4):
        source = tmp_path / f"sort{number}.cu"
        source.write_text(_SORT)
        words = (view / "bin/nvcc", "-arch=sm_90", "-c", source, "-o", tmp_path / f"{number}.o")
        commands.append([str(word) for word in words])
    return commands


@pytest.mark.nightly
def test_real_compiles_finish(cgroup: Cgroup, gated: Gated, compiles: list[list[str]]) -> None:
    """Without the gate the kernel kills some, or lets all stand still for minutes (ADR 17)."""
    cgroup.limit(1200 * MIB)

    statuses = run_all(cgroup, compiles, gated)

    assert statuses == [0] * 4
    wanted = sum(event["peak"] for event in gated.events() if event["name"] == "cicc")
    assert wanted > 1200 * MIB, "they would have fitted without a gate"
    # A guess for what was never measured can be too low; who is killed for it is run again.
    assert cgroup.kills <= 1
    tools = [(event["name"], Path(event["file"]).name) for event in gated.events()]
    assert sorted(tools) == sorted(
        (tool, f"sort{number}.cu" if tool != "ptxas" else f"sort{number}")
        for tool in ("cicc", "ptxas", "cudafe++")
        for number in range(4)
    )


def test_build_that_wants_all_memory_holds_up_another_for_a_time(
    tmp_path: Path, project: Path, shared_cache: Path
) -> None:
    """Two real builds: the first asks to run alone, and compiles nothing."""
    cache = tmp_path / "cache"  # of their own: nobody else is to wait
    cache.mkdir()
    for name in ("downloads", "environments", "toolchains", "uv"):
        (shared_cache / name).mkdir(exist_ok=True)
        (cache / name).symlink_to(shared_cache / name)
    greedy, other = (make_engine(tmp_path / name, project, cache) for name in ("greedy", "other"))
    source = tmp_path / "tiny_capi-1.0.0"
    shutil.copytree(PACKAGES / "tiny_capi", source)
    setup = source / "setup.py"
    setup.write_text(f"{_GREEDY}\n{setup.read_text()}")
    ledger = cache / "memory" / f"gated-{boot()}"
    command = ["-c", _PATIENT, "3", "build", "tiny-capi-130", "--no-cache"]
    folders = ["--work", str(other.work), "--dist", str(other.dist)]
    with greedy.start("tiny-capi", "--source", str(source)):
        wait_for(lambda: any(is_alone(path) for path in ledger.glob("[0-9]*")))

        built = subprocess.run(
            [other.python, *command, *folders, "--source", PACKAGES / "tiny_capi"],
            env=other.environment(PYTHONPATH=str(ROOT)),
            capture_output=True,
            text=True,
            check=False,
        )

    said = built.stdout + built.stderr
    assert built.returncode == 0, said
    assert "memory that is reserved for other builds: tiny-capi@" in said
    assert len(other.wheels()) == 1


def is_alone(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        claim = Claim.read(path.name, path.read_bytes())
        return claim.alone == MACHINE and claim.started > 0
    return False
