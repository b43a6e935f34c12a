"""Check an installed cutensornet-sample wheel on a GPU against numpy; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_cutensornet_sample.py`. It needs numpy
and the wheel, nothing else. Results are recorded in docs/results.md.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import cutensornet_sample
import numpy as np
from cutensornet_sample import contract, count_flops, entanglement_entropy, schmidt_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RING = "iaj,jbk,kcl,ldm,men,nfo,ogp,phi->abcdefgh"  # sites a to h, bonds i to p
SITE, BOND = 4, 16  # extents
LIMIT = 1e-12  # relative error in double precision, whose rounding is 1.1e-16
LEAKED = 64  # MiB of GPU memory that repeated calls may keep: cuBLAS and cuTENSOR have caches
REPEATED = 50  # calls


def make_ring(*, is_complex: bool) -> list[NDArray[Any]]:
    """Random tensors for `RING`."""
    random = np.random.default_rng(0)
    arrays = []
    for term in RING.partition("->")[0].split(","):
        shape = [SITE if letter < "i" else BOND for letter in term]
        imaginary = 1j * random.standard_normal(shape) if is_complex else 0
        arrays.append(random.standard_normal(shape) + imaginary)
    return arrays


def relative_error(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """Norm of the difference over the norm of what is expected."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


def check_results() -> dict[str, float]:
    """Relative errors against numpy: contractions and Schmidt values, real and complex."""
    errors = {}
    for kind in ("real", "complex"):
        ring = make_ring(is_complex=kind == "complex")
        expected = np.einsum(RING, *ring, optimize="greedy")
        actual = contract(RING, *ring)
        errors[f"{kind} contraction"] = relative_error(actual, expected)
        norm = contract("abcdefgh,abcdefgh->", actual, actual.conj())
        errors[f"{kind} norm"] = relative_error(norm, np.vdot(expected, expected))
        for cut in (1, 4, 6):
            matrix = expected.reshape(SITE**cut, -1)
            numpys = np.linalg.svd(matrix, compute_uv=False)
            errors[f"{kind} Schmidt values, cut {cut}"] = relative_error(
                schmidt_values(actual, cut), numpys
            )
    return errors


def check_entropies() -> dict[str, float]:
    """Entropies whose exact values are known, in bits: a product state, Bell's, four-level."""
    plus = np.full(2, 2**-0.5)
    states = {
        "product state": contract("a,b->ab", plus, plus),
        "Bell state": contract("ab,ai,bj->ij", np.eye(2) / 2**0.5, np.eye(2), np.eye(2)),
        "four equal levels": contract("ab,ai,bj->ij", np.eye(4) / 2, np.eye(4), np.eye(4)),
    }
    return {name: entanglement_entropy(schmidt_values(state, 1)) for name, state in states.items()}


def seconds_per_call(function: Callable[[], object], calls: int) -> float:
    """Mean time of a call after one to warm up, with all copies to and from the GPU."""
    function()
    started = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - started) / calls


def measure() -> dict[str, float]:
    """Time of the ring's contraction, and what it costs by cuTensorNet's own count."""
    ring = make_ring(is_complex=True)
    ours = seconds_per_call(lambda: contract(RING, *ring), REPEATED)
    numpys = seconds_per_call(lambda: np.einsum(RING, *ring, optimize="greedy"), 3)
    return {
        "GFLOP by the path": count_flops(RING, *(array.shape for array in ring)) / 1e9,
        "seconds": ours,
        "seconds in numpy": numpys,
        "times faster than numpy": numpys / ours,
    }


def query(field: str) -> str:
    """What nvidia-smi says of the GPU."""
    words = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].strip()


def kept_memory() -> int:
    """MiB of GPU memory that repeated calls keep."""
    ring = make_ring(is_complex=False)

    def work() -> None:
        schmidt_values(contract(RING, *ring), cut=4)

    work()
    before = int(query("memory.used"))
    for _ in range(REPEATED):
        work()
    return int(query("memory.used")) - before


def main() -> int:
    """Print the findings; 1 when something is over its limit."""
    errors, kept = check_results(), kept_memory()
    print(  # noqa: T201 - the answer
        json.dumps(
            {
                "date": str(datetime.date.today()),  # noqa: DTZ011 - the machine's own day
                "gpu": query("name"),
                "driver": query("driver_version"),
                "python": sys.version.split()[0],
                "extension": cutensornet_sample._core.__file__,
                "relative errors": errors,
                "entropies": check_entropies(),
                "time": measure(),
                "MiB kept by repeated calls": kept,
                "libraries": {
                    found.name: f"{found.owner or 'no wheel'}: {found.file}"
                    for found in cutensornet_sample.libraries()
                },
            },
            indent=2,
        )
    )
    return int(max(errors.values()) > LIMIT or kept > LEAKED)


if __name__ == "__main__":
    sys.exit(main())
