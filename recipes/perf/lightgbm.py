"""lightgbm's trees from GPUs against those of its learner for the CPU, which sums in float64."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
import scipy.sparse
from grid import case_of, cases_of, usual
from perf_case import Case

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PACKAGE = "lightgbm"
FRAMEWORK = "host"
UNTOUCHED = (
    "several GPUs, by NCCL; GOSS, random forests and extra_trees",
    "max_depth, max_delta_step, monotone constraints, forced splits: CUDA's learner ignores them",
    "constraints of interactions, and samples of features for each node",
    "linear trees, and predictions, which are the CPU's",
    # On an H200, 2026-12-01: memcheck found writes out of bounds by FindBestSplitsForLeafKernel
    # and GenDataToLeftBitVectorKernel.
    "10,000 bins and categorical columns, which crashed with 4.7.0",
    "classes, ranks, L1 and quantiles, few rows: some of 4.7.0's trees differ from the CPU's",
    "quantized gradients, DART, path_smooth, samples of rows and columns: likewise",
    "lambda_l1 and lambda_l2 but for poisson: likewise, by 0.02 (fair) to 0.06 (two classes)",
)
SINGLE = 1e-5  # sums of 20,000 values in float32
ROWS, TREES = 20000, 3

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "objectives": (("regression", "huber", "fair", "custom"), ("binary",), ("poisson",)),
    "data": ("dense", "sparse"),
    "columns": (8, 200),
    "max_bin": (255, 15),
    "num_leaves": (15, 2),
    "penalty": ("none", "lambda"),
    "weights": (False, True),
    "precision": ("single", "double"),
}
LARGE: Row = {"columns": 32, "num_leaves": 63}
LARGE_ROWS = 1 << 20
PENALTIES: dict[str, Row] = {"none": {}, "lambda": {"lambda_l1": 2.0, "lambda_l2": 3.0}}


def inputs(row: Row, seed: int, rows: int = ROWS) -> tuple[Any, ...]:
    """Return columns, labels, the scores that a model begins with, and weights.

    Six columns have a threshold each, with effects so different that the best split is clear.
    """
    random = np.random.default_rng(seed)
    columns = random.uniform(0.1, 1, (rows, row["columns"]))
    if row["data"] == "sparse":
        columns *= random.uniform(size=columns.shape) < 0.2
    thresholds = np.linspace(0.3, 0.7, 6)
    effects = (columns[:, :6] > thresholds) @ (0.7 ** np.arange(6))
    data = scipy.sparse.csr_matrix(columns) if row["data"] == "sparse" else columns
    label = labels(row, effects + 0.3 * random.normal(size=rows))
    # With equal scores the gradients of two classes have two values, so that sums are equal too.
    begin = 0.1 * random.normal(size=rows) if kind_of(row) != "regression" else None
    return data, label, begin, random.uniform(0.5, 1.5, rows) if row["weights"] else None


def kind_of(row: Row) -> str:
    """Return the first objective of a row; all take the same labels."""
    return str(row["objectives"][0])


def labels(row: Row, values: Array) -> Array:
    """Return values as an objective takes them."""
    if kind_of(row) == "binary":
        return (values > np.median(values)).astype(float)
    if kind_of(row) == "poisson":
        return np.clip(np.floor(np.exp(values - values.mean())), 0, 9)
    return values


def squares(scores: Array, data: lightgbm.Dataset) -> tuple[Array, Array]:
    """Return gradients and second derivatives of squared errors: an objective in Python."""
    return scores - data.get_label(), np.ones_like(scores)


def options(row: Row, device: str, objective: str) -> Row:
    """Return lightgbm's parameters."""
    custom = {"objective": squares, "metric": "l2"}
    return {
        "device_type": device,
        **(custom if objective == "custom" else {"objective": objective}),
        **{name: row[name] for name in ("max_bin", "num_leaves")},
        **PENALTIES[row["penalty"]],
        "min_data_in_bin": 1,
        "gpu_use_dp": row["precision"] == "double",
        "learning_rate": 0.5,
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
    }


def dataset(row: Row, device: str, objective: str, values: tuple[Any, ...]) -> lightgbm.Dataset:
    """Return what a model is trained with."""
    data, label, begin, weights = values
    return lightgbm.Dataset(
        data,
        label,
        weight=weights,
        init_score=begin,
        params=options(row, device, objective),
        free_raw_data=False,
    )


def train(row: Row, device: str, objective: str, *values: Any) -> tuple[Array, Array]:
    """Return scores of all rows, and the metrics after each tree, of all rows and of some."""
    data = dataset(row, device, objective, values)
    seen: Row = {}
    model = lightgbm.train(
        options(row, device, objective),
        data,
        TREES,
        valid_sets=[data, data.subset(np.arange(133))],
        callbacks=[lightgbm.record_evaluation(seen)],
    )
    metrics = [number for of_set in seen.values() for line in of_set.values() for number in line]
    return model.predict(values[0], raw_score=True), np.asarray(metrics)


def results(device: str, row: Row, *values: Any) -> list[tuple[Array, Array]]:
    """Return the results of each objective, by the learner of a device."""
    return [train(row, device, objective, *values) for objective in row["objectives"]]


call, expected = (functools.partial(results, device) for device in ("cuda", "cpu"))


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        *(row, inputs, call, expected),
        joined={"objectives": "+"},
        limit=SINGLE if row["precision"] == "single" else 1e-6,
        memory=2 << 30,
    )


def prepared(row: Row, seed: int) -> tuple[Any, ...]:
    """Return the data of a large case for the GPU's learner and for the CPU's."""
    values = inputs(row, seed, LARGE_ROWS)
    devices = ("cuda", "cpu")
    return tuple(dataset(row, device, kind_of(row), values).construct() for device in devices)


def losses(row: Row, device: str, *data: lightgbm.Dataset) -> Array:
    """Return the loss after each of ten trees: a large tree has splits that are nearly as good."""
    own = data[device == "cpu"]
    seen: Row = {}
    chosen = options(row, device, kind_of(row))
    lightgbm.train(chosen, own, 10, [own], callbacks=[lightgbm.record_evaluation(seen)])
    return np.asarray([number for line in seen["training"].values() for number in line])


def timed_case(objective: str) -> Case:
    """Return a case of many rows."""
    row = usual(AXES, **LARGE, objectives=(objective,))
    call, on_cpu = (functools.partial(losses, row, device) for device in ("cuda", "cpu"))
    return Case(
        name=f"{objective} {LARGE_ROWS}x{row['columns']} {row['num_leaves']} leaves 10 trees",
        inputs=functools.partial(prepared, row),
        call=call,
        expected=on_cpu,
        limit=1e-4,
        rival=on_cpu,
        rival_name="lightgbm on the CPU",
        memory=4 << 30,
    )


def exists(row: Row) -> bool:
    """Return False for penalties of other objectives than poisson: see `UNTOUCHED`."""
    return row["penalty"] == "none" or row["objectives"] == ("poisson",)


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("regression"),
        timed_case("binary"),
        *cases_of(*GRIDS),
    ]
