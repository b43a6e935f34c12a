from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cuwheel.build.compile.memory_gate import gate
from tests.support.build.gated_compiles import MIB, PYTHON, Gated, gate_folder
from tests.support.waiting import wait_for


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Callable[..., Gated]]:
    """Return a function that makes a gate with a limit in MiB, which the engine serves."""
    with contextlib.ExitStack() as stack:

        def make(mib: int = 0, **options: int) -> Gated:
            gated = Gated(folder=tmp_path, budget=mib * MIB)
            return stack.enter_context(gated.served(**options))

        yield make


@pytest.fixture
def gated(limited: Callable[..., Gated]) -> Gated:
    return limited()


def taken_by(pid: int, programs: Path) -> int:
    """Bytes that a process takes, if its program lies in this folder."""
    # A new object at each look: `process_iter` keeps the `exe` that a process had before its exec.
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.exe().startswith(str(programs)):
            return int(process.memory_info().rss)
    return 0


@pytest.fixture
def largest(gated: Gated) -> Iterator[Callable[[], int]]:
    """Give the most MiB that all hogs took together up to now."""
    peak = [0]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            peak[0] = max(peak[0], sum(taken_by(pid, gated.programs) for pid in psutil.pids()))

    thread = threading.Thread(target=watch)
    thread.start()
    yield lambda: peak[0] // MIB
    ended.set()
    thread.join()


def test_leaves_input_output_and_status_alone(gated: Gated) -> None:
    program = gated.program("cicc", 'cat; echo "$@"; echo problem >&2; exit 3')
    command = gated.command(program, gated.source("a"), "two words", "")

    done = subprocess.run(
        command, input=b"given\n", capture_output=True, env=gated.environment(), check=False
    )

    assert done.stdout == f"given\n{gated.source('a')} two words \n".encode()
    assert done.stderr == b"problem\n"
    assert done.returncode == 3


@pytest.mark.parametrize(("status", "kept"), [(0, ""), (2, "device code\n")])
def test_empties_the_file_that_nothing_reads(gated: Gated, status: int, kept: str) -> None:
    program = gated.program("cicc", f'echo device code > "$3"; exit {status}')
    unread = gated.folder / "x.cudafe1.gpu"

    gated.start(program, gated.source("a"), "--gen_device_file_name", unread).wait()

    assert unread.read_text() == kept


def test_starts_nothing_for_a_version(gated: Gated) -> None:
    program = gated.program("ptxas", "echo $PPID; exec sleep 0")

    started = gated.start(program, "--version", stdout=subprocess.PIPE)
    parent, _ = started.communicate()

    assert int(parent) == os.getpid()  # the gate became the program


def test_gates_no_preprocessing(gated: Gated) -> None:
    assert gate.work_of("/usr/bin/g++", ["-E", "-c", str(gated.source("a"))]) is None


def test_program_has_its_signals_and_is_first_to_be_killed_for_memory(gated: Gated) -> None:
    script = "sleep 0.1; cat /proc/self/oom_score_adj; grep SigIgn /proc/self/status"
    program = gated.program("cicc", script)

    started = gated.start(program, gated.source("a"), stdout=subprocess.PIPE)
    output, _ = started.communicate()

    score, _, ignored = output.split()
    assert int(score) >= 500
    assert not int(ignored, 16) & (1 << signal.SIGPIPE - 1), "Python ignores it"


@pytest.mark.parametrize(
    ("tool", "script", "status", "tries"),
    [
        ("cicc", "kill -SEGV $$", 128 + signal.SIGSEGV, 1),
        ("cicc", "kill -9 $$", 137, 3),
        # A host compiler hides a kill behind a plain error; the kernel's count has to have risen.
        ("g++", "echo 'a.ii:1: error: expected' >&2; exit 1", 1, 1),
    ],
)
def test_gives_status_as_shells_do_and_runs_again_what_was_killed(
    gated: Gated, tool: str, script: str, status: int, tries: int
) -> None:
    words = ("-c",) if tool == "g++" else ()

    assert gated.run(gated.program(tool, script), *words, gated.source("a")) == status
    assert gated.event_of("a")["tries"] == tries


def test_runs_nothing_again_without_its_input(gated: Gated) -> None:
    killed = gated.program("g++", "cat > /dev/null; kill -9 $$")

    status = gated.run(killed, "-c", "-x", "c++", "-", stdin=subprocess.DEVNULL)

    assert status == 137
    assert gated.events()[0]["tries"] == 1


@pytest.mark.parametrize(("reaction", "status"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_forwards_signals_and_runs_nothing_again(gated: Gated, reaction: str, status: int) -> None:
    up = gated.folder / "up"
    program = gated.program(
        "cicc", f"trap '{reaction}' TERM; touch {up}; while :; do sleep 0.02; done"
    )
    started = gated.start(program, gated.source("a"))
    wait_for(up.exists)

    started.terminate()

    assert started.wait(10) == status
    assert gated.event_of("a")["tries"] == 1


def test_ends_by_a_signal_while_it_waits(limited: Callable[..., Gated]) -> None:
    gated = limited(120)
    gated.teach("first", 80)
    first = gated.start_hog("first", 80, hold=gated.go)
    gated.wait_for_entries(1)
    second = gated.start_hog("first", 80)
    gated.wait_for_entries(2)

    second.terminate()

    assert second.wait(10) == 128 + signal.SIGTERM
    gated.wait_for_entries(1)
    gated.go.touch()
    assert first.wait(10) == 0


def test_logs_what_ran(gated: Gated) -> None:
    quoted = Gated(
        folder=gated.folder,
        variables={
            "CUWHEEL_COMPILE": "12-34",
            "CUWHEEL_FILE": '/cuwheel/source/a "b"\\\n\udce9.cu',
        },
    )
    words = ("--orig_src_path_name", '/cuwheel/source/a "b"\\\n\udce9.cu', "-arch", "compute_90a")
    before = time.time()

    work = "sleep 0.2; n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done"
    quoted.run(quoted.program("cicc", work), *words, quoted.source("a"))

    (event,) = gated.events()
    times = [event.pop(name) for name in ("called", "asked", "start", "end")]
    assert event.pop("peak") > MIB
    assert 0 < event.pop("cpu") < times[3] - times[2]
    assert event.pop("expected") == 2048 * MIB
    assert event == {
        "kind": "tool",
        "compile": "12-34",
        "name": "cicc",
        "file": '/cuwheel/source/a "b"\\\n\udce9.cu',
        "arch": "90a",
        "status": 0,
        "tries": 1,
    }
    assert before < times[0] <= times[1] <= times[2] <= times[3] - 0.2


def test_learns_peak(gated: Gated) -> None:
    for mib in (60, 20):
        gated.start_hog("a", mib, grow=1, hold=0).wait()  # over before anyone has looked at it

    first, second = gated.events()
    assert 60 <= first["peak"] // MIB <= 64
    assert second["expected"] == int(first["peak"] * 1.1) + 16 * MIB


def test_learns_nothing_from_a_failed_program(gated: Gated) -> None:
    for _ in range(2):
        gated.run(gated.program("cicc", "exit 1"), gated.source("a"))

    facts = [(event["expected"], event["tries"]) for event in gated.events()]
    assert facts == [(2048 * MIB, 1)] * 2


def test_takes_memory_from_recipe_where_nothing_is_known(limited: Callable[..., Gated]) -> None:
    gated = limited(per_job=4096 * MIB)

    gated.run(gated.program("cicc", "exit 0"), gated.source("a"))

    assert gated.event_of("a")["expected"] == 4096 * MIB


def test_waits_for_room(limited: Callable[..., Gated]) -> None:
    gated = limited(160)
    gated.teach("a", 80)
    gated.teach("b", 80)
    first = gated.start_hog("a", 80, hold=gated.go)
    gated.wait_for_entries(1)

    second = gated.start_hog("b", 80)
    gated.wait_for_entries(2)
    released = time.time()
    gated.go.touch()

    assert (first.wait(20), second.wait(20)) == (0, 0)
    # Room is there as soon as the program is gone, perhaps before its gate has noted the end.
    assert gated.event_of("b")["start"] > released


def test_runs_together_what_fits(limited: Callable[..., Gated]) -> None:
    gated = limited(220)
    for name in ("a", "b"):
        gated.teach(name, 80)

    started = [gated.start_hog(name, 80, hold=gated.go) for name in ("a", "b")]
    wait_for(lambda: all(psutil.Process(gate_process.pid).children() for gate_process in started))
    gated.go.touch()

    assert [gate_process.wait(20) for gate_process in started] == [0, 0]


@pytest.mark.e2e
def test_stays_within_budget(limited: Callable[..., Gated], largest: Callable[[], int]) -> None:
    gated = limited(160)
    sizes = (80, 12, 50, 25, 60, 12, 40, 25, 80, 50, 12, 60)
    for number, mib in enumerate(sizes):
        gated.teach(f"s{number}", mib)

    first = gated.start_hog("s0", sizes[0], hold=gated.go)  # until another runs
    wait_for(lambda: psutil.Process(first.pid).children())
    others = [
        gated.start_hog(f"s{number}", mib, hold=300)
        for number, mib in enumerate(sizes[1:], start=1)
    ]
    wait_for(lambda: largest() > sizes[0] + 5)
    gated.go.touch()

    assert [gate_process.wait(60) for gate_process in (first, *others)] == [0] * len(sizes)
    assert largest() <= 160


@pytest.mark.e2e
def test_waits_for_its_turn_among_the_builds_jobs(limited: Callable[..., Gated]) -> None:
    gated = limited(jobs=2)
    for name in "abcd":
        gated.teach(name, 10)

    started = [gated.start_hog(name, 10, hold=1500) for name in "ab"]
    gated.wait_for_entries(2)
    started += [gated.start_hog(name, 10, hold=1500) for name in "cd"]

    assert [gate_process.wait(20) for gate_process in started] == [0] * 4
    first, second, *late = sorted(gated.events(), key=lambda event: event["start"])
    assert all(event["start"] > min(first["end"], second["end"]) for event in late)
    # They waited for their turn, not for memory.
    assert all(event["start"] - event["asked"] < 0.2 for event in late)
    assert all(event["asked"] - event["called"] > 0.5 for event in late)


def test_runs_what_is_too_large_alone(limited: Callable[..., Gated]) -> None:
    gated = limited(100)
    gated.teach("large", 120)
    gated.teach("small", 20)
    small = gated.start_hog("small", 20, hold=gated.go)
    gated.wait_for_entries(1)

    large = gated.start_hog("large", 120)
    gated.wait_for_entries(2)
    gated.go.touch()

    assert (small.wait(20), large.wait(20)) == (0, 0)
    assert gated.event_of("small")["end"] <= gated.event_of("large")["start"]


def test_runs_killed_program_again_alone(limited: Callable[..., Gated]) -> None:
    gated = limited(200)
    gated.teach("other", 50)
    other = gated.start_hog("other", 50, hold=1000)
    gated.wait_for_entries(1)
    killed = gated.program("ptxas", '[ -e "$1.killed" ] || { touch "$1.killed"; kill -9 $$; }')

    status = gated.run(killed, gated.source("a"))

    assert (status, other.wait(20)) == (0, 0)
    event = gated.event_of("a")
    assert event["tries"] == 2
    assert event["end"] > gated.event_of("other")["end"]


@pytest.mark.e2e
def test_ends_the_last_started_when_memory_runs_out(
    limited: Callable[..., Gated], largest: Callable[[], int]
) -> None:
    gated = limited(200)
    gated.teach("a", 40)
    gated.teach("b", 40)
    first = gated.start_hog("a", 160, grow=1500)
    wait_for(lambda: psutil.Process(first.pid).children())

    second = gated.start_hog("b", 160, grow=1500)

    assert (first.wait(20), second.wait(20)) == (0, 0)
    assert [gated.event_of(name)["tries"] for name in "ab"] == [1, 2]
    assert largest() < 200 + 64


@pytest.mark.e2e
def test_ends_a_program_with_all_that_it_started(
    limited: Callable[..., Gated], tmp_path: Path
) -> None:
    gated = limited(150, per_job=20 * MIB)
    first = gated.start_hog("a", 100, hold=2500)
    wait_for(lambda: psutil.Process(first.pid).children())
    pids = tmp_path / "pids"
    driver = gated.program("g++", f"{gated.hog()} - 120 800 200 & echo $! >> {pids}; wait")

    status = gated.run(driver, "-c", gated.source("b"))

    assert (status, first.wait(20)) == (0, 0)
    assert gated.event_of("b")["tries"] == 2
    assert not any(map(psutil.pid_exists, map(int, pids.read_text().split())))


@pytest.fixture
def too_large(limited: Callable[..., Gated]) -> Gated:
    """A gate whose limit is full as soon as its compiler has all its memory."""
    return limited(200)


def test_gives_up_at_once_on_what_had_all_there_is(
    too_large: Gated, capfd: pytest.CaptureFixture[str]
) -> None:
    killed = too_large.program("ptxas", f"{too_large.hog()} - 220 1 0; kill -9 $$")

    status = too_large.run(killed, "--gpu-name=sm_90", too_large.source("a"))

    assert (status, too_large.event_of("a")["tries"]) == (137, 1)
    assert re.search(
        r"memory gate: ptxas was killed with 0\.2 GiB in use, compiling \S+/a\.ii for sm_90; "
        r"its cgroup has 0\.3 GiB and nothing else was running",
        capfd.readouterr().err,
    )


def test_repeats_nothing_of_a_build_that_has_given_up(too_large: Gated) -> None:
    killed = too_large.program("ptxas", f"{too_large.hog()} - 220 1 0; kill -9 $$")
    too_large.run(killed, too_large.source("a"))

    too_large.teach("small", 10)
    small = too_large.program("cicc", "kill -9 $$")

    assert too_large.run(small, too_large.source("small")) == 137
    assert too_large.event_of("small")["tries"] == 1
    assert too_large.start_hog("large", 10).wait(20) == 137  # 2 GiB are expected of it
    assert too_large.event_of("large")["tries"] == 0


@pytest.mark.e2e
def test_survives_kills_in_the_middle(
    limited: Callable[..., Gated], largest: Callable[[], int]
) -> None:
    gated = limited(160)
    names = [f"s{number}" for number in range(16)]
    for name in names:
        gated.teach(name, 40)
    started = [gated.start_hog(name, 40) for name in names]

    wait_for(lambda: len(gated.events()) > 2)
    for gate_process in started[1::3]:
        gate_process.kill()

    statuses = [gate_process.wait(60) for gate_process in started]
    assert set(statuses[1::3]) <= {-signal.SIGKILL, 0}
    assert statuses[0::3] + statuses[2::3] == [0] * 11
    assert largest() <= 160
    wait_for(lambda: not gated.entries())


@pytest.mark.parametrize("socket", ["nothing", "a.ii"])
def test_runs_where_no_engine_serves(tmp_path: Path, socket: str) -> None:
    gated = Gated(folder=tmp_path, variables={"CUWHEEL_MEMORY": str(tmp_path / socket)})

    assert gated.run(gated.program("cicc", "exit 4"), gated.source("a")) == 4
    assert gated.event_of("a")["status"] == 4


def test_runs_on_when_folder_is_removed(gated: Gated) -> None:
    program = gated.program("cicc", f"rm -r {gated.memory}; sleep 0.3; exit 4")

    assert gated.run(program, gated.source("a")) == 4


def test_runs_without_any_variable(gated: Gated) -> None:
    program = gated.program("cicc", "exit 4")
    command = gated.command(program, gated.source("a"))

    assert subprocess.run(command, env={}, check=False).returncode == 4


def test_imports_nothing_that_takes_long() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(gate_folder())!r}); "
        "from cuwheel.build.compile.memory_gate import gate; print(*sys.modules)"
    )

    done = subprocess.run([PYTHON, "-ISBc", code], capture_output=True, text=True, check=True)

    slow = {"json", "re", "typing", "enum", "signal", "subprocess", "contextlib", "pathlib"}
    assert not slow.intersection(done.stdout.split())


@pytest.mark.parametrize(
    ("real", "words", "expected"),
    [
        (
            "/c/cicc",
            "-arch compute_80 --orig_src_path_name /tmp/x/a.cu -g -O3 {ii} -o x.ptx",
            ("cicc", "/tmp/x/a.cu", "80", "/tmp/x/a.cu 80 -O3 -g"),
        ),
        (
            "/c/cudafe++",
            "--orig_src_path_name /tmp/x/a.cu --orig_src_path_name=/cuwheel/source/a.cu {ii}",
            ("cudafe++", "/cuwheel/source/a.cu", "", "/cuwheel/source/a.cu "),
        ),
        (
            "/c/ptxas",
            "-arch=sm_90a {ptx} -o x.cubin",
            ("ptxas", "my_kernel", "90a", "my_kernel 90a"),
        ),
        (
            "/usr/bin/x86_64-linux-gnu-g++-12",
            "-march=x86-64-v3 -O2 -c {host} -o {object}",
            ("g++", "my_kernel", "", "my_kernel  -O2"),
        ),
    ],
)
def test_knows_what_is_compiled(
    tmp_path: Path, real: str, words: str, expected: tuple[str, ...]
) -> None:
    names = {
        "ii": "a.ii",
        "ptx": "tmpxft_0000a1b2_00000000-7_my_kernel.compute_90a.ptx",
        "host": "tmpxft_0000a1b2_00000000-6_my_kernel.compute_90.cudafe1.cpp",
        "object": "old.o",
    }
    paths = {word: str(tmp_path / name) for word, name in names.items()}
    for path in paths.values():
        Path(path).touch()

    work = gate.work_of(real, words.format(**paths).split())

    assert work
    assert (work.tool, work.file, work.arch, work.key) == expected
