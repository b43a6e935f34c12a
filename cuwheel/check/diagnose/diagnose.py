"""The command `diagnose`: facts of machine and environment, verdicts and the report."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cuwheel.base.errors import CuwheelError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.console import Console
from cuwheel.base.system.output.terminal import report_terminal
from cuwheel.base.system.process import output_within
from cuwheel.base.system.regular_files import read_bytes
from cuwheel.check.diagnose.chosen_library import ChoosingRecipe, choosing_packages
from cuwheel.check.diagnose.document import DiagnosedMachine, DiagnoseDocument, DiagnosedTarget
from cuwheel.check.diagnose.environment_diagnosis import EnvironmentDiagnosis, describe_environment
from cuwheel.check.diagnose.facts.builds import other_machine, why_unstartable
from cuwheel.check.diagnose.facts.environment import (
    FACTS_TIME_LIMIT,
    OLD_RELEASE,
    ChosenPython,
    PythonEnvironment,
    command_to_relink,
    find_environment,
    read_environment,
)
from cuwheel.check.diagnose.facts.machine import Driver, HostFacts, find_driver, read_host_facts
from cuwheel.check.diagnose.facts.probe import TimedCall
from cuwheel.check.diagnose.facts.startup import find_ending_file, find_endless_file
from cuwheel.check.diagnose.facts.variables import find_culprit
from cuwheel.check.diagnose.report import annotate_verdicts, print_report
from cuwheel.check.diagnose.rules.driver import judge_driver
from cuwheel.check.diagnose.rules.elsewhere import judge_active, judge_kernels
from cuwheel.check.diagnose.rules.variables import (
    judge_changed,
    judge_named,
    judge_start,
    judge_switches,
    judge_variables,
)
from cuwheel.check.diagnose.toolkits import (
    Installations,
    find_installations,
    judge_extension_building,
    judge_installations,
    judge_python_headers,
)
from cuwheel.check.diagnose.verdict import (
    LEVELS,
    Diagnosis,
    FailsOn,
    broken,
    exit_code_of,
    not_examined,
    worst_level,
)

FitTargets = Callable[[Driver, HostFacts | None, str], tuple[DiagnosedTarget, ...]]

_MACHINE_TIME_LIMIT = 20.0  # seconds
_TRIALS_TIME_LIMIT = 60.0  # seconds for starts of an interpreter without some variables
_NO_SPACE = re.compile(r"no folder for temporary files|\[Errno (28|122)\]")
_LATE = "no answer within"  # of `describe_end`
_SLACK = 5.0  # seconds that a call gets beyond the time limit of its program
# Settings that decide which GPU, library or compiler is taken; shown where they are set.
_SETTINGS = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDACXX"),
    *("CUDAHOSTCXX", "NVCC_CCBIN", "CXX", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"),
    *("PYTHONHOME", "TORCH_CUDA_ARCH_LIST", "CUDA_MODULE_LOADING"),
)


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions:
    """The options of `diagnose`.

    Attributes:
        packages: requested projects; none: all with GPU code.
        start: the folder that paths are relative to.
        project: the folder whose disk a build fills.
        fails_on: the lowest level that makes the session fail.
    """

    packages: tuple[str, ...] = ()
    python: str | None = None
    verifies_files: bool = False
    start: Path
    project: Path
    fails_on: FailsOn = "broken"
    as_json: bool = False


def diagnose_session(
    options: DiagnoseOptions,
    console: Console,
    environ: Mapping[str, str],
    recipes: Iterable[ChoosingRecipe],
    fit: FitTargets | None = None,
) -> int:
    """Diagnose machine and environment, and print a report.

    Args:
        console: for progress; the report goes to standard output.
        environ: of `callers_environment`.
        fit: returns which targets fit; None: the report has none.

    Returns:
        The exit code: 0 below `fails_on`, else 1 with warnings, 2 where something is broken.
    """
    with console.live("examining machine and environment"):
        report = diagnose(options, environ, recipes, fit)
    if options.as_json:
        console.answer(report)
    else:
        print_report(report, report_terminal(), console)
    annotate_verdicts(report, console)
    return report.exit_code


def callers_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the caller's own programs, without those of nox and cuwheel.

    They write no compiled modules, as an environment must not change by being examined.
    """
    callers = {name: value for name, value in environ.items() if not name.startswith("CUWHEEL_")}
    path = environ.get("CUWHEEL_CALLERS_PYTHONPATH", callers.get("PYTHONPATH", ""))
    entries = [entry for entry in path.split(os.pathsep) if entry and entry != str(ROOT)]
    for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX"):
        callers.pop(name, None)
    if home := environ.get("CUWHEEL_CALLERS_PYTHONHOME"):
        callers["PYTHONHOME"] = home
    callers["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**callers, "PYTHONPATH": os.pathsep.join(entries)} if entries else callers


def diagnose(
    options: DiagnoseOptions,
    environ: Mapping[str, str],
    recipes: Iterable[ChoosingRecipe],
    fit: FitTargets | None = None,
) -> DiagnoseDocument:
    """Read all facts at the same time, each within its time limit, then judge them."""
    change = find_culprit(_runs_programs, environ)
    environ = change.apply(environ) if change else environ
    machine = TimedCall(_MACHINE_TIME_LIMIT, lambda: read_host_facts(options.project, environ))
    gpus = TimedCall(_MACHINE_TIME_LIMIT, lambda: find_driver(environ))
    programs = TimedCall(_MACHINE_TIME_LIMIT, lambda: find_installations(environ))
    chosen = find_environment(options.python, environ, options.start)
    if chosen.packages:
        entries = (str(chosen.packages), environ.get("PYTHONPATH", ""))
        environ = {**environ, "PYTHONPATH": os.pathsep.join(filter(None, entries))}
    choosing = choosing_packages(recipes)
    environment, unread = _open_environment(chosen, environ)
    inner = (
        EnvironmentDiagnosis(
            environment, chosen, options.packages, environ, choosing, options.start
        )
        if environment
        else None
    )
    faults = {}
    host, faults["the machine"] = machine.answer(None)
    driver, faults["NVIDIA's driver"] = gpus.answer(Driver())
    installations, faults["the toolkits"] = programs.answer(Installations())
    verdicts = [] if faults["NVIDIA's driver"] else [*judge_driver(driver, host, environ)]
    verdicts += [judge_start(change)] if change else []
    verdicts += judge_variables(environ)
    installed = environment.distributions if environment else {}
    verdicts += judge_switches(environ, installed, options.start, has_gpu=bool(driver.gpus))
    if inner:
        inner.judge(driver, host, verifies_files=options.verifies_files)
    if environment and inner:
        verdicts += judge_changed(environment, inner.unexplained, has_gpu=bool(driver.gpus))
        inner.verdicts = [one for one in inner.verdicts if not _is_known(one, verdicts)]
        elsewhere = (
            judge_active(chosen, environment, environ),
            judge_kernels(environment, environ),
        )
        verdicts += itertools.chain.from_iterable(elsewhere)
    has_triton = "triton" in installed and not environ.get("CC")
    frameworks = inner.frameworks if inner else ()
    torch = next((known for known in frameworks if known.name == "torch"), None)
    verdicts += judge_installations(installations, torch, environ, has_triton=has_triton)
    blamed = {verdict.command for verdict in (*verdicts, *(inner.verdicts if inner else ()))}
    release = environment.release if environment else ""
    named = judge_named(environ, installed, release)
    verdicts += [one for one in named if one.command not in blamed]
    if "triton" in installed and environment:
        verdicts += judge_python_headers(environment)
    if torch:
        verdicts += judge_extension_building(installations, host, has_ninja="ninja" in installed)
    targets: tuple[DiagnosedTarget, ...] = ()
    if fit:
        call = partial(fit, driver, host, environment.version if environment else "")
        targets, faults["the targets"] = TimedCall(_MACHINE_TIME_LIMIT, call).answer(())
    verdicts += [not_examined(what, fault) for what, fault in faults.items() if fault]
    verdicts += inner.verdicts if inner else unread
    level = worst_level(verdicts)
    variables = (recipe.library_per_cuda for recipe in choosing.values())
    names = dict.fromkeys((*_SETTINGS, *(declared.variable for declared in variables if declared)))
    return DiagnoseDocument(
        verdict=level,
        exit_code=exit_code_of(level, options.fails_on),
        machine=DiagnosedMachine(
            surroundings=host,
            driver=driver,
            installations=installations,
            settings={name: environ[name] for name in names if name in environ},
        ),
        environment=describe_environment(chosen, environment, frameworks),
        packages=inner.packages if inner else (),
        chosen_libraries=inner.chosen_libraries if inner else {},
        targets=targets,
        verdicts=tuple(sorted(verdicts, key=lambda verdict: LEVELS.index(verdict.level))),
    )


def _is_known(found: Diagnosis, others: Iterable[Diagnosis]) -> bool:
    """Return True if a startup file is why something fails, and another verdict names that file."""
    words = shlex.split(found.command)
    is_startup = found.anchor == "diagnose-startup-file" and words[:1] == ["mv"]
    return is_startup and any(words[1] in shlex.split(one.command) for one in others)


def _runs_programs(environ: Mapping[str, str]) -> bool:
    return not output_within(["true"], _MACHINE_TIME_LIMIT, environ)[1]


def _open_environment(
    chosen: ChosenPython, environ: Mapping[str, str]
) -> tuple[PythonEnvironment | None, list[Diagnosis]]:
    """Read an environment; without an answer there is a verdict instead."""
    if chosen.path is None:
        what = "there is no environment to look at"
        return None, [broken("python-not-found", what, chosen.fault, chosen.fix, chosen.command)]
    endless = TimedCall(_MACHINE_TIME_LIMIT, partial(find_endless_file, chosen.path, environ))
    if file := endless.answer("")[0]:
        return None, [_judge_endless(chosen.path, file)]
    call = partial(read_environment, chosen.path, environ)
    environment, fault = TimedCall(FACTS_TIME_LIMIT + _SLACK, call).answer(None)
    if environment:
        return environment, []
    return None, [_judge_start(chosen.path, environ, fault)]


def _judge_endless(python: Path, file: str) -> Diagnosis:
    return broken(
        "diagnose-startup-file",
        f"{python} doesn't start: it waits for the end of {file}",
        "it is a FIFO or a device, and Python reads each .pth at its start",
        f"remove {file}",
        f"rm {shlex.quote(file)}",
    )


def _is_readable(python: Path, environ: Mapping[str, str]) -> bool:
    try:
        return bool(read_environment(python, environ))
    except CuwheelError:
        return False


def _judge_start(python: Path, environ: Mapping[str, str], fault: str) -> Diagnosis:
    """Judge an interpreter that doesn't answer: a variable, a startup file, or something else."""
    what, fix = _program_fault(python, fault)
    if what:
        command = command_to_relink(python) if why_unstartable(python) else ""
        return broken("python-not-found", f"{python} {what}", fault, fix, command)
    if command := _in_utf_8(configuration := python.parent.parent / "pyvenv.cfg"):
        what = f"{python} doesn't start: {configuration} isn't written in UTF-8"
        return broken("python-not-found", what, fault, "write it again in UTF-8", command)
    judges = [_judge_start_variable, _judge_ending]
    # With a start that doesn't end each trial of a variable takes its whole time.
    if _LATE in fault:
        judges.reverse()
    for judge in judges:
        if verdict := judge(python, environ, fault):
            return verdict
    fix = "name another interpreter or environment with --python, or activate another one"
    return broken("python-not-found", f"{python} can't be examined", fault, fix)


def _in_utf_8(file: Path) -> str:
    """Return the command that writes a file in UTF-8; empty: it is, or none is known."""
    try:
        content = read_bytes(file)
    except OSError:
        return ""
    if not content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return ""
    name, aside = shlex.quote(str(file)), shlex.quote(f"{file}.new")
    return f"iconv -f utf-16 -t utf-8 {name} > {aside} && mv {aside} {name}"


def _program_fault(python: Path, fault: str) -> tuple[str, str]:
    """Return what is wrong with the file of an interpreter, and the fix; empty: nothing known."""
    if other := other_machine(python):
        return other, (
            "create the environment again with a Python of this machine; packages that were "
            "copied with it are for the other one too"
        )
    if why := why_unstartable(python):
        return f"can't be started: {why}", "put back the Python of this environment"
    if _NO_SPACE.search(fault):
        return "can't be examined: no temporary file can be written", (
            "free space there, or set TMPDIR to a folder that can be written; `ulimit -f` shows "
            "if files may have a size at all"
        )
    if match := OLD_RELEASE.match(fault):
        return f"is Python {match[1]}, which is too old", (
            "create an environment with a newer Python, and name it with --python"
        )
    return "", ""


def _judge_start_variable(python: Path, environ: Mapping[str, str], fault: str) -> Diagnosis | None:
    """Judge a variable without which an interpreter starts."""
    call = partial(find_culprit, partial(_is_readable, python), environ)
    change = TimedCall(_TRIALS_TIME_LIMIT, call).answer(None)[0]
    if change is None:
        return None
    return broken(
        "diagnose-variable",
        f"{python} doesn't start with {change.text}",
        f"{fault}; without it, it starts",
        change.advice,
        change.command,
    )


def _judge_ending(python: Path, environ: Mapping[str, str], fault: str) -> Diagnosis | None:
    """Judge a startup file at which each start ends, or waits."""
    call = TimedCall(_MACHINE_TIME_LIMIT, partial(find_ending_file, python, environ))
    file = call.answer("")[0]
    if not file:
        return None
    does = "waits" if _LATE in fault else "ends"
    return broken(
        "diagnose-startup-file",
        f"{python} {does} while it processes {file}, as it does at each start",
        fault,
        f"correct {file}, or move it away",
        shlex.join(("mv", file, f"{file}.off")),
    )
