"""Verdicts on the frameworks of an environment, and on the CUDA of NVIDIA's wheels."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cuwheel.base.formats.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.base.formats.wheel.metadata import project_of
from cuwheel.base.system.quantities import plural
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.components import COMPONENTS
from cuwheel.check.cuda.drivers import oldest_driver
from cuwheel.check.cuda.suppliers import components_of
from cuwheel.check.diagnose.facts.environment import Distribution, PythonEnvironment
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, is_late
from cuwheel.check.diagnose.facts.library_pairs import LackingLibrary
from cuwheel.check.diagnose.facts.machine import Driver
from cuwheel.check.diagnose.facts.variables import without_entry
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.rules.import_failures import (
    crash_site,
    exception_in,
    explain,
)
from cuwheel.check.diagnose.rules.isolation import Failure, judge_cause
from cuwheel.check.diagnose.rules.requirements import (
    OTHER_VERSION,
    extra_fix,
    is_nvidias,
    required_by,
    requirers,
)
from cuwheel.check.diagnose.verdict import Diagnosis, broken, not_examined, notes, warns, works

_SUFFIX = re.compile(r"-cu(\d+)$")
_PLUGIN = re.compile(r"jax-cuda(\d+)-plugin")
# Libraries with the number of CUDA in their names.
_OF_TOOLKIT = re.compile(r"lib(?:cudart|cublas|nvrtc)\.so\.(\d+)")
_BARE = re.compile(r"Unable to load|Outdated")
_CUPTI = re.compile(r"nvidia-cuda-cupti(-cu\d+)?")
_LOWER = re.compile(r">=\s*(\d+\.\d+)")
_NVRTC = re.compile(r"failed to load (libnvrtc\.so\.\d+)")
_HOLLOW = re.compile(r"AttributeError: (partially initialized )?module '\w+' has no attribute")


def judge_frameworks(context: RuleContext, remedies: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Judge the import of each framework, the GPUs that it sees, and its device code.

    Args:
        remedies: `remedies_of` them.
    """
    for framework in context.frameworks:
        name = f"{framework.name} {framework.version}"
        remedy = remedies.get(framework.name)
        faults = [
            *_import_fault(name, framework, remedy, context),
            *_plugin_fault(name, framework, context),
        ]
        faults += _cuda_fault(name, framework, context)
        project = context.projects.get(framework.name)
        if framework.trouble and project and project.name in context.changes:
            faults.insert(0, _trouble(name, framework, context, remedy))  # nothing works with it
        faults += [] if faults else [*_visibility_fault(name, framework, context, remedy)]
        yield from (*faults, *_lacking(name, framework, context))
        if framework.was_imported and not faults:
            gpus = f"sees {plural(len(framework.devices), 'GPU')}"
            state = gpus if framework.available else "can be imported"
            # JAX's plugin without its other half does nothing.
            pjrt = f"jax-cuda{framework.major}-pjrt"
            is_half = framework.name == "jax" and pjrt not in context.environment.distributions
            cuda = f", CUDA {framework.cuda}" if framework.cuda and not is_half else ""
            yield works(f"{name} {state}{cuda}")


def _lacking(name: str, framework: FrameworkFacts, context: RuleContext) -> Iterator[Diagnosis]:
    """Yield a verdict about parts of a framework that only their first use would show."""
    if framework.lacking:
        why = next(iter(framework.lacking.values())).partition(" listdir(")[0]
        conda = _cuda_of_conda(context) if framework.major else {}
        judged, end = notes, "the rest of it works"
        if conda and framework.major not in conda:
            judged = warns
            file = next(iter(conda.values()))
            end = f"conda's libraries are for CUDA {' and '.join(conda)} ({file}), and it is for "
            end += f"CUDA {framework.major}"
        yield judged(
            "cuda-math-lib-not-found",
            f"{name} can't use {', '.join(framework.lacking)}",
            f"{why}; {end}",
            *extra_fix(context, context.projects[framework.name]),
        )


def _cuda_of_conda(context: RuleContext) -> dict[str, Path]:
    """Return the releases of CUDA of which conda has libraries, each with one; empty without."""
    environment = context.environment
    files = environment.prefix.glob("lib/lib*.so.*") if environment.is_conda else ()
    return {match[1]: file for file in files if (match := _OF_TOOLKIT.fullmatch(file.name))}


def _import_fault(
    name: str, framework: FrameworkFacts, remedy: str | None, context: RuleContext
) -> Iterator[Diagnosis]:
    what = f"{name} can't be imported"
    project = context.projects.get(framework.name)
    intact = "; its files are as they were installed, as far as RECORD lists them"
    intact *= context.files_were_read
    if is_late(framework.failure):
        yield not_examined(f"the import of {name}", exception_in(framework.failure))
        return
    if framework.failure and project:
        failure = Failure(what=what, text=framework.failure, owner=project, remedy=remedy)
        if found := judge_cause(failure, context):
            yield found
            return
    if framework.failure:
        otherwise = f"python -c 'import {framework.name}' shows the full error{intact}"
        anchor, line, fix = explain(framework.failure, otherwise, remedy)
        yield broken(anchor, what, line, fix, remedy or "")


def _cuda_fault(name: str, framework: FrameworkFacts, context: RuleContext) -> Iterator[Diagnosis]:
    driver = context.driver
    if framework.is_cpu_only:
        judged = broken if driver.gpus else notes
        yield judged(
            "built-without-cuda",
            f"{name} is built without CUDA",
            "it is the CPU-only build",
            "install the same release with CUDA; this is how PyPI names it, other indexes may not",
            context.cuda_build(framework.name),
        )
        return
    least = oldest_driver(int(framework.major)) if framework.major.isdigit() else ""
    if least and driver.version and version_key(driver.version) < version_key(least):
        yield broken(
            "driver-too-old",
            f"driver {driver.version} is too old for {name}",
            f"it is built with CUDA {framework.cuda}, which needs driver {least} or newer; this "
            f"one supports CUDA up to {driver.newest_cuda or 'an older one'}",
            f"update the driver, or install a {framework.name} for "
            f"CUDA {driver.newest_cuda.partition('.')[0] or 'an older release'}",
        )


def _plugin_fault(
    name: str, framework: FrameworkFacts, context: RuleContext
) -> Iterator[Diagnosis]:
    """Yield a verdict about a plugin that JAX doesn't use: of another jaxlib, without libraries."""
    installed = context.environment.distributions
    jaxlib, plugin = installed.get("jaxlib"), f"jax-cuda{framework.major}-plugin"
    majors = [match[1] for match in map(_PLUGIN.fullmatch, installed) if match]
    what = f"{name} doesn't use its plugin for CUDA, and runs on the CPU"
    if framework.name == "jax" and len(majors) > 1:
        yield _two_plugins(name, majors, context)
    elif _BARE.search(framework.why_not) and plugin in installed:
        own = installed[plugin]
        if "JAX plugin" in framework.why_not and jaxlib:  # it is to be of that release
            own = replace(own, version=jaxlib.version.partition("+")[0])
        fix, command = extra_fix(context, own)
        if pin := _pin_of_cupti(context, own):
            fix, command = _with_pin(context, pin, fix, command, framework.why_not)
        anchor = "libcudnn-not-found" if "cuDNN" in framework.why_not else "libcudart-not-found"
        yield broken(anchor, what, framework.why_not, fix, command)
    elif "JAX plugin" in framework.why_not and jaxlib:
        release = jaxlib.version.partition("+")[0]
        yield broken(
            "diagnose-versions",
            what,
            framework.why_not,
            f"install the plugin of jaxlib {release}",
            context.installer.install(f"{plugin}=={release}"),
        )


def _pin_of_cupti(context: RuleContext, plugin: Distribution) -> str:
    """Return the requirement of the cuPTI that a plugin of JAX was built for; empty: unknown.

    Its lower bound is of that release. With jaxlib 0.10.2, of 13.0, that of 13.2 ends the process,
    and later ones can't be loaded without a GPU; 13.0 and 13.1 work.
    """
    lines = [line for line in plugin.requires if _CUPTI.fullmatch(project_of(line))]
    match = _LOWER.search(lines[0]) if lines else None
    pin = f"{project_of(lines[0])}=={match[1]}.*" if match else ""
    return pin if pin and context.installer.install(pin) else ""


def _with_pin(context: RuleContext, pin: str, fix: str, command: str, why: str) -> tuple[str, str]:
    """Return fix and command with the cuPTI of the release that JAX was built for."""
    if command:
        return (
            f"{fix}; with {pin}, as newer ones may fail with JAX",
            f"{command} {shlex.quote(pin)}",
        )
    if "cuPTI" in why:
        return f"install {pin}, which it is built for", context.installer.install(pin)
    return fix, command


def _two_plugins(name: str, majors: list[str], context: RuleContext) -> Diagnosis:
    """Judge plugins for two releases of CUDA; the one with more of NVIDIA's wheels stays."""
    installed = context.environment.distributions
    wheels = cuda_majors(installed)
    kept = max(majors, key=lambda major: (len(wheels.get(major, ())), major))
    others = [major for major in majors if major != kept]
    parts = [f"jax-cuda{major}-{part}" for major in others for part in ("plugin", "pjrt")]
    return broken(
        "diagnose-mixed-cuda",
        f"{name} has plugins for CUDA {' and '.join(sorted(majors))}",
        "both register the platform cuda, and which one JAX takes is chance",
        f"remove what is for CUDA {' and '.join(others)}, unless that is the one you want",
        context.installer.remove(part for part in parts if part in installed),
    )


def _blind_jax(name: str, framework: FrameworkFacts, context: RuleContext) -> Iterator[Diagnosis]:
    """Yield why JAX runs on the CPU, which it doesn't report as an error."""
    chosen = context.environ.get("JAX_PLATFORMS", "")
    what = f"{name} runs on the CPU, though a CUDA program sees {context.driver.visible}"
    if chosen and not re.search("cuda|gpu", chosen):
        cause = f"JAX_PLATFORMS={chosen} selects the platform"
        yield broken("no-cuda-device", what, cause, "unset JAX_PLATFORMS", "unset JAX_PLATFORMS")
    elif not framework.cuda:
        major = context.driver.newest_cuda.partition(".")[0] or "12"
        release = framework.version.partition("+")[0]
        yield broken(
            "no-cuda-device",
            what,
            "no plugin for CUDA (jax-cuda13-plugin, jax-cuda12-plugin) is installed",
            f"install jax with the extra for CUDA {major}",
            context.installer.install(f"jax[cuda{major}]=={release}"),
        )


def _visibility_fault(
    name: str, framework: FrameworkFacts, context: RuleContext, remedy: str | None
) -> Iterator[Diagnosis]:
    driver = context.driver
    is_blind = framework.available is False and bool(driver.visible)
    if framework.name == "jax" and is_blind and (known := [*_blind_jax(name, framework, context)]):
        yield from known
        return
    if framework.trouble:
        yield _trouble(name, framework, context, remedy)
    elif is_blind:
        yield broken(
            "no-cuda-device",
            f"{name} sees no GPU, though a CUDA program sees {driver.visible}",
            framework.why_not or "it reports no reason",
            "check that the driver isn't older than its CUDA, and that LD_LIBRARY_PATH contains "
            "no other libcuda",
        )
    parts = [arch.partition("_") for arch in framework.archs]
    code = DeviceCode(
        sass=tuple(number for kind, _, number in parts if kind == "sm"),
        ptx=tuple(number for kind, _, number in parts if kind == "compute"),
    )
    fix = f"install a {framework.name} built for {{}}: an older release for an older GPU, a newer "
    yield from judge_archs(name, code, driver, f"{fix}one for a newer") if parts else ()


def _trouble(
    name: str, framework: FrameworkFacts, context: RuleContext, remedy: str | None
) -> Diagnosis:
    """Judge a framework that was imported, and fails when it is asked for CUDA."""
    project, what = context.projects[framework.name], f"{name} failed to report its CUDA devices"
    if framework.part:
        what = f"{name} can't {framework.part}"
    if is_late(framework.trouble):
        return not_examined(f"CUDA in {name}", exception_in(framework.trouble))
    state = "it can" if framework.part else "it can report them"
    cause = Failure(
        what=what,
        text=framework.trouble,
        owner=project,
        state=state,
        remedy=remedy,
        is_clear=bool(_NVRTC.search(framework.trouble)),
    )
    if found := judge_cause(cause, context):
        return found
    if match := _NVRTC.search(framework.trouble):
        fix, command = fix_opened(context, project, match[1])
        return broken("libnvrtc-missing", f"{name} can't compile kernels", match[0], fix, command)
    otherwise = f"list the devices with {framework.name} itself; --verify-files finds damaged "
    anchor, line, fix = explain(framework.trouble, f"{otherwise}files", remedy)
    command, crash = remedy or "", crash_site(framework.trouble)
    plugin = context.environment.distributions.get(f"jax-cuda{framework.major}-plugin")
    if "cuPTI" in crash and plugin and (pin := _pin_of_cupti(context, plugin)):
        fix, command = _with_pin(context, pin, "", "", crash)
    is_broken = remedy is not None or crash or _HOLLOW.search(framework.trouble)
    judged = broken if is_broken else warns
    return judged(anchor, what, line, fix, command)


def fix_opened(context: RuleContext, project: Distribution, soname: str) -> tuple[str, str]:
    """Return fix and command where a package opens a library of CUDA by its name alone."""
    words, command = extra_fix(context, project)
    major = soname.rpartition(".")[2]
    parts = [part for part in components_of(soname) if part.cuda]
    wheel = next((part for part in parts if str(part.cuda) == major), next(iter(parts), None))
    if command or wheel is None:
        return words, command
    folder = shlex.quote(str(project.site / wheel.site_folder))
    export = f"export LD_LIBRARY_PATH={folder}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    if wheel.distribution in context.environment.distributions:
        words = f"{wheel.distribution} is installed, but not where the loader looks"
        return f"{words}: add its folder to LD_LIBRARY_PATH", export
    again = context.installer.install(wheel.distribution)
    words = f"install {wheel.distribution} and add its folder to LD_LIBRARY_PATH, or install a "
    return f"{words}toolkit of CUDA {wheel.cuda}", f"{again} && {export}" if again else ""


def judge_archs(title: str, code: DeviceCode, driver: Driver, fix: str) -> Iterator[Diagnosis]:
    """Yield a verdict for each GPU that device code doesn't run on.

    Args:
        fix: with `{0}` for the GPU's arch, `{1}` for its compute capability.
    """
    for capability in driver.capabilities:
        if not runs_on(code, capability):
            yield broken(
                "no-kernel-image",
                f"{title} has no code for this GPU, sm_{capability}",
                f"it contains {describe_code(code)}",
                fix.format(f"sm_{capability}", f"{capability[:-1]}.{capability[-1]}"),
            )


def remedies_of(context: RuleContext, repairs: Mapping[str, str]) -> dict[str, str]:
    """Return, by framework, the command (may be empty) of a fault that is to be fixed first.

    Args:
        repairs: the command for each faulty distribution.
    """
    of_nvidia = [command for name, command in repairs.items() if is_nvidias(name)]
    projects = context.projects.items()
    own = {name: [repairs[project.name]] for name, project in projects if project.name in repairs}
    for name, project in projects:
        causes = required_by(context.environment, (project.name,))
        parts = [repairs[cause] for cause in sorted(causes) if cause in repairs]
        own.setdefault(name, parts) if parts else None
    firsts = {known.name: own.get(known.name, of_nvidia) for known in context.frameworks}
    return {name: commands[0] for name, commands in firsts.items() if commands}


def judge_pairs(context: RuleContext, pairs: Mapping[str, LackingLibrary]) -> dict[str, Diagnosis]:
    """Return a verdict for each wheel with a library that can't be loaded, by its name."""
    return {name: _judge_pair(context, name, pair) for name, pair in pairs.items()}


def _judge_pair(context: RuleContext, name: str, pair: LackingLibrary) -> Diagnosis:
    installed, found = context.environment.distributions, pair.found
    owner = next((own for own in installed.values() if own.title == found.supplier), None)
    folder = without_entry(context.environ, "LD_LIBRARY_PATH", found.supplier)
    fix, command = f"remove {found.path}, or keep the loader from its folder", ""
    if owner:
        fix, command = _newer(context, owner, installed[name])
    elif folder:
        fix, command = folder.advice, folder.command
    names = [part.name for part in components_of(found.path.name)] if found.path else []
    return broken(
        next((OTHER_VERSION[one] for one in names if one in OTHER_VERSION), "diagnose-versions"),
        f"{pair.user.name} of {installed[name].title} can't be loaded",
        f"it needs {pair.symbol}, which {owner.title if owner else found.path} lacks",
        fix,
        command,
    )


def _newer(context: RuleContext, owner: Distribution, user: Distribution) -> tuple[str, str]:
    """Return fix and command of a wheel that is older than another one of NVIDIA's needs."""
    bound = int(owner.version.partition(".")[0]) + 1
    requirement = f"{owner.name}>{owner.version},<{bound}"
    users = requirers(context.environment).get(owner.name, {}).values()
    if any("==" in str(one.specifier) for one in users):
        return f"install a {user.name} of the time of {owner.title}, which others require", ""
    return f"install a newer {owner.name}", context.installer.install(requirement)


def judge_nvidia_wheels(
    context: RuleContext, faulty: frozenset[str], needed: frozenset[str] = frozenset()
) -> Iterator[Diagnosis]:
    """Judge whether NVIDIA's wheels in an environment are of one CUDA.

    Args:
        faulty: wheels with another verdict: damaged, of another version, with files that another
            has too.
        needed: releases of CUDA that libraries of packages need, whatever these require.
    """
    environment = context.environment
    wheels = nvidia_wheels(environment)
    majors = cuda_majors(wheel.name for wheel in wheels)
    listed = " and ".join(sorted(majors))
    used = {framework.major: framework for framework in context.frameworks if framework.major}
    unused = [names for major, names in majors.items() if major not in used]
    others = [name for names in unused for name in names]
    if len(used) > 1:
        (_, first), (_, second) = sorted(used.items())[:2]
        yield warns(
            "diagnose-mixed-cuda",
            f"{first.name} is for CUDA {first.major}, {second.name} for CUDA {second.major}",
            "in one process each would load the libraries of its own release",
            "install both for the same CUDA",
        )
    elif len(majors) > 1 and not (used and faulty.issuperset(others)):
        of = next((f", {user.name}'s is {user.cuda}" for user in used.values()), "")
        names = (f"CUDA {major}: {_few(names)}" for major, names in sorted(majors.items()))
        spare = _spare(environment, others, faulty)
        # What nothing requires is loaded by nothing, so it does no harm.
        is_harmless = {*others} == {*spare} and needed.isdisjoint(cuda_majors(others))
        judged = notes if spare and is_harmless else warns
        spare = spare if used else []
        yield judged(
            "diagnose-mixed-cuda",
            f"the NVIDIA wheels are for CUDA {listed}{of}",
            "; ".join(names),
            "remove those that nothing requires"
            if spare
            else "install what requires them for the same CUDA",
            context.installer.remove(spare) if spare else "",
        )
    elif (
        wheels and not any(map(is_nvidias, faulty)) and not any(map(_lacks_library, used.values()))
    ):
        of = f" of CUDA {listed}" if majors else ""
        meet = "meets" if len(wheels) == 1 else "meet"
        yield works(f"the {plural(len(wheels), 'NVIDIA wheel')}{of} {meet} all requirements")


def _lacks_library(framework: FrameworkFacts) -> bool:
    return bool(_BARE.search(framework.why_not))


def _spare(environment: PythonEnvironment, names: list[str], faulty: frozenset[str]) -> list[str]:
    """Return those that nothing requires but each other, and that share no file."""
    owners = requirers(environment)
    spare = {name for name in names if name not in faulty}
    while needed := {name for name in spare if not spare.issuperset(owners.get(name, ()))}:
        spare -= needed
    return sorted(spare)


def nvidia_wheels(environment: PythonEnvironment) -> tuple[Distribution, ...]:
    """Return the wheels of NVIDIA's libraries in an environment."""
    installed = sorted(environment.distributions.items())
    return tuple(wheel for name, wheel in installed if is_nvidias(name))


def cuda_majors(wheels: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of NVIDIA's wheels by their CUDA, `13`, where they are for one."""
    majors: dict[str, list[str]] = {}
    for name in wheels:
        suffix = _SUFFIX.search(name)
        known = next((part.cuda for part in COMPONENTS if part.distribution == name), None)
        if major := (suffix[1] if suffix else str(known or "")):
            majors.setdefault(major, []).append(name)
    return majors


def _few(names: list[str]) -> str:
    return f"{', '.join(names[:2])}{f' and {len(names) - 2} more' if len(names) > 2 else ''}"  # noqa: PLR2004
