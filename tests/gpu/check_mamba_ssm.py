"""Check the selective scan of an installed mamba-ssm wheel on a GPU; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_mamba_ssm.py`. It needs PyTorch and the
wheel; the extension alone is called, so that nothing else that mamba-ssm requires has to be there.
Results are recorded in docs/results.md. The reference is the recurrence itself, in float64.
"""

from __future__ import annotations

import datetime
import importlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

STATE = 16
SMALL = (2, 64, 333)  # batch, channels, length: checked
LARGE = (8, 2048, 4096)  # measured; at this one the recurrence of PyTorch takes minutes
SHORT = (8, 2048, 64)  # measured against it
WARM_UP, TIMED = 3, 20  # calls
SCAN = importlib.import_module("selective_scan_cuda")  # after PyTorch, whose libraries it needs
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 5e-3}  # relative errors


def make_inputs(shape: tuple[int, int, int], kind: torch.dtype) -> dict[str, torch.Tensor]:
    """Random inputs of a scan; A is negative, as Mamba's are."""
    torch.manual_seed(0)
    batch, channels, length = shape
    return {
        "u": torch.randn(shape, device="cuda").to(kind),
        "delta": (0.5 * torch.rand(shape, device="cuda")).to(kind),
        "A": -0.5 * torch.rand(channels, STATE, device="cuda") - 0.1,
        "B": torch.randn(batch, 1, STATE, length, device="cuda").to(kind),
        "C": torch.randn(batch, 1, STATE, length, device="cuda").to(kind),
        "D": torch.randn(channels, device="cuda"),
    }


def scan(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The wheel's kernel."""
    out: torch.Tensor = SCAN.fwd(*inputs.values(), None, None, False)[0]
    return out


def recur(inputs: dict[str, torch.Tensor], kind: torch.dtype) -> torch.Tensor:
    """The recurrence, step by step."""
    u, delta, a, b, c, d = (tensor.to(kind) for tensor in inputs.values())
    state = torch.zeros(*u.shape[:2], STATE, device="cuda", dtype=kind)
    steps = []
    for t in range(u.shape[2]):
        step = delta[..., t, None]
        state = torch.exp(step * a) * state + step * b[:, :, :, t] * u[..., t, None]
        steps.append((state * c[:, :, :, t]).sum(-1))
    return torch.stack(steps, dim=-1) + d[:, None] * u


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


def main() -> int:
    """Print the findings; 1 when an error is over its limit."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True)
    errors = {}
    for kind in LIMITS:
        inputs = make_inputs(SMALL, kind)
        expected = recur(inputs, torch.float64)
        errors[kind] = float((scan(inputs).double() - expected).norm() / expected.norm())
    short, large = (make_inputs(shape, torch.bfloat16) for shape in (SHORT, LARGE))
    print(  # noqa: T201 - the answer
        json.dumps(
            {
                "date": str(datetime.date.today()),  # noqa: DTZ011 - the machine's own day
                "gpu": torch.cuda.get_device_name(),
                "driver": driver.stdout.strip(),
                "python": sys.version.split()[0],
                "torch": torch.__version__,
                "extension": SCAN.__file__,
                "relative errors": {str(kind): error for kind, error in errors.items()},
                "ms": {
                    "8 x 2048 x 4096": milliseconds(lambda: scan(large)),
                    "8 x 2048 x 64": milliseconds(lambda: scan(short)),
                    "8 x 2048 x 64, PyTorch step by step in float32": milliseconds(
                        lambda: recur(short, torch.float32)
                    ),
                },
            },
            indent=2,
        )
    )
    return int(any(error > LIMITS[kind] for kind, error in errors.items()))


if __name__ == "__main__":
    sys.exit(main())
