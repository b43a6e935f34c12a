"""The printed report of a diagnosis: facts, then verdicts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import rich.console
import rich.text

from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.console import Console
from cuwheel.base.system.output import github
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.check.diagnose.document import (
    DiagnosedEnvironment,
    DiagnosedMachine,
    DiagnoseDocument,
    DiagnosedTarget,
)
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.machine import DriverGpu
from cuwheel.check.diagnose.rules.frameworks import cuda_majors
from cuwheel.check.diagnose.toolkits import Installations
from cuwheel.check.diagnose.verdict import LEVELS, Diagnosis, Level

_STYLES: dict[Level, str] = {
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "broken": "bold red",
}
_ANNOTATED: dict[Level, github.Level] = {"warning": "warning", "broken": "error"}
_KINDS = {
    "debian": "the distribution's nvidia-cuda-toolkit",
    "hpc": "NVIDIA's HPC SDK",
    "conda": "in a conda environment",
    "module": "a module",
}
_NAME_WIDTH = 13  # characters, of a fact's name and a blank
_LEVEL_WIDTH = 9  # characters, of the longest level and a blank
_LABEL_WIDTH = 9  # characters: `because`, `to fix`, `more`
_SHOWN = 12  # packages; -- -v has all


def print_report(
    report: DiagnoseDocument, terminal: rich.console.Console, console: Console
) -> None:
    """Print facts, then verdicts, the worst last, next to the prompt.

    Args:
        console: if it is quiet, only problems are printed.
    """
    if not console.is_quiet:
        _print_facts(report, terminal, is_verbose=console.is_verbose)
    for verdict in report.verdicts:
        if not console.is_quiet or verdict.level in {"warning", "broken"}:
            _print_verdict(verdict, terminal)
    counts = Counter(verdict.level for verdict in report.verdicts)
    listed = ", ".join(f"{counts[level]} {level}" for level in reversed(LEVELS) if counts[level])
    level = (report.verdict, _STYLES[report.verdict])
    terminal.print(
        rich.text.Text.assemble(("diagnose: ", "bold"), level, f" ({listed})" * bool(listed))
    )


def annotate_verdicts(report: DiagnoseDocument, console: Console) -> None:
    """Add what is broken, and warnings, to a run of GitHub Actions and to its summary."""
    for verdict in report.verdicts:
        if verdict.level not in _ANNOTATED:
            continue
        texts = {
            "because": verdict.cause,
            "to fix": as_typed(verdict.fix),
            "run": verdict.command,
            "more": as_typed(verdict.more),
        }
        text = "\n".join(f"{label}: {value}" for label, value in texts.items() if value)
        console.annotate(_ANNOTATED[verdict.level], text, title=verdict.what)
        console.add_to_summary(github.table({verdict.level: verdict.what, **texts}))


def _print_facts(
    report: DiagnoseDocument, terminal: rich.console.Console, *, is_verbose: bool
) -> None:
    environment = report.environment
    chosen = f"{environment.python or 'none'} (by {environment.chosen_by})"
    _print_section("machine", _machine_facts(report.machine), terminal)
    _print_section(f"environment: {chosen}", _environment_facts(environment), terminal)
    if report.packages:
        shown = len(report.packages) if is_verbose else _SHOWN
        _print_section("packages", _package_facts(report, shown), terminal)
    if report.targets:
        _print_section("targets", map(_target_fact, report.targets), terminal)
    terminal.print(rich.text.Text("verdicts", style="bold"))


def _print_section(
    title: str, facts: Iterable[tuple[str, str]], terminal: rich.console.Console
) -> None:
    terminal.print(rich.text.Text(title, style="bold"))
    rows = [(name, value) for name, value in facts if value]
    width = max(_NAME_WIDTH, *(len(name) + 2 for name, _ in rows)) if rows else 0
    for name, value in rows:
        _print_wrapped(f"  {name:<{width}}", value, terminal)


def _print_wrapped(start: str, text: str, terminal: rich.console.Console, style: str = "") -> None:
    """Print a text, on a terminal wrapped under its own beginning; in a log as one line."""
    room = max(terminal.width - len(start), 20) if terminal.is_terminal else len(text) + 1
    lines = rich.text.Text(text).wrap(terminal, room) if text else [rich.text.Text("")]
    for number, line in enumerate(lines):
        head = start if number == 0 else " " * len(start)
        terminal.print(rich.text.Text.assemble((head, style), line), soft_wrap=True)


def _print_verdict(verdict: Diagnosis, terminal: rich.console.Console) -> None:
    level, margin = f"  {verdict.level:<{_LEVEL_WIDTH}}", f"  {'':<{_LEVEL_WIDTH}}"
    _print_wrapped(level, verdict.what, terminal, _STYLES[verdict.level])
    texts = {"because": verdict.cause, "to fix": verdict.fix, "more": verdict.more}
    for label, text in texts.items():
        if text:
            _print_wrapped(f"{margin}{label:<{_LABEL_WIDTH}}", as_typed(text), terminal)
        if label == "to fix" and verdict.command:  # never wrapped: it is to be copied
            line = f"{margin}{'run':<{_LABEL_WIDTH}}{verdict.command}"
            terminal.print(rich.text.Text(line), soft_wrap=True)


def _machine_facts(machine: DiagnosedMachine) -> Iterator[tuple[str, str]]:
    driver, host = machine.driver, machine.surroundings
    for shown, same in itertools.groupby(driver.gpus, _show_gpu):
        numbers = [str(gpu.index) for gpu in same]
        yield f"GPU {'-'.join(dict.fromkeys((numbers[0], numbers[-1])))}", shown
    if not driver.gpus:
        yield "GPU", "none"
    newest = f", supports CUDA up to {driver.newest_cuda}" if driver.newest_cuda else ""
    version = f"{driver.version}{newest} (from {driver.asked})"
    yield "driver", version if driver.version else "none"
    yield "toolkits", "; ".join(_toolkits(machine.installations)) or "none"
    tools = (tool for tool in machine.installations.tools if tool.path)
    yield "programs", ", ".join(f"{tool.name} {tool.version or tool.fault}" for tool in tools)
    if host:
        kind = ", WSL" if host.is_wsl else ""
        kind += f", in a container ({host.container})" if host.container else ""
        yield "system", f"{host.system}, Linux {host.kernel}, {host.architecture}{kind}"
        yield "libraries", f"glibc {host.glibc or 'unknown'}, GLIBCXX_{host.glibcxx or '?'}"
        memory = f"{show_size(host.free_memory)} of {show_size(host.memory)} memory free"
        yield "resources", f"{memory}, {host.cores} cores, {show_size(host.free_disk)} disk free"
    yield "settings", ", ".join(f"{name}={value}" for name, value in machine.settings.items())


def _show_gpu(gpu: DriverGpu) -> str:
    parts = [gpu.name, f"sm_{gpu.capability}" if gpu.capability else "capability not known"]
    parts += [show_size(gpu.memory)] if gpu.memory else []
    parts += [f"MIG with {len(gpu.instances)} instances"] if gpu.mig else []
    parts += [gpu.fault] if gpu.fault else []
    return ", ".join(parts)


def _toolkits(installations: Installations) -> Iterator[str]:
    toolkits = installations.toolkits
    used = next((each for each in toolkits if each.path), None)
    for toolkit in toolkits:
        fault = f"unknown ({toolkit.fault})" if toolkit.path else f"{toolkit.release}, no nvcc:"
        version = toolkit.version or fault
        kind = _KINDS.get(toolkit.kind, "")
        lacks = ", ".join(part for part in toolkit.lacks if part != "nvcc")
        notes = [f"by {', '.join(toolkit.found)}", kind, f"without {lacks}" * bool(lacks)]
        notes += ["used"] if toolkit is used and len(toolkits) > 1 else []
        listed = ", ".join(filter(None, notes))
        yield f"{version} {toolkit.path or toolkit.home} ({listed})"


def _environment_facts(environment: DiagnosedEnvironment) -> Iterator[tuple[str, str]]:
    if not environment.version:
        return
    kind = "conda's, " if environment.is_conda else ""
    yield "Python", f"{environment.version}, {kind}in {environment.prefix}"
    for framework in environment.frameworks:
        yield framework.name, _show_framework(framework)
    wheels = environment.nvidia_wheels
    if wheels:
        majors = sorted(cuda_majors(wheels).items())
        each = ", ".join(f"{len(names)} of CUDA {major}" for major, names in majors)
        of = f" of CUDA {majors[0][0]}" if len(majors) == 1 else f": {each}" * bool(each)
        yield "NVIDIA", f"{plural(len(wheels), 'wheel')}{of}"
    if not environment.frameworks and not wheels:
        yield "frameworks", "none"


def _show_framework(framework: FrameworkFacts) -> str:
    cuda = f"CUDA {framework.cuda}" if framework.cuda else ""
    parts = [framework.version, "for the CPU" if framework.is_cpu_only else cuda]
    parts.append(" ".join(framework.archs))
    parts += [f"{device.name} (sm_{device.capability})" for device in framework.devices[:1]]
    parts += ["can't be imported; release read from its files"] if framework.failure else []
    return ", ".join(filter(None, parts))


def _package_facts(report: DiagnoseDocument, shown: int) -> Iterator[tuple[str, str]]:
    for package in report.packages[:shown]:
        code = describe_code(DeviceCode(sass=package.archs, ptx=package.ptx_archs))
        suppliers = ", ".join(sorted({name for name in package.suppliers.values() if name}))
        others = f"; {package.other_libraries} other libraries" if package.other_libraries else ""
        choice = report.chosen_libraries.get(package.name)
        library = f"{choice.library}, " if choice else ""
        origin = f"; from {suppliers}" if suppliers else ""
        yield (
            package.name,
            f"{package.version}, {library}{code or 'no device code'}{origin}{others}",
        )
    if rest := report.packages[shown:]:
        yield "", as_typed(f"and {len(rest)} more: -- -v shows all")


def _target_fact(target: DiagnosedTarget) -> tuple[str, str]:
    reasons = [f"can't run: {reason}" for reason in target.runs]
    reasons += [f"can't be built: {reason}" for reason in target.builds]
    return target.name, "; ".join(reasons) or "fits"
