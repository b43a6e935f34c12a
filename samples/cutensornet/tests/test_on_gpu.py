"""Results against numpy's, on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cutensornet_sample import contract, entanglement_entropy, schmidt_values

pytestmark = pytest.mark.skipif(
    not Path("/dev/nvidiactl").exists(), reason="no GPU: there is no /dev/nvidiactl"
)
RANDOM = np.random.default_rng(0)


def random(*shape: int, kind: type = float) -> np.ndarray:
    real = RANDOM.standard_normal(shape)
    return real + 1j * RANDOM.standard_normal(shape) if kind is complex else real


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        ("ab,bc->ac", [(3, 4), (4, 5)]),
        ("ab,bc->ca", [(3, 4), (4, 5)]),
        ("ab,ab->", [(3, 4), (3, 4)]),
        ("a,b->ab", [(3,), (4,)]),
        ("iaj,jbk,kcl,ldi->abcd", [(4, 2, 5), (5, 3, 6), (6, 2, 7), (7, 3, 4)]),
    ],
)
def test_contracts_like_numpy(expression: str, shapes: list[tuple[int, ...]], kind: type) -> None:
    arrays = [random(*shape, kind=kind) for shape in shapes]

    np.testing.assert_allclose(
        contract(expression, *arrays), np.einsum(expression, *arrays), rtol=1e-12, atol=1e-12
    )


def test_takes_arrays_that_are_not_contiguous() -> None:
    left, right = random(4, 3).T, random(8, 5)[::2]

    np.testing.assert_allclose(contract("ab,bc->ac", left, right), left @ right, rtol=1e-12)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_schmidt_values_are_numpys(cut: int, kind: type) -> None:
    state = random(2, 3, 4, 5, kind=kind)
    matrix = state.reshape(int(np.prod(state.shape[:cut])), -1)

    np.testing.assert_allclose(
        schmidt_values(state, cut), np.linalg.svd(matrix, compute_uv=False), rtol=1e-12
    )


def test_bell_state_has_one_bit() -> None:
    gate = np.array([[1, 1], [1, -1]]) / 2**0.5
    bell = contract("ab,ai,bj->ij", np.eye(2) / 2**0.5, gate, gate)

    assert entanglement_entropy(schmidt_values(bell, cut=1)) == pytest.approx(1)
