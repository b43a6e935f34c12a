"""jax-finufft's transforms of types 1, 2 and 3 against a direct sum, and against the CPU's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jax import numpy as jnp
from jax_finufft import nufft1, nufft2, nufft3
from perf_case import Case

PACKAGE = "jax_finufft"
FRAMEWORK = "jax"
OWN_SHARE = 0.5  # an H100 had 0.74 at least

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
    ]
