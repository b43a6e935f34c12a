"""The cases of a package's attention, against PyTorch's own and the definition.

Each is bf16, of queries, keys, values and the gradient of the output: batch, length, heads, width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from perf_case import Case  # type: ignore[import-not-found]
from torch.nn.functional import scaled_dot_product_attention

Attention = Callable[..., torch.Tensor]

DEVICE = "cuda"
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


def _inputs(batch: int, length: int, seed: int) -> Inputs:
    """Return random queries, keys, values and gradient of the output."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    shape = (batch, length, HEADS, WIDTH)
    return tuple(
        torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, generator=generator)
        for _ in range(4)
    )


def _plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    swapped = (tensor.transpose(1, 2) for tensor in (q, k, v))
    out: torch.Tensor = scaled_dot_product_attention(*swapped, is_causal=causal).transpose(1, 2)
    return out


def _one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Return attention by its definition, of tensors of length and width."""
    scores = (q / WIDTH**0.5) @ k.T
    if causal:
        above = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(above, float("-inf"))
    return scores.softmax(-1) @ v


def forward(*tensors: torch.Tensor, kernel: Attention, causal: bool) -> torch.Tensor:
    """Return the output by a kernel."""
    return kernel(*tensors[:3], causal=causal)


def _exact_forward(*tensors: torch.Tensor, causal: bool, kind: torch.dtype) -> torch.Tensor:
    """Return the output by its definition, head by head: all scores take too much memory."""
    exact = [tensor.to(kind) for tensor in tensors[:3]]
    out = torch.empty_like(exact[0])
    for row, head in product(range(len(out)), range(HEADS)):
        out[row, :, head] = _one_head(*(tensor[row, :, head] for tensor in exact), causal=causal)
    return out


def _backward(*tensors: torch.Tensor, kernel: Attention, causal: bool) -> Inputs:
    leaves = [tensor.detach().requires_grad_() for tensor in tensors[:3]]
    gradients: Inputs = torch.autograd.grad(kernel(*leaves, causal=causal), leaves, tensors[3])
    return gradients


def _exact_backward(*tensors: torch.Tensor, causal: bool, kind: torch.dtype) -> Inputs:
    exact = [tensor.to(kind) for tensor in tensors]
    found = tuple(torch.empty_like(tensor) for tensor in exact[:3])
    for row, head in product(range(len(exact[0])), range(HEADS)):
        parts = [tensor[row, :, head] for tensor in exact]
        for all_heads, one in zip(
            found, _backward(*parts, kernel=_one_head, causal=causal), strict=True
        ):
            all_heads[row, :, head] = one
    return found


def attention_cases(attention: Attention, **fields: Any) -> list[Case]:
    """Return small cases, which are only checked, and large ones: forward, and with gradients.

    Args:
        attention: of three tensors, and `causal`.
        fields: others of each case.
    """
    return [
        case
        for causal, shapes in ((True, (*SMALL, *LARGE)), (False, (*SMALL, QUICK)))
        for batch, length in shapes
        for case in _cases_of_shape(attention, batch, length, causal=causal, **fields)
    ]


def _cases_of_shape(
    attention: Attention, batch: int, length: int, *, causal: bool, **fields: Any
) -> list[Case]:
    """Return the forward pass, and it with the backward one, of one shape."""
    is_large = (batch, length) in LARGE
    kind = torch.float32 if is_large else torch.float64
    size = f"bf16 {batch}x{length}{', causal' if causal else ''}"
    # Two products of matrices; a causal mask leaves out half of each.
    operations = 4 * batch * HEADS * length**2 * WIDTH // (2 if causal else 1)
    one = 2 * batch * length * HEADS * WIDTH  # bytes of a tensor
    scores = kind.itemsize * length**2  # bytes, of one head
    shared: dict[str, Any] = {
        "inputs": partial(_inputs, batch, length),
        "limit": ROUNDING,
        "rival_name": "torch scaled_dot_product_attention",
        "is_timed": is_large,
        "is_quick": not is_large or (batch, length) == QUICK,
        **fields,
    }
    return [
        Case(
            name=f"forward {size}",
            call=partial(forward, kernel=attention, causal=causal),
            expected=partial(_exact_forward, causal=causal, kind=kind),
            operations=operations,
            rival=partial(forward, kernel=_plain, causal=causal),
            memory=24 * one + 4 * scores,
            **shared,
        ),
        Case(
            name=f"forward and backward {size}",
            call=partial(_backward, kernel=attention, causal=causal),
            expected=partial(_exact_backward, causal=causal, kind=kind),
            # Backward makes five products: the scores once more, and four of gradients.
            operations=operations * 7 // 2,
            rival=partial(_backward, kernel=_plain, causal=causal),
            memory=40 * one + 6 * scores,
            **shared,
            **(CAUSAL_GRADIENTS_BLOCK if causal else {}),
        ),
    ]


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """Return the same values in memory as a layout says."""
    if layout == "heads first":
        return values.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "slice":  # of a projection that holds more heads
        return torch.cat([values, values], dim=2)[:, :, : values.shape[2]]
    return values
