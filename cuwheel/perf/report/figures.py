"""Times, rates and ratios of a run as a person reads them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cuwheel.system.quantities import GIB, show_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.perf.records import CaseResult, Comparison, PerfRun

_TERA, _GIGA = 1e12, 1e9
TITLES = ("case", "error", "limit", "time", "rate", "of ceiling", "against", "own kernels")

# Both errors are also given as multiples of the case's limit; "at most": what a block's may be.
ERROR_TITLES = ("case", "error", "of limit", "worst block", "of limit", "at most", "where")


def show_seconds(seconds: float) -> str:
    """`12.3 µs`, `1.23 ms`, `1.23 s`."""
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def show_rate(case: CaseResult) -> str:
    """`3.92 TB/s`, `612 TFLOP/s`, or both."""
    found = []
    if case.operations_rate:
        unit = "TOP/s" if case.precision == "int8" else "TFLOP/s"
        found.append(f"{case.operations_rate / _TERA:.3g} {unit}")
    if case.bytes_rate:
        found.append(
            f"{case.bytes_rate / _TERA:.2f} TB/s"
            if case.bytes_rate >= _TERA
            else f"{case.bytes_rate / _GIGA:.0f} GB/s"
        )
    return ", ".join(found)


def show_ceilings(run: PerfRun) -> str:
    """`copy 3.03 TB/s, bf16 790 TFLOP/s`."""
    parts = [
        f"copy {rate / _TERA:.2f} TB/s" if name == "copy" else f"{name} {rate / _TERA:.3g} TFLOP/s"
        for name, rate in run.ceilings.items()
    ]
    return ", ".join(parts)


def show_comparison(found: Comparison) -> str:
    """`SAME 1.002 (0.998 to 1.006), noise 0.4 %`."""
    return (
        f"{found.answer} {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}), "
        f"noise {found.noise:.1%}".replace("%", " %")
    )


def show_answer(run: PerfRun) -> str:
    """`SAME as causal_conv1d-….whl`; empty where nothing was compared."""
    if not run.answer:
        return ""
    link = {"SAME": "as", "UNDECIDED": "against"}.get(run.answer, "than")
    within = f"{run.tolerance:.3g}" if run.tolerance < 0.01 else f"{run.tolerance:.0%}"  # noqa: PLR2004
    return f"{run.answer} {link} {run.against} (within {within.replace('%', ' %')})"


def show_suppliers(libraries: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Where the libraries came from, one line for each supplier: `from torch 2.11.0: libc10.so, …`.

    Args:
        libraries: soname, file, who supplied it; files of the machine, the driver's but for, are
            named whole.
    """
    found: dict[str, list[str]] = {}
    for soname, location, supplier in libraries:
        is_machines = not supplier
        found.setdefault(supplier or "the machine, not a wheel", []).append(
            location if is_machines else soname
        )
    for supplier, names in sorted(found.items()):
        yield f"from {supplier}: {', '.join(names)}"


def row_of(case: CaseResult) -> tuple[str, ...]:
    """The cells of a case, under `TITLES`."""
    if case.skipped:
        return (case.name, "left out", "", "", case.skipped, "", "", "")
    if case.failed:
        return (case.name, "failed", "", "", case.failed, "", "", "")
    return (
        case.name,
        f"{case.error:.1e}" if case.error is not None else "",
        f"{case.limit:.1e}",
        show_seconds(case.timing.median) if case.timing else "",
        show_rate(case) if case.timing else "",
        show_share(case.ceiling_share) if case.ceiling_share else "",
        _against(case),
        show_share(case.own_share) if case.own_share is not None else "not read",
    )


def errors_of(cases: Iterable[CaseResult]) -> Iterator[tuple[str, ...]]:
    """How the errors of the cases stand to their limits, under `ERROR_TITLES`."""
    for case in cases:
        if case.error is None or case.block_error is None:
            continue
        limit = case.limit or math.inf
        yield (
            case.name,
            f"{case.error:.1e}",
            f"{case.error / limit:.2g} x",
            f"{case.block_error:.1e}",
            f"{case.block_error / limit:.2g} x",
            f"{case.block_limit / limit:.3g} x",
            ": ".join(filter(None, (case.block, case.block_reason))),
        )


def _against(case: CaseResult) -> str:
    if case.comparison:
        return show_comparison(case.comparison)
    if case.timing and case.rival_timing and case.rival_error is not None:
        return f"{case.rival_timing.median / case.timing.median:.2f} x {case.rival_name}"
    return ""


def describe_run(run: PerfRun) -> Iterator[tuple[str, str]]:
    """What was measured where: a title and its text, line by line."""
    yield "package", run.package
    if run.wheel:
        yield "wheel", run.wheel
    yield "SHA-256", run.sha256
    gpu = run.gpu
    more = f"sm_{gpu.capability}, {gpu.memory / GIB:.0f} GiB, driver {gpu.driver or 'unknown'}"
    yield "GPU", f"{run.gpu_names} ({more})"
    yield "date", run.date
    yield "Python", f"{run.python}, {run.framework}" if run.framework else run.python
    yield "time by", run.clock
    if run.cuwheel:
        yield "cuwheel", " ".join(filter(None, (run.cuwheel, run.commit[:12])))
    yield "ceilings", show_ceilings(run)
    if run.variables:
        yield "variables", ", ".join(f"{name}={value}" for name, value in run.variables.items())
    if run.against:
        yield "against", run.against
