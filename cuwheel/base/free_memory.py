"""Free memory of the machine and of each cgroup above this process.

Sources: proc_meminfo(5), and the kernel's documents admin-guide/cgroup-v2,
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

# Per cent of the last ten seconds in which some process was stalled for memory.
_PRESSURE = 20.0

# A cgroup without a limit has `max` or, in version 1, a number near 2 to the 63rd.
_NO_LIMIT = 1 << 60


class MemoryLimit:
    """A limit on the memory of this process.

    Attributes:
        name: `machine`, or device and inode of a cgroup: the same in every container.
        reserve: bytes that are to stay free.
        total: bytes that may be used, without the reserve.
        free: bytes of them that are free now; negative where the reserve is in use.
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
        """Bytes that may be used, with the reserve."""
        return self.total + self.reserve

    @property
    def is_short(self) -> bool:
        """True if half of the reserve is in use."""
        return self.free < -self.reserve // 2


class Memory:
    """Limits on memory, and memory pressure.

    Attributes:
        swapped: bytes of swap in use.
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
    """Read the limits on memory, and how much is free; raises OSError."""
    meminfo = _numbers(_read(f"{proc}/meminfo").replace(":", "").replace(" kB", ""))
    if "MemTotal" not in meminfo:
        raise OSError(f"{proc}/meminfo has no MemTotal")
    kib = {name: value * 1024 for name, value in meminfo.items()}
    available = kib.get("MemAvailable", kib.get("MemFree", 0) + kib.get("Cached", 0))
    levels = [MemoryLimit(MACHINE, kib["MemTotal"], available)]
    pressed = _is_pressed(f"{proc}/pressure/memory")
    for folder in cgroup_folders(_read(f"{proc}/self/cgroup"), cgroups, "memory"):
        level = _level(folder)
        if level:
            levels.append(level)
            pressed = pressed or _is_pressed(f"{folder}/memory.pressure")
    swapped = kib.get("SwapTotal", 0) - kib.get("SwapFree", 0)
    return Memory(levels, swapped, pressed=pressed)


def memory_of_tree(pid: int, proc: str = "/proc") -> int:
    """Return the bytes that a process and its descendants have in memory; 0 when it has ended."""
    pages = 0
    for member in tree(pid, proc):
        numbers = _read(f"{proc}/{member}/statm").split()
        if len(numbers) > 1:
            pages += int(numbers[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def tree(pid: int, proc: str = "/proc") -> list[int]:
    """Return the ids of a process and its descendants."""
    members = [pid]
    for member in members:  # it grows meanwhile
        members += _children(f"{proc}/{member}/task")
    return members


def kills(proc: str = "/proc") -> int:
    """Return how often this machine's kernel has killed a process for memory; 0 where unknown."""
    for line in _read(f"{proc}/vmstat").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def boot(proc: str = "/proc") -> str:
    """Return an id of this machine since its last start."""
    return _read(f"{proc}/sys/kernel/random/boot_id").strip() or "boot"


def _children(tasks: str) -> list[int]:
    try:
        names = os.listdir(tasks)  # noqa: PTH208 - pathlib takes long to import
    except OSError:  # it has ended
        return []
    return [int(child) for name in names for child in _read(f"{tasks}/{name}/children").split()]


def cgroup_folders(text: str, cgroups: str, controller: str) -> list[str]:
    """Return the folders of this process's cgroup and those above it, in both versions.

    A container may see its own cgroup as the root, or have a path that isn't visible in it: the
    visible ones count.

    Args:
        text: of `/proc/self/cgroup`.
    """
    folders = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        tops = []
        if not controllers:
            tops = [cgroups, f"{cgroups}/unified"]
        elif controller in controllers.split(","):
            tops = [f"{cgroups}/{name}" for name in sorted({controllers, controller})]
        for top in tops:
            parts = [part for part in path.split("/") if part]
            folders += ["/".join([top, *parts[:length]]) for length in range(len(parts), -1, -1)]
    return folders


def _level(folder: str) -> MemoryLimit | None:
    """Return a cgroup's limit and what is free of it; None where it has no limit."""
    limit = min(
        _number(f"{folder}/{name}")
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
    )
    if limit >= _NO_LIMIT:
        return None
    used = min(_number(f"{folder}/{name}") for name in ("memory.current", "memory.usage_in_bytes"))
    if used >= _NO_LIMIT:
        return None
    status = os.stat(folder)  # noqa: PTH116
    free = limit - used + _reclaimable(_numbers(_read(f"{folder}/memory.stat")))
    return MemoryLimit(f"{status.st_dev}:{status.st_ino}", limit, free)


def _reclaimable(stat: dict[str, int]) -> int:
    """Return the bytes of file cache that count as used and that the kernel can reclaim.

    Half of what is in active use stays out: the compilers' own code and the headers.
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
