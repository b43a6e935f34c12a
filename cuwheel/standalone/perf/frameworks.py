"""Time, differences and memory as each framework has them: PyTorch, JAX, or none.

Standard library only; a framework is imported by the class that is for it.
"""

from __future__ import annotations

import collections
import functools
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

    from differences import Difference
    from gpu_driver import Gpu  # type: ignore[import-not-found]

_MATRIX = 8192  # rows of the matrices whose product is a card's ceiling
_PRODUCTS = 10
_FLUSHED = 2  # times the L2, so that nothing of it stays
_LEAST_FLUSH = 1e-5  # seconds; where the events are too coarse to tell
_RECENT = 16  # calls whose time on the host is remembered
_MARGIN = 1.5  # times that, as other programs use the host too
_LONGEST_LEAD = 5e-3  # seconds of writing before a call


class Host:
    """Calls that return when the result is in the host's memory, as numpy arrays or numbers."""

    clock = "host clock"

    def __init__(self, gpu: Gpu) -> None:
        """Take the GPU whose L2 is written over between calls."""
        self.gpu = gpu

    def version(self) -> str:
        """Name and release of the framework; empty: there is none."""
        return ""

    def wait(self, value: object = None) -> None:
        """Return when the work behind a value is done."""
        del value
        self.gpu.synchronize()

    def seconds(self, call: Callable[[], object]) -> tuple[float, object]:
        """Time of a call that begins with a cold L2, and what it gave."""
        self.gpu.flush()
        started = time.perf_counter()
        value = call()
        self.wait(value)
        return time.perf_counter() - started, value

    def difference(self, actual: Any, expected: Any) -> Difference:
        """How far an output is from what is expected; compared in the host's memory.

        Raises:
            WrongOutputError: it has other arrays, or they have other shapes.
        """
        return compare(actual, expected, numpy_sums)

    def poison(self, outputs: object) -> None:
        """Leave NaN where the next call's output may come to lie."""

    def forget(self) -> None:
        """Give memory back that nobody uses."""

    def product_rates(self) -> dict[str, float]:
        """Operations a second of a large matrix product, by precision."""
        return {}

    def _best(self, function: Callable[..., object], *arguments: object) -> float:
        """The shortest of ten calls, in seconds."""
        return min(self.seconds(lambda: function(*arguments))[0] for _ in range(_PRODUCTS))


class Torch(Host):
    """PyTorch: device events on the current stream."""

    clock = "device events"

    def __init__(self, gpu: Gpu) -> None:
        """Import PyTorch and make the buffer that is written over between calls."""
        super().__init__(gpu)
        import torch  # noqa: PLC0415

        self.torch = torch
        size = _FLUSHED * max(gpu.facts()["l2"], 1 << 20)
        self._scratch = torch.empty(size, dtype=torch.int8, device="cuda")
        self._flush_seconds = self._time_flush()
        self._host_seconds = collections.deque([0.0], maxlen=_RECENT)

    def version(self) -> str:
        """As PyTorch says it, with its CUDA: `torch 2.11.0+cu130`."""
        return f"torch {self.torch.__version__}"

    def wait(self, value: object = None) -> None:
        """Return when all streams are done."""
        del value
        self.torch.cuda.synchronize()

    def seconds(self, call: Callable[[], object]) -> tuple[float, object]:
        """Time between two events around a call that begins with a cold L2.

        The GPU writes over it for as long as the host takes to queue the call, so that the time is
        the GPU's alone; a call that the host queues for longer than that counts with its gaps.
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
        """Seconds that the GPU takes to write over the L2 once, the least of ten."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(_PRODUCTS + 1)]
        for event in events:
            self._scratch.zero_()
            event.record()
        self.wait()
        return min(a.elapsed_time(b) for a, b in zip(events, events[1:])) / 1e3 or _LEAST_FLUSH  # noqa: RUF007

    def difference(self, actual: Any, expected: Any) -> Difference:
        """As `Host` has it, on the GPU."""
        return compare(actual, expected, torch_sums)

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

    def product_rates(self) -> dict[str, float]:
        """Of PyTorch's matrix product, the best of ten, by precision."""
        torch = self.torch
        found = {}
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
            found[name] = 2 * rows**3 / self._best(torch.matmul, a, b)
        torch.backends.cuda.matmul.allow_tf32 = before
        a8, b8 = (
            torch.randint(-100, 100, (_MATRIX, _MATRIX), device="cuda", dtype=torch.int8)
            for _ in range(2)
        )
        # The one integer product that PyTorch has; bitsandbytes is compared with it too.
        best = self._best(torch._int_mm, a8, b8.t())  # noqa: SLF001
        return {**found, "int8": 2 * _MATRIX**3 / best}


class Jax(Host):
    """JAX: the host's clock around a call and the wait for its result."""

    def __init__(self, gpu: Gpu) -> None:
        """Import JAX."""
        super().__init__(gpu)
        import jax  # noqa: PLC0415

        self.jax = jax

    def version(self) -> str:
        """`jax 0.11.2`."""
        return f"jax {self.jax.__version__}"

    def wait(self, value: object = None) -> None:
        """Return when the arrays of a value are computed; without one, when the GPU is idle."""
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
        """Of XLA's matrix product, the best of ten, by precision."""
        found = {}
        # What XLA takes for float32 by itself is TF32 on GPUs that have it.
        kinds = [("bf16", "bfloat16", "default"), ("tf32", "float32", "default")]
        kinds += [("fp32", "float32", "highest")]
        kinds += [("fp64", "float64", "highest")] if self.jax.config.jax_enable_x64 else []
        for name, kind, precision in kinds:
            product = self.jax.jit(functools.partial(self.jax.numpy.matmul, precision=precision))
            a = self.jax.random.normal(self.jax.random.key(0), (_MATRIX, _MATRIX), kind)
            product(a, a).block_until_ready()
            found[name] = 2 * _MATRIX**3 / self._best(product, a, a)
        return found


FRAMEWORKS = {"host": Host, "torch": Torch, "jax": Jax}
