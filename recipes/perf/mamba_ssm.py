"""mamba-ssm's selective scan against its recurrence: forward and backward, in Mamba's form."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import torch
from perf_case import Case
from torch.nn.functional import silu, softplus

# The wheel's extension. `import mamba_ssm` needs transformers, tilelang and others that are no
# part of the scan; the calls are those of its selective_scan_interface.py.
PACKAGE = "selective_scan_cuda"
FRAMEWORK = "torch"
OWN_SHARE = 0.5  # an H100 had 0.86 at least

STATE = 16  # of each channel, as Mamba uses
SMALL = ((2, 64, 333), (1, 32, 2500))  # batch, channels, length; the kernel takes 2048 at a time
SHORT = (8, 2048, 64)  # measured beside PyTorch, which goes step by step
LARGE = (8, 2048, 2048)
# Float32: sums of a few thousand terms. bf16: one rounding, whose significand has 8 bits, is wrong
# by up to 3.9e-3 of the value.
LIMITS = {torch.float32: 1e-5, torch.bfloat16: 5e-3}
NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16"}

Inputs = tuple[torch.Tensor, ...]
SCAN = importlib.import_module(PACKAGE)  # after PyTorch, whose libraries it needs


def inputs(shape: tuple[int, int, int], kind: torch.dtype, seed: int) -> Inputs:
    """Random u, delta, A, B, C, D, z, bias of delta, and gradient of the output.

    A is negative, as Mamba's is; A, D and the bias are in float32, as its code has them.
    """
    generator = torch.Generator("cuda").manual_seed(seed)
    normal = partial(torch.randn, device="cuda", generator=generator)
    batch, channels, length = shape
    sequence = (batch, 1, STATE, length)
    return (
        normal(shape).to(kind),
        normal(shape).to(kind),
        -0.1 - normal(channels, STATE).abs(),
        normal(sequence).to(kind),
        normal(sequence).to(kind),
        normal(channels),
        normal(shape).to(kind),
        normal(channels) - 1,
        normal(shape).to(kind),
    )


def forward(*tensors: torch.Tensor) -> torch.Tensor:
    """The package's scan, with softplus of delta and gated by z."""
    _, _, gated = SCAN.fwd(*tensors[:8], True)
    found: torch.Tensor = gated
    return found


def recur(*tensors: torch.Tensor) -> torch.Tensor:
    """The recurrence, step by step, in the precision of the inputs."""
    u, delta, a, b, c, d, z, bias = tensors[:8]
    delta = softplus(delta + bias[:, None])
    state = torch.zeros(*u.shape[:2], STATE, device=u.device, dtype=u.dtype)
    steps = []
    # Unbound at once: the gradient of an index would be a whole sequence of zeros for each step.
    for u_, step, b_, c_ in zip(*(tensor.unbind(-1) for tensor in (u, delta, b, c)), strict=True):
        kept = torch.exp(step[..., None] * a) * state
        state = kept + (step * u_)[..., None] * b_
        steps.append((state * c_).sum(-1))
    return (torch.stack(steps, dim=-1) + d[:, None] * u) * silu(z)


def exact_forward(*tensors: torch.Tensor) -> torch.Tensor:
    """The recurrence in float64."""
    return recur(*(tensor.double() for tensor in tensors))


def backward(*tensors: torch.Tensor) -> Inputs:
    """Gradients of u, delta, A, B, C, D, bias and z by the package, after its forward pass."""
    given, ahead = tensors[:8], tensors[8]
    out, states, _ = SCAN.fwd(*given, True)
    # None: it makes the memory of z's gradient; False: the output is not computed again.
    return tuple(SCAN.bwd(*given, ahead, states, out, None, True, False))


def exact_backward(*tensors: torch.Tensor) -> Inputs:
    """Gradients by the recurrence in float64, in the package's order."""
    leaves = [tensor.double().requires_grad_() for tensor in tensors[:8]]
    found = torch.autograd.grad(recur(*leaves), leaves, tensors[8].double())
    return (*found[:6], found[7], found[6])


def forward_case(shape: tuple[int, int, int], kind: torch.dtype, **more: Any) -> Case:
    """A forward pass."""
    size = kind.itemsize * shape[0] * shape[1] * shape[2]
    return Case(
        name=f"forward {NAMES[kind]} {'x'.join(map(str, shape))}",
        inputs=partial(inputs, shape, kind),
        call=forward,
        expected=exact_forward,
        limit=LIMITS[kind],
        bytes=4 * size,  # u, delta and z are read, the output is written; the others are small
        is_timed=shape not in SMALL,
        memory=32 * size,
        **more,
    )


def backward_case(shape: tuple[int, int, int], kind: torch.dtype, **more: Any) -> Case:
    """A forward pass and its gradients."""
    numbers = shape[0] * shape[1] * shape[2]
    return Case(
        name=f"forward and backward {NAMES[kind]} {'x'.join(map(str, shape))}",
        inputs=partial(inputs, shape, kind),
        call=backward,
        expected=exact_backward,
        limit=LIMITS[kind],
        # Forward as above, and the output before the gate; backward reads u, delta, z, that output
        # and the gradient, and writes three gradients.
        bytes=13 * kind.itemsize * numbers,
        is_timed=shape not in SMALL,
        # The recurrence keeps two float64 numbers of each state and step.
        memory=(16 * STATE + 256) * numbers,
        **more,
    )


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    checked = [
        make(shape, kind)
        for shape in SMALL
        for kind in LIMITS
        for make in (forward_case, backward_case)
    ]
    rival: dict[str, Any] = {"rival": recur, "rival_name": "torch step by step"}
    return [
        *checked,
        forward_case(SHORT, torch.float32, **rival),
        forward_case(LARGE, torch.bfloat16),
        backward_case(LARGE, torch.bfloat16, is_quick=False),
    ]
