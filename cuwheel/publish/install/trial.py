"""The recipe's smoke test in the environment of an installed wheel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from cuwheel.base.errors import SmokeError
from cuwheel.base.formats.wheel.metadata import parse_requirement
from cuwheel.build.finish.smoke.loaded_libraries import owners
from cuwheel.build.finish.smoke.probe import SCRIPT, Probe, find_failures
from cuwheel.build.recipe.target import Target
from cuwheel.build.sandbox.confinement import Confinement
from cuwheel.check.cuda.suppliers import DRIVER_SONAME
from cuwheel.check.diagnose.facts.environment import PythonEnvironment


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How the smoke test went.

    Attributes:
        imported: modules that were.
        faults: what doesn't work; none: all does.
        left_out: what wasn't tried, and why.
    """

    imported: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def try_wheel(
    target: Target, project: str, environment: PythonEnvironment, place: Confinement, log: Path
) -> Trial:
    """Import the package and run its recipe's smoke test, in a fresh process."""
    declared = target.recipe.smoke
    lacking = _lacking(target, environment)
    script = target.smoke_script.absolute() if target.smoke_script and not lacking else None
    site = environment.distributions[project].site
    probe = Probe(
        python=environment.python,
        site=site.resolve(),
        owned=owners(site),
        confinement=replace(place, read=(*place.read, SCRIPT, *([script] if script else []))),
        log=log,
        name=target.id,
    )
    try:
        answer = probe.run(imports=declared.imports, call=declared.call, script=script)
    except SmokeError as error:
        return Trial(faults=(f"{error.what}: {error.why}",))
    left_out = tuple(f"{declared.script}, which needs {name}" for name in lacking)
    if answer.lacking == DRIVER_SONAME:
        reason = f"all of it, because {DRIVER_SONAME} of NVIDIA's driver isn't installed"
        return Trial(imported=answer.imported, left_out=(reason,))
    return Trial(
        imported=answer.imported,
        faults=tuple(failure.fact for failure in find_failures(answer, (), target)),
        left_out=left_out,
    )


def _lacking(target: Target, environment: PythonEnvironment) -> tuple[str, ...]:
    """Return the missing requirements of the recipe's script; none without a script."""
    texts = (text.format(cuda=target.toolkit.major) for text in target.recipe.smoke.requires)
    names = (canonicalize_name(item.name) for item in map(parse_requirement, texts) if item)
    absent = tuple(name for name in names if name not in environment.distributions)
    return absent if target.smoke_script else ()
