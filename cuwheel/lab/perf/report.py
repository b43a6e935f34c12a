"""A run of `perf` for people: figures as text, tables on a terminal, and the history of runs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import rich.console
import rich.markup
import rich.table

from cuwheel.base.errors import UsageError
from cuwheel.base.system.console import Console
from cuwheel.base.system.files import write_atomically
from cuwheel.base.system.folders.output_folder import FolderKind
from cuwheel.base.system.output.documents import as_file
from cuwheel.base.system.quantities import GIB, plural, show_share, show_size
from cuwheel.lab.perf.records import CaseResult, Comparison, PerfRun, SweepResult, read_run

PERF_FOLDER = FolderKind(name="perf", what="a report of `nox -s perf`")
_STYLES = {"SLOWER": "red", "UNDECIDED": "yellow", "SAME": "green", "FASTER": "green"}
_TERA, _GIGA = 1e12, 1e9
TITLES = ("case", "error", "limit", "time", "rate", "of ceiling", "against", "own kernels")

# Both errors are also multiples of the case's limit; "at most" is the limit of a block's.
ERROR_TITLES = ("case", "error", "of limit", "worst block", "of limit", "at most", "where")
SWEEP_TITLES = ("clients", "requests/s", "tokens/s", "p50", "p95", "GPU memory", "what")


def show_seconds(seconds: float) -> str:
    """Return `12.3 µs`, `1.23 ms`, `1.23 s`."""
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def show_rate(case: CaseResult) -> str:
    """Return `3.92 TB/s`, `612 TFLOP/s`, or both."""
    rates = []
    if case.operations_rate:
        unit = "TOP/s" if case.precision == "int8" else "TFLOP/s"
        rates.append(f"{case.operations_rate / _TERA:.3g} {unit}")
    if case.bytes_rate:
        rates.append(
            f"{case.bytes_rate / _TERA:.2f} TB/s"
            if case.bytes_rate >= _TERA
            else f"{case.bytes_rate / _GIGA:.0f} GB/s"
        )
    return ", ".join(rates)


def show_ceilings(run: PerfRun) -> str:
    """Return `copy 3.03 TB/s, bf16 790 TFLOP/s`."""
    parts = [
        f"copy {rate / _TERA:.2f} TB/s" if name == "copy" else f"{name} {rate / _TERA:.3g} TFLOP/s"
        for name, rate in run.ceilings.items()
    ]
    return ", ".join(parts)


def show_comparison(comparison: Comparison) -> str:
    """Return `SAME 1.002 (0.998 to 1.006), noise 0.4 %`."""
    return (
        f"{comparison.answer} {comparison.ratio:.3f} ({comparison.low:.3f} to "
        f"{comparison.high:.3f}), noise {comparison.noise:.1%}".replace("%", " %")
    )


def show_answer(run: PerfRun) -> str:
    """Return `SAME as causal_conv1d-….whl`; empty where nothing was compared."""
    if not run.answer:
        return ""
    link = {"SAME": "as", "UNDECIDED": "against"}.get(run.answer, "than")
    within = f"{run.tolerance:.3g}" if run.tolerance < 0.01 else f"{run.tolerance:.0%}"  # noqa: PLR2004
    return f"{run.answer} {link} {run.against} (within {within.replace('%', ' %')})"


def show_suppliers(libraries: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a line for each supplier of libraries: `from torch 2.11.0: libc10.so, …`.

    Libraries without a supplier are shown with their paths.
    """
    suppliers: dict[str, list[str]] = {}
    for soname, location, supplier in libraries:
        names = suppliers.setdefault(supplier or "the machine, not a wheel", [])
        names.append(soname if supplier else location)
    for supplier, names in sorted(suppliers.items()):
        yield f"from {supplier}: {', '.join(names)}"


def row_of(case: CaseResult) -> tuple[str, ...]:
    """Return the cells of a case, for `TITLES`."""
    if case.skipped:
        return (case.name, "left out", "", "", case.skipped, "", "", "")
    if case.failed:
        return (case.name, "failed", "", "", case.failed, "", "", "")
    against = ""
    if case.comparison:
        against = show_comparison(case.comparison)
    elif case.timing and case.rival_timing and case.rival_error is not None:
        against = f"{case.rival_timing.median / case.timing.median:.2f} x {case.rival_name}"
    return (
        case.name,
        f"{case.error:.1e}" if case.error is not None else "",
        f"{case.limit:.1e}",
        show_seconds(case.timing.median) if case.timing else "",
        show_rate(case) if case.timing else "",
        show_share(case.ceiling_share) if case.ceiling_share else "",
        against,
        show_share(case.own_share) if case.own_share is not None else "not read",
    )


def is_quiet(case: CaseResult) -> bool:
    """Return True for a case of a grid of which there is nothing to say."""
    return case.is_grid and not (case.faults or case.failed or case.skipped or case.undecided)


def show_levels(run: PerfRun) -> Iterator[str]:
    """Yield a line for the right cases of the grid, each sanitizer, the source's tests, times."""
    if right := sum(map(is_quiet, run.cases)):
        yield f"{plural(right, 'case')} of the grid correct"
    for part in run.sanitizing:
        found = plural(len(part.problems), "problem")
        known = f", {len(part.known)} known" if part.known else ""
        yield f"{part.tool}: {found} in {plural(len(part.cases), 'case')}{known}"
    if tests := run.upstream_tests:
        counts = f"{tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped"
        yield f"tests of the source: {counts}"
    for name in run.untouched:
        yield f"not called: {name}"
    if run.seconds:
        yield "took " + ", ".join(f"{level} {taken:.0f} s" for level, taken in run.seconds.items())


def errors_of(cases: Iterable[CaseResult]) -> Iterator[tuple[str, ...]]:
    """Yield the errors of each case relative to its limit, for `ERROR_TITLES`."""
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


def sweep_row(result: SweepResult) -> tuple[str, ...]:
    """Return the cells of concurrent requests, for `SWEEP_TITLES`."""
    return (
        str(result.clients),
        f"{result.rate:.2f}",
        f"{result.tokens:.0f}" if result.tokens else "",
        show_seconds(result.p50),
        show_seconds(result.p95),
        show_size(result.memory),
        result.what,
    )


def describe_run(run: PerfRun) -> Iterator[tuple[str, str]]:
    """Yield titles and texts on the package and its environment."""
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


def print_run(run: PerfRun, terminal: rich.console.Console, console: Console) -> None:
    """Print environment, cases, faults and answer; on a quiet console only the last two."""
    if not console.is_quiet:
        _print_cases(run, terminal, is_verbose=console.is_verbose)
    for fault in run.faults:
        terminal.print(f"wrong: {fault}", markup=False, style="red")
    if run.answer:
        terminal.print(show_answer(run), markup=False, style=_STYLES[run.answer])


def _print_cases(run: PerfRun, terminal: rich.console.Console, *, is_verbose: bool) -> None:
    for title, text in describe_run(run):
        terminal.print(f"{title:10} {text}", markup=False)
    table = _new_table(TITLES)
    for case in run.cases:
        if is_verbose or not is_quiet(case):
            table.add_row(*map(rich.markup.escape, row_of(case)), style=_style_of(case))
    terminal.print(table)
    for line in show_levels(run):
        terminal.print(line, markup=False)
    if run.sweep:
        sweep = _new_table(SWEEP_TITLES)
        for result in run.sweep:
            sweep.add_row(*map(rich.markup.escape, sweep_row(result)))
        terminal.print(sweep)
    for line in show_suppliers(run.libraries):
        terminal.print(line, markup=False, style="dim")
    for note in run.notes:
        terminal.print(f"note: {note}", markup=False)
    if is_verbose:
        _print_details(run, terminal)


def _print_details(run: PerfRun, terminal: rich.console.Console) -> None:
    errors = _new_table(ERROR_TITLES)
    for row in errors_of(run.cases):
        errors.add_row(*map(rich.markup.escape, row), style="dim")
    terminal.print(errors)
    kernels = [(case.name, *kernel) for case in run.cases for kernel in case.kernels]
    for case_name, name, share in kernels:
        terminal.print(f"{case_name}: {show_share(share)} {name}", markup=False, style="dim")


def _style_of(case: CaseResult) -> str:
    if case.faults or case.failed:
        return "red"
    if case.skipped:
        return "dim"
    return _STYLES[case.comparison.answer] if case.comparison else ""


def _new_table(titles: tuple[str, ...]) -> rich.table.Table:
    table = rich.table.Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


def keep_run(run: PerfRun, folder: Path) -> None:
    """Add a run to a history."""
    stamp = run.date.partition("+")[0].replace(":", "").replace("-", "")
    content = as_file(run)
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    write_atomically(folder / f"{stamp}-{digest}.json", content)


def read_history(folder: Path, run: PerfRun) -> tuple[PerfRun, ...]:
    """Return a history's right runs of the same recipe, GPU and driver, the oldest first."""
    runs = []
    subject = (run.gpu_names, run.gpu.driver, run.recipe)
    for path in sorted(folder.glob("*.json")):
        try:
            earlier = read_run(path)
        except UsageError:  # of another release of cuwheel
            continue
        if (
            not earlier.faults
            and (earlier.gpu_names, earlier.gpu.driver, earlier.recipe) == subject
        ):
            runs.append(earlier)
    return tuple(runs)
