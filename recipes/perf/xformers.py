"""xformers against PyTorch: memory-efficient attention, and 2:4 sparsity, whose kernels it has."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from perf_case import Case
from torch.nn.functional import scaled_dot_product_attention
from xformers import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    Attention = Callable[..., torch.Tensor]

PACKAGE = "xformers"
FRAMEWORK = "torch"

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

# Of sparsity. Its product of matrices is left out: it refuses all GPUs but those of compute
# capability 8.x. So are index_select_cat and scaled_index_add, which Triton compiles.
ROWS, COLUMNS = 8192, 8192  # a large layer: 128 MiB, more than the L2 holds
TILE = 4
TORCH_TILE = torch._sparse_semi_structured_tile  # noqa: SLF001 - it has no other name

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
    """The package's attention, by its CUTLASS kernels, which are PyTorch's since 0.0.35."""
    out: torch.Tensor = ops.memory_efficient_attention(
        *(q, k, v),
        attn_bias=ops.LowerTriangularMask() if causal else None,
        op=(ops.fmha.cutlass.FwOp, ops.fmha.cutlass.BwOp),
    )
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
        "has_own_kernels": False,
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


def distinct(rows: int, columns: int, seed: int) -> Inputs:
    """Two bf16 matrices, the values of each 4x4 tile distinct: no kernel has a choice.

    They are whole numbers of 7 bits, which bf16 holds exactly: 16 ranks, three random bits and a
    random sign; two of a tile differ in their absolute values too.
    """
    generator = torch.Generator("cuda").manual_seed(seed)
    made = partial(torch.randint, device="cuda", generator=generator)
    tiles = (rows * columns // TILE**2, TILE**2)

    def matrix() -> torch.Tensor:
        ranks = torch.rand(tiles, device="cuda", generator=generator).argsort(-1)
        values = (8 * ranks + made(0, 8, tiles)).clamp_(min=1) * (2 * made(0, 2, tiles) - 1)
        return untile(values.to(torch.bfloat16), rows, columns)

    return matrix(), matrix()


def tile(matrix: torch.Tensor) -> torch.Tensor:
    """Tiles of a matrix, each a row of 16."""
    rows, columns = matrix.shape
    split = matrix.view(rows // TILE, TILE, columns // TILE, TILE)
    return split.transpose(1, 2).reshape(-1, TILE**2)


def untile(tiles: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The matrix of those tiles."""
    split = tiles.view(rows // TILE, columns // TILE, TILE, TILE)
    return split.transpose(1, 2).reshape(rows, columns)


def kept(x: torch.Tensor) -> torch.Tensor:
    """Where 2:4 sparsity in both directions keeps a value, by its definition.

    In each 4x4 tile from the largest value to the smallest: it is kept where its row and its
    column have less than two.
    """
    tiles = tile(x)
    order = tiles.float().argsort(-1, descending=True)
    at = torch.arange(len(tiles), device=x.device)
    found = torch.zeros_like(tiles, dtype=torch.bool)
    in_row, in_column = torch.zeros(2, len(tiles), TILE, device=x.device, dtype=torch.int8)
    for place in order.T:
        row, column = place // TILE, place % TILE
        fits = (in_row[at, row] < 2) & (in_column[at, column] < 2)
        in_row[at, row] += fits
        in_column[at, column] += fits
        found[at, place] = fits
    return untile(found, *x.shape)


def pack(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """The two values that are kept of each four, in their order.

    One that is alone stands on the left if it came from the left two, else on the right.
    """
    v0, v1, v2, v3 = x.view(len(x), -1, 4).unbind(-1)
    k0, k1, k2, k3 = keep.view(len(x), -1, 4).unbind(-1)
    nothing = torch.zeros_like(v0)
    left = torch.where(k2 & k3, v2, nothing)
    left = torch.where(k0, v0, torch.where(k1, v1, left))
    right = torch.where(k0 & k1, v1, nothing)
    right = torch.where(k3, v3, torch.where(k2, v2, right))
    return torch.stack((left, right), dim=-1).view(len(x), -1)


def sparsify(x: torch.Tensor, _: object) -> Inputs:
    """The package's sparsity in both directions: the values kept, and those of the transpose."""
    found = ops.sparsify24(x)
    return found.packed, found.packed_t


def plain_sparsify(x: torch.Tensor, _: object) -> Inputs:
    """PyTorch's, which began as the package's code."""
    packed, _meta, packed_t, *_rest = TORCH_TILE(x, "largest_values_greedy")
    return packed, packed_t


def exact_sparsify(x: torch.Tensor, _: object) -> Inputs:
    """By its definition."""
    keep = kept(x)
    return pack(x, keep), pack(x.T.contiguous(), keep.T.contiguous())


def apply(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Another matrix with zeros where the sparsity of the first has them."""
    found: torch.Tensor = ops.sparsify24_like(other, ops.sparsify24(x), backend="dense")
    return found


def exact_apply(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """By its definition."""
    return other * kept(x)


def prune(x: torch.Tensor, _: object) -> torch.Tensor:
    """The package's 2:4 sparsity along rows, by absolute values."""
    found: torch.Tensor = torch.ops.xformers.sparseNM_dense(x, "largest_abs", 2, 4)
    return found


def plain_prune(x: torch.Tensor, _: object) -> torch.Tensor:
    """The same by PyTorch's operators."""
    fours = x.view(-1, 4)
    largest = fours.abs().topk(2, dim=-1).indices
    return torch.zeros_like(fours).scatter_(1, largest, fours.gather(1, largest)).view_as(x)


def sparsity_cases() -> list[Case]:
    """What the wheel's own kernels do: values are moved or left out, never rounded."""
    size = 2 * ROWS * COLUMNS  # bytes
    shared: dict[str, Any] = {
        "inputs": partial(distinct, ROWS, COLUMNS),
        "limit": 0.0,
        # The definition sorts in 64-bit indices.
        "memory": 32 * size,
    }
    return [
        Case(
            name=f"sparsify24 bf16 {ROWS}x{COLUMNS}",
            call=sparsify,
            expected=exact_sparsify,
            # The matrix is read; half of it is written, and half of its transpose.
            bytes=2 * size,
            rival=plain_sparsify,
            rival_name="torch _sparse_semi_structured_tile",
            **shared,
        ),
        Case(
            name=f"sparsify24 and sparsify24_like bf16 {ROWS}x{COLUMNS}",
            call=apply,
            expected=exact_apply,
            # As above, then the other matrix is read and written.
            bytes=4 * size,
            **shared,
        ),
        Case(
            name=f"sparseNM_dense 2:4 bf16 {ROWS}x{COLUMNS}",
            call=prune,
            expected=plain_prune,
            bytes=2 * size,
            rival=plain_prune,
            rival_name="torch topk and scatter",
            **shared,
        ),
    ]


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    attention_ = [
        case
        for causal, shapes in ((True, (*SMALL, *LARGE)), (False, (*SMALL, QUICK)))
        for batch, length in shapes
        for case in attention_cases(batch, length, causal=causal)
    ]
    return [*sparsity_cases(), *attention_]
