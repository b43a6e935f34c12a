"""deepspeed's fused optimizers against their formulas in float64."""

from __future__ import annotations

import functools
from typing import Any

import torch
from deepspeed.ops.adam import FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import FusedLion
from deepspeed.ops.op_builder import FusedAdamBuilder, FusedLionBuilder
from grid import case_of, cases_of, exactly, usual
from perf_case import Case

PACKAGE = "deepspeed"
FRAMEWORK = "torch"
UNTOUCHED = (
    "kernels that are compiled when they are used; the engine, ZeRO, several GPUs",
    "parameters of several types in a group, of which FusedAdam and FusedLion count steps twice",
    "gradients of zero: FusedLion takes them as negative; NaN, infinities",
    "a parameter and its gradient in different memory formats; more than 2^31 elements",
)
DEVICE = "cuda"
LARGE = 1 << 26  # parameters of the timed cases: 256 MiB in float32
RATE, DECAY = 0.02, 0.1
LIMIT = 1e-6  # float32, by __fdividef and sqrt.approx (--use_fast_math): 2 ulp each

Row = dict[str, Any]
Values = tuple[torch.Tensor, ...]

AXES: dict[str, tuple[Any, ...]] = {
    "name": ("adamw", "adam", "lion", "lamb"),
    "dtype": ("float32", "bfloat16", "float16"),  # of LAMB's gradients; its parameters are float32
    "sizes": ("a few", "one", "many", "blocks"),
    "layout": ("contiguous", "shifted", "channels last"),
    "steps": (1, 3),
    "betas": ((0.9, 0.99), (0.5, 0.9)),
    "decay": (0.0, DECAY),
    "eps": (1e-8, 1e-2),
    "bias_correction": (True, False),
    "bound": (10.0, 0.5),  # of LAMB's coefficient
    "root": ("outside", "inside"),  # eps of LAMB
    "stream": ("current", "second"),
}
# A launch takes 36 tensors (Lion 48) and 320 blocks of 65536 elements.
SIZES = {
    "a few": (1, 7, 512, 65537),
    "one": (4096,),
    "many": (*range(1, 101), 70000),
    "blocks": (321 * 65536 + 5, 9),
    "large": (LARGE,),
}


def exists(row: Row) -> bool:
    """Return False for LAMB's gradients in bfloat16, and where one has nothing to choose."""
    is_lamb = row["name"] == "lamb"
    if is_lamb and row["dtype"] == "bfloat16":
        return False
    if not is_lamb and (row["bound"], row["root"]) != (10.0, "outside"):
        return False
    return row["name"] != "lion" or (row["eps"] == 1e-8 and row["bias_correction"])


def place(row: Row, flat: torch.Tensor) -> torch.Tensor:
    """Return values in the memory format of a row."""
    if row["layout"] == "shifted":
        return torch.cat([flat[:1], flat])[1:]
    if row["layout"] == "channels last":
        channels = 3 if len(flat) % 3 == 0 else 1
        image = flat.view(1, channels, -1, 1)
        return image.contiguous(memory_format=torch.channels_last)
    return flat


def inputs(row: Row, seed: int) -> Values:
    """Return the parameters, then the gradients of each step.

    They aren't near zero, and so the sign of what Lion makes of them is the same in any precision.
    """
    draw = torch.Generator(DEVICE).manual_seed(seed)
    kind = getattr(torch, row["dtype"])
    of_parameters = torch.float32 if row["name"] == "lamb" else kind

    def values(size: int, kind: torch.dtype) -> torch.Tensor:
        even = torch.rand(size, device=DEVICE, generator=draw)
        sign = torch.randint(2, (size,), device=DEVICE, generator=draw)
        return place(row, ((even + 0.5) * (2 * sign - 1)).to(kind))

    kinds = (of_parameters, *[kind] * row["steps"])
    return tuple(values(size, kind) for kind in kinds for size in SIZES[row["sizes"]])


def parts(row: Row, values: Values) -> tuple[Values, list[Values]]:
    """Return the parameters, and the gradients of each step."""
    count = len(SIZES[row["sizes"]])
    pieces = [values[start : start + count] for start in range(0, len(values), count)]
    return pieces[0], pieces[1:]


def optimizer(row: Row, parameters: list[torch.Tensor]) -> Any:
    """Return the package's optimizer of parameters."""
    shared = {"lr": RATE, "betas": row["betas"], "weight_decay": row["decay"]}
    if row["name"] == "lion":
        return FusedLion(parameters, **shared)
    shared |= {"eps": row["eps"], "bias_correction": row["bias_correction"]}
    if row["name"] == "lamb":
        inside = row["root"] == "inside"
        return FusedLamb(parameters, max_coeff=row["bound"], eps_inside_sqrt=inside, **shared)
    return FusedAdam(parameters, adam_w_mode=row["name"] == "adamw", **shared)


def call(row: Row, *values: torch.Tensor) -> Values:
    """Return parameters and averages after some steps, LAMB's coefficients and its copies."""
    before, gradients = parts(row, values)
    parameters = [value.clone() for value in before]
    stepper = optimizer(row, parameters)
    copies: list[torch.Tensor] = []
    for of_step in gradients:
        if row["name"] == "lamb" and row["dtype"] == "float16":
            copies = [torch.empty_like(gradient) for gradient in of_step]
            stepper.step(grads=list(of_step), output_params=copies)
            continue
        for parameter, gradient in zip(parameters, of_step, strict=True):
            parameter.grad = gradient
        stepper.step()
    states = [stepper.state[parameter] for parameter in parameters]
    names = ("exp_avg",) if row["name"] == "lion" else ("exp_avg", "exp_avg_sq")
    averages = [joined([state[name] for state in states]) for name in names]
    more = [torch.cat(stepper.lamb_coeffs)] if row["name"] == "lamb" else []
    return (joined(parameters), *averages, *more, *([joined(copies)] if copies else []))


def joined(values: Any) -> torch.Tensor:
    """Return the elements of tensors one after the other."""
    return torch.cat([value.reshape(-1) for value in values])


def exact(row: Row, *values: torch.Tensor) -> Values:
    """Return the same by the optimizers' formulas."""
    before, gradients = parts(row, values)
    ends = [formula(row, *of_one) for of_one in zip(before, *gradients, strict=True)]
    names = {"lion": 2, "lamb": 4}.get(row["name"], 3)
    results = [joined(result) for result in list(zip(*ends, strict=True))[:names]]
    return (
        (*results, results[0])
        if (row["name"], row["dtype"]) == ("lamb", "float16")
        else (*results,)
    )


def formula(row: Row, value: torch.Tensor, *gradients: torch.Tensor) -> Values:
    """Return a parameter, its averages and LAMB's coefficient after some steps."""
    first, second = row["betas"]
    average, square = torch.zeros_like(value), torch.zeros_like(value)
    coefficient = value.new_ones(())
    for step, of_step in enumerate(gradients, start=1):
        gradient = of_step + row["decay"] * value if row["name"] == "adam" else of_step
        if row["name"] == "lion":
            sign = (first * average + (1 - first) * gradient).sign()
            average = second * average + (1 - second) * gradient
            value = value * (1 - RATE * row["decay"]) - RATE * sign
            continue
        average = first * average + (1 - first) * gradient
        square = second * square + (1 - second) * gradient**2
        scale, root = (1 - first**step, 1 - second**step) if row["bias_correction"] else (1, 1)
        if row["name"] == "lamb":
            eps = row["eps"]
            below = (square + eps).sqrt() if row["root"] == "inside" else square.sqrt() + eps
            update = average / below + row["decay"] * value
            coefficient = (value.norm() / update.norm()).clamp(0.01, row["bound"])
            value = value - RATE * root**0.5 / scale * coefficient * update
            continue
        update = average / scale / ((square / root).sqrt() + row["eps"])
        value = value - RATE * (update + row["decay"] * value * (row["name"] == "adamw"))
    return value, average, square, coefficient


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    eps = torch.finfo(getattr(torch, row["dtype"])).eps
    sums = 3 if row["name"] == "lamb" else 1  # norms of 21 million elements
    limit = sums * LIMIT if row["dtype"] == "float32" else row["steps"] * eps
    return case_of(
        row,
        inputs,
        call,
        functools.partial(exactly, exact),
        limit=limit,
        same_bits=True,
        memory=4 << 30,
    )


def large(name: str, seed: int) -> Values:
    """Return a gradient, a parameter, and its averages before the first step."""
    parameter, gradient = inputs(usual(AXES, name=name, sizes="large"), seed)
    averages = [torch.zeros_like(parameter) for _ in range(1 if name == "lion" else 2)]
    return (gradient, parameter, *averages)


def fused(name: str, gradient: torch.Tensor, *before: torch.Tensor) -> Values:
    """Return a parameter and its averages after a step of the package's function."""
    states = [value.clone() for value in before]
    lists = [[gradient], *([state] for state in states)]
    flag = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    shared = (2048 * 32, flag, lists, RATE, *AXES["betas"][0])
    if name == "lion":
        FusedLionBuilder().load().multi_tensor_lion(*shared, 1, DECAY)
    else:
        FusedAdamBuilder().load().multi_tensor_adam(*shared, AXES["eps"][0], 1, 1, 1, DECAY)
    return tuple(states)


def torch_fused(gradient: torch.Tensor, *before: torch.Tensor) -> Values:
    """Return the same by PyTorch's fused AdamW."""
    states = [value.clone() for value in before]
    first, second = AXES["betas"][0]
    torch._fused_adamw_(
        *([state] for state in (states[0], gradient, *states[1:])),
        [],
        [torch.ones((), device=DEVICE)],
        lr=RATE,
        beta1=first,
        beta2=second,
        weight_decay=DECAY,
        eps=AXES["eps"][0],
        amsgrad=False,
        maximize=False,
    )
    return tuple(states)


def expected_large(name: str, gradient: torch.Tensor, *before: torch.Tensor) -> Values:
    """Return what `fused` does, by its formula in float64."""
    row = usual(AXES, name=name, decay=DECAY)
    return formula(row, before[0].double(), gradient.double())[: len(before)]


def timed_case(name: str, moved: int) -> Case:
    """Return a case of memory's size; before a step, the states are copied."""
    is_adamw = name == "adamw"
    return Case(
        name=f"{name} fp32 {LARGE}",
        inputs=functools.partial(large, name),
        call=functools.partial(fused, name),
        expected=functools.partial(expected_large, name),
        limit=LIMIT,
        bytes=4 * moved * LARGE,
        rival=torch_fused if is_adamw else None,
        rival_name="torch fused AdamW" if is_adamw else "",
        same_bits=True,
        memory=10 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("adamw", 13),  # 6 of them for copies
        timed_case("lion", 9),
        *cases_of(*GRIDS),
    ]
