"""jaxmg's solvers on all GPUs of the machine against JAX's own on one of them.

Releases below 1 (cuSOLVERMg) run on all GPUs from one process. Those from 1 on (cuSOLVERMp and
NCCL) want a process for each GPU and have no `potri`.
"""

from __future__ import annotations

import importlib.metadata
import os
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import jax
from jax import numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from perf_case import Case

PACKAGE = "jaxmg"
FRAMEWORK = "jax"
GPUS = "all"
VARIABLES = ("JAXMG_NUMBER_OF_DEVICES", "NCCL_NVLS_ENABLE", "CUBLASMP_DISABLE_MULTICAST")

HAS_PROCESS_PER_GPU = int(importlib.metadata.version("jaxmg").partition(".")[0]) >= 1
if not HAS_PROCESS_PER_GPU:
    # It counts the GPUs by this variable, and refuses where JAX has another number of them.
    gpus = ",".join(map(str, range(jax.device_count())))
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", gpus)

import jaxmg  # noqa: E402 - after the variable, which it reads

if TYPE_CHECKING:
    from collections.abc import Callable

jax.config.update("jax_enable_x64", True)

# Rows of the matrix and of a tile, the first multiples of eight GPUs: tiles that fit, and such that
# each GPU's share is filled up with zeros.
SMALL = ((1024, 128), (1000, 96))
TILE = 512 if HAS_PROCESS_PER_GPU else 1024
ONE_GPU, TWO_GPUS, LARGE = 8192, 16384, 24576
# A matrix of 34 GB: with its factor, 69 GB, more than JAX takes of a GPU of 80 GB (three quarters).
BEYOND = 65536
SIDES = 8  # right-hand sides
# Sums of some thousand terms, with a matrix whose condition is below ten.
LIMITS = {"float32": 1e-4, "float64": 1e-12}

BY_ROWS = PartitionSpec("x", None)
EVERYWHERE = PartitionSpec(None, None)
CHOLESKY = jax.jit(lambda matrix, sides: cho_solve(cho_factor(matrix), sides))
LU = jax.jit(jnp.linalg.solve)

Arrays = tuple[jax.Array, ...]


def join_others(rank: int, count: int, address: str) -> None:
    """Become one of JAX's processes, with the GPU of the same number."""
    jax.distributed.initialize(address, count, rank, local_device_ids=[rank])


join = join_others if HAS_PROCESS_PER_GPU else None


@cache
def mesh() -> Mesh:
    """All GPUs; not before JAX knows of other processes."""
    return Mesh(jax.devices(), ("x",))


@cache
def maker(rows: int, kind: str) -> Callable[[int], Arrays]:
    """Makes the matrix, whose eigenvalues are between 1 and 5, and right-hand sides from a seed."""

    def make(seed: jax.Array) -> Arrays:
        matrix, sides = jax.random.split(jax.random.key(seed))
        half = jax.random.normal(matrix, (rows, rows), kind)
        product = jnp.matmul(half, half.T, precision="highest") / rows
        # One side may be rounded apart from the other.
        definite = (product + product.T) / 2 + jnp.eye(rows, dtype=kind)
        return definite, jax.random.normal(sides, (rows, SIDES), kind)

    shardings = (NamedSharding(mesh(), BY_ROWS), NamedSharding(mesh(), EVERYWHERE))
    return jax.jit(make, out_shardings=shardings)


def whole(array: jax.Array) -> jax.Array:
    """An array that is spread over the GPUs, on each."""
    return jax.jit(lambda x: x, out_shardings=NamedSharding(mesh(), EVERYWHERE))(array)


def on_one(array: jax.Array) -> jax.Array:
    """The same array on one GPU, that of this process."""
    return whole(array).addressable_data(0)


def inputs(rows: int, kind: str, seed: int) -> Arrays:
    """Matrix, its rows spread over the GPUs, and right-hand sides; both again on one GPU."""
    matrix, sides = maker(rows, kind)(seed)
    return matrix, sides, on_one(matrix), on_one(sides)


@cache
def makers_of_powers(rows: int) -> tuple[Callable[[], jax.Array], Callable[[int], jax.Array]]:
    """One makes the matrix of 2**-abs(i - j), the other right-hand sides from a seed."""

    def matrix() -> jax.Array:
        row, column = (jax.lax.broadcasted_iota("int32", (rows, rows), axis) for axis in (0, 1))
        return jnp.exp2(-jnp.abs(row - column).astype("float64"))

    def sides(seed: jax.Array) -> jax.Array:
        return jax.random.normal(jax.random.key(seed), (rows, SIDES), "float64")

    return (
        jax.jit(matrix, out_shardings=NamedSharding(mesh(), BY_ROWS)),
        jax.jit(sides, out_shardings=NamedSharding(mesh(), EVERYWHERE)),
    )


IN_USE: WeakValueDictionary[int, jax.Array] = WeakValueDictionary()


def powers(rows: int, seed: int) -> Arrays:
    """The matrix of 2**-abs(i - j), one for all seeds as memory is short, and right-hand sides.

    Its eigenvalues are between 1/3 and 3, and its inverse is known: Kac, Murdock, Szegö, On the
    eigenvalues of certain Hermitian forms, 1953.
    """
    make_matrix, make_sides = makers_of_powers(rows)
    matrix = IN_USE.get(rows)
    if matrix is None:
        matrix = IN_USE[rows] = make_matrix()
    return matrix, make_sides(seed)


def by_inverse(_: object, sides: jax.Array) -> jax.Array:
    """The solution for `powers`: the inverse has three diagonals."""
    found = sides.addressable_data(0)
    edge = jnp.zeros((1, SIDES))
    beside = jnp.concatenate([edge, found[:-1]]) + jnp.concatenate([found[1:], edge])
    diagonal = jnp.full((len(found), 1), 5 / 4).at[jnp.array([0, -1])].set(1)
    return (diagonal * found - beside / 2) * 4 / 3


def solver(name: str, tile: int) -> Callable[..., jax.Array]:
    """The package's solution of a x = b.

    It writes into its matrix, so that each call gets a copy.
    """
    function = getattr(jaxmg, name)
    if HAS_PROCESS_PER_GPU:

        def solve(matrix: jax.Array, sides: jax.Array, *_: object) -> jax.Array:
            found = function(matrix, sides, tile, mesh(), BY_ROWS, donate=False)
            return whole(found)

        return solve

    @cache
    def compiled() -> Callable[..., jax.Array]:
        """One that is compiled once."""
        specs = (BY_ROWS, EVERYWHERE)
        given = partial(function, T_A=tile, mesh=mesh(), in_specs=specs)
        return jax.jit(given, donate_argnums=0)

    return lambda matrix, sides, *_: compiled()(jnp.copy(matrix), sides)


def plain_solve(_: object, __: object, matrix: jax.Array, sides: jax.Array) -> jax.Array:
    """JAX's, on one GPU that has all of the matrix."""
    found: jax.Array = CHOLESKY(matrix, sides)
    return found


def exact_solve(_: object, __: object, matrix: jax.Array, sides: jax.Array) -> jax.Array:
    """JAX's on one GPU in double precision."""
    return plain_solve(_, __, matrix.astype("float64"), sides.astype("float64"))


def exact_lu(_: object, __: object, matrix: jax.Array, sides: jax.Array) -> jax.Array:
    """The same by LU's factors."""
    found: jax.Array = LU(matrix.astype("float64"), sides.astype("float64"))
    return found


def inverse(matrix: jax.Array, *_: object, tile: int) -> jax.Array:
    """The package's inverse."""
    found: jax.Array = jaxmg.potri(jnp.copy(matrix), T_A=tile, mesh=mesh(), in_specs=(BY_ROWS,))
    return found


def exact_inverse(_: object, __: object, matrix: jax.Array, ___: object) -> jax.Array:
    """JAX's on one GPU in double precision."""
    return jnp.linalg.inv(matrix.astype("float64"))


def eigenvalues(matrix: jax.Array, *_: object, tile: int) -> Arrays:
    """The package's eigenvalues, and its matrix put together again from eigenvectors and them.

    Eigenvectors have no one sign, so that they can't be compared themselves.
    """
    if HAS_PROCESS_PER_GPU:
        found = jaxmg.syevd(matrix, tile, mesh(), BY_ROWS, donate=False)
    else:
        found = jaxmg.syevd(jnp.copy(matrix), T_A=tile, mesh=mesh(), in_specs=(BY_ROWS,))
    # In double precision: JAX multiplies float32 in TF32.
    values = found[0].addressable_data(0).astype("float64")
    vectors = on_one(found[1]).astype("float64")
    return values, (vectors * values) @ vectors.T


def exact_eigenvalues(_: object, __: object, matrix: jax.Array, ___: object) -> Arrays:
    """JAX's eigenvalues on one GPU in double precision, and the matrix."""
    wide = matrix.astype("float64")
    return jnp.linalg.eigvalsh(wide), wide


def solve_case(rows: int, tile: int, kind: str, **more: Any) -> Case:
    """A solution by Cholesky's factors."""
    size = jnp.dtype(kind).itemsize * rows**2
    return Case(
        name=f"potrs {kind} {rows}x{rows}, {SIDES} right-hand sides, tiles of {tile}",
        inputs=partial(inputs, rows, kind),
        call=solver("potrs", tile),
        expected=exact_solve,
        limit=LIMITS[kind],
        # Cholesky's factors, then twice a triangle for each right-hand side.
        operations=rows**3 // 3 + 2 * rows**2 * SIDES,
        # NVIDIA's library does the work. In releases from 1 on kernels of the wheel move what it
        # needs from and to JAX's order.
        has_own_kernels=HAS_PROCESS_PER_GPU,
        precision={"float32": "fp32", "float64": "fp64"}[kind],
        memory=9 * size,
        **more,
    )


def beyond_case(rows: int, tile: int) -> Case:
    """A solution that one GPU has no memory for."""
    shard = 8 * rows**2 // jax.device_count()
    return replace(
        solve_case(rows, tile, "float64", gpus=2, is_quick=False),
        inputs=partial(powers, rows),
        expected=by_inverse,
        memory=3 * shard,  # the matrix, the solver's copy, and what it may need besides
    )


def small_cases(rows: int, tile: int, kind: str) -> list[Case]:
    """All solvers, to check."""
    is_quick = not HAS_PROCESS_PER_GPU or (rows, kind) in {(1024, "float64"), (1000, "float32")}
    shared: dict[str, Any] = {
        "inputs": partial(inputs, rows, kind),
        "limit": LIMITS[kind],
        "has_own_kernels": HAS_PROCESS_PER_GPU,
        "is_timed": False,
        "is_quick": is_quick,
        "memory": 1 << 28,
    }
    solvers: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
        ("syevd", partial(eigenvalues, tile=tile), exact_eigenvalues),
    ]
    if HAS_PROCESS_PER_GPU:
        solvers.append(("lu_solve", solver("lu_solve", tile), exact_lu))
    else:
        solvers.append(("potri", partial(inverse, tile=tile), exact_inverse))
    return [
        solve_case(rows, tile, kind, is_timed=False, is_quick=is_quick),
        *(
            Case(
                name=f"{name} {kind} {rows}x{rows}, tiles of {tile}",
                call=call,
                expected=exact,
                **shared,
            )
            for name, call, exact in solvers
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
        *(solve_case(ONE_GPU, TILE, kind, **rival) for kind in LIMITS),
        solve_case(TWO_GPUS, TILE, "float64", gpus=2, is_quick=False, **rival),
        solve_case(LARGE, TILE, "float64", gpus=2, **rival),
        beyond_case(BEYOND, TILE),
    ]
