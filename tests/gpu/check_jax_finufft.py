"""Check an installed jax-finufft wheel on a GPU and measure it; prints one JSON object.

Run by hand on a machine with a GPU: `python tests/gpu/check_jax_finufft.py`. It needs JAX with its
CUDA plugin and the wheel, nothing else. Results are recorded in docs/results.md.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax_finufft import __version__, jax_finufft_gpu, nufft1, nufft2, nufft3

if TYPE_CHECKING:
    from collections.abc import Callable

TYPES = (1, 2, 3)
MODES = ((500,), (40, 36), (12, 14, 10))  # in 1, 2 and 3 dimensions: what a direct sum can do
POINTS = 2000
WARM_UP, TIMED = 2, 10  # calls
LARGE_MODES, LARGE_POINTS = (1024, 1024), 4_000_000  # in 2 dimensions


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How exact a transform is asked to be.

    Attributes:
        real, complex: the data's types.
        eps: the tolerance that FINUFFT is given.
        limit: of the relative error against the direct sum; FINUFFT's own rule is about ten times
            its tolerance.
    """

    real: str
    complex: str
    eps: float
    limit: float


PRECISIONS = (
    Precision(real="float32", complex="complex64", eps=1e-5, limit=1e-4),
    Precision(real="float64", complex="complex128", eps=1e-9, limit=1e-8),
)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One transform and its data.

    Attributes:
        kind: 1, from points to modes; 2, from modes to points; 3, from points to points.
        modes: how many in each dimension.
        values: strengths of the points, or of the modes for a type 2.
        places: of the points in each dimension, from -pi to pi.
        frequencies: of a type 3, in each dimension.
    """

    kind: int
    modes: tuple[int, ...]
    values: np.ndarray
    places: np.ndarray
    frequencies: np.ndarray


def make_problem(kind: int, modes: tuple[int, ...], points: int, how: Precision) -> Problem:
    """Random data, the same for each call, in the precision that the transform gets."""
    random = np.random.default_rng(kind)
    shape = modes if kind == 2 else (points,)
    values = random.normal(size=shape) + 1j * random.normal(size=shape)
    places = random.uniform(-np.pi, np.pi, (len(modes), points))
    span = np.array(modes)[:, None] / 2
    frequencies = span * random.uniform(-1, 1, (len(modes), points))
    return Problem(
        kind=kind,
        modes=modes,
        values=values.astype(how.complex),
        places=places.astype(how.real),
        frequencies=frequencies.astype(how.real),
    )


def transform(problem: Problem, how: Precision, device: Any) -> Callable[[], Any]:
    """A call of jax-finufft with its data already on a device; it returns when the result is."""
    values, places, frequencies = jax.device_put(
        (problem.values, tuple(problem.places), tuple(problem.frequencies)), device
    )
    options = {"iflag": 1, "eps": how.eps}
    calls = {
        1: lambda: nufft1(problem.modes, values, *places, **options),
        2: lambda: nufft2(values, *places, **options),
        3: lambda: nufft3(values, *places, *frequencies, **options),
    }
    return lambda: calls[problem.kind]().block_until_ready()


def direct_sum(problem: Problem) -> np.ndarray:
    """The transform by its definition, in double precision."""
    axes = [np.arange(-(n // 2), (n + 1) // 2) for n in problem.modes]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    frequencies = problem.frequencies if problem.kind == 3 else grid
    phases = np.exp(1j * frequencies.astype("float64").T @ problem.places.astype("float64"))
    values = problem.values.astype("complex128").ravel()
    if problem.kind == 2:
        return phases.T @ values
    found = phases @ values
    return found.reshape(problem.modes) if problem.kind == 1 else found


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Norm of the difference over the norm of what is expected."""
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


def check_transforms(device: Any) -> tuple[dict[str, float], bool]:
    """Relative error of each type, dimension and precision; whether all are within their limits."""
    errors, is_good = {}, True
    for how in PRECISIONS:
        for kind in TYPES:
            for modes in MODES:
                problem = make_problem(kind, modes, POINTS, how)
                result = transform(problem, how, device)()
                assert result.devices() == {device}
                error = relative_error(np.asarray(result), direct_sum(problem))
                errors[f"type {kind}, {len(modes)}-D, {how.complex}"] = error
                is_good &= error <= how.limit
    return errors, is_good


def seconds_per_call(function: Callable[[], object]) -> float:
    """Median time of a call, first ones left out: they compile and plan."""
    for _ in range(WARM_UP):
        function()
    times = []
    for _ in range(TIMED):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(gpu: Any, cpu: Any) -> dict[str, dict[str, float]]:
    """Time of each type on both devices, data in place, in double precision and in single."""
    found = {}
    for how in PRECISIONS:
        for kind in TYPES:
            problem = make_problem(kind, LARGE_MODES, LARGE_POINTS, how)
            ours, theirs = (seconds_per_call(transform(problem, how, one)) for one in (gpu, cpu))
            found[f"type {kind}, 2-D, {how.complex}, eps {how.eps}"] = {
                "gpu s": ours,
                "cpu s": theirs,
                "times faster": theirs / ours,
            }
    return found


def loaded_libraries() -> dict[str, list[str]]:
    """Every CUDA and FFTW library of this process and the files it came from."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) > 5}
    wanted = ("libcu", "libnv", "libfftw3", "libgomp", "jax_finufft_")
    found: dict[str, list[str]] = {}
    for path in sorted(path for path in paths if Path(path).name.startswith(wanted)):
        found.setdefault(Path(path).name, []).append(path)
    return found


def main() -> int:
    """Print the findings; 1 when an error is over its limit."""
    jax.config.update("jax_enable_x64", val=True)
    [gpu, *_], [cpu, *_] = jax.devices("gpu"), jax.devices("cpu")
    errors, is_good = check_transforms(gpu)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True)
    print(  # noqa: T201 - the answer
        json.dumps(
            {
                "date": str(datetime.date.today()),  # noqa: DTZ011 - the machine's own day
                "gpu": gpu.device_kind,
                "driver": driver.stdout.splitlines()[0].strip(),
                "cpu cores": len(os.sched_getaffinity(0)),
                "python": sys.version.split()[0],
                "jax": jax.__version__,
                "jax_finufft": __version__,
                "extension": jax_finufft_gpu.__file__,
                "relative errors": errors,
                "points": LARGE_POINTS,
                "modes": LARGE_MODES,
                "times": measure(gpu, cpu),
                "libraries": loaded_libraries(),
            },
            indent=2,
        )
    )
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
