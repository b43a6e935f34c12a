"""flash-attn against PyTorch's own attention: forward and backward, causal and not."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from flash_attn import flash_attn_func
from perf_case import Case
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Callable

    Attention = Callable[..., torch.Tensor]

PACKAGE = "flash_attn"
FRAMEWORK = "torch"
OWN_SHARE = 0.9  # an H100 had 1.0 at least

HEADS, WIDTH = 16, 128
SMALL = ((1, 113), (2, 512), (1, 1000))  # batch, length: with lengths that are no power of two
LARGE = ((16, 1024), (4, 4096), (1, 16384))  # the definition in float32 there, in 2 GiB a head
QUICK = (4, 4096)  # the one of those without a causal mask too
# A rounding to bf16, whose significand has 8 bits, is wrong by up to 3.9e-3 of the value, and by
# 1.7e-3 in the root mean square. The probabilities and the result are rounded, in backward the
# gradients of the scores too; three independent ones make 2.9e-3.
ROUNDING = 5e-3
# 4.8 was seen on an H100, 2026-11-27.
CAUSAL_GRADIENTS_BLOCK: dict[str, Any] = {
    "block_factor": 12.0,
    "block_reason": "with a causal mask the gradients of some rows nearly cancel",
}

Inputs = tuple[torch.Tensor, ...]


def inputs(batch: int, length: int, seed: int) -> Inputs:
    """Random queries, keys, values and gradient of the output: batch, length, heads, width."""
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (batch, length, HEADS, WIDTH)
    return tuple(
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, generator=generator)
        for _ in range(4)
    )


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """The package's attention."""
    out: torch.Tensor = flash_attn_func(q, k, v, causal=causal)
    return out


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """PyTorch's operator."""
    swapped = (tensor.transpose(1, 2) for tensor in (q, k, v))
    out: torch.Tensor = scaled_dot_product_attention(*swapped, is_causal=causal).transpose(1, 2)
    return out


def one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Attention by its definition, on tensors of length and width."""
    scores = (q / WIDTH**0.5) @ k.T
    if causal:
        above = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(above, float("-inf"))
    return scores.softmax(-1) @ v


def forward(*tensors: torch.Tensor, kernel: Attention, causal: bool) -> torch.Tensor:
    """The output by a kernel."""
    return kernel(*tensors[:3], causal=causal)


def exact_forward(*tensors: torch.Tensor, causal: bool, kind: torch.dtype) -> torch.Tensor:
    """The output by its definition, head by head: the scores of all take too much memory."""
    exact = [tensor.to(kind) for tensor in tensors[:3]]
    out = torch.empty_like(exact[0])
    for row, head in product(range(len(out)), range(HEADS)):
        out[row, :, head] = one_head(*(tensor[row, :, head] for tensor in exact), causal=causal)
    return out


def backward(*tensors: torch.Tensor, kernel: Attention, causal: bool) -> Inputs:
    """Gradients of queries, keys and values by a kernel."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors[:3]]
    return torch.autograd.grad(kernel(*leaves, causal=causal), leaves, tensors[3])


def exact_backward(*tensors: torch.Tensor, causal: bool, kind: torch.dtype) -> Inputs:
    """Gradients by the definition, head by head."""
    exact = [tensor.to(kind) for tensor in tensors]
    found = tuple(torch.empty_like(tensor) for tensor in exact[:3])
    for row, head in product(range(len(exact[0])), range(HEADS)):
        parts = [tensor[row, :, head] for tensor in exact]
        for all_heads, one in zip(
            found, backward(*parts, kernel=one_head, causal=causal), strict=True
        ):
            all_heads[row, :, head] = one
    return found


def attention_cases(batch: int, length: int, *, causal: bool) -> list[Case]:
    """Forward, and forward with backward, of one shape."""
    is_large = (batch, length) in LARGE
    kind = torch.float32 if is_large else torch.float64
    size = f"bf16 {batch}x{length}{', causal' if causal else ''}"
    # Two products of matrices; a causal mask leaves out half of each.
    operations = 4 * batch * HEADS * length**2 * WIDTH // (2 if causal else 1)
    one = 2 * batch * length * HEADS * WIDTH  # bytes of a tensor
    scores = kind.itemsize * length**2  # bytes, of one head
    shared: dict[str, Any] = {
        "inputs": partial(inputs, batch, length),
        "limit": ROUNDING,
        "rival_name": "torch scaled_dot_product_attention",
        "is_timed": is_large,
        "is_quick": not is_large or (batch, length) == QUICK,
    }
    return [
        Case(
            name=f"forward {size}",
            call=partial(forward, kernel=attention, causal=causal),
            expected=partial(exact_forward, causal=causal, kind=kind),
            operations=operations,
            rival=partial(forward, kernel=plain, causal=causal),
            memory=24 * one + 4 * scores,
            **shared,
        ),
        Case(
            name=f"forward and backward {size}",
            call=partial(backward, kernel=attention, causal=causal),
            expected=partial(exact_backward, causal=causal, kind=kind),
            # Backward makes five products: the scores once more, and four of gradients.
            operations=operations * 7 // 2,
            rival=partial(backward, kernel=plain, causal=causal),
            memory=40 * one + 6 * scores,
            **shared,
            **(CAUSAL_GRADIENTS_BLOCK if causal else {}),
        ),
    ]


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    return [
        case
        for causal, shapes in ((True, (*SMALL, *LARGE)), (False, (*SMALL, QUICK)))
        for batch, length in shapes
        for case in attention_cases(batch, length, causal=causal)
    ]
