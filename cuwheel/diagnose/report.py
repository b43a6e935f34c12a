"""A diagnosis as one screen for people."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rich.console
import rich.text

from cuwheel.binaries.archs import describe_code
from cuwheel.diagnose.rules.nvidia_wheels import cuda_majors, nvidia_wheels
from cuwheel.diagnose.verdict import LEVELS, worst_level
from cuwheel.system.quantities import show_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.diagnose.facts.chosen_library import ChosenLibrary
    from cuwheel.diagnose.facts.environment import PythonEnvironment
    from cuwheel.diagnose.facts.gpu_packages import InstalledPackage
    from cuwheel.diagnose.facts.gpus import Driver, Gpu
    from cuwheel.diagnose.facts.host import HostFacts
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.facts.installed_toolkits import Installations
    from cuwheel.diagnose.facts.python_choice import ChosenPython
    from cuwheel.diagnose.rules.target_fit import Fit
    from cuwheel.diagnose.verdict import Level, Verdict
    from cuwheel.system.console import Console


_STYLES: dict[Level, str] = {
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "broken": "bold red",
}
_NAME_WIDTH = 13  # characters, of a fact's name and a blank
_MARK_WIDTH = 9  # characters, of the longest level and a blank
_WORD_WIDTH = 9  # characters: `because`, `to fix`, `more`
_SHOWN = 12  # packages; -- -v has all


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that was found out, and what is to be said of it.

    Attributes:
        host, driver, installations: the machine.
        settings: variables that decide something, with their values.
        chosen: the interpreter, and what led to it.
        environment, frameworks, packages, chosen_libraries: what it has; the last by project.
        fits: targets, where they were asked for.
        verdicts: the good first.
    """

    host: HostFacts | None
    driver: Driver
    installations: Installations
    settings: tuple[tuple[str, str], ...]
    chosen: ChosenPython
    environment: PythonEnvironment | None
    frameworks: tuple[FrameworkFacts, ...]
    packages: tuple[InstalledPackage, ...]
    chosen_libraries: Mapping[str, ChosenLibrary]
    fits: tuple[Fit, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def level(self) -> Level:
        """The worst verdict's."""
        return worst_level(self.verdicts)


def print_report(report: Report, terminal: rich.console.Console, console: Console) -> None:
    """Print facts, then verdicts, the worst last: that is where a terminal stands.

    Args:
        report: what was found.
        terminal: where to.
        console: says how much: where it is quiet, no more than what is wrong.
    """
    if not console.is_quiet:
        _print_facts(report, terminal, is_verbose=console.is_verbose)
    for verdict in report.verdicts:
        if not console.is_quiet or verdict.level in {"warning", "broken"}:
            _print_verdict(verdict, terminal)
    terminal.print(_closing(report))


def _print_facts(report: Report, terminal: rich.console.Console, *, is_verbose: bool) -> None:
    chosen = f"{report.chosen.path or 'none'} (by {report.chosen.how})"
    _print_section("machine", _machine_facts(report), terminal)
    _print_section(f"environment: {chosen}", _inner_facts(report), terminal)
    if report.packages:
        shown = len(report.packages) if is_verbose else _SHOWN
        _print_section("packages", _package_facts(report, shown), terminal)
    if report.fits:
        _print_section("targets", _target_facts(report.fits), terminal)
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
    """On a terminal wrapped under its own beginning; a line of a log stays a line."""
    room = max(terminal.width - len(start), 20) if terminal.is_terminal else len(text) + 1
    lines = rich.text.Text(text).wrap(terminal, room) if text else [rich.text.Text("")]
    for number, line in enumerate(lines):
        head = start if number == 0 else " " * len(start)
        terminal.print(rich.text.Text.assemble((head, style), line), soft_wrap=True)


def _print_verdict(verdict: Verdict, terminal: rich.console.Console) -> None:
    _print_wrapped(
        f"  {verdict.level:<{_MARK_WIDTH}}", verdict.what, terminal, _STYLES[verdict.level]
    )
    for word, text in (("because", verdict.cause), ("to fix", verdict.fix), ("more", verdict.more)):
        if text:
            _print_wrapped(f"  {'':<{_MARK_WIDTH}}{word:<{_WORD_WIDTH}}", text, terminal)
        if word == "to fix" and verdict.command:  # never wrapped: it is to be copied
            start = f"  {'':<{_MARK_WIDTH}}{'run':<{_WORD_WIDTH}}"
            terminal.print(rich.text.Text(f"{start}{verdict.command}"), soft_wrap=True)


def _closing(report: Report) -> rich.text.Text:
    counts = Counter(one.level for one in report.verdicts)
    listed = ", ".join(f"{counts[level]} {level}" for level in reversed(LEVELS) if counts[level])
    return rich.text.Text.assemble(
        ("diagnose: ", "bold"), (report.level, _STYLES[report.level]), f" ({listed})" * bool(listed)
    )


def _machine_facts(report: Report) -> Iterator[tuple[str, str]]:
    driver, host = report.driver, report.host
    for shown, same in itertools.groupby(driver.gpus, _show_gpu):
        numbers = [str(gpu.index) for gpu in same]
        yield f"GPU {'-'.join(dict.fromkeys((numbers[0], numbers[-1])))}", shown
    if not driver.gpus:
        yield "GPU", "none"
    yield "driver", _show_driver(driver)
    yield "toolkits", "; ".join(_toolkits(report.installations)) or "none"
    tools = (
        f"{tool.name} {tool.version or tool.fault}"
        for tool in report.installations.tools
        if tool.path
    )
    yield "programs", ", ".join(tools)
    if host:
        kind = ", WSL" if host.is_wsl else ""
        kind += f", in a container ({host.container})" if host.container else ""
        yield "system", f"{host.system}, Linux {host.kernel}, {host.architecture}{kind}"
        yield "libraries", f"glibc {host.glibc or 'unknown'}, GLIBCXX_{host.glibcxx or '?'}"
        memory = f"{show_size(host.free_memory)} of {show_size(host.memory)} memory free"
        yield "resources", f"{memory}, {host.cores} cores, {show_size(host.free_disk)} disk free"
    yield "settings", ", ".join(f"{name}={value}" for name, value in report.settings)


def _show_gpu(gpu: Gpu) -> str:
    parts = [gpu.name, f"sm_{gpu.capability}" if gpu.capability else "capability not known"]
    parts += [show_size(gpu.memory)] if gpu.memory else []
    parts += [f"MIG with {len(gpu.instances)} instances"] if gpu.mig else []
    parts += [gpu.fault] if gpu.fault else []
    return ", ".join(parts)


def _show_driver(driver: Driver) -> str:
    if not driver.version:
        return "none"
    newest = f", supports CUDA up to {driver.newest_cuda}" if driver.newest_cuda else ""
    return f"{driver.version}{newest} (from {driver.asked})"


def _toolkits(found: Installations) -> Iterator[str]:
    for number, nvcc in enumerate(found.nvccs):
        what = nvcc.version or f"unknown ({nvcc.fault})"
        wins = ", used" if number == 0 and len(found.nvccs) > 1 else ""
        yield f"{what} {nvcc.path} (by {', '.join(dict.fromkeys(nvcc.found))}{wins})"


def _inner_facts(report: Report) -> Iterator[tuple[str, str]]:
    environment = report.environment
    if environment is None:
        return
    kind = "conda's, " if environment.is_conda else ""
    packages = f"{len(environment.distributions)} packages"
    yield "Python", f"{environment.version}, {kind}{packages} in {environment.prefix}"
    for one in report.frameworks:
        yield one.name, _show_framework(one)
    wheels = nvidia_wheels(environment)
    if wheels:
        majors = sorted(cuda_majors(wheels).items())
        each = ", ".join(f"{len(names)} of CUDA {major}" for major, names in majors)
        of = f" of CUDA {majors[0][0]}" if len(majors) == 1 else f": {each}" * bool(each)
        yield "NVIDIA", f"{len(wheels)} wheels{of}"
    if not report.frameworks and not wheels:
        yield "frameworks", "none"


def _show_framework(framework: FrameworkFacts) -> str:
    parts = [framework.version]
    if framework.is_cpu_only:
        parts.append("for the CPU")
    elif framework.cuda:
        parts.append(f"CUDA {framework.cuda}")
    if framework.archs:
        parts.append(" ".join(framework.archs))
    parts += [f"{one.name} (sm_{one.capability})" for one in framework.devices[:1]]
    if framework.failure:
        parts.append("can't be imported; release read from its files")
    return ", ".join(parts)


def _package_facts(report: Report, shown: int) -> Iterator[tuple[str, str]]:
    for one in report.packages[:shown]:
        code = one.code
        held = describe_code(code) if code else "no device code"
        suppliers = sorted({supplier for supplier in one.suppliers.values() if supplier})
        others = f"; {one.others} other libraries" if one.others else ""
        choice = report.chosen_libraries.get(one.name)
        library = f"{choice.library}, " if choice else ""
        parts = (f"{one.version}, {library}{held}", ", ".join(suppliers))
        yield one.name, f"{'; from '.join(part for part in parts if part)}{others}"
    if left := report.packages[shown:]:
        yield "", f"and {len(left)} more: -- -v shows all"


def _target_facts(fits: Iterable[Fit]) -> Iterator[tuple[str, str]]:
    for fit in fits:
        reasons = (
            *(f"can't run: {reason}" for reason in fit.runs),
            *(f"can't be built: {reason}" for reason in fit.builds),
        )
        yield f"{fit.name}", "; ".join(reasons) or "fits"
