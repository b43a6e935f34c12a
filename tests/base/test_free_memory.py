from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cuwheel.base import free_memory

MIB = 1 << 20

_MEMINFO = """MemTotal:       10485760 kB
MemFree:          102400 kB
MemAvailable:    4194304 kB
Cached:          1048576 kB
SwapTotal:       2097152 kB
SwapFree:        1572864 kB
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Files of the kernel for a process in no cgroup, on a machine of 10 GiB."""
    folder = tmp_path / "proc"
    write(folder / "meminfo", _MEMINFO)
    write(folder / "self" / "cgroup", "0::/\n")
    return folder


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(text))


def look(proc: Path) -> list[tuple[int, int]]:
    """Return total and free MiB of each level, reserves included."""
    levels = []
    for level in free_memory.read_memory(str(proc), str(proc.parent / "cgroup")).levels:
        whole = next(
            mib
            for mib in range(1, 1 << 16)
            if free_memory.MemoryLimit("", mib * MIB, 0).total == level.total
        )
        reserve = whole * MIB - level.total
        levels.append((whole, (level.free + reserve) // MIB))
    return levels


def test_sees_memory_of_a_tree() -> None:
    code = "import os, time; held = bytearray(60 << 20); os.fork(); print(); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        child.stdout.readline()
        tree = [psutil.Process(child.pid), *psutil.Process(child.pid).children()]
        expected = sum(process.memory_info().rss for process in tree)

        memory = free_memory.memory_of_tree(child.pid)

        for process in tree:
            process.kill()
    assert len(tree) == 2
    assert abs(memory - expected) < 2 * MIB


def test_ended_process_uses_no_memory() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()

    assert free_memory.memory_of_tree(ended.pid) == 0


def test_reads_available_memory(proc: Path) -> None:
    memory = free_memory.read_memory(str(proc), "/nowhere")

    assert look(proc) == [(10240, 4096)]
    assert memory.swapped == 512 * MIB
    assert not memory.pressed


def test_keeps_a_part_free(proc: Path) -> None:
    (level,) = free_memory.read_memory(str(proc), "/nowhere").levels

    assert level.total == 10240 * MIB - 512 * MIB
    assert level.free == 4096 * MIB - 512 * MIB


def test_counts_memory_of_old_kernels(proc: Path) -> None:
    write(proc / "meminfo", _MEMINFO.replace("MemAvailable", "Other"))

    assert look(proc) == [(10240, 1124)]


def test_refuses_a_machine_without_meminfo(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="has no MemTotal"):
        free_memory.read_memory(str(tmp_path), str(tmp_path))


def test_sees_limits_of_cgroups_v2(proc: Path, tmp_path: Path) -> None:
    write(proc / "self" / "cgroup", "0::/user/build\n")
    top = tmp_path / "cgroup" / "user"
    write(top / "memory.max", 6144 * MIB)
    write(top / "memory.high", "max")
    write(top / "memory.current", 5120 * MIB)
    write(top / "memory.stat", f"inactive_file {1024 * MIB}\nactive_file {512 * MIB}\nshmem 9\n")
    write(top / "build" / "memory.max", "max")
    write(top / "build" / "memory.high", 3072 * MIB)
    write(top / "build" / "memory.current", 2048 * MIB)

    assert look(proc) == [(10240, 4096), (3072, 1024), (6144, 2304)]


def test_sees_limits_of_cgroups_v1(proc: Path, tmp_path: Path) -> None:
    write(proc / "self" / "cgroup", "4:memory:/docker/a1\n3:cpu,cpuacct:/docker\n0::/\n")
    folder = tmp_path / "cgroup" / "memory" / "docker"
    write(folder / "memory.limit_in_bytes", 6144 * MIB)
    write(folder / "memory.usage_in_bytes", 5120 * MIB)
    write(
        folder / "memory.stat",
        f"inactive_file 1\ntotal_inactive_file {512 * MIB}\ntotal_active_file 0\n",
    )
    write(folder / "a1" / "memory.limit_in_bytes", 9223372036854771712)
    write(folder / "a1" / "memory.usage_in_bytes", 5120 * MIB)

    assert look(proc) == [(10240, 4096), (6144, 1536)]


def test_sees_limit_of_a_container_that_knows_another_path(proc: Path, tmp_path: Path) -> None:
    write(proc / "self" / "cgroup", "4:memory:/docker/a1\n")
    write(tmp_path / "cgroup" / "memory" / "memory.limit_in_bytes", 2048 * MIB)
    write(tmp_path / "cgroup" / "memory" / "memory.usage_in_bytes", 1024 * MIB)

    assert look(proc) == [(10240, 4096), (2048, 1024)]


def test_names_a_cgroup_alike_from_every_container(proc: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cgroup"
    write(folder / "memory.max", 2048 * MIB)
    write(folder / "memory.current", 0)

    level = free_memory.read_memory(str(proc), str(folder)).levels[1]

    assert level.name == f"{folder.stat().st_dev}:{folder.stat().st_ino}"


@pytest.mark.parametrize(("share", "pressed"), [("19.99", False), ("20.00", True)])
def test_sees_pressure(proc: Path, share: str, *, pressed: bool) -> None:
    write(
        proc / "pressure" / "memory", f"some avg10={share} avg60=0.00 avg300=0.00 total=1\nfull\n"
    )

    assert free_memory.read_memory(str(proc), "/nowhere").pressed is pressed


def test_sees_pressure_of_a_limited_cgroup(proc: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cgroup"
    write(folder / "memory.max", 2048 * MIB)
    write(folder / "memory.current", 0)
    write(folder / "memory.pressure", "some avg10=50.00 avg60=0.00 avg300=0.00 total=1\n")

    assert free_memory.read_memory(str(proc), str(folder)).pressed


def test_counts_kills(proc: Path) -> None:
    write(proc / "vmstat", "oom_kill_other 5\noom_kill 3\n")

    assert free_memory.kills(str(proc)) == 3
    assert free_memory.kills("/nowhere") == 0
