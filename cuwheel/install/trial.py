"""The recipe's smoke test, in the environment that the wheel was installed into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from cuwheel.cuda.suppliers import DRIVER_SONAME
from cuwheel.errors import SmokeError
from cuwheel.sandbox.confinement import Confinement
from cuwheel.smoke.loaded_libraries import owners
from cuwheel.smoke.probe import Probe
from cuwheel.smoke.problems import find_failures
from cuwheel.wheel.metadata import parse_requirement

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.facts.environment import PythonEnvironment
    from cuwheel.model.target import Target


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
    target: Target, project: str, environment: PythonEnvironment, folder: Path, log: Path
) -> Trial:
    """Import the package and do what its recipe asks for, in a fresh process.

    It runs as any program of the environment does: there is no sandbox.

    Args:
        target: whose recipe says what to do.
        project: that was installed, normalised.
        environment: with the wheel.
        folder: for what the test writes.
        log: gets what it says.
    """
    declared = target.recipe.smoke
    lacking = _lacking(target, environment)
    site = environment.distributions[project].site
    probe = Probe(
        python=environment.python,
        site=site.resolve(),
        owned=owners(site),
        confinement=Confinement(
            sandbox="none",
            environment=environment.prefix,
            base=environment.python,
            folder=folder.resolve(),
        ),
        log=log,
        name=target.id,
    )
    try:
        answer = probe.ask(
            imports=declared.imports,
            call=declared.call,
            script=None if lacking else target.smoke_script,
        )
    except SmokeError as error:
        return Trial(faults=(f"{error.what}: {error.why}",))
    left_out = tuple(f"{declared.script}, which needs {name}" for name in lacking)
    if answer.lacking == DRIVER_SONAME:
        words = f"all of it, because {DRIVER_SONAME} of NVIDIA's driver isn't installed"
        return Trial(imported=answer.imported, left_out=(words,))
    return Trial(
        imported=answer.imported,
        faults=tuple(one.fact for one in find_failures(answer, (), target)),
        left_out=left_out,
    )


def _lacking(target: Target, environment: PythonEnvironment) -> tuple[str, ...]:
    """What the recipe's script needs and the environment doesn't have; none without a script."""
    texts = (text.format(cuda=target.toolkit.major) for text in target.recipe.smoke.requires)
    names = (canonicalize_name(one.name) for one in map(parse_requirement, texts) if one)
    absent = tuple(name for name in names if name not in environment.distributions)
    return absent if target.smoke_script else ()
