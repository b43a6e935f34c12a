"""The session `diagnose`: will it work here, and if not, why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cuwheel.diagnose.document import diagnose_document
from cuwheel.diagnose.environment_diagnosis import EnvironmentDiagnosis
from cuwheel.diagnose.facts.chosen_library import choosing_packages
from cuwheel.diagnose.facts.deadline import TimedCall
from cuwheel.diagnose.facts.gpus import Driver, find_driver
from cuwheel.diagnose.facts.host import HostFacts, read_host_facts
from cuwheel.diagnose.facts.installed_toolkits import Installations, find_installations
from cuwheel.diagnose.facts.python_choice import find_environment
from cuwheel.diagnose.report import Report, print_report
from cuwheel.diagnose.rules.driver import judge_driver
from cuwheel.diagnose.rules.toolkit import judge_installations
from cuwheel.diagnose.verdict import LEVELS, exit_code_of, not_asked
from cuwheel.paths import ROOT, project_folder
from cuwheel.system.output.terminal import report_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from cuwheel.diagnose.rules.target_fit import Fit
    from cuwheel.diagnose.verdict import FailsOn
    from cuwheel.model.recipe import Recipe
    from cuwheel.system.console import Console

    FitTargets = Callable[[Driver, HostFacts | None, str], tuple[Fit, ...]]


_MACHINE_TIME_LIMIT = 20.0  # seconds
_OWN_VARIABLES = "CUWHEEL_"
_CALLERS_PATH = "CUWHEEL_CALLERS_PYTHONPATH"


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions:
    """What is to be examined.

    Attributes:
        packages: projects that the person names; none: all with GPU code.
        python: an interpreter, an environment's folder or a conda environment's name.
        verifies_files: every file of the packages is read and held against its hash.
        start: the folder that paths are relative to.
        fails_on: the least level that makes the session fail; `never`: none does.
        as_json: print data instead of text.
    """

    packages: tuple[str, ...] = ()
    python: str | None = None
    verifies_files: bool = False
    start: Path
    fails_on: FailsOn = "broken"
    as_json: bool = False


def diagnose_session(
    asked: DiagnoseOptions,
    console: Console,
    recipes: Iterable[Recipe],
    fit: FitTargets | None = None,
) -> int:
    """Ask everything, print a report.

    Args:
        asked: what.
        console: for what is said meanwhile; the report goes to standard output.
        recipes: what is known of packages that choose among libraries.
        fit: says which targets fit; None: nobody wants to know.

    Returns:
        The exit code: 0 below `fails_on`, else 1 with warnings, 2 where something is broken.
    """
    environ = callers_environment(os.environ)
    with console.live("examining machine and environment"):
        report = diagnose(asked, environ, recipes, fit)
    if asked.as_json:
        console.answer(diagnose_document(report, asked.fails_on))
    else:
        print_report(report, report_terminal(), console)
    return exit_code_of(report.level, asked.fails_on)


def callers_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the person's own programs see: without what nox and cuwheel have added.

    They write no compiled modules, as an environment that is looked at has to stay as it is.
    """
    own = {name: value for name, value in environ.items() if not name.startswith(_OWN_VARIABLES)}
    path = environ.get(_CALLERS_PATH, own.get("PYTHONPATH", ""))
    entries = [entry for entry in path.split(os.pathsep) if entry and entry != str(ROOT)]
    for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX"):
        own.pop(name, None)
    own["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**own, "PYTHONPATH": os.pathsep.join(entries)} if entries else own


def diagnose(
    asked: DiagnoseOptions,
    environ: Mapping[str, str],
    recipes: Iterable[Recipe],
    fit: FitTargets | None = None,
) -> Report:
    """Ask everything at once, wait for each answer no longer than it may take, then judge.

    Args:
        asked: what.
        environ: of the caller.
        recipes: as for `diagnose_session`.
        fit: likewise.
    """
    machine = TimedCall[HostFacts | None](
        _MACHINE_TIME_LIMIT, lambda: read_host_facts(project_folder())
    )
    gpus = TimedCall(_MACHINE_TIME_LIMIT, lambda: find_driver(environ))
    programs = TimedCall(_MACHINE_TIME_LIMIT, lambda: find_installations(environ))
    chosen = find_environment(asked.python, environ, asked.start)
    choosing = choosing_packages(recipes)
    inner = EnvironmentDiagnosis(
        chosen, asked.packages, environ, choosing, verifies_files=asked.verifies_files
    )
    host, host_fault = machine.answer(None)
    driver, driver_fault = gpus.answer(Driver())
    installations, programs_fault = programs.answer(Installations())
    faults = (
        ("the machine", host_fault),
        ("NVIDIA's driver", driver_fault),
        ("the toolkits", programs_fault),
    )
    verdicts = [not_asked(what, fault) for what, fault in faults if fault]
    verdicts += judge_driver(driver, host, environ) if not driver_fault else ()
    inner.judge(driver, host)
    verdicts += judge_installations(
        installations,
        inner.framework("torch"),
        has_triton=inner.has("triton") and not environ.get("CC"),
    )
    fits: tuple[Fit, ...] = ()
    if fit:
        version = inner.environment.version if inner.environment else ""
        question = TimedCall(_MACHINE_TIME_LIMIT, partial(fit, driver, host, version))
        fits, fault = question.answer(())
        verdicts += [not_asked("the targets", fault)] if fault else []
    return Report(
        host=host,
        driver=driver,
        installations=installations,
        settings=_settings(environ, choosing.values()),
        chosen=chosen,
        environment=inner.environment,
        frameworks=inner.frameworks,
        packages=inner.packages,
        chosen_libraries=inner.chosen_libraries,
        fits=fits,
        verdicts=tuple(
            sorted((*verdicts, *inner.verdicts), key=lambda one: LEVELS.index(one.level))
        ),
    )


# Settings that decide which GPU, library or compiler is taken; shown where they are set.
_SETTINGS = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDACXX"),
    *("CUDAHOSTCXX", "NVCC_CCBIN", "CXX", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"),
    *("PYTHONHOME", "TORCH_CUDA_ARCH_LIST", "CUDA_MODULE_LOADING"),
)


def _settings(
    environ: Mapping[str, str], choosing: Iterable[Recipe]
) -> tuple[tuple[str, str], ...]:
    """With the variables that make a package load another library."""
    own = (one.library_per_cuda.variable for one in choosing if one.library_per_cuda)
    names = dict.fromkeys((*_SETTINGS, *own))
    return tuple((name, environ[name]) for name in names if name in environ)
