"""Cases of a probe in `recipes/perf/`: each is a call of the package with its reference.

A probe is a module with these names:

- `PACKAGE`: what is imported and measured, `causal_conv1d`;
- `FRAMEWORK`: `torch`, `jax`, or `host` where calls return when the result is in the host's memory;
- `cases()`: a list of `Case`;
- `OWN_SHARE`, optional: the least share of the time on the GPU that kernels of the wheel take in a
  case that has some; without it one kernel is enough;
- `GPUS = "all"`, optional: calls run on all GPUs that the process may use: each of them is
  checked, and has to run a kernel; without it the first GPU is used;
- `join(rank, count, address)`, optional: the package needs one process for each of several GPUs.
  It is called in each process before `cases()`, with the number of the process and its GPU, their
  count, and the address at which the first may listen for the others. All of them then make the
  same inputs and calls at once; a call has to return the whole result in each. The longest time
  and the largest error count. The module itself must not start CUDA;
- `VARIABLES`, optional: names of environment variables that the package listens to;
- `KNOWN_PROBLEMS`, optional: what a sanitizer reports of upstream's own source, with the reason why
  the wheel is released nevertheless: `{"memcheck: kernel: Invalid __global__ read": "issue 12"}`;
- `UNTOUCHED`, optional: what of the package's public interface no case calls;
- `sweep(clients, requests, model)`, optional: requests by so many concurrent clients, as `Sweep`.

Most cases that only check results come from a grid, `grid.py`; those of attention, `attention.py`.
A probe runs in the interpreter of the package, with its framework and these, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Limit of a block's error, as a multiple of the case's limit. With equal rounding everywhere, the
# worst of 16,384 blocks of 256 elements is wrong by a fifth more than the whole; the rest is for
# values of different sizes, and for limits above the rounding.
BLOCK_FACTOR = 4.0


@dataclass(frozen=True)
class Case:
    """One call of the package: its inputs, its expected result and its minimum cost.

    Attributes:
        name: `forward bf16 8x4096x16384`; the same in every release of the probe that measures the
            same.
        inputs: makes the arguments of a call on the GPU from a seed; two seeds give other values
            of the same shapes.
        call: the package's function; it returns an array, or a tuple of them.
        limit: of the relative error, the norm of the difference over the norm of what is expected;
            where the rounding of a precision sets it, the probe says so.
        block_factor: how many times that limit the error of one block of 256 elements may be.
        block_reason: why that isn't the usual `BLOCK_FACTOR`; empty: it is.
        bytes: that the call has to move at least between the GPU's memory and its processors; 0:
            it doesn't count, as for what is bound by computing.
        operations: additions and multiplications that the call does; 0: it doesn't count.
        precision: of those operations, for the card's ceiling: `bf16`, `fp16`, `tf32`, `fp32`,
            `fp64`, `int8`.
        rival: what a user without the package would call with the same arguments; None: there is
            none.
        rival_name: `torch conv1d`.
        has_own_kernels: code of the package's own wheel has to run on the GPU; False where the
            package only calls its framework's.
        is_timed: it is measured; False: it is only checked.
        is_quick: it is part of a run with `--quick`.
        memory: bytes of GPU memory that inputs, outputs and reference need together, about.
        units: the largest error of an element, as a multiple of its format's eps times the larger
            of the element and the root mean square; the bias of 4096 elements is checked too
            (`differences.py`), so `expected` has to be in float64. None: neither is.
        is_special: NaN and infinities are expected, in the same elements.
        is_uniform: few different numbers, whose roundings don't cancel out: no bias is judged.
        same_bits: calls with the same inputs return the same bits; False: it sums in an order that
            changes, such as by atomics; None: not known, only recorded.
        is_grid: it is of a grid.
        host_calls: so many calls follow each other in one sample, without anything between, and
            the host's clock is read: what a call costs the host. 0: one call, by device events.
    """

    name: str
    inputs: Callable[[int], tuple[Any, ...]]
    call: Callable[..., Any]
    expected: Callable[..., Any]
    limit: float
    bytes: int = 0
    operations: int = 0
    precision: str = "bf16"
    rival: Callable[..., Any] | None = None
    rival_name: str = ""
    has_own_kernels: bool = True
    is_timed: bool = True
    is_quick: bool = True
    gpus: int = 1
    memory: int = 0
    block_factor: float = BLOCK_FACTOR
    block_reason: str = ""
    units: float | None = None
    is_special: bool = False
    is_uniform: bool = False
    same_bits: bool | None = None
    is_grid: bool = False
    host_calls: int = 0

    def __post_init__(self) -> None:
        """Check that an unusual block factor has a reason; raises ValueError."""
        if self.block_factor != BLOCK_FACTOR and not self.block_reason:
            raise ValueError(f"{self.name}: block_factor without a block_reason")


@dataclass(frozen=True)
class Sweep:
    """Requests of concurrent clients.

    Attributes:
        total: seconds from the first request to the last answer.
        tokens: of all answers; 0: answers have none.
        memory: bytes of GPU memory at most.
    """

    what: str
    seconds: tuple[float, ...]
    total: float
    tokens: int = 0
    memory: int = 0
