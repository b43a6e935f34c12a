"""The cuTensorNet sample against numpy: contractions and Schmidt values, in double precision."""

from __future__ import annotations

import string
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from cutensornet_sample import contract, count_flops, schmidt_values
from grid import cases_of, name_of
from perf_case import Case

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PACKAGE = "cutensornet_sample"
FRAMEWORK = "host"
UNTOUCHED = (
    "entanglement_entropy and libraries, which use no GPU",
    "networks of a single tensor, empty tensors, which are refused",
    "more than 2^31 elements; a second stream: calls wait for their own",
)

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


# The grids: expressions, types and layouts, in pairs, against numpy in double precision.

Row = dict[str, Any]
CONTRACTIONS: dict[str, tuple[Any, ...]] = {
    "expression": (
        *("ab,bc->ac", "ab,cb->ca", "a,b->ab", "ab,ab->", "abc,acd->abd", "ab,bc,cd,da->"),
        *("abc,cbd,de->ea", "abcdef,fedcbg->g"),
    ),
    "extents": ("usual", "one", "odd", "unequal"),
    "types": ("float64", "complex128", "float32", "int64", "float64 and complex128"),
    "layout": ("rows", "columns", "every second"),
    "values": ("normal", "large", "special", "zeros"),
}
EXTENTS = {"usual": (8,), "one": (1,), "odd": (7, 5), "unequal": (2, 9, 3)}
SCHMIDT: dict[str, tuple[Any, ...]] = {
    "shape": ((4, 4, 4, 4), (2, 3, 5), (1, 7), (33, 2, 31), (64, 3)),
    "cut": (1, 2, 3),
    "type": ("float64", "complex128", "float32"),
    "layout": ("rows", "columns"),
    "values": ("normal", "large", "product", "zeros"),
}
LARGE = 1e30


def is_contraction(row: Row) -> bool:
    """Whole numbers have no NaN; of complex ones it depends on how they are multiplied."""
    return row["values"] != "special" or row["types"] in {"float64", "float32"}


def drawn(seed: int, shape: tuple[int, ...], kind: str, values: str) -> Array:
    """Random numbers of a type."""
    random = np.random.default_rng([seed, *shape])
    array = random.standard_normal(shape)
    array = array + 1j * random.standard_normal(shape) if kind == "complex128" else array
    if values == "large":
        array = array * (1e6 if kind in {"int64", "float32"} else LARGE)
    if values == "zeros":
        array = array * 0
    if kind == "int64":
        array = array * 10
    return array.astype(kind)


def laid_out(array: Array, layout: str) -> Array:
    """The same numbers in memory as the row says."""
    if layout == "columns":
        return np.asfortranarray(array)
    return np.repeat(array, 2, axis=-1)[..., ::2] if layout == "every second" else array


def contraction_inputs(row: Row, seed: int) -> tuple[Array, ...]:
    """Tensors of the expression."""
    sizes = EXTENTS[row["extents"]]
    terms = row["expression"].partition("->")[0].split(",")
    kinds = row["types"].split(" and ")
    arrays = []
    for number, term in enumerate(terms):
        shape = tuple(sizes[ord(letter) % len(sizes)] for letter in term)
        kind = kinds[number % len(kinds)]
        array = drawn(seed + number, shape, kind, row["values"])
        if row["values"] == "special" and not number:
            array[(0,) * array.ndim] = np.nan
        arrays.append(laid_out(array, row["layout"]))
    return tuple(arrays)


def exact_contraction(row: Row, *arrays: Array) -> Array:
    """Numpy's, of numbers in double precision."""
    return plain(row["expression"], *map(widened, arrays))


def widened(array: Array) -> Array:
    """In double precision."""
    return array.astype("complex128" if np.iscomplexobj(array) else "float64")


def contraction_case(row: Row) -> Case:
    """A contraction."""
    return Case(
        name=f"contract {name_of(row)}",
        inputs=partial(contraction_inputs, row),
        call=partial(contract, row["expression"]),
        expected=partial(exact_contraction, row),
        limit=LIMIT,
        # A sum of products may cancel out: its size isn't that of the terms.
        block_factor=100.0,
        block_reason="sums of few products may cancel out",
        is_special=row["values"] == "special",
        has_own_kernels=False,
        is_grid=True,
        is_timed=False,
        memory=1 << 28,
    )


def has_cut(row: Row) -> bool:
    """Both sides hold an axis."""
    return bool(row["cut"] < len(row["shape"]))


def schmidt_inputs(row: Row, seed: int) -> tuple[Array]:
    """A state; of a product all values but one are zero."""
    if row["values"] != "product":
        array = drawn(seed, row["shape"], row["type"], row["values"])
        return (laid_out(array, row["layout"]),)
    cut = row["cut"]
    left, right = (
        drawn(seed + n, part, row["type"], "normal")
        for n, part in enumerate((row["shape"][:cut], row["shape"][cut:]))
    )
    return (laid_out(np.multiply.outer(left, right), row["layout"]),)


def exact_schmidt(row: Row, array: Array) -> Array:
    """Numpy's, in double precision."""
    matrix = widened(array).reshape(int(np.prod(row["shape"][: row["cut"]])), -1)
    return np.asarray(np.linalg.svd(matrix, compute_uv=False))


def schmidt_case(row: Row) -> Case:
    """Schmidt values of a state."""
    return Case(
        name=f"Schmidt {name_of({**row, 'shape': 'x'.join(map(str, row['shape']))})}",
        inputs=partial(schmidt_inputs, row),
        call=partial(schmidt_values, cut=row["cut"]),
        expected=partial(exact_schmidt, row),
        limit=LIMIT,
        has_own_kernels=False,
        is_grid=True,
        is_timed=False,
        memory=1 << 28,
    )


GRIDS = (
    (CONTRACTIONS, is_contraction, contraction_case),
    (SCHMIDT, has_cut, schmidt_case),
)


def cases() -> list[Case]:
    """Rings to check, a grid to check and to measure."""
    rings = [*ring_cases(is_complex=False), *ring_cases(is_complex=True)]
    return [*rings, grid_case(), *cases_of(*GRIDS)]
