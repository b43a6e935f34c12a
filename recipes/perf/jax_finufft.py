"""jax-finufft's transforms of types 1, 2 and 3 against a direct sum, and against the CPU's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from grid import case_of, cases_of
from jax import numpy as jnp
from jax_finufft import nufft1, nufft2, nufft3
from jax_finufft.options import Opts
from perf_case import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PACKAGE = "jax_finufft"
FRAMEWORK = "jax"
OWN_SHARE = 0.5  # an H100 had 0.74 at least
UNTOUCHED = (
    "options that only the code for the CPU reads, gpu_upsampfac and gpu_debug",
    "forward-mode and second gradients, options for each type or direction",
    "gradients of complex64 by places, which fail upstream while 64-bit types are on",
    "no points, more than 2^31 points or modes",
    "a second stream: JAX chooses the streams",
)

TYPES = (1, 2, 3)
SMALL = ((500,), (40, 36), (12, 14, 10))  # modes in 1, 2 and 3 dimensions
SMALL_POINTS = 1000  # what a direct sum can do
LARGE, LARGE_POINTS = (1024, 1024), 4_000_000
# Of the CPU's transform in double precision that large ones are compared with.
CPU_EPS = 1e-3  # times the tolerance

jax.config.update("jax_enable_x64", True)


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How exact a transform is asked to be.

    Attributes:
        real, complex: the data's types.
        eps: the tolerance that FINUFFT is given.
        limit: of the relative error; FINUFFT's own rule is about ten times its tolerance.
        large_limit: likewise. Float32 holds a place to 6e-8 of its period; in 512 periods, half of
            the large transform's modes, that is 2e-4 of a radian.
    """

    real: str
    complex: str
    eps: float
    limit: float
    large_limit: float


SINGLE = Precision(real="float32", complex="complex64", eps=1e-5, limit=1e-4, large_limit=1e-3)
DOUBLE = Precision(real="float64", complex="complex128", eps=1e-9, limit=1e-8, large_limit=1e-8)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A transform without its data.

    Attributes:
        kind: 1, from points to modes; 2, from modes to points; 3, from points to points.
        modes: how many in each dimension.
        points: how many.
        how: its precision.
    """

    kind: int
    modes: tuple[int, ...]
    points: int
    how: Precision


def inputs(problem: Problem, seed: int) -> tuple[jax.Array, ...]:
    """Random strengths (a type 2 has them of modes); places from -pi to pi; frequencies."""
    keys = jax.random.split(jax.random.key(seed), 1 + 2 * len(problem.modes))
    even = partial(jax.random.uniform, shape=(problem.points,), dtype=problem.how.real)
    shape = problem.modes if problem.kind == 2 else (problem.points,)
    values = jax.random.normal(keys[0], shape, problem.how.complex)
    places = [even(key, minval=-np.pi, maxval=np.pi) for key in keys[1::2]]
    if problem.kind != 3:
        return values, *places
    spans = [(key, modes / 2) for key, modes in zip(keys[2::2], problem.modes, strict=True)]
    return values, *places, *(even(key, minval=-span, maxval=span) for key, span in spans)


def transform(*arrays: jax.Array, problem: Problem, eps: float) -> jax.Array:
    """The package's transform, on the device that has the arrays."""
    calls = {1: partial(nufft1, problem.modes), 2: nufft2, 3: nufft3}
    found: jax.Array = calls[problem.kind](*arrays, iflag=1, eps=eps)
    return found


def on_cpu(*arrays: jax.Array, problem: Problem, eps: float) -> jax.Array:
    """The package's transform by its code for the CPU."""
    there = jax.device_put(arrays, jax.devices("cpu")[0])
    return transform(*there, problem=problem, eps=eps)


def exact_on_cpu(*arrays: jax.Array, problem: Problem) -> jax.Array:
    """The same by the CPU's code in double precision, for what is too large for a direct sum."""
    kinds = ("complex128", *["float64"] * (len(arrays) - 1))
    exact = (array.astype(kind) for array, kind in zip(arrays, kinds, strict=True))
    return jax.device_put(
        on_cpu(*exact, problem=problem, eps=CPU_EPS * problem.how.eps), arrays[0].device
    )


def direct_sum(*arrays: jax.Array, problem: Problem) -> jax.Array:
    """The transform by its definition, in double precision."""
    values, *axes = (np.asarray(array) for array in arrays)
    places = np.stack(axes[: len(problem.modes)]).astype("float64")
    ranges = (np.arange(-(modes // 2), (modes + 1) // 2) for modes in problem.modes)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*ranges, indexing="ij")])
    frequencies = np.stack(axes[len(problem.modes) :] or list(grid)).astype("float64")
    phases = np.exp(1j * frequencies.T @ places)
    strengths = values.astype("complex128").ravel()
    if problem.kind == 2:
        return jnp.asarray(phases.T @ strengths)
    found = phases @ strengths
    return jnp.asarray(found.reshape(problem.modes) if problem.kind == 1 else found)


def small_case(kind: int, modes: tuple[int, ...], how: Precision) -> Case:
    """One to check."""
    problem = Problem(kind=kind, modes=modes, points=SMALL_POINTS, how=how)
    return Case(
        name=f"type {kind}, {len(modes)}-D {how.complex}, eps {how.eps:g}",
        inputs=partial(inputs, problem),
        call=partial(transform, problem=problem, eps=how.eps),
        expected=partial(direct_sum, problem=problem),
        limit=how.limit,
        is_timed=False,
        memory=1 << 28,
    )


def large_case(kind: int, how: Precision) -> Case:
    """One to check and to measure."""
    problem = Problem(kind=kind, modes=LARGE, points=LARGE_POINTS, how=how)
    real, number = np.dtype(how.real).itemsize, np.dtype(how.complex).itemsize
    # Places, a type 3's frequencies, the points' strengths, and modes or a type 3's results.
    moved = LARGE_POINTS * (real * len(LARGE) + number)
    if kind == 3:
        moved *= 2
    else:
        moved += number * LARGE[0] * LARGE[1]
    size = "x".join(map(str, LARGE))
    rival = partial(on_cpu, problem=problem, eps=how.eps)
    return Case(
        name=f"type {kind}, {LARGE_POINTS} points, {size} modes {how.complex}, eps {how.eps:g}",
        inputs=partial(inputs, problem),
        call=partial(transform, problem=problem, eps=how.eps),
        expected=partial(exact_on_cpu, problem=problem),
        limit=how.large_limit,
        bytes=moved,
        # The others take the CPU too long to be called again and again.
        rival=rival if how == SINGLE and kind != 3 else None,
        rival_name="jax-finufft on the CPU, arrays copied to it",
        is_quick=(kind, how) == (1, SINGLE),
        memory=4 << 30,
    )


# The grid: what the three functions offer, in pairs, against a direct sum in double precision.

Row = dict[str, Any]
AXES: dict[str, tuple[Any, ...]] = {
    "kind": (1, 2, 3),
    "what": ("transform", "gradients"),
    "precision": ("single", "double"),
    "eps": ("usual", "coarse"),
    "modes": ((50,), (51,), (12, 15), (6, 9, 8), (2, 2)),
    "points": (200, 1, 33),
    "sign": (1, -1),
    "batch": ("none", "strengths", "places too", "pairs", "mapped places"),
    "places": ("one period", "three periods"),
    "options": ("none", "modeord", "driven", "shared", "unsorted", "exact kernel", "one by one"),
    "values": ("normal", "large", "special", "zeros"),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "modeord": {"modeord": True},
    "driven": {"gpu_method": 1},
    "shared": {"gpu_method": 2},
    # It is an option of that method; with the other one upstream writes to memory it hasn't got.
    "unsorted": {"gpu_sort": False, "gpu_method": 1},
    "exact kernel": {"gpu_kerevalmeth": False},
    "one by one": {"gpu_maxbatchsize": 1},
}
LEADING = {"none": (), "strengths": (3,), "places too": (2,), "pairs": (2, 3)}
COARSE = 1e-3
SHARES = {"single": SINGLE, "double": DOUBLE}


def exists(row: Row) -> bool:
    """Leave out what the package doesn't take, and gradients of NaN, which are NaN everywhere."""
    if row["options"] == "modeord" and row["kind"] == 3:
        return False  # it has no modes
    if row["options"] == "shared":
        # Its tiles need more shared memory than the default limit in three dimensions. Gradients
        # are of type 2, which hasn't got it in one dimension.
        sizes = (1, 2) if row["what"] == "transform" else (2,)
        return row["kind"] == 1 and len(row["modes"]) in sizes and row["values"] != "special"
    return row["values"] != "special" or row["what"] == "transform"


def precision_of(row: Row) -> Precision:
    """The types and the tolerance of a row."""
    how = SHARES[row["precision"]]
    if row["eps"] == "coarse":
        return replace(how, eps=COARSE, limit=10 * COARSE)
    return how


def grid_inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Strengths, places, frequencies, and the gradient of the result."""
    how, modes, points = precision_of(row), row["modes"], row["points"]
    keys = iter(jax.random.split(jax.random.key(seed), 9))
    leading = LEADING.get(row["batch"], (3,))
    of_places = {"pairs": leading[:1], "strengths": ()}.get(row["batch"], leading)
    few = points if row["kind"] != 3 else max(1, points - 3)
    shapes = {1: ((points,), modes), 2: (modes, (points,)), 3: ((points,), (few,))}
    first, last = shapes[row["kind"]]
    values = jax.random.normal(next(keys), (*leading, *first), how.complex)
    if row["values"] == "large":
        values *= 1e30
    if row["values"] == "zeros":
        values *= 0
    if row["values"] == "special":
        values = values.at[(0,) * values.ndim].set(jnp.nan)
    far = np.pi if row["places"] == "one period" else 3 * np.pi

    def even(shape: tuple[int, ...], most: float) -> jax.Array:
        return jax.random.uniform(next(keys), shape, how.real, minval=-most, maxval=most)

    places = [even((*of_places, points), far) for _ in modes]
    others = [even((*of_places, few), n / 2) for n in modes] if row["kind"] == 3 else []
    ahead = jax.random.normal(next(keys), (*leading, *last), how.complex)
    return values, *places, *others, ahead


def package(row: Row, *arrays: jax.Array) -> jax.Array:
    """The package's transform."""
    given = OPTIONS.get(row["options"])
    more = {"iflag": row["sign"], "eps": precision_of(row).eps}
    more["opts"] = Opts(**given) if given else None
    calls = {1: partial(nufft1, row["modes"], **more), 2: partial(nufft2, **more)}
    return mapped(row, calls.get(row["kind"], partial(nufft3, **more)), arrays)


def mapped(row: Row, call: Callable[..., Any], arrays: Sequence[jax.Array]) -> Any:
    """A call, or one for each of the first axis."""
    return jax.vmap(call)(*arrays) if row["batch"] == "mapped places" else call(*arrays)


def exact(row: Row, *arrays: Any) -> Any:
    """The definition, or its gradients, for each of the leading axes."""
    values, *axes, ahead = arrays
    leading = axes[0].shape[:-1]
    groups = int(np.prod(leading, dtype=int))  # of strengths that share their places
    size = {2: row["modes"]}.get(row["kind"], values.shape[-1:])
    strengths = values.reshape(groups, -1, int(np.prod(size)))
    later = ahead.reshape(groups, strengths.shape[1], -1)
    split = [axis.reshape(groups, -1) for axis in axes]
    found = [
        exact_group(row, strengths[group], later[group], *(axis[group] for axis in split))
        for group in range(groups)
    ]
    outs, to_values, *to_axes = (np.stack(parts) for parts in zip(*found, strict=True))
    if row["what"] == "transform":
        return outs.reshape(ahead.shape)
    gradients = (to_values, *to_axes)[: learned_of(row, len(arrays) - 1)]
    return tuple(one.reshape(of.shape) for one, of in zip(gradients, arrays, strict=False))


def exact_group(row: Row, strengths: Any, later: Any, *axes: Any) -> tuple[Any, ...]:
    """Results of some strengths at the same places, and gradients as JAX defines them.

    A gradient of a linear function is its transpose, not conjugated; of real numbers, the real
    part of that.
    """
    count, factor = len(row["modes"]), 1j * row["sign"]
    places = np.stack(axes[:count])
    frequencies = np.stack(axes[count:]) if row["kind"] == 3 else frequencies_of(row)
    phases = np.exp(factor * (frequencies.T @ places))  # of frequencies and places
    if row["kind"] == 2:
        to_places = [factor * later * (strengths * one @ phases) for one in frequencies]
        return strengths @ phases, later @ phases.T, *(one.sum(0).real for one in to_places)
    to_axes = [factor * strengths * (later * one @ phases) for one in frequencies]
    if row["kind"] == 3:
        to_axes += [factor * later * (strengths * one @ phases.T) for one in places]
    return strengths @ phases.T, later @ phases, *(one.sum(0).real for one in to_axes)


def frequencies_of(row: Row) -> Any:
    """Of each mode, in the order of memory."""
    ranges = [np.arange(-(n // 2), (n + 1) // 2) for n in row["modes"]]
    if row["options"] == "modeord":  # from 0 on, then the negative ones
        ranges = [np.roll(one, -(n // 2)) for one, n in zip(ranges, row["modes"], strict=True)]
    grid = [one.ravel() for one in np.meshgrid(*ranges, indexing="ij")]
    return np.stack(grid).astype("float64")


def outputs(row: Row, *arrays: jax.Array) -> Any:
    """The package's result, or gradients of strengths, places and frequencies."""
    *given, ahead = arrays
    if row["what"] == "transform":
        return package(row, *given)
    count = learned_of(row, len(given))
    _, back = jax.vjp(lambda *some: package(row, *some, *given[count:]), *given[:count])
    return back(ahead)


def learned_of(row: Row, count: int) -> int:
    """How many of the inputs get a gradient.

    Frequencies of modes are in double precision upstream (`factor` in ops.py), and so are products
    with them: of complex64, places get none while 64-bit types are on.
    """
    return 1 if row["precision"] == "single" and row["kind"] != 3 else count


@cache
def compiled(row: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    """The package's part of a row, compiled once."""
    found: Callable[..., Any] = jax.jit(partial(outputs, dict(row)))
    return found


def called(row: Row, *arrays: jax.Array) -> Any:
    """The package."""
    return compiled(tuple(row.items()))(*arrays)


def expected(row: Row, *arrays: jax.Array) -> Any:
    """In double precision, by numpy: nothing has to be compiled."""
    given = [np.asarray(one) for one in arrays]
    wide = [one.astype("complex128" if np.iscomplexobj(one) else "float64") for one in given]
    return exact(row, *wide)


def grid_case(row: Row) -> Case:
    """A transform, or its gradients."""
    how = precision_of(row)
    # Float32 holds a place of three periods three times as coarsely; gradients by places are sums
    # times the frequency, of which the largest have the largest errors.
    factor = 3 if row["places"] != "one period" else 1
    factor *= 4 if row["what"] == "gradients" else 1
    return case_of(
        row,
        grid_inputs,
        called,
        expected,
        joined={"modes": "x"},
        limit=factor * how.limit,
        block_factor=10.0,
        block_reason="the tolerance is of the whole; some modes have the largest errors",
        is_special=row["values"] == "special",
        same_bits=None,  # points are added to a grid by atomics
        memory=1 << 28,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure."""
    return [
        *(
            small_case(kind, modes, how)
            for how in (SINGLE, DOUBLE)
            for kind in TYPES
            for modes in SMALL
        ),
        *(large_case(kind, how) for how in (SINGLE, DOUBLE) for kind in TYPES),
        *cases_of(*GRIDS),
    ]
