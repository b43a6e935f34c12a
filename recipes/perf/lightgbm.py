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
    "stochastic rounding, which is random",
)
SINGLE = 1e-5  # sums of 20,000 values in float32
TREES = 3
GROUPS = (1, 2, 30, 100, 1100, 2100)  # sizes of queries: CUDA sorts up to 1024, 2048 and more

Row = dict[str, Any]

AXES: dict[str, tuple[Any, ...]] = {
    "objectives": (
        *(("regression", "huber", "fair", "custom"), ("binary",), ("multiclass", "multiclassova")),
        *(("regression_l1", "quantile"), ("poisson",), ("lambdarank", "rank_xendcg")),
    ),
    "data": ("dense", "mixed", "sparse"),
    "columns": (8, 200),
    "rows": (20000, 300),
    "max_bin": (255, 15, 10000),
    "num_leaves": (15, 2, 40),
    "bag": (1.0, 0.7, 0.3),
    "features": (1.0, 0.6),
    "penalty": ("none", "lambda", "path_smooth"),
    "boosting": ("gbdt", "dart"),
    "weights": (False, True),
    "precision": ("single", "double"),
    "quantized": (False, True),
}
LARGE: Row = {"rows": 1 << 20, "columns": 32, "num_leaves": 63}
PENALTIES: dict[str, Row] = {
    "none": {},
    "lambda": {"lambda_l1": 2.0, "lambda_l2": 3.0},
    "path_smooth": {"path_smooth": 5.0},
}


def exists(row: Row) -> bool:
    """Return False for what takes too much memory, or has several best splits.

    A split between two empty bins is as good at either: rows outside of the bag then differ. So
    are splits of few rows by signs, the gradients of L1; a rounding takes a step in quantized
    ranks. Of few rows, bags and weights quantized, the CPU's learner stops at leaves without a row.
    """
    is_large = row["columns"] > 100 and row["max_bin"] > 1000
    is_few = row["rows"] < 1000
    is_ambiguous = row["bag"] < 1 and (is_few or row["max_bin"] > 15)
    is_ambiguous |= kind_of(row) == "regression_l1" and (is_few or row["num_leaves"] > 15)
    is_all = not is_few and row["bag"] == 1 and not row["weights"]
    is_all &= kind_of(row) != "lambdarank"
    return not is_large and not is_ambiguous and (is_all or not row["quantized"])


def inputs(row: Row, seed: int) -> tuple[Any, ...]:
    """Return columns, labels, the scores that a model begins with, and weights.

    Six columns have a threshold each, with effects so different that the best split is clear.
    """
    random = np.random.default_rng(seed)
    columns = random.uniform(0.1, 1, (row["rows"], row["columns"]))
    if row["data"] == "sparse":
        columns *= random.uniform(size=columns.shape) < 0.2
    thresholds = np.linspace(0.3, 0.7, 6)
    effects = (columns[:, :6] > thresholds) @ (0.7 ** np.arange(6))
    if row["data"] == "mixed":
        for place, count in ((6, 3), (7, 50)):  # one column as 0 or 1 for each, and in sets
            codes = random.integers(count, size=row["rows"])
            columns[:, place] = codes
            effects += random.normal(size=count)[codes]
        columns[random.uniform(size=row["rows"]) < 0.1, 0] = np.nan
    data = scipy.sparse.csr_matrix(columns) if row["data"] == "sparse" else columns
    label = labels(row, effects + 0.3 * random.normal(size=row["rows"]))
    # With equal scores the gradients of two classes have two values, so that sums are equal too.
    is_even = kind_of(row) not in ("regression", "regression_l1")
    begin = 0.1 * random.normal(size=row["rows"]) if is_even else None
    return data, label, begin, random.uniform(0.5, 1.5, row["rows"]) if row["weights"] else None


def kind_of(row: Row) -> str:
    """Return the first objective of a row; all take the same labels."""
    return str(row["objectives"][0])


def labels(row: Row, values: Array) -> Array:
    """Return values as an objective takes them."""
    kind = kind_of(row)
    if kind == "binary":
        return (values > np.median(values)).astype(float)
    if kind in ("multiclass", "lambdarank"):
        return np.searchsorted(np.quantile(values, (0.4, 0.7, 0.9)), values).astype(float)
    if kind == "poisson":
        return np.clip(np.floor(np.exp(values - values.mean())), 0, 9)
    return values


def groups(row: Row) -> list[int]:
    """Return the sizes of queries."""
    sizes = list(GROUPS if row["rows"] > sum(GROUPS) else GROUPS[:4])
    rest = row["rows"] - sum(sizes)
    return [*sizes, *[200] * (rest // 200), *([rest % 200] if rest % 200 else [])]


def squares(scores: Array, data: lightgbm.Dataset) -> tuple[Array, Array]:
    """Return gradients and second derivatives of squared errors: an objective in Python."""
    return scores - data.get_label(), np.ones_like(scores)


def options(row: Row, device: str, objective: str) -> Row:
    """Return lightgbm's parameters."""
    several = {"num_class": 4} if objective.startswith("multiclass") else {}
    bag = {"bagging_fraction": row["bag"], "bagging_freq": 1} if row["bag"] < 1 else {}
    custom = {"objective": squares, "metric": "l2"}
    return {
        "device_type": device,
        **(custom if objective == "custom" else {"objective": objective}),
        **{name: row[name] for name in ("max_bin", "num_leaves", "boosting")},
        **several,
        **bag,
        **PENALTIES[row["penalty"]],
        "min_data_in_bin": 1,
        "feature_fraction": row["features"],
        "gpu_use_dp": row["precision"] == "double",
        "use_quantized_grad": row["quantized"],
        "stochastic_rounding": False,
        "learning_rate": 0.5,
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
    }


def dataset(row: Row, device: str, objective: str, values: tuple[Any, ...]) -> lightgbm.Dataset:
    """Return what a model is trained with."""
    data, label, begin, weights = values
    is_multiclass = kind_of(row) == "multiclass"
    return lightgbm.Dataset(
        data,
        label,
        weight=weights,
        group=groups(row) if kind_of(row) == "lambdarank" else None,
        init_score=np.outer(begin, (1, -1, 2, 0.5)) if is_multiclass else begin,
        categorical_feature=[6, 7] if row["data"] == "mixed" else "auto",
        params=options(row, device, objective),
        free_raw_data=False,
    )


def train(row: Row, device: str, objective: str, *values: Any) -> tuple[Array, Array]:
    """Return scores of all rows, and the metrics after each tree, of all rows and of some."""
    data = dataset(row, device, objective, values)
    some = np.arange(sum(GROUPS[:4]))
    seen: Row = {}
    model = lightgbm.train(
        options(row, device, objective),
        data,
        TREES,
        valid_sets=[data, data.subset(some)],
        callbacks=[lightgbm.record_evaluation(seen)],
    )
    metrics = [number for of_set in seen.values() for line in of_set.values() for number in line]
    return model.predict(values[0], raw_score=True), np.asarray(metrics)


def results(device: str, row: Row, *values: Any) -> list[tuple[Array, Array]]:
    """Return the results of each objective, by the learner of a device."""
    return [train(row, device, objective, *values) for objective in row["objectives"]]


call, expected = (functools.partial(results, device) for device in ("cuda", "cpu"))


def limit(row: Row) -> float:
    """Return the largest error: the CPU's sigmoid is a table; a rounding may take a step."""
    if kind_of(row) == "lambdarank" or row["quantized"]:
        return 1e-3
    return SINGLE if row["precision"] == "single" else 1e-6


def grid_case(row: Row) -> Case:
    """Return a case that is only checked."""
    return case_of(
        *(row, inputs, call, expected),
        joined={"objectives": "+"},
        limit=limit(row),
        memory=2 << 30,
    )


def prepared(row: Row, seed: int) -> tuple[Any, ...]:
    """Return the data of a large case for the GPU's learner and for the CPU's."""
    values = inputs(row, seed)
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
        name=f"{objective} {row['rows']}x{row['columns']} {row['num_leaves']} leaves 10 trees",
        inputs=functools.partial(prepared, row),
        call=call,
        expected=on_cpu,
        limit=1e-4,
        rival=on_cpu,
        rival_name="lightgbm on the CPU",
        memory=4 << 30,
    )


GRIDS = ((AXES, exists, grid_case),)


def cases() -> list[Case]:
    """Return large cases to check and to measure; the grid."""
    return [
        timed_case("regression"),
        timed_case("binary"),
        *cases_of(*GRIDS),
    ]
