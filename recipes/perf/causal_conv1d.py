"""causal-conv1d against PyTorch's own convolution: forward, backward, and step by step."""

from __future__ import annotations

import torch
from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from perf_case import Case

PACKAGE = "causal_conv1d"
FRAMEWORK = "torch"
OWN_SHARE = 0.5  # an H100 had 0.8 at least

WIDTH = 4  # taps, as Mamba uses
SMALL = (2, 1024, 2048)  # batch, channels, length
LARGE = (8, 4096, 8192)  # 512 MiB of bf16: many times the L2, so that memory is what is measured
STEPS = 16  # of the step by step form
# One rounding to bf16, whose significand has 8 bits, is wrong by up to 3.9e-3 of the value.
ROUNDING = 5e-3

Inputs = tuple[torch.Tensor, ...]


def inputs(shape: tuple[int, int, int], seed: int) -> Inputs:
    """Random input, weight, bias and gradient of the output, in bf16."""
    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = (shape, (shape[1], WIDTH), (shape[1],), shape)
    return tuple(
        torch.randn(one, device="cuda", dtype=torch.bfloat16, generator=generator) for one in shapes
    )


def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The same convolution by PyTorch's own operators."""
    taps = weight.unsqueeze(1)
    whole = torch.nn.functional.conv1d(x, taps, bias, padding=WIDTH - 1, groups=x.shape[1])
    return torch.nn.functional.silu(whole[..., : x.shape[-1]])


def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, _: object) -> torch.Tensor:
    """The package's convolution."""
    out: torch.Tensor = causal_conv1d_fn(x, weight, bias, activation="silu")
    return out


def plain_forward(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, _: object) -> torch.Tensor:
    """PyTorch's, in the precision of the inputs."""
    return plain(x, w, b)


def exact_forward(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, _: object) -> torch.Tensor:
    """PyTorch's in float32, one row of the batch after another."""
    rows = [plain(row[None].float(), w.float(), b.float()).to(x.dtype) for row in x]
    return torch.cat(rows)


def backward(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, ahead: torch.Tensor) -> Inputs:
    """Gradients of input, weight and bias by the package."""
    leaves = [tensor.detach().requires_grad_() for tensor in (x, w, b)]
    out = causal_conv1d_fn(*leaves, activation="silu")
    return torch.autograd.grad(out, leaves, ahead)


def plain_backward(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, ahead: torch.Tensor
) -> Inputs:
    """Gradients by PyTorch, in the precision of the inputs."""
    leaves = [tensor.detach().requires_grad_() for tensor in (x, w, b)]
    return torch.autograd.grad(plain(*leaves), leaves, ahead)


def exact_backward(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, ahead: torch.Tensor
) -> Inputs:
    """Gradients by PyTorch in float32, one row of the batch after another."""
    found = [
        plain_backward(row[None].float(), w.float(), b.float(), later[None].float())
        for row, later in zip(x, ahead, strict=True)
    ]
    to_x, to_w, to_b = zip(*found, strict=True)
    return torch.cat(to_x), sum(to_w), sum(to_b)


def update(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, _: object) -> torch.Tensor:
    """The first steps of the convolution, one after another, as in generating text."""
    state = torch.zeros(*x.shape[:2], WIDTH, device=x.device, dtype=x.dtype)
    steps = [
        causal_conv1d_update(x[..., i], state, weight, bias, activation="silu")
        for i in range(STEPS)
    ]
    return torch.stack(steps, dim=-1)


def exact_update(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, _: object) -> torch.Tensor:
    """The same as one convolution in float32."""
    return plain(x[..., :STEPS].float(), w.float(), b.float())


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    found = []
    for shape in (SMALL, LARGE):
        size = "x".join(map(str, shape))
        moved = 2 * shape[0] * shape[1] * shape[2]  # bytes of one bf16 tensor

        def make(seed: int, shape: tuple[int, int, int] = shape) -> Inputs:
            return inputs(shape, seed)

        forward_case = Case(
            name=f"forward bf16 {size}",
            inputs=make,
            call=forward,
            expected=exact_forward,
            limit=ROUNDING,
            bytes=2 * moved,  # the input is read, the output written
            rival=plain_forward,
            rival_name="torch conv1d + silu",
            is_timed=shape == LARGE,
            memory=8 * moved,
        )
        backward_case = Case(
            name=f"forward and backward bf16 {size}",
            inputs=make,
            call=backward,
            expected=exact_backward,
            limit=ROUNDING,
            # Forward as above; backward reads input and gradient and writes one.
            bytes=5 * moved,
            rival=plain_backward,
            rival_name="torch conv1d + silu",
            is_timed=shape == LARGE,
            memory=12 * moved,
        )
        found += [forward_case, backward_case]
    return [
        *found,
        Case(
            name=f"update bf16 {SMALL[0]}x{SMALL[1]}, {STEPS} steps",
            inputs=lambda seed: inputs(SMALL, seed),
            call=update,
            expected=exact_update,
            limit=ROUNDING,
            is_timed=False,
            memory=1 << 28,
        ),
    ]
