"""How much memory is free now: for the machine, and for each cgroup above this process.

Linux says it in small files: proc_meminfo(5), and the kernel's documents admin-guide/cgroup-v2,
admin-guide/cgroup-v1/memory and accounting/psi. Swap never counts as free. Part of the memory gate,
so written for a short start. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import os

MIB = 1 << 20
MACHINE = "machine"

# Stays free at each level: for parts of a build that no gate sees, and for the kernel.
_RESERVED_SHARE = 0.05
_LEAST_RESERVE = 64 * MIB
_MOST_RESERVE = 1024 * MIB

# Per cent of the last ten seconds in which some process stood still, out of memory.
_PRESSURE = 20.0

# A cgroup without a limit has `max` or, in version 1, a number near 2 to the 63rd.
_NO_LIMIT = 1 << 60


class MemoryLimit:
    """One thing that bounds the memory of this process.

    Attributes:
        name: `machine`, or device and inode of a cgroup: the same seen from every container.
        reserve: bytes that are to stay free.
        total: bytes that may be used here, the reserve taken off.
        free: bytes of them that are free now; less than none where the reserve is in use.
    """

    __slots__ = ("free", "name", "reserve", "total")

    def __init__(self, name: str, total: int, free: int) -> None:
        reserve = max(_LEAST_RESERVE, min(_MOST_RESERVE, int(total * _RESERVED_SHARE)))
        self.name = name
        self.reserve = reserve
        self.total = total - reserve
        self.free = free - reserve

    @property
    def limit(self) -> int:
        """Bytes that may be used here, with what is to stay free."""
        return self.total + self.reserve

    @property
    def is_short(self) -> bool:
        """Whether half of what is to stay free is in use."""
        return self.free < -self.reserve // 2


class Memory:
    """What bounds memory, and whether the machine is short of it.

    Attributes:
        levels: the machine, then the cgroups with a limit.
        swapped: bytes of swap in use.
        pressed: whether processes stand still because memory is short.
    """

    __slots__ = ("levels", "pressed", "swapped")

    def __init__(self, levels: list[MemoryLimit], swapped: int, *, pressed: bool) -> None:
        self.levels = levels
        self.swapped = swapped
        self.pressed = pressed

    @property
    def tightest(self) -> MemoryLimit:
        """The level that allows the least."""
        return min(self.levels, key=lambda level: level.total)


def read_memory(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> Memory:
    """Read it all.

    Args:
        proc: where procfs is mounted.
        cgroups: where the cgroup file systems are mounted.

    Raises:
        OSError: the machine doesn't say how much memory it has.
    """
    said = _numbers(_read(f"{proc}/meminfo").replace(":", "").replace(" kB", ""))
    if "MemTotal" not in said:
        raise OSError(f"{proc}/meminfo has no MemTotal")
    kib = {name: value * 1024 for name, value in said.items()}
    available = kib.get("MemAvailable", kib.get("MemFree", 0) + kib.get("Cached", 0))
    levels = [MemoryLimit(MACHINE, kib["MemTotal"], available)]
    pressed = _is_pressed(f"{proc}/pressure/memory")
    for folder in _cgroup_folders(_read(f"{proc}/self/cgroup"), cgroups):
        level = _level(folder)
        if level:
            levels.append(level)
            pressed = pressed or _is_pressed(f"{folder}/memory.pressure")
    swapped = kib.get("SwapTotal", 0) - kib.get("SwapFree", 0)
    return Memory(levels, swapped, pressed=pressed)


def memory_of_tree(pid: int, proc: str = "/proc") -> int:
    """Bytes that a process and its descendants have in memory; 0 when it has ended."""
    pages = 0
    for member in tree(pid, proc):
        numbers = _read(f"{proc}/{member}/statm").split()
        if len(numbers) > 1:
            pages += int(numbers[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def tree(pid: int, proc: str = "/proc") -> list[int]:
    """A process and its descendants, by their ids."""
    found = [pid]
    for member in found:  # it grows meanwhile
        found += _children(f"{proc}/{member}/task")
    return found


def kills(proc: str = "/proc") -> int:
    """How often this machine's kernel has killed a process for memory; 0 where it doesn't say."""
    for line in _read(f"{proc}/vmstat").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def boot(proc: str = "/proc") -> str:
    """What tells this machine, as it runs since its last start, from all others."""
    return _read(f"{proc}/sys/kernel/random/boot_id").strip() or "boot"


def _children(tasks: str) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(tasks):  # noqa: PTH208 - pathlib takes long to import
            found += map(int, _read(f"{tasks}/{task}/children").split())
    except OSError:  # it has ended
        pass
    return found


def _cgroup_folders(own: str, cgroups: str) -> list[str]:
    """Folders of this process's memory cgroup and of those above it, in both versions.

    A container may see its own cgroup as the root, or be told a path that it can't see: what it
    can see counts.
    """
    found = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        tops = []
        if not controllers:
            tops = [cgroups, f"{cgroups}/unified"]
        elif "memory" in controllers.split(","):
            tops = [f"{cgroups}/{controllers}"]
        for top in tops:
            parts = [part for part in path.split("/") if part]
            found += ["/".join([top, *parts[:length]]) for length in range(len(parts), -1, -1)]
    return found


def _level(folder: str) -> MemoryLimit | None:
    """A cgroup's limit and what is left of it; None where it has no limit."""
    limit = min(
        _number(f"{folder}/{name}")
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
    )
    if limit >= _NO_LIMIT:
        return None
    used = min(_number(f"{folder}/{name}") for name in ("memory.current", "memory.usage_in_bytes"))
    if used >= _NO_LIMIT:
        return None
    state = os.stat(folder)  # noqa: PTH116
    free = limit - used + _reclaimable(_numbers(_read(f"{folder}/memory.stat")))
    return MemoryLimit(f"{state.st_dev}:{state.st_ino}", limit, free)


def _reclaimable(stat: dict[str, int]) -> int:
    """Bytes of file cache that count as used and are given back for the asking.

    Half of what is in active use stays out: it is the compilers' own code and the headers.
    """
    start = "total_" if "total_inactive_file" in stat else ""  # version 1: with those below
    inactive, active = (stat.get(f"{start}{kind}_file", 0) for kind in ("inactive", "active"))
    return inactive + active // 2


def _is_pressed(path: str) -> bool:
    for line in _read(path).splitlines():
        if line.startswith("some avg10="):
            return float(line.split()[1].partition("=")[2]) >= _PRESSURE
    return False


def _number(path: str) -> int:
    text = _read(path).strip()
    return int(text) if text.isdigit() else _NO_LIMIT


def _numbers(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}  # noqa: PLR2004


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:  # noqa: PTH123
            return stream.read()
    except OSError:
        return ""
