"""jaxmg's solvers on all GPUs of the machine against JAX's own on one of them."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
from jax import numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from perf_case import Case

# jaxmg counts the GPUs by this variable, and refuses where JAX has another number of them.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(jax.device_count()))))

from jaxmg import potri, potrs, syevd  # after the variable, which it reads

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGE = "jaxmg"
FRAMEWORK = "jax"
VARIABLES = ("JAXMG_NUMBER_OF_DEVICES",)

jax.config.update("jax_enable_x64", True)

# Rows of the matrix and of a tile, all multiples of eight GPUs: tiles that fit, and such that each
# GPU's share is filled up with zeros.
SMALL = ((1024, 128), (1000, 96))
ONE_GPU, TWO_GPUS = (8192, 1024), (16384, 1024)
SIDES = 8  # right-hand sides
# Sums of some thousand terms, with a matrix whose condition is below ten.
LIMITS = {"float32": 1e-4, "float64": 1e-12}

MESH = Mesh(jax.devices(), ("x",))
BY_ROWS = PartitionSpec("x", None)
EVERYWHERE = PartitionSpec(None, None)
CHOLESKY = jax.jit(lambda matrix, sides: cho_solve(cho_factor(matrix), sides))

Arrays = tuple[jax.Array, ...]


@partial(jax.jit, static_argnums=(1, 2))
def definite(key: jax.Array, rows: int, kind: str) -> jax.Array:
    """A random symmetric matrix whose eigenvalues are between 1 and 5."""
    half = jax.random.normal(key, (rows, rows), kind)
    product = half @ half.T / rows
    return (product + product.T) / 2 + jnp.eye(rows, dtype=kind)  # one side may be rounded apart


def inputs(rows: int, kind: str, seed: int) -> Arrays:
    """The matrix, its rows spread over the GPUs, and right-hand sides, whole on each."""
    matrix, sides = jax.random.split(jax.random.key(seed))
    return (
        jax.device_put(definite(matrix, rows, kind), NamedSharding(MESH, BY_ROWS)),
        jax.device_put(
            jax.random.normal(sides, (rows, SIDES), kind), NamedSharding(MESH, EVERYWHERE)
        ),
    )


def on_one(*arrays: jax.Array) -> list[jax.Array]:
    """The same arrays whole on the first GPU."""
    return [jax.device_put(array, jax.devices()[0]) for array in arrays]


def solver(tile: int) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The package's solution of a x = b, by Cholesky's factors, compiled once.

    It writes into its matrix, so that each call gets a copy.
    """
    specs = (BY_ROWS, EVERYWHERE)
    compiled = jax.jit(partial(potrs, T_A=tile, mesh=MESH, in_specs=specs), donate_argnums=0)

    def solve(matrix: jax.Array, sides: jax.Array) -> jax.Array:
        found: jax.Array = compiled(jnp.copy(matrix), sides)
        return found

    return solve


def plain_solve(matrix: jax.Array, sides: jax.Array) -> jax.Array:
    """JAX's on one GPU; on several, the matrix is brought together first."""
    found: jax.Array = CHOLESKY(*on_one(matrix, sides))
    return found


def exact_solve(matrix: jax.Array, sides: jax.Array) -> jax.Array:
    """JAX's on one GPU in double precision."""
    return plain_solve(matrix.astype("float64"), sides.astype("float64"))


def inverse(matrix: jax.Array, _: object, *, tile: int) -> jax.Array:
    """The package's inverse."""
    found: jax.Array = potri(jnp.copy(matrix), T_A=tile, mesh=MESH, in_specs=(BY_ROWS,))
    return found


def exact_inverse(matrix: jax.Array, _: object) -> jax.Array:
    """JAX's on one GPU in double precision."""
    [whole] = on_one(matrix.astype("float64"))
    return jnp.linalg.inv(whole)


def eigenvalues(matrix: jax.Array, _: object, *, tile: int) -> Arrays:
    """The package's eigenvalues, and its matrix put together again from eigenvectors and them.

    Eigenvectors have no one sign, so that they can't be compared themselves.
    """
    found = syevd(jnp.copy(matrix), T_A=tile, mesh=MESH, in_specs=(BY_ROWS,))
    # In double precision: JAX multiplies float32 in TF32.
    values, vectors = (one.astype("float64") for one in on_one(*found))
    return values, (vectors * values) @ vectors.T


def exact_eigenvalues(matrix: jax.Array, _: object) -> Arrays:
    """JAX's eigenvalues on one GPU in double precision, and the matrix."""
    [whole] = on_one(matrix.astype("float64"))
    return jnp.linalg.eigvalsh(whole), whole


def solve_case(rows: int, tile: int, kind: str, **more: Any) -> Case:
    """A solution."""
    size = jnp.dtype(kind).itemsize * rows**2
    return Case(
        name=f"potrs {kind} {rows}x{rows}, {SIDES} right-hand sides, tiles of {tile}",
        inputs=partial(inputs, rows, kind),
        call=solver(tile),
        expected=exact_solve,
        limit=LIMITS[kind],
        # Cholesky's factors, then twice a triangle for each right-hand side.
        operations=rows**3 // 3 + 2 * rows**2 * SIDES,
        has_own_kernels=False,  # cuSOLVERMg does the work; the wheel's code only moves columns
        precision={"float32": "fp32", "float64": "fp64"}[kind],
        memory=8 * size,
        **more,
    )


def small_cases(rows: int, tile: int, kind: str) -> list[Case]:
    """All solvers, to check."""
    shared: dict[str, Any] = {
        "inputs": partial(inputs, rows, kind),
        "limit": LIMITS[kind],
        "has_own_kernels": False,
        "is_timed": False,
        "memory": 1 << 28,
    }
    size = f"{kind} {rows}x{rows}, tiles of {tile}"
    return [
        solve_case(rows, tile, kind, is_timed=False),
        Case(
            name=f"potri {size}",
            call=partial(inverse, tile=tile),
            expected=exact_inverse,
            **shared,
        ),
        Case(
            name=f"syevd {size}",
            call=partial(eigenvalues, tile=tile),
            expected=exact_eigenvalues,
            **shared,
        ),
    ]


def cases() -> list[Case]:
    """Small ones to check, large ones to check and to measure; all on every GPU there is."""
    rival: dict[str, Any] = {"rival": plain_solve, "rival_name": "jax cho_solve on one GPU"}
    return [
        *(
            case
            for rows, tile in SMALL
            for kind in LIMITS
            for case in small_cases(rows, tile, kind)
        ),
        *(solve_case(*ONE_GPU, kind, **rival) for kind in LIMITS),
        solve_case(*TWO_GPUS, "float64", gpus=2, is_quick=False, **rival),
    ]
