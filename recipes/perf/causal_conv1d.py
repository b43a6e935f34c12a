"""causal-conv1d against PyTorch's own convolution: forward, backward, and step by step."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from grid import (
    case_of,
    cases_of,
    exactly,
    gradients_of,
    random_of,
    rounding_of,
)
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "causal_conv1d"
FRAMEWORK = "torch"
OWN_SHARE = 0.5  # an H100 had 0.8 at least
UNTOUCHED = (
    "causal_conv1d_varlen_states, which is a Triton kernel",
    "final_states_out, states without gradients, and empty inputs",
    "negative seq_idx and conv_state_indices, which mark padding",
    "more than 2^32 elements",
    # Wrong upstream: the kernel reads too little of the chunk before (causal_conv1d_bwd.cu).
    "gradients with SiLU of rows of 1024 n + 1 to 7 elements (float32: 512 n + 1 to 3)",
)
# Without a bound of the index, https://github.com/Dao-AILab/causal-conv1d/pull/117 (open).
KNOWN_PROBLEMS = {
    "memcheck: causal_conv1d_channellast_fwd_kernel: Invalid __global__ read of size 4 bytes": (
        "upstream reads seq_idx beyond its end"
    ),
}
DEVICE = "cuda"

WIDTH = 4  # taps, as Mamba uses
SMALL = (2, 1024, 2048)  # batch, channels, length
LARGE = (8, 4096, 8192)  # 512 MiB of bf16: many times the L2, so that memory is what is measured
HUGE = (9, 4096, 65536)  # more than 2^31 elements
STEPS = 16  # of the step by step form
# One rounding to bf16, whose significand has 8 bits, is wrong by up to 3.9e-3 of the value.
ROUNDING = 5e-3

Inputs = tuple[torch.Tensor, ...]


def inputs(shape: tuple[int, int, int], seed: int) -> Inputs:
    """Random input, weight, bias and gradient of the output, in bf16."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    shapes = (shape, (shape[1], WIDTH), (shape[1],), shape)
    return tuple(
        torch.randn(one, device=DEVICE, dtype=torch.bfloat16, generator=generator) for one in shapes
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


# The grid: everything that the package offers, in pairs, against float64.

AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "backward"),
    "x": ("bfloat16", "float16", "float32"),
    "weight": ("float32", "bfloat16", "float16"),
    "width": (4, 3, 2),
    "layout": ("rows", "channels last", "slice", "every second"),
    "length": (1024, 1, 7, 129, 2051, 2059),
    "size": ((2, 64), (1, 8), (3, 200)),  # batch and channels, of which 8 are read at once
    "bias": (True, False),
    "activation": ("silu", None),
    "values": ("normal", "large", "special", "zeros"),
    "option": ("none", "seq_idx", "states"),
    "stream": ("current", "second"),
}
# Single precision with fast exponentials; gradients are sums over batch and length.
UNITS = {"forward": 24.0, "backward": 96.0, "16 bits": 1.0}
Row = dict[str, Any]


def exists(row: Row) -> bool:
    """States and sequence numbers need channels last; gradients of NaN are NaN everywhere."""
    shortest = {"none": 0, "seq_idx": 1, "states": row["width"]}[row["option"]]
    is_last = row["layout"] == "channels last"
    has_option = row["option"] == "none" or (is_last and row["length"] > shortest)
    if row["what"] == "forward":
        return has_option
    is_wrong_upstream = row["length"] == 2051 and row["activation"] and not is_last
    return has_option and row["values"] != "special" and not is_wrong_upstream


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in memory as the row says."""
    if layout == "channels last":
        return values.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "slice":  # of a projection that holds more channels
        more = torch.cat([values, values], dim=1)
        return more[:, : values.shape[1]]
    if layout == "every second":
        return values.repeat_interleave(2, dim=2)[..., ::2]
    return values


def grid_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Input, weight, bias, sequence numbers, initial states, gradients of output and states."""
    batch, channels = row["size"]
    weight_kind = row["weight"]
    random = functools.partial(random_of(seed, DEVICE), dtype=row["x"])

    x = random(batch, channels, row["length"])
    if row["values"] == "large":
        x *= 100 if "float16" in {row["x"], row["weight"]} else 1e30
    if row["values"] == "zeros":
        x.zero_()
    if row["values"] == "special":
        for place, value in ((0, torch.nan), (1, torch.inf), (2, -torch.inf)):
            x[-1, place, row["length"] // 2] = value
    weight = random(channels, row["width"], dtype=weight_kind)
    bias = random(channels, dtype=weight_kind) if row["bias"] else None
    numbers = states = later = None
    if row["option"] == "seq_idx":
        cut = torch.arange(row["length"], device=DEVICE) * 3 // max(1, row["length"])
        numbers = cut.to(torch.int32).repeat(batch, 1).contiguous()
    if row["option"] == "states":
        shape = (batch, channels, row["width"] - 1)
        states, later = (laid_out(random(*shape), "channels last") for _ in range(2))
    gradient = laid_out(random(batch, channels, row["length"]), row["layout"])
    return laid_out(x, row["layout"]), weight, bias, numbers, states, gradient, later


def package(row: Row, *values: Any) -> Any:
    """The package's convolution, with final states where there are initial ones."""
    x, weight, bias, numbers, states = values
    return causal_conv1d_fn(
        x,
        weight,
        bias,
        seq_idx=numbers,
        initial_states=states,
        return_final_states=states is not None,
        activation=row["activation"],
    )


def exact(row: Row, *values: Any) -> Any:
    """The same by sums of products."""
    x, weight, bias, numbers, states = values
    before = x.new_zeros(*x.shape[:2], row["width"] - 1) if states is None else states
    whole = torch.cat([before, x], dim=-1)
    out = x.new_zeros(x.shape) if bias is None else bias[:, None].expand(x.shape)
    for tap in range(row["width"]):
        part = whole[..., tap : tap + x.shape[-1]]
        if numbers is not None:
            first = -torch.ones_like(numbers[:, : row["width"] - 1])
            of_part = torch.cat([first, numbers], dim=-1)[:, tap : tap + x.shape[-1]]
            part = torch.where((of_part == numbers)[:, None], part, 0)
        out = out + weight[:, tap, None] * part
    out = torch.nn.functional.silu(out) if row["activation"] else out
    return out if states is None else (out, whole[..., -(row["width"] - 1) :])


def outputs(function: Callable[..., Any], row: Row, *values: Any) -> Any:
    """The output; for `backward` gradients of all floating-point inputs."""
    *arguments, gradient, later = values
    if row["what"] == "forward":
        return function(row, *arguments)
    ahead = gradient if later is None else (gradient, later)
    return gradients_of(functools.partial(function, row), arguments, ahead)


CALL = functools.partial(outputs, package)
EXPECTED = functools.partial(exactly, functools.partial(outputs, exact))


def grid_case(row: Row) -> Case:
    """Forward or gradients."""
    is_forward = row["what"] == "forward"
    # SiLU of large numbers has the gradient 0 or 1: few different products, rounded alike.
    is_step = not is_forward and row["activation"] and row["values"] == "large"
    kinds = {row["x"]} if is_forward else {row["x"], row["weight"]}
    return case_of(
        row,
        grid_inputs,
        CALL,
        EXPECTED,
        joined={"size": "x"},
        limit=rounding_of(*kinds),
        units=UNITS[row["what"]] if "float32" in kinds else UNITS["16 bits"],
        is_special=row["values"] == "special",
        is_uniform=bool(row["values"] == "zeros" or is_step),
        same_bits=is_forward,  # gradients of weights are added by atomics
        memory=1 << 28,
    )


UPDATES: dict[str, tuple[Any, ...]] = {
    "x": ("bfloat16", "float16", "float32"),
    "weight": ("float32", "bfloat16", "float16"),
    "width": (4, 3, 2),
    "steps": (0, 1, 3),  # 0: without the axis
    "state": (3, 4, 9),  # elements that are kept
    "bias": (True, False),
    "activation": ("silu", None),
    "kept": ("moved", "circular"),
    "states": ("in order", "by index"),
    "channels": (64, 1, 200),
}


def update_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Input, states, weight, bias, numbers of steps so far, places of the states."""
    batch, entries = 3, 5
    weight_kind = row["weight"]
    random = functools.partial(random_of(seed, DEVICE), dtype=row["x"])

    steps = (row["steps"],) if row["steps"] else ()
    by_index = row["states"] == "by index"
    return (
        random(batch, row["channels"], *steps),
        random(entries if by_index else batch, row["channels"], row["state"]),
        random(row["channels"], row["width"], dtype=weight_kind),
        random(row["channels"], dtype=weight_kind) if row["bias"] else None,
        torch.tensor([0, 2, 11], device=DEVICE, dtype=torch.int32)
        if row["kept"] == "circular"
        else None,
        torch.tensor([4, 0, 2], device=DEVICE, dtype=torch.int32) if by_index else None,
    )


def updated(row: Row, *values: Any) -> Inputs:
    """Output and states of the package, on a copy of the states."""
    x, state, weight, bias, steps, places = values
    state = state.clone()
    out = causal_conv1d_update(
        x,
        state,
        weight,
        bias,
        activation=row["activation"],
        cache_seqlens=steps,
        conv_state_indices=places,
    )
    return out, state


def exact_updated(row: Row, *values: Any) -> Inputs:
    """The same in float64."""
    x, state, weight, bias, steps, places = values
    x, state, weight = x.double(), state.double(), weight.double()
    x = x if row["steps"] else x[..., None]
    of = slice(None) if places is None else places.long()
    last, taps = state[of], row["width"] - 1
    if steps is None:
        before, after = last[..., -taps:], torch.cat([last, x], dim=-1)[..., -row["state"] :]
    else:
        at = torch.arange(-taps, x.shape[-1], device=x.device) + steps[:, None].long()
        at = at.remainder(row["state"])[:, None].expand(-1, x.shape[1], -1)
        before = last.gather(2, at[..., :taps])
        after = last.scatter(2, at[..., taps:], x)
    whole = torch.cat([before, x], dim=-1)
    out = sum(weight[:, tap, None] * whole[..., tap : tap + x.shape[-1]] for tap in range(taps + 1))
    out = out if bias is None else out + bias.double()[:, None]
    out = torch.nn.functional.silu(out) if row["activation"] else out
    state[of] = after
    return out if row["steps"] else out[..., 0], state


def has_room(row: Row) -> bool:
    """A state has at least the elements that the taps reach back to."""
    return bool(row["state"] >= row["width"] - 1)


def update_case(row: Row) -> Case:
    """Single steps, as in generating text."""
    return case_of(
        row,
        update_inputs,
        updated,
        exact_updated,
        label="update",
        limit=rounding_of(row["x"]),
        units=UNITS["forward"] if row["x"] == "float32" else UNITS["16 bits"],
        same_bits=True,
        memory=1 << 24,
    )


GRIDS = ((AXES, exists, grid_case), (UPDATES, has_room, update_case))


def huge_inputs(seed: int) -> Inputs:
    """Input, weight and bias of more than 2^31 elements, and no gradient."""
    x, weight, bias, _ = inputs((*HUGE[:2], 1), seed)
    generator = torch.Generator(DEVICE).manual_seed(seed)
    x = torch.empty(HUGE, device=DEVICE, dtype=torch.bfloat16).normal_(generator=generator)
    return x, weight, bias, bias


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure; the grid."""
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
        *cases_of(*GRIDS),
        Case(
            name="forward bf16 of more than 2^31 elements",
            inputs=huge_inputs,
            call=forward,
            expected=exact_forward,
            limit=ROUNDING,
            is_timed=False,
            is_quick=False,
            memory=36 << 30,
        ),
    ]
