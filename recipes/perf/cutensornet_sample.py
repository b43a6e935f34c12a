"""The cuTensorNet sample against numpy: contractions and Schmidt values, in double precision."""

from __future__ import annotations

import string
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from cutensornet_sample import contract, count_flops, schmidt_values
from perf_case import Case

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PACKAGE = "cutensornet_sample"
FRAMEWORK = "host"

RING = "iaj,jbk,kcl,ldm,men,nfo,ogp,phi->abcdefgh"  # sites a to h, bonds i to p
SITE, RING_BOND = 4, 16  # extents
CUTS = (1, 4, 6)  # of a ring's eight sites
GRID, GRID_BOND = 4, 20  # tensors along a side; the extent of what joins them
GREEDY = ("greedy", 1 << 26)  # numpy's path, and elements of the largest tensor on it
# In double precision, whose rounding is 1.1e-16, sums of some thousand terms.
LIMIT = 1e-12


def ring(seed: int, *, is_complex: bool) -> tuple[Array, ...]:
    """Random tensors of `RING`."""
    random = np.random.default_rng(seed)
    arrays = []
    for term in RING.partition("->")[0].split(","):
        shape = [SITE if letter < "i" else RING_BOND for letter in term]
        imaginary = 1j * random.standard_normal(shape) if is_complex else 0
        arrays.append(random.standard_normal(shape) + imaginary)
    return tuple(arrays)


def grid_expression() -> str:
    """A square grid of tensors, each joined to its neighbours, contracted to one number."""
    letters = iter(string.ascii_letters)
    terms = [[""] * GRID for _ in range(GRID)]
    for row in range(GRID):
        for column in range(GRID):
            for other_row, other_column in ((row, column + 1), (row + 1, column)):
                if max(other_row, other_column) < GRID:
                    letter = next(letters)
                    terms[row][column] += letter
                    terms[other_row][other_column] += letter
    return ",".join(term for row in terms for term in row) + "->"


def grid_shapes(expression: str) -> list[tuple[int, ...]]:
    """Of each tensor of the grid."""
    return [(GRID_BOND,) * len(term) for term in expression.removesuffix("->").split(",")]


def grid(expression: str, seed: int) -> tuple[Array, ...]:
    """Random tensors of the grid, positive: in their sum nothing cancels out."""
    random = np.random.default_rng(seed)
    return tuple(random.random(shape) for shape in grid_shapes(expression))


def plain(expression: str, *arrays: Array) -> Array:
    """Numpy's contraction."""
    return np.asarray(np.einsum(expression, *arrays, optimize=GREEDY))


def state(seed: int, *, is_complex: bool) -> tuple[Array, ...]:
    """The state of a ring, by numpy."""
    return (plain(RING, *ring(seed, is_complex=is_complex)),)


def values(array: Array) -> tuple[Array, ...]:
    """The package's Schmidt values for some cuts."""
    return tuple(schmidt_values(array, cut) for cut in CUTS)


def plain_values(array: Array) -> tuple[Array, ...]:
    """Numpy's."""
    matrices = (array.reshape(SITE**cut, -1) for cut in CUTS)
    return tuple(np.linalg.svd(matrix, compute_uv=False) for matrix in matrices)


def norm(array: Array) -> Array:
    """The square of a state's norm by the package."""
    return contract("abcdefgh,abcdefgh->", array, array.conj())


def plain_norm(array: Array) -> Array:
    """The same by numpy."""
    return np.asarray(np.vdot(array, array))


def ring_cases(*, is_complex: bool) -> list[Case]:
    """To check: a ring's state, its norm, its Schmidt values."""
    kind = "complex" if is_complex else "real"
    size = f"ring of {RING.count(',') + 1}, bonds of {RING_BOND}"
    shared: dict[str, Any] = {
        "limit": LIMIT,
        "has_own_kernels": False,  # the wheel has no device code: cuTensorNet and cuSOLVER do all
        "is_timed": False,
        "memory": 1 << 30,
    }
    return [
        Case(
            name=f"contraction {kind}, {size}",
            inputs=partial(ring, is_complex=is_complex),
            call=partial(contract, RING),
            expected=partial(plain, RING),
            **shared,
        ),
        Case(
            name=f"norm {kind}, {size}",
            inputs=partial(state, is_complex=is_complex),
            call=norm,
            expected=plain_norm,
            **shared,
        ),
        Case(
            name=f"Schmidt values {kind}, {size}, cuts {', '.join(map(str, CUTS))}",
            inputs=partial(state, is_complex=is_complex),
            call=values,
            expected=plain_values,
            **shared,
        ),
    ]


def grid_case() -> Case:
    """To check and to measure: small tensors, large ones on the way, one number at the end."""
    expression = grid_expression()
    return Case(
        name=f"contraction real, grid of {GRID}x{GRID}, bonds of {GRID_BOND}",
        inputs=partial(grid, expression),
        call=partial(contract, expression),
        expected=partial(plain, expression),
        limit=LIMIT,
        # By the path that cuTensorNet finds, which is its own affair; numpy's takes more.
        operations=int(count_flops(expression, *grid_shapes(expression))),
        precision="fp64",
        rival=partial(plain, expression),
        rival_name="numpy einsum on the CPU",
        has_own_kernels=False,
        memory=2 << 30,
    )


def cases() -> list[Case]:
    """Rings to check, a grid to check and to measure."""
    return [*ring_cases(is_complex=False), *ring_cases(is_complex=True), grid_case()]
