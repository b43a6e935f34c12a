"""What has to work on any machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cutensornet_sample
import numpy as np
import pytest
from cutensornet_sample import contract, count_flops, entanglement_entropy, schmidt_values


def test_import_loads_no_driver() -> None:
    code = "import cutensornet_sample as c; print([x.name for x in c.libraries()])"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "libcutensornet.so.2" in said.stdout
    assert "libcuda.so" not in said.stdout


def test_every_library_comes_from_a_wheel() -> None:
    strays = [found.name for found in cutensornet_sample.libraries() if not found.owner]

    # The driver's own, under its full version (libcuda.so.580.159.04).
    assert all(name.startswith(("libcuda.so.", "libnvidia-")) for name in strays)


def test_prints_table() -> None:
    command = [sys.executable, "-m", "cutensornet_sample"]

    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert f"cutensornet-cu{_cuda()} " in said


def _cuda() -> str:
    [runtime] = [found for found in cutensornet_sample.libraries() if "cudart" in found.name]
    return Path(runtime.name).suffix[1:]


def test_counts_flops_of_matrix_product() -> None:
    assert count_flops("ab,bc->ac", (4, 8), (8, 16)) == 2 * 4 * 8 * 16


def test_path_is_better_than_the_given_order() -> None:
    shapes = [(100, 2), (2, 100), (100, 2)]

    assert count_flops("ab,bc,cd->ad", *shapes) < 2 * (100 * 2 * 100 + 100 * 100 * 2)


@pytest.mark.parametrize(
    ("expression", "shapes", "fault"),
    [
        ("ab,bc", [(2, 2), (2, 2)], "something like"),
        ("aa->a", [(2, 2)], "something like"),
        ("a...->a", [(2,)], "something like"),
        ("ab->ab", [(2, 2), (2, 2)], "has 1 tensors, and 2 were given"),
        ("ab,bc->ac", [(2, 3), (4, 2)], '"b" is 3 and 4 long'),
        ("ab,bc->ac", [(2, 3), (3,)], '"bc" has 2 letters, its tensor 1 axes'),
        ("ab->ac", [(2, 3)], 'no tensor has "c"'),
        ("ab,bc->ac", [(2, 0), (0, 2)], '"b" is 0 and 0 long'),
    ],
)
def test_refuses_what_does_not_fit(
    expression: str, shapes: list[tuple[int, ...]], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        count_flops(expression, *shapes)


@pytest.mark.parametrize("cut", [0, 2, -1])
def test_refuses_cut_without_two_sides(cut: int) -> None:
    with pytest.raises(ValueError, match=f"cut={cut} leaves one side of 2 axes empty"):
        schmidt_values(np.eye(2), cut)


def test_core_refuses_data_of_other_size() -> None:
    with pytest.raises(ValueError, match="size of the shape"):
        cutensornet_sample._core.contract(False, (2, 2), (((0, 1), b"too short"),), (0,))


def test_core_refuses_mode_without_extent() -> None:
    with pytest.raises(ValueError, match="no extent"):
        cutensornet_sample._core.contract(False, (2,), (((1,), bytes(16)),), (0,))


def test_entropy_of_equal_values_is_a_bit_for_each_doubling() -> None:
    assert entanglement_entropy([3, 3, 3, 3]) == pytest.approx(2)


def test_entropy_of_one_value_is_nothing() -> None:
    assert entanglement_entropy([0.5, 0]) == 0


def test_says_what_is_missing_without_gpu() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")

    with pytest.raises(cutensornet_sample.CudaError, match=r"^cudaMalloc: .*driver"):
        contract("ab,bc->ac", np.eye(2), np.eye(2))
