"""mamba-ssm's selective scan against its recurrence: forward and backward, in Mamba's form."""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from grid import (
    case_of,
    cases_of,
    gradients_of,
    in_float64,
    random_of,
    rounding_of,
)
from perf_case import Case
from torch.nn.functional import silu, softplus

if TYPE_CHECKING:
    from collections.abc import Sequence

# The wheel's extension. `import mamba_ssm` needs transformers, tilelang and others that are no
# part of the scan; the calls are those of its selective_scan_interface.py.
PACKAGE = "selective_scan_cuda"
FRAMEWORK = "torch"
OWN_SHARE = 0.5  # an H100 had 0.86 at least
UNTOUCHED = (
    "the scan of Mamba-2, layer norms, state updates and Mamba-3, which Triton or TileLang compile",
    "mamba_inner_fn and the modules, which call this scan with other packages",
    "sequences of no steps, more than 2^32 elements",
    "gradients of the last state, which upstream leaves out",
)
DEVICE = "cuda"

STATE = 16  # of each channel, as Mamba uses
SMALL = ((2, 64, 333), (1, 32, 2500))  # batch, channels, length; the kernel takes 2048 at a time
SHORT = (8, 2048, 64)  # measured beside PyTorch, which goes step by step
LARGE = (8, 2048, 2048)
HUGE = (1025, 1024, 2048)  # more than 2^31 elements
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
    generator = torch.Generator(DEVICE).manual_seed(seed)
    normal = partial(torch.randn, device=DEVICE, generator=generator)
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


# The grid: everything that the extension offers, in pairs, against float64.

Row = dict[str, Any]
AXES: dict[str, tuple[Any, ...]] = {
    "what": ("forward", "backward"),
    "dtype": ("bfloat16", "float16", "float32"),
    "weight": ("float32", "complex64"),
    "state": (16, 1, 256),
    "length": (333, 1, 7, 128, 1024, 2051),  # kernels end at 128, 256, 512, 1024 and 2048
    "size": ((2, 8), (1, 12)),  # batch and channels
    "B": ("groups", "one group", "fixed"),
    "C": ("groups", "one group", "fixed"),
    "D": (True, False),
    "z": (True, False),
    "bias": (True, False),
    "softplus": (True, False),
    "layout": ("rows", "slice", "channels first"),
    "values": ("normal", "large", "special", "zeros"),
    "stream": ("current", "second"),
}
GROUPS = {"groups": 2, "one group": 1}
# Single precision with fast exponentials; gradients are sums over batch and length. In 16 bits
# backward reads what forward has rounded.
UNITS = {"forward": 64.0, "backward": 256.0, "16 bits": 3.0}
COMPLEX_FACTOR = 8  # fast sines: an H200 had 242 units forward, all shifted alike by 2.3e-6


def exists(row: Row) -> bool:
    """Steps of both have the same groups (one `n_groups`); gradients of NaN are NaN everywhere."""
    kinds = {row["B"], row["C"]} - {"fixed"}
    if len(kinds) > 1 or (row["B"], row["C"]) == ("fixed", "groups"):  # `n_groups` is B's, or 1
        return False
    is_large = row["state"] * row["length"] > 1 << 17  # the reference keeps each state of each step
    return row["what"] == "forward" or (row["values"] != "special" and not is_large)


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in memory as the row says."""
    if layout == "slice":  # of a projection that holds more
        return torch.cat([values, values], dim=1)[:, : values.shape[1]]
    if layout == "channels first":  # as Mamba's own code makes delta
        return values.transpose(0, 1).contiguous().transpose(0, 1)
    return values


def grid_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Random u, delta, A, B, C, D, z, bias of delta, and gradient of the output."""
    draw = random_of(seed, DEVICE)
    whole = partial(draw, dtype=row["dtype"])
    (batch, channels), length, states = row["size"], row["length"], row["state"]
    u, z, ahead = (whole(batch, channels, length) for _ in range(3))
    delta = draw(batch, channels, length)
    delta = (delta if row["softplus"] else 0.1 + 0.3 * delta.abs()).to(u.dtype)
    if row["values"] == "large":
        u *= 30 if row["dtype"] == "float16" else 1e20
    if row["values"] == "zeros":
        u.zero_()
    if row["values"] == "special":
        u[-1, 0, length // 2] = torch.nan
        z[0, 1, 0], z[0, 2, -1] = torch.inf, -torch.inf
    is_complex = row["weight"] == "complex64"

    def weights(kind: str) -> torch.Tensor:
        if kind == "fixed":
            return draw(channels, states, dtype=row["weight"]) + (
                1j * draw(channels, states) if is_complex else 0
            )
        steps = 2 * length if is_complex else length  # real and imaginary parts alternate
        return laid_out(whole(batch, GROUPS[kind], states, steps), row["layout"])

    a = -0.1 - draw(channels, states).abs()
    if is_complex:
        a = a + 1j * draw(channels, states)
    bias = draw(channels) - 1 if row["softplus"] else 0.1 * draw(channels).abs()
    return (
        *(laid_out(one, row["layout"]) for one in (u, delta)),
        *(a, weights(row["B"]), weights(row["C"])),
        draw(channels) if row["D"] else None,
        laid_out(z, row["layout"]) if row["z"] else None,
        bias if row["bias"] else None,
        laid_out(ahead, row["layout"]),
    )


def package(row: Row, *values: Any) -> Any:
    """Output and last state, or gradients in the order of the extension, by the package."""
    *given, ahead = values
    out, states, *gated = SCAN.fwd(*given, row["softplus"])
    if row["what"] == "forward":
        last = states[:, :, -1, 1::2]
        # The kernel multiplies by a fixed B when it reads the state.
        last = last * given[3] if row["B"] == "fixed" else last
        return compared(row, (gated[0] if row["z"] else out, last))
    # None: it makes the memory of z's gradient; True: the output is computed once more.
    found = SCAN.bwd(*given, ahead, states, out, None, row["softplus"], row["z"])
    return compared(row, found)


def compared(row: Row, outputs: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Leave out of 16-bit rows what is in float32: their units are of 16 bits.

    Those are the last state and the gradients of what has no steps.
    """
    if row["dtype"] == "float32":
        return list(outputs)
    of_steps = {0}
    if row["what"] == "backward":  # u, delta, B, C, z, and the output once more
        of_steps = {0, 1, 7, 8, *(at for at, name in ((3, "B"), (4, "C")) if row[name] != "fixed")}
    return [one for number, one in enumerate(outputs) if number in of_steps]


def scanned(kept: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    """States of `state = kept * state + added` along the last axis: by doubling, not one by one."""
    reach = 1
    while reach < kept.shape[-1]:
        before = torch.nn.functional.pad(added[..., :-reach], (reach, 0))
        added = added + kept * before
        kept = kept * torch.nn.functional.pad(kept[..., :-reach], (reach, 0), value=1)
        reach *= 2
    return added


def by_step(row: Row, weights: torch.Tensor, channels: int, length: int) -> torch.Tensor:
    """B or C of each batch, channel, state and step."""
    if weights.dim() == 2:
        return weights[None, ..., None]
    if row["weight"] == "complex64":
        weights = torch.view_as_complex(weights.reshape(*weights.shape[:3], length, 2))
    return weights.repeat_interleave(channels // weights.shape[1], dim=1)


def exact(row: Row, *values: Any) -> Any:
    """Output and last state by the recurrence, of values in float64."""
    u, delta, a, b, c, d, z, bias = values
    delta = delta if bias is None else delta + bias[:, None]
    delta = softplus(delta) if row["softplus"] else delta
    b, c = (by_step(row, one, *u.shape[1:]) for one in (b, c))
    kept = torch.exp(delta[:, :, None] * a[..., None])
    states = scanned(kept, (delta * u)[:, :, None] * b)
    out = (states * c).sum(2)
    out = 2 * out.real if out.is_complex() else out
    out = out if d is None else out + d[:, None] * u
    out = out if z is None else out * silu(z)
    return out, states[..., -1]


def expected(row: Row, *values: Any) -> Any:
    """Output and last state, or gradients, in float64."""
    *given, ahead = in_float64(values)
    if row["what"] == "forward":
        return compared(row, exact(row, *given))
    found = iter(gradients_of(lambda *leaves: exact(row, *leaves)[0], given, ahead))
    *five, of_d, of_z, of_bias = (None if value is None else next(found) for value in given)
    again = exact(row, *given)[0] if row["z"] else None
    return compared(row, (*five, of_d, of_bias, of_z, again))


def grid_case(row: Row) -> Case:
    """Forward or gradients."""
    is_forward = row["what"] == "forward"
    is_complex = row["weight"] == "complex64"
    units = UNITS[row["what"]] * (COMPLEX_FACTOR if is_complex else 1)
    return case_of(
        row,
        grid_inputs,
        package,
        expected,
        joined={"size": "x"},
        limit=(1 if is_forward else 2) * rounding_of(row["dtype"]),
        units=units if row["dtype"] == "float32" else UNITS["16 bits"],
        is_special=row["values"] == "special",
        is_uniform=row["values"] == "zeros" or is_complex,
        same_bits=is_forward,  # gradients of A, B, C, D and the bias are added by atomics
        memory=1 << 29,
    )


GRIDS = ((AXES, exists, grid_case),)


def huge_inputs(seed: int) -> tuple[Any, ...]:
    """More than 2^31 elements of u and delta, each channel with one state; no more options."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    draw = random_of(seed, DEVICE)
    batch, channels, length = HUGE
    u, delta = (
        torch.empty(HUGE, device=DEVICE, dtype=torch.bfloat16).normal_(generator=generator)
        for _ in range(2)
    )
    steps = [draw(batch, 1, 1, length, dtype="bfloat16") for _ in range(2)]
    return u, delta, -0.1 - draw(channels, 1).abs(), *steps, None, None, None, None


def huge(*values: Any) -> torch.Tensor:
    """The package's output."""
    return SCAN.fwd(*values[:8], True)[0]


def exact_huge(*values: Any) -> torch.Tensor:
    """The recurrence in float64, one row of the batch after another, rounded."""
    u, delta, a, b, c, *_ = values
    row = {"softplus": True, "weight": "float32"}
    out = torch.empty_like(u)
    for number in range(len(u)):
        part = [one[number : number + 1].double() for one in (u, delta, b, c)]
        out[number] = exact(row, *part[:2], a.double(), *part[2:], None, None, None)[0][0]
    return out


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
        *cases_of(*GRIDS),
        Case(
            name="forward bf16 of more than 2^31 elements",
            inputs=huge_inputs,
            call=huge,
            expected=exact_huge,
            limit=LIMITS[torch.bfloat16],
            is_timed=False,
            is_quick=False,
            memory=32 << 30,
        ),
    ]
