"""xformers against PyTorch: memory-efficient attention, and 2:4 sparsity, whose kernels it has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from attention import attention_cases, laid_out
from grid import (
    case_of,
    cases_of,
    exactly,
    gradients_of,
    random_of,
    rounding_of,
)
from perf_case import Case
from xformers import ops
from xformers.ops import sp24

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "xformers"
FRAMEWORK = "torch"
UNTOUCHED = (
    "products of sparse matrices, which refuse all GPUs but those of compute capability 8.x",
    "cuSPARSELt, and sparse24_largest_with_Krandom_mask_2d, which is random",
    "dropout, the bias's gradient, masks of padded, gappy and paged keys",
    "attention by flash-attn and Triton, SwiGLU, RMS norm, rope, indexing, which the wheel hasn't",
    "sides of matrices that 64 doesn't divide, which the kernels refuse or pad",
)
DEVICE = "cuda"

# Of sparsity. Its product of matrices is left out: it refuses all GPUs but those of compute
# capability 8.x. So are index_select_cat and scaled_index_add, which Triton compiles.
ROWS, COLUMNS = 8192, 8192  # a large layer: 128 MiB, more than the L2 holds
TILE = 4
TORCH_TILE = torch._sparse_semi_structured_tile  # noqa: SLF001 - it has no other name

Inputs = tuple[torch.Tensor, ...]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """The package's attention, by its CUTLASS kernels, which are PyTorch's since 0.0.35."""
    out: torch.Tensor = ops.memory_efficient_attention(
        *(q, k, v),
        attn_bias=ops.LowerTriangularMask() if causal else None,
        op=(ops.fmha.cutlass.FwOp, ops.fmha.cutlass.BwOp),
    )
    return out


def distinct(rows: int, columns: int, seed: int) -> Inputs:
    """Two bf16 matrices, the values of each 4x4 tile distinct: no kernel has a choice.

    They are whole numbers of 7 bits, which bf16 holds exactly: 16 ranks, three random bits and a
    random sign; two of a tile differ in their absolute values too.
    """
    generator = torch.Generator(DEVICE).manual_seed(seed)
    made = partial(torch.randint, device=DEVICE, generator=generator)
    tiles = (rows * columns // TILE**2, TILE**2)

    def matrix() -> torch.Tensor:
        ranks = torch.rand(tiles, device=DEVICE, generator=generator).argsort(-1)
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


# The grids. Of sparsity everything is exact: values are moved or left out, never rounded.

Row = dict[str, Any]
SPARSE: dict[str, tuple[Any, ...]] = {
    "what": ("sparsify", "apply dense", "apply", "gradient", "dense gradient", "mask", "straight"),
    "dtype": ("bfloat16", "float16"),
    "rows": (64, 128, 320),
    "columns": (64, 256, 448),
    "layout": ("rows", "slice"),
    "values": ("distinct", "large", "equal"),
    "stream": ("current", "second"),
}
DENSE_GRADIENT, SPARSE_GRADIENT = "24dense", "24sparse"


def has_sparse(row: Row) -> bool:
    """The mask is only made of contiguous input; where values are equal kernels may choose."""
    if row["values"] == "equal" and row["what"] != "apply dense":
        return False
    return row["what"] != "mask" or row["layout"] == "rows"


def sparse_inputs(row: Row, seed: int) -> Inputs:
    """Two matrices as `distinct` makes them."""
    kind = getattr(torch, row["dtype"])
    x, other = (one.to(kind) for one in distinct(row["rows"], row["columns"], seed))
    if row["values"] == "large":
        x, other = (one * 2.0 ** (4 if row["dtype"] == "float16" else 100) for one in (x, other))
    if row["values"] == "equal":
        other.fill_(3)
    if row["layout"] == "slice":
        x, other = (torch.cat((one, one), 1)[:, : row["columns"]] for one in (x, other))
    return x, other


def package_sparse(row: Row, x: torch.Tensor, other: torch.Tensor) -> Any:
    """The package's function; of a sparse matrix its packed values."""
    what = row["what"]
    if what == "mask":
        return torch.ops.xformers.sparse24_largest_mask_2d(x).to(x.dtype)
    if what == "apply dense":
        return ops.sparsify24_like(other, ops.sparsify24(x), backend="dense")
    if what in {"sparsify", "apply"}:
        pattern = ops.sparsify24(x)
        found = pattern if what == "sparsify" else ops.sparsify24_like(other, pattern)
        return found.packed, found.packed_t
    if what == "straight":  # the gradient of what is kept times 3, of the others times 2
        leaf = x.detach().requires_grad_()
        sparse = sp24.sparsify24_ste(leaf, bw_mul0=2.0, bw_mul1=3.0)
        return torch.autograd.grad(sparse, leaf, other)
    leaf = other.detach().requires_grad_()
    kind = DENSE_GRADIENT if what == "dense gradient" else SPARSE_GRADIENT
    dense = ops.sparsify24_like(leaf, ops.sparsify24(x), gradient=kind, backend="dense")
    [found] = torch.autograd.grad(dense, leaf, other)
    return (found.packed, found.packed_t) if kind == SPARSE_GRADIENT else found


def exact_sparse(row: Row, x: torch.Tensor, other: torch.Tensor) -> Any:
    """By the definition."""
    x = x.contiguous()
    keep = kept(x)
    what = row["what"]
    if what == "mask":
        return keep.to(x.dtype)
    if what in {"apply dense", "dense gradient"}:
        return other * keep
    if what == "straight":
        return (torch.where(keep, 3 * other.double(), 2 * other.double()).to(x.dtype),)
    values = x if what == "sparsify" else other.contiguous()
    return pack(values, keep), pack(values.T.contiguous(), keep.T.contiguous())


def sparse_case(row: Row) -> Case:
    """A function of 2:4 sparsity in both directions."""
    return case_of(
        row,
        sparse_inputs,
        package_sparse,
        exact_sparse,
        label="sparse",
        limit=0.0,
        same_bits=True,
        memory=1 << 26,
    )


PRUNED: dict[str, tuple[Any, ...]] = {
    "of": (4, 8),
    "order": ("largest_abs", "largest"),
    "rows": (64, 320),
    "columns": (64, 448),
    "layout": ("rows", "slice"),
    "values": ("distinct", "large"),
    "stream": ("current", "second"),
}


def package_pruned(row: Row, x: torch.Tensor, _: object) -> torch.Tensor:
    """The package's."""
    found: torch.Tensor = torch.ops.xformers.sparseNM_dense(x, row["order"], 2, row["of"])
    return found


def exact_pruned(row: Row, x: torch.Tensor, _: object) -> torch.Tensor:
    """Two of so many along rows, as `distinct` has no equal values in four; in eight the first."""
    groups = x.reshape(-1, row["of"]).double()
    keys = groups.abs() if row["order"] == "largest_abs" else groups
    places = keys.argsort(stable=True, dim=-1, descending=True)[:, :2]
    found = torch.zeros_like(groups).scatter_(1, places, groups.gather(1, places))
    return found.view_as(x).to(x.dtype)


def pruned_inputs(row: Row, seed: int) -> Inputs:
    """Of bf16, the only type that it takes; no two of eight are equal."""
    x, other = sparse_inputs({**row, "dtype": "bfloat16"}, seed)
    if row["of"] == 8:
        generator = torch.Generator(DEVICE).manual_seed(seed)
        ranks = torch.rand(x.numel() // 8, 8, device=DEVICE, generator=generator).argsort(-1)
        signs = 2 * (ranks % 2) - 1
        x = ((8 * ranks + 1) * signs).to(x.dtype).view(row["rows"], row["columns"])
    return x, other


def pruned_case(row: Row) -> Case:
    """Sparsity along rows."""
    return case_of(
        row,
        pruned_inputs,
        package_pruned,
        exact_pruned,
        label="pruned",
        limit=0.0,
        same_bits=True,
        memory=1 << 26,
    )


ATTENTION: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "backward"),
    "dtype": ("bfloat16", "float16", "float32"),
    "widths": ((64, 64), (32, 32), (128, 128), (256, 256), (96, 40)),  # of keys, of values
    "lengths": ((128, 128), (113, 203), (203, 113), (1, 1), (1, 515), (515, 515)),
    "mask": ("none", "causal", "last corner", "bias", "window", "sequences", "causal sequences"),
    "scale": (None, 0.3),
    "layout": ("rows", "heads first", "slice", "no heads", "groups"),
    "values": ("normal", "large"),
    "stream": ("current", "second"),
}
BATCH, FEW_HEADS, WINDOW = 2, 4, 24
EXTREME = -1e300  # a score whose probability is 0; its gradient is no NaN, as infinity's would be


def has_attention(row: Row) -> bool:
    """Leave out what CUTLASS's operators don't take (SUPPORTED_ATTN_BIAS_TYPES and checks)."""
    queries, keys = row["lengths"]
    if row["mask"] == "window" and row["what"] == "backward":
        return False  # "some infs/nans in the BW pass", says cutlass.py
    if row["mask"] in {"causal", "last corner", "window"} and queries > keys:
        return False  # queries that see nothing
    is_first_key = row["mask"] in {"causal", "causal sequences"} and queries == 1
    if (is_first_key or keys == 1) and row["what"] == "backward":
        return False  # one that sees one key has gradients of zero
    if row["layout"] == "groups":  # of the forward pass alone, with one bias for all
        return row["what"] == "forward" and row["mask"] in {"none", "causal"}
    if "sequences" in row["mask"]:  # they are packed into one row
        return row["layout"] in {"rows", "slice"} and (
            row["mask"] == "sequences" or queries <= keys
        )
    # The rows of a bias have to be aligned: not those of a copy, nor of a single key.
    is_aligned = row["mask"] != "bias" or (keys > 1 and row["stream"] == "current")
    return is_aligned and (
        row["mask"] not in {"bias", "window", "last corner"} or row["layout"] != "no heads"
    )


def attention_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Queries, keys, values, bias, gradient of the output."""
    draw = partial(random_of(seed, DEVICE), dtype=row["dtype"])
    (queries, keys), (width, value_width) = row["lengths"], row["widths"]
    heads = 1 if row["layout"] == "no heads" else FEW_HEADS
    q = draw(BATCH, queries, heads, width)
    k, v = draw(BATCH, keys, heads, width), draw(BATCH, keys, heads, value_width)
    ahead = draw(BATCH, queries, heads, value_width)
    if row["values"] == "large":  # gradients are linear in the values
        _ = q.mul_(16) if row["what"] == "forward" else v.mul_(32)
    bias = None
    if row["mask"] == "bias":  # rows of a larger tensor: they have to begin at 16 bytes
        bias = draw(BATCH, heads, queries, -(-keys // 8) * 8)[..., :keys]
    q, k, v, ahead = (laid_out(one, row["layout"]) for one in (q, k, v, ahead))
    return q, k, v, bias, ahead


def mask_of(row: Row, bias: torch.Tensor | None) -> Any:
    """The package's mask."""
    queries, keys = row["lengths"]
    kinds = ops.fmha.attn_bias
    masks: dict[str, Callable[[], Any]] = {
        "causal": kinds.LowerTriangularMask,
        "last corner": kinds.LowerTriangularFromBottomRightMask,
        "window": lambda: kinds.LowerTriangularFromBottomRightLocalAttentionMask(WINDOW),
        "sequences": lambda: kinds.BlockDiagonalMask.from_seqlens(
            [queries] * BATCH, [keys] * BATCH
        ),
        "causal sequences": lambda: kinds.BlockDiagonalCausalMask.from_seqlens(
            [queries] * BATCH, [keys] * BATCH
        ),
        "bias": lambda: bias,
    }
    return masks.get(row["mask"], lambda: None)()


def package_attention(row: Row, q: Any, k: Any, v: Any, bias: Any) -> torch.Tensor:
    """The package's attention."""
    shape = (*q.shape[:3], v.shape[-1])
    if "sequences" in row["mask"]:
        q, k, v = (one.flatten(0, 1)[None] for one in (q, k, v))
    if row["layout"] == "no heads":
        q, k, v = (one[:, :, 0] for one in (q, k, v))
    if row["layout"] == "groups":
        q, k, v = (one.unflatten(2, (2, -1)) for one in (q, k, v))
    found: torch.Tensor = ops.memory_efficient_attention(
        *(q, k, v),
        attn_bias=mask_of(row, bias),
        scale=row["scale"],
        op=(ops.fmha.cutlass.FwOp, ops.fmha.cutlass.BwOp),
    )
    return found.reshape(shape)


def exact_attention(row: Row, q: Any, k: Any, v: Any, bias: Any) -> torch.Tensor:
    """By the definition."""
    scale = row["scale"] or q.shape[-1] ** -0.5
    scores = scale * torch.einsum("bqhd,bkhd->bhqk", q, k)
    queries, keys = row["lengths"]
    corner = keys - queries if row["mask"] in {"last corner", "window"} else 0
    at = torch.arange(queries, device=q.device)[:, None] + corner
    ahead = torch.arange(keys, device=q.device) - at
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if row["mask"] in {"causal", "last corner", "window", "causal sequences"}:
        hidden = hidden | (ahead > 0)
    if row["mask"] == "window":
        hidden = hidden | (ahead <= -WINDOW)
    scores = scores if bias is None else scores + bias
    shares = scores.masked_fill(hidden, EXTREME).softmax(-1)
    out: torch.Tensor = torch.einsum("bhqk,bkhd->bqhd", shares, v)
    return out


def attention_outputs(function: Callable[..., Any], row: Row, *values: Any) -> Any:
    """The output, or gradients of queries, keys, values and bias."""
    *given, ahead = values
    if row["what"] == "forward":
        return function(row, *given)
    # A view of a larger tensor takes no gradient of its own: the bias's is left out.
    return gradients_of(lambda *three: function(row, *three, given[3]), given[:3], ahead)


def attention_case(row: Row) -> Case:
    """Attention by CUTLASS's kernels."""
    is_single = row["dtype"] == "float32"
    # Gradients of one query share the rounding of one output: 1.7 times, an H200 had.
    roundings = 3.0 if row["what"] != "forward" and row["lengths"][0] == 1 else 1.5
    return case_of(
        row,
        attention_inputs,
        partial(attention_outputs, package_attention),
        partial(exactly, partial(attention_outputs, exact_attention)),
        label="attention",
        joined={"lengths": "x", "widths": "x"},
        # Of float32 a product is three of tensor cores'.
        limit=5e-5 if is_single else roundings * rounding_of(row["dtype"]),
        units=None if is_single else ATTENTION_UNITS[row["what"]],
        block_factor=16.0,
        block_reason="rows that see few keys have larger errors, and gradients nearly cancel",
        # What is rounded of a row, its output and probabilities, all of its gradients share.
        is_uniform=row["what"] != "forward" or row["lengths"] == (1, 1),
        same_bits=row["what"] == "forward",
        has_own_kernels=False,
        memory=1 << 28,
    )


ATTENTION_UNITS = {"forward": 6.0, "backward": 16.0}
GRIDS = (
    (SPARSE, has_sparse, sparse_case),
    (PRUNED, lambda _: True, pruned_case),
    (ATTENTION, has_attention, attention_case),
)


REPEATS, WIDE = 1025, 32768  # a matrix of 64 rows so often: more than 2^31 elements


def huge_inputs(seed: int) -> Inputs:
    """A matrix that repeats itself, and its first rows."""
    part, _ = distinct(64, WIDE, seed)
    return part.repeat(REPEATS, 1), part


def huge_cases() -> list[Case]:
    """More than 2^31 elements; the definition looks at the part that repeats."""

    def exact_both(_: torch.Tensor, part: torch.Tensor) -> Inputs:
        packed, packed_t = exact_sparsify(part, part)
        return packed.repeat(REPEATS, 1), packed_t.repeat(1, REPEATS)

    shared: dict[str, Any] = {
        "inputs": huge_inputs,
        "limit": 0.0,
        "is_timed": False,
        "is_quick": False,
        "memory": 24 << 30,
    }
    return [
        Case(
            name="sparsify24 bf16 of more than 2^31 elements",
            call=sparsify,
            expected=exact_both,
            **shared,
        ),
        Case(
            name="sparseNM_dense 2:4 bf16 of more than 2^31 elements",
            call=prune,
            expected=lambda _, part: plain_prune(part, part).repeat(REPEATS, 1),
            **shared,
        ),
    ]


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    return [
        *sparsity_cases(),
        *attention_cases(attention, has_own_kernels=False),
        *cases_of(*GRIDS),
        *huge_cases(),
    ]
