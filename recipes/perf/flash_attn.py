"""flash-attn against PyTorch's own attention: forward and backward, causal and not."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import flash_attn
import torch
from attention import HEADS, ROUNDING, WIDTH, attention_cases, forward, laid_out
from flash_attn import flash_attn_func
from grid import (
    case_of,
    cases_of,
    exactly,
    gradients_of,
    in_float64,
    random_of,
    rounding_of,
)
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "flash_attn"
FRAMEWORK = "torch"
OWN_SHARE = 0.9  # an H100 had 1.0 at least
UNTOUCHED = (
    "dropout, whose mask is random",
    "layers, losses, models, modules and ops, which are PyTorch's or Triton's",
    "pages and used lengths of flash_attn_varlen_func, and its packed keys and values",
    "batches of none, and gradients of no keys",
    "gradients through the logarithms of sums, which have none",
)
DEVICE = "cuda"

HUGE = (8193, 128)  # of 2^31 and some elements

Inputs = tuple[torch.Tensor, ...]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """The package's attention."""
    out: torch.Tensor = flash_attn_func(q, k, v, causal=causal)
    return out


# The grid: everything that the package offers, in pairs, against float64.

Row = dict[str, Any]
AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "backward", "deterministic backward"),
    "dtype": ("bfloat16", "float16"),
    "width": (64, 128, 256, 32, 96, 192, 40, 20),  # templates end at six of them; 20 is padded
    "lengths": ((128, 128), (113, 203), (203, 113), (1, 1), (1, 515), (515, 515), (5, 0)),
    "heads": ((4, 4), (4, 2), (6, 1)),  # of queries, of keys and values
    "mask": ("none", "causal", "window", "past", "future"),
    "option": ("none", "scale", "softcap", "alibi", "alibi of each", "log of sums"),
    "call": ("plain", "kv packed", "qkv packed", "varlen", "varlen packed"),
    "layout": ("rows", "heads first", "slice"),
    "values": ("normal", "large", "special"),
    "stream": ("current", "second"),
}
WINDOWS = {"window": (16, 9), "past": (33, 0), "future": (0, 20)}
BATCH, SOFTCAP, SCALE = 3, 5.0, 0.3
# The probabilities are rounded to 16 bits before a product, in backward the gradients of the scores
# too; rows that see few keys have larger elements, and errors, than the root mean square.
UNITS = {"forward": 6.0, "backward": 16.0, "deterministic backward": 16.0}
SUMS_UNITS = 24.0  # logarithms of sums are in single precision
FEW_KEYS = "rows that see few keys have larger errors, and gradients nearly cancel"
EXTREME = -1e300  # a score whose probability is 0; its gradient is no NaN, as infinity's would be


def exists(row: Row) -> bool:
    """Leave out what the interface doesn't take, and where special values may go either way."""
    queries, keys = row["lengths"]
    is_packed = "packed" in row["call"]
    holds_all = row["call"] in {"qkv packed", "varlen packed"}
    if (holds_all and (queries != keys or len(set(row["heads"])) > 1)) or (
        is_packed and row["layout"] != "rows"  # of the packed tensor
    ):
        return False
    has_lse = row["option"] == "log of sums"
    # Of a row that sees nothing it is infinity, in one path and minus infinity in another.
    # So it is of a row with NaN (softmax.h, normalize_softmax_lse).
    if has_lse and (
        row["what"] != "forward" or row["mask"] != "none" or not keys or row["values"] == "special"
    ):
        return False
    if row["what"] != "forward" and keys > 1 and seen_keys(row) == 1:
        return False  # gradients of zero
    if not keys and (row["what"] != "forward" or row["values"] != "normal" or is_packed):
        return False
    if row["call"] == "varlen" and (not keys or (queries == 1 and len(set(row["heads"])) > 1)):
        return False  # with single queries each sequence must have one (mha_varlen_fwd reshapes)
    # A key that a mask hides is multiplied by 0, or its whole block is skipped.
    sees_all = row["mask"] == "none" and "alibi" not in row["option"]
    return row["values"] != "special" or (row["what"] == "forward" and sees_all)


def seen_keys(row: Row) -> int:
    """The number of keys that some query sees; the last query is at the place of the last key."""
    queries, keys = row["lengths"]
    before, _after = WINDOWS.get(row["mask"], (keys, 0))
    return min(keys, queries + before)


def units_of(row: Row) -> float:
    """The limit of an element's error, which is relative to the root mean square of all elements.

    That is the smaller the more gradients of keys are zero: on an H200 an element of 34 rows among
    515 was wrong by 41 units.
    """
    if row["option"] == "log of sums":
        return SUMS_UNITS
    limit = UNITS[row["what"]]
    if row["what"] == "forward":
        return limit
    return limit * math.sqrt(row["lengths"][1] / seen_keys(row))


def grid_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Queries, keys, values, slopes, gradient of the output."""
    draw = partial(random_of(seed, DEVICE), dtype=row["dtype"])
    (queries, keys), (heads, shared) = row["lengths"], row["heads"]
    q = draw(BATCH, queries, heads, row["width"])
    k, v = (draw(BATCH, keys, shared, row["width"]) for _ in range(2))
    ahead = draw(BATCH, queries, heads, row["width"])
    if row["values"] == "large":  # scores of some hundreds; gradients are linear in the values
        _ = q.mul_(16) if row["what"] == "forward" else v.mul_(32)
    if row["values"] == "special":
        q[-1, queries // 2, 0, 0] = torch.nan
        v[0, keys // 2, -1, 1] = torch.inf
        v[1, 0, 0, 2] = -torch.inf
    slopes = None
    if "alibi" in row["option"]:
        sizes = (heads,) if row["option"] == "alibi" else (BATCH, heads)
        slopes = random_of(seed + 1, DEVICE)(*sizes).abs() * 0.3
    q, k, v = (laid_out(one, row["layout"]) for one in (q, k, v))
    return q, k, v, slopes, laid_out(ahead, row["layout"])


def options_of(row: Row, slopes: torch.Tensor | None) -> dict[str, Any]:
    """Arguments that all of the package's functions have."""
    return {
        "softmax_scale": SCALE if row["option"] == "scale" else None,
        "causal": row["mask"] == "causal",
        "window_size": WINDOWS.get(row["mask"], (-1, -1)),
        "softcap": SOFTCAP if row["option"] == "softcap" else 0.0,
        "alibi_slopes": slopes,
    }


def package(row: Row, q: Any, k: Any, v: Any, slopes: Any) -> Any:
    """The package's attention by one of its functions."""
    more = options_of(row, slopes)
    more["deterministic"] = row["what"] == "deterministic backward"
    more["return_attn_probs"] = row["option"] == "log of sums"
    if "varlen" in row["call"]:
        out = of_sequences(row, q, k, v, more)
    elif row["call"] == "kv packed":
        out = flash_attn.flash_attn_kvpacked_func(q, torch.stack((k, v), 2), **more)
    elif row["call"] == "qkv packed":
        out = flash_attn.flash_attn_qkvpacked_func(torch.stack((q, k, v), 2), **more)
    else:
        out = flash_attn_func(q, k, v, **more)
    return out[:2] if more["return_attn_probs"] else out


def of_sequences(row: Row, q: Any, k: Any, v: Any, more: dict[str, Any]) -> Any:
    """The same by the functions for sequences in a row: the batch's second has no tokens."""
    lengths = [
        torch.tensor([0, n, n, 2 * n], dtype=torch.int32, device=DEVICE) for n in row["lengths"]
    ]
    q, k, v = (torch.cat((one[0], one[-1])) for one in (q, k, v))
    if row["call"] == "varlen packed":
        packed = torch.stack((q, k, v), 1)
        found = flash_attn.flash_attn_varlen_qkvpacked_func(
            packed, lengths[0], row["lengths"][0], **more
        )
    else:
        found = flash_attn.flash_attn_varlen_func(q, k, v, *lengths, *row["lengths"], **more)
    if not more["return_attn_probs"]:
        return of_batch(found)
    out, sums, *_ = found
    return of_batch(out), of_batch(sums.T).transpose(1, 2)


def of_batch(found: torch.Tensor) -> torch.Tensor:
    """Two sequences that follow each other as a batch of three; the second is left at zero."""
    first, last = found.chunk(2)
    return torch.stack((first, torch.zeros_like(first), last))


def exact(row: Row, q: Any, k: Any, v: Any, slopes: Any) -> Any:
    """The same by the definition."""
    scores, hidden = scores_of(row, q, k, slopes)
    shares = scores.masked_fill(hidden, EXTREME).softmax(-1).masked_fill(hidden, 0)
    v = v.repeat_interleave(q.shape[2] // v.shape[2], dim=2)
    out = torch.einsum("bhqk,bkhd->bqhd", shares, v)
    sums = scores.logsumexp(-1) if row["option"] == "log of sums" else scores[..., 0:0].sum(-1)
    if "varlen" in row["call"]:
        weights = torch.tensor([1, 0, 1], device=q.device)
        # Not by a product: nothing of what isn't there may be NaN.
        out = out.where(weights[:, None, None, None] > 0, 0)
        sums = sums.where(weights[:, None, None] > 0, 0)
    return (out, sums) if row["option"] == "log of sums" else out


def scores_of(row: Row, q: Any, k: Any, slopes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of batch, heads, queries and keys; which of them a mask hides."""
    k = k.repeat_interleave(q.shape[2] // k.shape[2], dim=2)
    scale = SCALE if row["option"] == "scale" else q.shape[-1] ** -0.5
    scores = scale * torch.einsum("bqhd,bkhd->bhqk", q, k)
    if row["option"] == "softcap":
        scores = SOFTCAP * (scores / SOFTCAP).tanh()
    # The last query is at the place of the last key.
    behind = k.shape[1] - q.shape[1]
    at = torch.arange(q.shape[1], device=q.device)[:, None] + behind
    ahead = torch.arange(k.shape[1], device=q.device) - at
    if slopes is not None:
        scores = scores - slopes.expand(len(q), -1)[..., None, None] * ahead.abs()
    before, after = WINDOWS.get(row["mask"], (len(at) + k.shape[1],) * 2)
    after = 0 if row["mask"] == "causal" else after
    return scores, ((ahead < -before) | (ahead > after)).expand_as(scores)


def outputs(function: Callable[..., Any], row: Row, *values: Any) -> Any:
    """The output, or gradients of queries, keys and values."""
    q, k, v, slopes, ahead = values
    if row["what"] == "forward":
        return function(row, q, k, v, slopes)
    return gradients_of(lambda *three: function(row, *three, slopes), (q, k, v), ahead)


def grid_case(row: Row) -> Case:
    """Forward or gradients."""
    is_tiny = max(row["lengths"]) == 1
    return case_of(
        row,
        grid_inputs,
        partial(outputs, package),
        partial(exactly, partial(outputs, exact)),
        joined={"lengths": "x"},
        limit=1.5 * rounding_of(row["dtype"]),
        units=units_of(row),
        block_factor=16.0,
        block_reason=FEW_KEYS,
        is_special=row["values"] == "special",
        # What is rounded of a row, its output and probabilities, all of its gradients share.
        is_uniform=is_tiny or row["what"] != "forward",
        same_bits=row["what"] != "backward",  # it adds gradients of queries by atomics
        has_own_kernels=min(row["lengths"]) > 0,
        memory=1 << 28,
    )


CACHES: dict[str, tuple[Any, ...]] = {
    "dtype": ("bfloat16", "float16"),
    "width": (128, 64, 256, 96, 40),
    "queries": (1, 3, 70),
    "heads": ((4, 4), (6, 2), (4, 1)),
    "mask": ("none", "causal", "past"),
    "option": ("none", "scale", "softcap", "alibi of each"),
    "new": ("none", "appended", "turned in pairs", "turned in halves"),
    "cache": ("in order", "by index", "pages", "left padding"),
    "splits": (0, 1, 3),
    "stream": ("current", "second"),
}
ROOM, PAGE, TURNED = 512, 256, 16  # tokens of a cache and of a page; elements that are turned
USED = (0, 130, 301)  # tokens in each cache
PADDING = (0, 7, 129)


def fits(row: Row) -> bool:
    """Slopes and turning count from the first token that isn't padding: left out."""
    is_padded = row["cache"] == "left padding"
    return not is_padded or (row["option"] != "alibi of each" and "turned" not in row["new"])


def has_sums(row: Row) -> bool:
    """Logarithms of sums are returned too: of rows that all see something, nothing rounded."""
    return row["option"] == row["mask"] == "none" and "turned" not in row["new"]


def cache_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Queries, caches of keys and values, new ones, cosines, sines, slopes, tokens, places."""
    draw = partial(random_of(seed, DEVICE), dtype=row["dtype"])
    batch, (heads, shared), width = len(USED), row["heads"], row["width"]
    entries = {"by index": 5, "pages": 7}.get(row["cache"], batch)
    room = PAGE if row["cache"] == "pages" else ROOM
    q = draw(batch, row["queries"], heads, width)
    caches = [draw(entries, room, shared, width) for _ in range(2)]
    new: list[Any] = [None, None]
    cosines = sines = slopes = places = None
    if row["new"] != "none":
        new = [draw(batch, row["queries"], shared, width) for _ in range(2)]
    if "turned" in row["new"]:
        rates = 100.0 ** -(torch.arange(TURNED // 2, device=DEVICE) * 2 / TURNED)
        angles = torch.arange(ROOM, device=DEVICE)[:, None] * rates
        kind = getattr(torch, row["dtype"])
        cosines, sines = angles.cos().to(kind), angles.sin().to(kind)
    if row["option"] == "alibi of each":
        slopes = random_of(seed + 1, DEVICE)(batch, heads).abs() * 0.3
    if row["cache"] == "by index":
        places = torch.tensor([4, 0, 2], device=DEVICE, dtype=torch.int32)
    if row["cache"] == "pages":
        places = torch.tensor([[5, 0], [3, 6], [1, 2]], device=DEVICE, dtype=torch.int32)
    used = torch.tensor(USED, device=DEVICE, dtype=torch.int32)
    if row["new"] == "none":
        used += 1  # an empty cache has no answer
    return q, *caches, *new, cosines, sines, slopes, used, places


def cached(row: Row, *values: Any) -> Any:
    """Output, logarithms of sums and caches of the package, on copies of the caches."""
    q, keys, items, k, v, cosines, sines, slopes, used, places = values
    keys, items = keys.clone(), items.clone()
    padding = torch.tensor(PADDING, device=DEVICE, dtype=torch.int32)
    out = flash_attn.flash_attn_with_kvcache(
        *(q, keys, items, k, v),
        rotary_cos=cosines,
        rotary_sin=sines,
        cache_seqlens=used,
        cache_batch_idx=places if row["cache"] == "by index" else None,
        cache_leftpad=padding if row["cache"] == "left padding" else None,
        block_table=places if row["cache"] == "pages" else None,
        **options_of(row, slopes),
        rotary_interleaved=row["new"] == "turned in pairs",
        num_splits=row["splits"],
        return_softmax_lse=has_sums(row),
    )
    return out, keys, items


def turned(row: Row, x: Any, cosines: Any, sines: Any, at: torch.Tensor) -> Any:
    """The first elements of x, of length, heads and width, turned as their places say."""
    cosine, sine = cosines[at][:, None], sines[at][:, None]
    part = x[..., :TURNED]
    if row["new"] == "turned in pairs":
        first, second = part[..., ::2], part[..., 1::2]
    else:
        first, second = part.chunk(2, -1)
    both = (first * cosine - second * sine, first * sine + second * cosine)
    found = torch.stack(both, -1).flatten(-2) if "pairs" in row["new"] else torch.cat(both, -1)
    return torch.cat((found, x[..., TURNED:]), -1)


def exact_cached(row: Row, *values: Any) -> Any:
    """The same in float64, one sequence after another."""
    q, keys, items, k, v, cosines, sines, slopes, used, places = in_float64(values)
    keys, items = keys.clone(), items.clone()
    outs, sums = [], []
    for number, before in enumerate(used.tolist()):
        place = number if places is None else places[number].long()
        whole, values_ = (one[place].reshape(-1, *one.shape[2:]) for one in (keys, items))
        query, count = q[number], before
        if k is not None:
            count += len(query)
            at = torch.arange(before, count, device=q.device)
            key = k[number]
            if cosines is not None:
                key = turned(row, key, cosines, sines, at)
                places_of = at if row["mask"] != "none" else torch.full_like(at, before)
                query = turned(row, query, cosines, sines, places_of)
            whole, values_ = whole.clone(), values_.clone()
            whole[before:count], values_[before:count] = key, v[number]
            keys[place] = whole.reshape(keys[place].shape)
            items[place] = values_.reshape(items[place].shape)
        start = PADDING[number] if row["cache"] == "left padding" else 0
        part = {**row, "what": "forward", "call": "plain"}
        part["option"] = "log of sums" if has_sums(row) else row["option"]
        found = exact(
            part,
            query[None],
            whole[None, start:count],
            values_[None, start:count],
            None if slopes is None else slopes[number],
        )
        out, total = found if has_sums(row) else (found, None)
        outs.append(out[0])
        sums.append(total)
    whole_out = torch.stack(outs)
    if has_sums(row):
        return (whole_out, torch.cat(sums)), keys, items
    return whole_out, keys, items


def cache_case(row: Row) -> Case:
    """Steps of generating text."""
    return case_of(
        row,
        cache_inputs,
        cached,
        exact_cached,
        label="cache",
        joined={"heads": "x"},
        limit=1.5 * rounding_of(row["dtype"]),
        units=SUMS_UNITS if has_sums(row) else UNITS["forward"],
        block_factor=16.0,
        block_reason=FEW_KEYS,
        same_bits=True,
        memory=1 << 28,
    )


GRIDS = ((AXES, exists, grid_case), (CACHES, fits, cache_case))


def huge_inputs(seed: int) -> Inputs:
    """Queries, keys, values of more than 2^31 elements, and no gradient."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    shape = (*HUGE, HEADS, WIDTH)
    q, k, v = (
        torch.empty(shape, device=DEVICE, dtype=torch.bfloat16).normal_(generator=generator)
        for _ in range(3)
    )
    return q, k, v, q


def exact_huge(*tensors: torch.Tensor) -> torch.Tensor:
    """The output in float32, one row of the batch after another, rounded."""
    out = torch.empty_like(tensors[0])
    for number, rows in enumerate(zip(*tensors[:3], strict=True)):
        q, k, v = (one.float().transpose(0, 1) for one in rows)
        found = (q / WIDTH**0.5 @ k.transpose(1, 2)).softmax(-1) @ v
        out[number] = found.transpose(0, 1)
    return out


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    huge = Case(
        name="forward bf16 of more than 2^31 elements",
        inputs=huge_inputs,
        call=partial(forward, kernel=attention, causal=False),
        expected=exact_huge,
        limit=ROUNDING,
        is_timed=False,
        is_quick=False,
        memory=48 << 30,
    )
    return [*attention_cases(attention), *cases_of(*GRIDS), huge]
