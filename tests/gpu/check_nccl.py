"""Check NCCL on all GPUs of a machine, as PyTorch calls it; prints one JSON object.

Run by hand: `python3 tests/gpu/check_nccl.py [--out FILE]`, with a PyTorch that has CUDA. One
process for each GPU, started here. Every collective is compared with what it has to give: exactly
where all numbers are integers that the type holds, else with a float64 sum. Then it is timed, by
device events, from 1 KiB to 1 GiB; bandwidths are those of nccl-tests (its PERFORMANCE.md): bytes
by time, and that by what crosses the links. Environment variables such as NCCL_NVLS_ENABLE are left
as they are. `--backend gloo` checks the arithmetic of this script without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.multiprocessing
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Callable

KIB, GIB = 1 << 10, 1 << 30
SIZES = tuple(KIB << shift for shift in range(0, 21, 2))  # bytes: 1 KiB to 1 GiB
KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Of a sum of a few numbers: half a unit in the last place for each addition, and some for luck.
ROUNDING = {"fp32": 1e-6, "bf16": 1e-2}
CHECKED = 3 * 5 * 7 * 11 * 128  # elements; no power of two
WARM_CALLS, ROUNDS = 5, 9
CALLS = 20  # of small ones, between two events
SMALL = 1 << 20  # bytes


def place_of(rank: int, backend: str) -> torch.device:
    """Where a process has its numbers."""
    return torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")


def integers(rank: int, count: int, kind: torch.dtype, place: torch.device) -> torch.Tensor:
    """Integers from -8 to 8, others in each process; bf16 holds the sum of eight of them."""
    made = torch.arange(count, device=place, dtype=torch.int64)
    return ((made * 7 + rank * 5) % 17 - 8).to(kind)


def fractions(rank: int, count: int, kind: torch.dtype, place: torch.device) -> torch.Tensor:
    """Normal numbers of a generator that every process can repeat for another one."""
    source = torch.Generator().manual_seed(1000 + rank)
    return torch.randn(count, generator=source, dtype=torch.float32).to(kind).to(place)


def all_reduce(given: torch.Tensor, _: int, __: int) -> Callable[[], torch.Tensor]:
    """Everybody gets the sum."""
    made = given.clone()

    def call() -> torch.Tensor:
        distributed.all_reduce(made)
        return made

    return call


def all_gather(given: torch.Tensor, _: int, count: int) -> Callable[[], torch.Tensor]:
    """Everybody gets everybody's."""
    made = given.new_empty(count * given.numel())
    if distributed.get_backend() == "gloo":
        return lambda: _gathered(given, count)

    def call() -> torch.Tensor:
        distributed.all_gather_into_tensor(made, given)
        return made

    return call


def _gathered(given: torch.Tensor, count: int) -> torch.Tensor:
    made = [torch.empty_like(given) for _ in range(count)]
    distributed.all_gather(made, given)
    return torch.cat(made)


def reduce_scatter(given: torch.Tensor, rank: int, count: int) -> Callable[[], torch.Tensor]:
    """Everybody gets the sum of a part."""
    size = given.numel() // count
    if distributed.get_backend() == "gloo":  # which has none

        def stand_in() -> torch.Tensor:
            whole = given.clone()
            distributed.all_reduce(whole)
            return whole[rank * size : (rank + 1) * size]

        return stand_in
    made = given.new_empty(size)

    def call() -> torch.Tensor:
        distributed.reduce_scatter_tensor(made, given)
        return made

    return call


def send_recv(given: torch.Tensor, rank: int, count: int) -> Callable[[], torch.Tensor]:
    """Each sends to the next and gets from the one before."""
    made = torch.empty_like(given)

    def call() -> torch.Tensor:
        works = distributed.batch_isend_irecv(
            [
                distributed.P2POp(distributed.isend, given, (rank + 1) % count),
                distributed.P2POp(distributed.irecv, made, (rank - 1) % count),
            ]
        )
        for work in works:
            work.wait()
        return made

    return call


COLLECTIVES = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "send_recv": send_recv,
}


def expected(name: str, parts: list[torch.Tensor], rank: int) -> torch.Tensor:
    """What a collective has to give a process, in float64.

    Args:
        name: of the collective.
        parts: what each process gives.
        rank: of the process.
    """
    wide = [part.double() for part in parts]
    count = len(parts)
    if name == "all_gather":
        return torch.cat(wide)
    if name == "send_recv":
        return wide[(rank - 1) % count]
    total = torch.stack(wide).sum(0)
    size = total.numel() // count
    return total if name == "all_reduce" else total[rank * size : (rank + 1) * size]


def elements(name: str, size: int, kind: torch.dtype, count: int) -> int:
    """How many each process gives, so that so many bytes count, as nccl-tests counts them."""
    whole = size // int(kind.itemsize)
    if name == "all_gather":
        return max(1, whole // count)
    return whole - whole % count if name == "reduce_scatter" else whole


def bus_factor(name: str, count: int) -> float:
    """Bus bandwidth by algorithm bandwidth (nccl-tests, PERFORMANCE.md)."""
    factors = {"all_reduce": 2 * (count - 1) / count, "send_recv": 1.0}
    return factors.get(name, (count - 1) / count)


def check(name: str, kind: str, rank: int, count: int, place: torch.device) -> dict[str, Any]:
    """Errors of one collective with one type, in this process."""
    size = CHECKED - CHECKED % count
    found: dict[str, Any] = {"collective": name, "kind": kind}
    for how, make in (("integers", integers), ("fractions", fractions)):
        parts = [make(one, size, KINDS[kind], place) for one in range(count)]
        right = expected(name, parts, rank)
        actual = COLLECTIVES[name](parts[rank].clone(), rank, count)().double()
        if how == "integers":
            found["wrong integers"] = int((actual != right).sum())
        else:
            found["relative error"] = float((actual - right).norm() / right.norm())
    is_sum = name in {"all_reduce", "reduce_scatter"}
    limit = ROUNDING[kind] if is_sum else 0.0
    found["right"] = found["wrong integers"] == 0 and found["relative error"] <= limit
    return found


def seconds_of(call: Callable[[], torch.Tensor], size: int, backend: str) -> float:
    """Median seconds of a call in this process."""
    calls = CALLS if size <= SMALL else 2
    for _ in range(WARM_CALLS):
        call()
    found = []
    for _ in range(ROUNDS):
        distributed.barrier()
        if backend != "nccl":
            started = time.perf_counter()
            for _ in range(calls):
                call()
            found.append((time.perf_counter() - started) / calls)
            continue
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) / 1e3 / calls)
    return statistics.median(found)


def time_one(name: str, kind: str, size: int, rank: int, count: int) -> dict[str, Any]:
    """Time and bandwidths of one collective, of the slowest process."""
    backend = distributed.get_backend()
    place = place_of(rank, backend)
    number = elements(name, size, KINDS[kind], count)
    given = torch.zeros(number, dtype=KINDS[kind], device=place)
    mine = seconds_of(COLLECTIVES[name](given, rank, count), size, backend)
    slowest = torch.tensor([mine], dtype=torch.float64, device=place)
    distributed.all_reduce(slowest, op=distributed.ReduceOp.MAX)
    seconds = float(slowest.item())
    rate = size / seconds
    return {
        "collective": name,
        "kind": kind,
        "bytes": size,
        "microseconds": round(seconds * 1e6, 2),
        "algorithm GB/s": round(rate / 1e9, 3),
        "bus GB/s": round(rate * bus_factor(name, count) / 1e9, 3),
    }


def library_files() -> list[str]:
    """Every file of NCCL in this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in maps if line.count("/") and "nccl" in line}
    return sorted(path for path in paths if ".so" in path)


def owner_of(path: str) -> str:
    """The distribution whose RECORD lists a file; empty: none does."""
    resolved = Path(path).resolve()
    for item in importlib.metadata.distributions():
        if "nccl" not in str(item.metadata["Name"]).lower():
            continue
        files = item.files or ()
        if any(Path(str(one.locate())).resolve() == resolved for one in files):
            return f"{item.metadata['Name']} {item.version}"
    return ""


def work(rank: int, count: int, backend: str, most: int, where: tuple[str, str]) -> None:
    """One process: check everything, time everything; the first one writes."""
    address, out = where
    if backend == "nccl":
        torch.cuda.set_device(rank)
    place = place_of(rank, backend)
    words: dict[str, Any] = {"device_id": place} if backend == "nccl" else {}
    distributed.init_process_group(
        backend,
        init_method=f"tcp://{address}",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=100),
        **words,
    )
    checks = [check(name, kind, rank, count, place) for kind in KINDS for name in COLLECTIVES]
    everybodys: list[Any] = [None] * count
    distributed.all_gather_object(everybodys, checks)
    times = [
        time_one(name, kind, size, rank, count)
        for kind in KINDS
        for name in COLLECTIVES
        for size in SIZES
        if size <= most
    ]
    if rank == 0:
        merged = [
            {
                **same[0],
                "wrong integers": sum(one["wrong integers"] for one in same),
                "relative error": max(one["relative error"] for one in same),
                "right": all(one["right"] for one in same),
            }
            for same in zip(*everybodys, strict=True)
        ]
        files = library_files()
        found = {
            "checks": merged,
            "times": times,
            "libraries": [{"file": path, "distribution": owner_of(path)} for path in files],
        }
        Path(out).write_text(json.dumps(found))
    distributed.destroy_process_group()


def said(*command: str) -> str:
    """What a program prints; why it can't be had otherwise."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return (done.stdout or done.stderr).strip()


def machine() -> dict[str, Any]:
    """GPUs, driver, links, NCCL and what is set for it."""
    has_nccl = torch.cuda.is_available() and distributed.is_nccl_available()
    query = "--query-gpu=index,name,uuid,driver_version,pci.bus_id"
    variables = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(("NCCL_", "TORCH_NCCL_", "TORCH_SYMM_", "CUDA_VISIBLE"))
    }
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "NCCL": ".".join(map(str, torch.cuda.nccl.version())) if has_nccl else "",
        "GPUs": said("nvidia-smi", query, "--format=csv,noheader").splitlines(),
        "topology": said("nvidia-smi", "topo", "-m").splitlines(),
        "variables": variables,
    }


def free_address() -> str:
    """Of this machine, with a port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def main() -> int:
    """Print what was found; 1 where something is wrong, 2 where there are too few GPUs."""
    parser = argparse.ArgumentParser(description="Check NCCL on all GPUs of a machine.")
    parser.add_argument("--backend", default="nccl", choices=("nccl", "gloo"))
    parser.add_argument("--most", type=int, default=GIB, help="bytes of the largest message")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    count = torch.cuda.device_count() if given.backend == "nccl" else 2
    if count < 2:
        print(f"two GPUs are needed, PyTorch sees {count}", file=sys.stderr)  # noqa: T201
        return 2
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "found.json"
        arguments = (count, given.backend, given.most, (free_address(), str(made)))
        torch.multiprocessing.spawn(work, arguments, nprocs=count)
        found = {**machine(), "backend": given.backend, **json.loads(made.read_text())}
    text = json.dumps(found, indent=1)
    if given.out:
        given.out.write_text(f"{text}\n")
    print(text)  # noqa: T201 - its answer
    return int(not all(one["right"] for one in found["checks"]))


if __name__ == "__main__":
    sys.exit(main())
