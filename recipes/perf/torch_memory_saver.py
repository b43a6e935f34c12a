"""torch-memory-saver: what tensors hold after their memory was away, and that it was free."""

from __future__ import annotations

import functools
import tempfile
from typing import TYPE_CHECKING, Any

import torch
from grid import case_of, cases_of, large_case, random_of, usual
from torch_memory_saver import torch_memory_saver as saver

if TYPE_CHECKING:
    from perf_case import Case

PACKAGE = "torch_memory_saver"
FRAMEWORK = "torch"
UNTOUCHED = (
    "the mode that is preloaded, and so CUDA graphs; disable; memory_margin_bytes",
    "contents without a backup, which nothing promises",
)
DEVICE = "cuda"
PAGE = 2 << 20  # bytes that the driver maps at once

saver.hook_mode = "torch"

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "backup": ("pinned", "mmap", "disk", "none"),
    "dtype": ("float32", "uint8"),
    "bytes": (PAGE, 512, 37 * PAGE + 512),
    "count": (1, 3),
    "tags": ("all", "one"),
    "times": (1, 2),
    "other": ("none", "paused alone"),
    "stream": ("current", "second"),
}
BACKUPS: dict[str, dict[str, Any]] = {
    "none": {},
    "pinned": {"enable_cpu_backup": True},
    "mmap": {"enable_cpu_backup": True, "cpu_backup_backend": "mmap"},
    "disk": {"enable_disk_backup": True},
}


def exists(row: Row) -> bool:
    """Return False for another tag that is paused where all are."""
    return bool(row["other"] == "none" or row["tags"] == "one")


@functools.lru_cache
def folder() -> str:
    """Return a folder for backups on a disk, which the package has been told."""
    name = tempfile.mkdtemp()
    saver.set_disk_backup_dir(name)
    return name


def inputs(row: Row, seed: int) -> tuple[torch.Tensor, ...]:
    """Return what the tensors hold."""
    kind = getattr(torch, row["dtype"])
    size = row["bytes"] // kind.itemsize
    draw = random_of(seed, DEVICE)
    return tuple((50 * draw(size)).abs().to(kind) for _ in range(row["count"]))


def kept(row: Row, values: tuple[torch.Tensor, ...], tag: str) -> list[torch.Tensor]:
    """Return copies in memory that can be taken away."""
    if row["backup"] == "disk":
        folder()
    with saver.region(tag=tag, **BACKUPS[row["backup"]]):
        return [torch.empty_like(value).copy_(value) for value in values]


def freed(tag: str | None) -> int:
    """Return the bytes that pausing gives back to the GPU."""
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    saver.pause(tag)
    after, _ = torch.cuda.mem_get_info()
    return int(after - before)


def call(row: Row, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return what the tensors hold at the end; whether pausing gave their memory back."""
    tensors = kept(row, values, "first")
    others = kept(row, values, "second") if row["other"] != "none" else []
    tag = "first" if row["tags"] == "one" else None
    is_free = True
    for _ in range(row["times"]):
        is_free &= freed(tag) >= sum(value.nbytes for value in values)
        if others:
            saver.pause("second")
            saver.resume("second")
        saver.resume(tag)
        if row["backup"] == "none":
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)
    if row["backup"] == "none":
        for tensor, value in zip(others, values, strict=False):
            tensor.copy_(value)
    return *(one.clone() for one in (*tensors, *others)), torch.tensor(float(is_free))


def expected(row: Row, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the values, and that memory was free."""
    repeats = 1 if row["other"] == "none" else 2
    return *(values * repeats), torch.tensor(1.0)


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        row,
        inputs,
        call,
        expected,
        limit=0.0,
        has_own_kernels=False,  # the driver maps memory
        memory=1 << 30,
    )


def timed_case() -> Case:
    """Return giving away and taking back memory with a backup."""
    return large_case(
        "pause and resume 256 MiB, pinned backup",
        usual(AXES, bytes=1 << 28),
        *(inputs, call, expected),
        limit=0.0,
        has_own_kernels=False,
        memory=8 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return a large case to check and to measure; the grid."""
    # A call takes 0.1 s and more: the host's time of a small one is left out.
    return [timed_case(), *cases_of(*GRIDS, times_host=False)]
