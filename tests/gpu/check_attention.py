"""Check installed flash-attn and xformers wheels on a GPU against PyTorch; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_attention.py flash_attn xformers`. It
needs PyTorch and the wheels that it is told of. Results are recorded in docs/results.md.

Errors are against attention in float64 on small inputs, those of PyTorch's own operator beside
them; times and errors of the same inputs, one after another in one process.
"""

from __future__ import annotations

import datetime
import importlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Callable

    Attention = Callable[..., torch.Tensor]

HEADS, WIDTH = 16, 128
SMALL = ((1, 113), (2, 512), (1, 1000))  # batch, length: with lengths that are no power of two
LARGE = ((16, 1024), (4, 4096), (1, 16384))
WARM_UP, TIMED = 5, 30  # calls
LIMIT = 1.5  # an error of ours at most so many times that of PyTorch's own operator


def torch_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool
) -> torch.Tensor:
    """PyTorch's operator on tensors of batch, length, heads, width."""
    swapped = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return scaled_dot_product_attention(*swapped, is_causal=causal).transpose(1, 2)


def load(name: str) -> Attention:
    """The attention of a package, on tensors of batch, length, heads, width."""
    if name == "flash_attn":
        attention: Attention = importlib.import_module("flash_attn").flash_attn_func
        return attention
    ops = importlib.import_module("xformers.ops")

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
        bias = ops.LowerTriangularMask() if causal else None
        kernels = (ops.fmha.cutlass.FwOp, ops.fmha.cutlass.BwOp)
        return ops.memory_efficient_attention(q, k, v, attn_bias=bias, op=kernels)

    return attend


def make_inputs(batch: int, length: int) -> list[torch.Tensor]:
    """Random queries, keys and values in bf16."""
    torch.manual_seed(0)
    shape = (batch, length, HEADS, WIDTH)
    return [
        torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3)
    ]


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Attention by its definition, in float64."""
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / WIDTH**0.5
    if causal:
        length = q.shape[1]
        above = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(above, float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def errors_of(attention: Attention, batch: int, length: int, *, causal: bool) -> list[float]:
    """Relative errors of the output and of the gradients of queries, keys and values."""
    inputs = make_inputs(batch, length)
    copies = [tensor.detach().double().requires_grad_() for tensor in inputs]
    actual, expected = attention(*inputs, causal=causal), exact(*copies, causal=causal)
    ahead = torch.randn_like(actual)
    actual.backward(ahead)
    expected.backward(ahead.double())
    pairs = [(actual.detach(), expected.detach())]
    pairs += [(a.grad, b.grad) for a, b in zip(inputs, copies, strict=True)]
    return [float((a.double() - b).norm() / b.norm()) for a, b in pairs]


def milliseconds(function: Callable[[], object]) -> float:
    """Mean time of a call on the GPU, by CUDA events."""
    for _ in range(WARM_UP):
        function()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(TIMED):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / TIMED


def times_of(attention: Attention, batch: int, length: int, *, causal: bool) -> dict[str, float]:
    """Milliseconds and TFLOP/s of a forward pass, and of forward and backward together."""
    inputs = make_inputs(batch, length)
    ahead = torch.randn_like(inputs[0])
    operations = 4 * batch * HEADS * length**2 * WIDTH / (2 if causal else 1)

    def train() -> None:
        torch.autograd.grad(attention(*inputs, causal=causal), inputs, ahead)

    with torch.no_grad():
        forward = milliseconds(lambda: attention(*inputs, causal=causal))
    both = milliseconds(train)
    return {
        "forward ms": forward,
        "forward TFLOP/s": operations / forward / 1e9,
        "forward and backward ms": both,
        "forward and backward TFLOP/s": 3.5 * operations / both / 1e9,
    }


def check(name: str) -> tuple[dict[str, object], bool]:
    """What a package gives, and whether its errors are within the limit."""
    attention = load(name)
    sound = True
    errors, times = {}, {}
    for causal in (False, True):
        kind = "causal" if causal else "full"
        for batch, length in SMALL:
            ours = errors_of(attention, batch, length, causal=causal)
            torchs = errors_of(torch_attention, batch, length, causal=causal)
            sound &= all(a <= LIMIT * b for a, b in zip(ours, torchs, strict=True))
            errors[f"{kind} {batch}x{length}"] = {"ours": ours, "torch": torchs}
        for batch, length in LARGE:
            times[f"{kind} {batch}x{length}"] = {
                "ours": times_of(attention, batch, length, causal=causal),
                "torch": times_of(torch_attention, batch, length, causal=causal),
            }
    module = importlib.import_module(name)
    found = {"version": module.__version__, "file": module.__file__}
    return {**found, "relative errors": errors, "times": times}, sound


def main() -> int:
    """Print the findings; 1 when an error is over the limit."""
    names = sys.argv[1:] or ["flash_attn", "xformers"]
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True)
    found = {name: check(name) for name in names}
    print(  # noqa: T201 - the answer
        json.dumps(
            {
                "date": str(datetime.date.today()),  # noqa: DTZ011 - the machine's own day
                "gpu": torch.cuda.get_device_name(),
                "driver": driver.stdout.strip(),
                "python": sys.version.split()[0],
                "torch": torch.__version__,
                **{name: facts for name, (facts, _) in found.items()},
            },
            indent=2,
        )
    )
    return int(not all(sound for _, sound in found.values()))


if __name__ == "__main__":
    sys.exit(main())
