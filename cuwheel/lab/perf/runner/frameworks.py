"""Timing, comparison and memory in each framework: PyTorch, JAX, or none.

Standard library only; a framework is imported by its class.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import math
import time
from typing import TYPE_CHECKING, Any

from differences import (  # type: ignore[import-not-found]
    compare,
    leaves,
    numpy_sums,
    torch_sums,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from differences import OutputDifference
    from gpu_driver import NvmlGpu  # type: ignore[import-not-found]

_MATRIX = 8192  # rows of the matrices whose product is a card's ceiling
_PRODUCTS = 10
_PIECE = 1 << 26  # bytes
_FLUSHED = 2  # times the L2, to evict all of it
_LEAST_FLUSH = 1e-5  # seconds; if the events are too coarse
_RECENT = 16  # calls of which the host time is kept
_MARGIN = 1.5  # times that, as other programs use the host too
_LONGEST_LEAD = 5e-3  # seconds of writing before a call


class Host:
    """Calls that return when the result is in the host's memory, as numpy arrays or numbers."""

    clock = "host clock"

    def __init__(self, gpu: NvmlGpu) -> None:
        """Store the GPU, to flush its L2 between calls."""
        self.gpu = gpu

    def version(self) -> str:
        """Return name and release of the framework; empty: there is none."""
        return ""

    def wait(self, value: object = None) -> None:
        """Wait until a value is computed."""
        del value
        self.gpu.synchronize()

    def seconds(self, call: Callable[[], object]) -> tuple[float, object]:
        """Return the time of a call that begins with a cold L2, and its value."""
        self.gpu.flush()
        started = time.perf_counter()
        value = call()
        self.wait(value)
        return time.perf_counter() - started, value

    def host_seconds(self, call: Callable[[], object], count: int) -> tuple[float, object]:
        """Return the time of one of so many calls that follow each other, and the last value."""
        self.wait()
        started = time.perf_counter()
        for _ in range(count):
            value = call()
        self.wait(value)
        return (time.perf_counter() - started) / count, value

    def difference(
        self, actual: Any, expected: Any, *, is_special: bool = False
    ) -> OutputDifference:
        """Compare an output with the expected one, in the host's memory.

        Raises:
            WrongOutputError: the number of arrays or their shapes differ.
        """
        return compare(actual, expected, numpy_sums, is_special=is_special)

    def has_same_bits(self, first: Any, second: Any) -> bool:
        """Return True if two outputs of one function are equal in each bit."""
        import numpy as np  # noqa: PLC0415 - only packages that use it have it

        return all(
            np.asarray(a).tobytes() == np.asarray(b).tobytes()
            for a, b in zip(leaves(first), leaves(second))
        )

    def digest(self, output: Any) -> str:
        """Return the SHA-256 over an output's bytes."""
        import numpy as np  # noqa: PLC0415

        whole = hashlib.sha256()
        for leaf in leaves(output):
            whole.update(np.asarray(leaf).tobytes())
        return whole.hexdigest()

    def allocated(self) -> int:
        """Return the bytes that this process holds on the GPU, in the framework's cache or not."""
        return -int(self.gpu.free_memory())

    def poison(self, outputs: object) -> None:
        """Fill the memory of the next call's output with NaN, if possible."""

    def forget(self) -> None:
        """Free unused memory."""

    def reset_peak(self) -> None:
        """Start to measure the most memory that is used at once."""

    def peak(self) -> int:
        """Return the most bytes that were used at once; 0: not known."""
        return 0

    def product_rates(self) -> dict[str, float]:
        """Return operations a second of a large matrix product, the best of ten, by precision."""
        return {}

    def _best(self, function: Callable[..., object], *arguments: object) -> float:
        """Return the shortest of ten calls, in seconds."""
        return min(self.seconds(lambda: function(*arguments))[0] for _ in range(_PRODUCTS))


class Torch(Host):
    """PyTorch, timed by device events on the current stream."""

    clock = "device events"

    def __init__(self, gpu: NvmlGpu) -> None:
        """Import PyTorch and make the buffer that is written over between calls."""
        super().__init__(gpu)
        import torch  # noqa: PLC0415

        self.torch = torch
        size = _FLUSHED * max(gpu.facts()["l2"], 1 << 20)
        self._scratch = torch.empty(size, dtype=torch.int8, device="cuda")
        self._flush_seconds = self._time_flush()
        self._host_seconds = collections.deque([0.0], maxlen=_RECENT)

    def version(self) -> str:
        """Return PyTorch's release with its CUDA: `torch 2.11.0+cu130`."""
        return f"torch {self.torch.__version__}"

    def wait(self, value: object = None) -> None:
        """Wait for all streams."""
        del value
        self.torch.cuda.synchronize()

    def seconds(self, call: Callable[[], object]) -> tuple[float, object]:
        """Return the time between two events around a call that begins with a cold L2.

        The GPU writes over it while the host queues the call, so that the time is the GPU's alone;
        a call that takes the host longer than that is timed with its gaps.
        """
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        queueing = min(_LONGEST_LEAD, _MARGIN * max(self._host_seconds))
        for _ in range(1 + math.ceil(queueing / self._flush_seconds)):
            self._scratch.zero_()
        start.record()
        began = time.perf_counter()
        value = call()
        self._host_seconds.append(time.perf_counter() - began)
        end.record()
        self.wait()
        return float(start.elapsed_time(end)) / 1e3, value

    def _time_flush(self) -> float:
        """Return the seconds to write over the L2 once, the least of ten."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(_PRODUCTS + 1)]
        for event in events:
            self._scratch.zero_()
            event.record()
        self.wait()
        return min(a.elapsed_time(b) for a, b in zip(events, events[1:])) / 1e3 or _LEAST_FLUSH  # noqa: RUF007

    def difference(
        self, actual: Any, expected: Any, *, is_special: bool = False
    ) -> OutputDifference:
        """Compare an output with the expected one, on the GPU."""
        return compare(actual, expected, torch_sums, is_special=is_special)

    def has_same_bits(self, first: Any, second: Any) -> bool:
        """Return True if two outputs of one function are equal in each bit."""
        return all(
            self.torch.equal(self._bytes(a), self._bytes(b)) if self.torch.is_tensor(a) else a == b
            for a, b in zip(leaves(first), leaves(second))
        )

    def digest(self, output: Any) -> str:
        """Return the SHA-256 over an output's bytes, which are copied piece by piece."""
        whole = hashlib.sha256()
        for leaf in leaves(output):
            if self.torch.is_tensor(leaf):
                for piece in self._bytes(leaf).split(_PIECE):
                    whole.update(piece.cpu().numpy().data)
            else:
                whole.update(repr(leaf).encode())
        return whole.hexdigest()

    def _bytes(self, value: Any) -> Any:
        return value.detach().contiguous().reshape(-1).view(self.torch.uint8)

    def allocated(self) -> int:
        """Return the bytes of living tensors, and of what is outside of PyTorch's cache."""
        # `memory_allocated` sorts all statistics, which takes longer than a small kernel.
        found = self.torch.cuda.memory_stats_as_nested_dict()
        living, cached = (
            found[name]["all"]["current"] for name in ("allocated_bytes", "reserved_bytes")
        )
        return int(living - cached - self.gpu.free_memory())

    def poison(self, outputs: object) -> None:
        """Fill blocks of the outputs' sizes and hand them back to PyTorch's allocator."""
        blocks = [
            self.torch.full(
                (leaf.numel() * leaf.element_size(),), 255, dtype=self.torch.uint8, device="cuda"
            )  # every float of such bytes is NaN
            for leaf in leaves(outputs)
            if self.torch.is_tensor(leaf) and leaf.is_cuda
        ]
        del blocks

    def forget(self) -> None:
        """Empty PyTorch's cache of blocks."""
        self.torch.cuda.empty_cache()

    def reset_peak(self) -> None:
        """Start to measure the most memory that tensors take at once."""
        self.torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """Return the most bytes that tensors took at once."""
        return int(self.torch.cuda.max_memory_allocated())

    def product_rates(self) -> dict[str, float]:
        """Return operations a second of PyTorch's matrix product, by precision."""
        torch = self.torch
        rates = {}
        kinds = (
            ("bf16", torch.bfloat16, False),
            ("fp16", torch.float16, False),
            ("tf32", torch.float32, True),
            ("fp32", torch.float32, False),
            ("fp64", torch.float64, False),
        )
        before = torch.backends.cuda.matmul.allow_tf32
        for name, kind, is_tf32 in kinds:
            torch.backends.cuda.matmul.allow_tf32 = is_tf32
            rows = _MATRIX // 2 if name in {"fp32", "fp64"} else _MATRIX
            a, b = (torch.randn(rows, rows, device="cuda", dtype=kind) for _ in range(2))
            rates[name] = 2 * rows**3 / self._best(torch.matmul, a, b)
        torch.backends.cuda.matmul.allow_tf32 = before
        a8, b8 = (
            torch.randint(-100, 100, (_MATRIX, _MATRIX), device="cuda", dtype=torch.int8)
            for _ in range(2)
        )
        # The one integer product that PyTorch has; bitsandbytes is compared with it too.
        best = self._best(torch._int_mm, a8, b8.t())  # noqa: SLF001
        return {**rates, "int8": 2 * _MATRIX**3 / best}


class Jax(Host):
    """JAX, timed by the host's clock around a call and the wait for its result."""

    def __init__(self, gpu: NvmlGpu) -> None:
        """Import JAX."""
        super().__init__(gpu)
        import jax  # noqa: PLC0415

        self.jax = jax

    def version(self) -> str:
        """Return `jax 0.11.2`."""
        return f"jax {self.jax.__version__}"

    def wait(self, value: object = None) -> None:
        """Wait until the arrays of a value are computed; without one, until the GPU is idle."""
        if value is None:
            self.gpu.synchronize()
        else:
            self.jax.block_until_ready(value)

    def poison(self, outputs: object) -> None:
        """Fill blocks of the outputs' sizes and hand them back to XLA's allocator."""
        blocks = [
            self.jax.numpy.full(leaf.nbytes, 255, "uint8").block_until_ready()
            for leaf in leaves(outputs)
            if hasattr(leaf, "nbytes")
        ]
        del blocks

    def product_rates(self) -> dict[str, float]:
        """Return operations a second of XLA's matrix product, by precision."""
        rates = {}
        # By default XLA computes float32 as TF32 on GPUs that have it.
        kinds = [("bf16", "bfloat16", "default"), ("tf32", "float32", "default")]
        kinds += [("fp32", "float32", "highest")]
        kinds += [("fp64", "float64", "highest")] if self.jax.config.jax_enable_x64 else []
        for name, kind, precision in kinds:
            product = self.jax.jit(functools.partial(self.jax.numpy.matmul, precision=precision))
            a = self.jax.random.normal(self.jax.random.key(0), (_MATRIX, _MATRIX), kind)
            product(a, a).block_until_ready()
            rates[name] = 2 * _MATRIX**3 / self._best(product, a, a)
        return rates


FRAMEWORKS = {"host": Host, "torch": Torch, "jax": Jax}
