"""Check an installed causal-conv1d wheel on a GPU and measure it; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_causal_conv1d.py`. It needs PyTorch and
the wheel, nothing else. Results are recorded in docs/results.md.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import causal_conv1d_cuda
import torch
from causal_conv1d import causal_conv1d_fn, causal_conv1d_update

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 4  # taps, as Mamba uses
SMALL = (2, 1024, 2048)  # batch, channels, length: checked against float32
LARGE = (8, 4096, 16384)  # 1 GiB of bf16: many times the L2, so that memory is what is measured
WARM_UP, TIMED = 5, 50  # calls
LIMIT = 5e-3  # relative error in bf16: its mantissa has 8 bits, one rounding is up to 3.9e-3


def make_inputs(shape: tuple[int, int, int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random input, weight and bias in bf16."""
    torch.manual_seed(0)
    x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(shape[1], WIDTH, device="cuda", dtype=torch.bfloat16)
    return x, weight, torch.randn(shape[1], device="cuda", dtype=torch.bfloat16)


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The same convolution in float32 by PyTorch's own operator."""
    out = torch.nn.functional.conv1d(
        x.float(), weight.float().unsqueeze(1), bias.float(), padding=WIDTH - 1, groups=x.shape[1]
    )
    return torch.nn.functional.silu(out[..., : x.shape[-1]])


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of what is expected."""
    return float((actual.float() - expected.float()).norm() / expected.float().norm())


def check_forward_and_backward() -> dict[str, float]:
    """Relative errors of the output and of every gradient."""
    inputs = [tensor.requires_grad_() for tensor in make_inputs(SMALL)]
    copies = [tensor.detach().float().requires_grad_() for tensor in inputs]
    actual = causal_conv1d_fn(*inputs, activation="silu")
    expected = reference(*copies)
    ahead = torch.randn_like(actual)
    actual.backward(ahead)
    expected.backward(ahead.float())
    errors = {"output": relative_error(actual.detach(), expected.detach())}
    for name, tensor, copy in zip(("x", "weight", "bias"), inputs, copies, strict=True):
        errors[f"gradient of {name}"] = relative_error(tensor.grad, copy.grad)
    return errors


def check_update() -> float:
    """Relative error of the step-by-step form against the whole convolution."""
    x, weight, bias = make_inputs((2, 1024, 64))
    state = torch.zeros(2, 1024, WIDTH, device="cuda", dtype=torch.bfloat16)
    steps = [
        causal_conv1d_update(x[..., i], state, weight, bias, activation="silu") for i in range(64)
    ]
    return relative_error(torch.stack(steps, dim=-1), reference(x, weight, bias))


def seconds_per_call(function: Callable[[], object]) -> float:
    """Mean time of a call on the GPU, by CUDA events."""
    for _ in range(WARM_UP):
        function()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(TIMED):
        function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / TIMED / 1e3


def measure() -> dict[str, float]:
    """Throughput of the kernel, of a plain copy and of PyTorch's operator, one after another."""
    x, weight, bias = make_inputs(LARGE)
    moved = 2 * x.numel() * x.element_size()  # bytes: each element is read and written once
    out = torch.empty_like(x)
    taps = weight.unsqueeze(1)
    ours = seconds_per_call(lambda: causal_conv1d_fn(x, weight, bias, activation="silu"))
    copy = seconds_per_call(lambda: out.copy_(x))

    def plain() -> torch.Tensor:
        whole = torch.nn.functional.conv1d(x, taps, bias, padding=WIDTH - 1, groups=x.shape[1])
        return torch.nn.functional.silu(whole[..., : x.shape[-1]])

    torchs = seconds_per_call(plain)
    return {
        "causal_conv1d_fn TB/s": moved / ours / 1e12,
        "copy TB/s": moved / copy / 1e12,
        "share of copy": copy / ours,
        "times faster than torch": torchs / ours,
    }


def loaded_libraries() -> dict[str, str]:
    """Every CUDA and PyTorch library of this process and the file it came from."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    wanted = ("libcuda", "libcublas", "libtorch", "libc10", "libcausal", "causal_conv1d")
    return {Path(p).name: p for p in sorted(paths) if Path(p).name.startswith(wanted)}


def main() -> int:
    """Print the findings; 1 when an error is over the limit."""
    errors = {**check_forward_and_backward(), "update": check_update()}
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True)
    print(  # noqa: T201 - the answer
        json.dumps(
            {
                "date": str(datetime.date.today()),  # noqa: DTZ011 - the machine's own day
                "gpu": torch.cuda.get_device_name(),
                "driver": driver.stdout.strip(),
                "python": sys.version.split()[0],
                "torch": torch.__version__,
                "extension": causal_conv1d_cuda.__file__,
                "relative errors": errors,
                "throughput": measure(),
                "libraries": loaded_libraries(),
            },
            indent=2,
        )
    )
    return int(max(errors.values()) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
