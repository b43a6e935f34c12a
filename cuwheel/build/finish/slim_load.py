"""The load proof of a wheel with less device code: it is imported as its original is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from cuwheel.base.errors import SmokeError
from cuwheel.base.formats.wheel.archive import unpack_wheel
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.build.finish.smoke.loaded_libraries import owners
from cuwheel.build.finish.smoke.probe import SCRIPT, Probe
from cuwheel.build.finish.smoke.top_modules import top_modules
from cuwheel.build.sandbox.confinement import confine_environment
from cuwheel.check.diagnose.facts.environment import PythonEnvironment


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """What an import of a wheel does.

    Attributes:
        imported: modules that were.
        failure: the last line of the error; empty: there was none.
    """

    imported: tuple[str, ...]
    failure: str


def compare_loads(
    original: Path, slim: Path, environment: PythonEnvironment, sandbox: str, log: Path
) -> LoadResult:
    """Import a wheel and its slimmed one, each in a process, with what an environment has.

    Nothing is installed there: the wheel's folder precedes the environment's packages, and has
    links to them beside its own, for the libraries that rpaths name.

    Returns:
        What both do.

    Raises:
        SmokeError: the slimmed one fails where the original doesn't, or in another way.
    """
    first, second = (_load(wheel, environment, sandbox, log) for wheel in (original, slim))
    if first != second:
        raise SmokeError(
            f"{slim.name} doesn't load as {original.name} does",
            why=second.failure or f"the original fails: {first.failure}",
            fix=f"use the original; {log} has both outputs",
        )
    return second


def _load(wheel: Path, environment: PythonEnvironment, sandbox: str, log: Path) -> LoadResult:
    project = canonicalize_name(parse_wheel_filename(wheel.name)[0])
    with temporary_folder() as scratch:
        site = scratch / "site"
        site.mkdir()
        unpack_wheel(wheel, site)
        modules = top_modules(site, project)
        _link(environment.sites, site)
        place = confine_environment(
            environment.python,
            environment.prefix,
            environment.sites,
            sandbox,
            scratch / "interpreter",
        )
        probe = Probe(
            python=environment.python,
            site=site.resolve(),
            owned=owners(site),
            confinement=replace(place, read=(*place.read, SCRIPT, site.resolve())),
            log=log,
            name=wheel.name,
        )
        answer = probe.run(imports=modules, ahead=site.resolve())
    # The loader names the file that it refuses: each wheel's is in another folder.
    failure = answer.last_line.replace(f"{site.resolve()}/", "")
    return LoadResult(imported=answer.imported, failure=failure)


def _link(sites: Iterable[Path], folder: Path) -> None:
    """Put links to an environment's packages beside those of a folder, which stay."""
    for site in sites:
        for path in sorted(site.iterdir()) if site.is_dir() else ():
            place = folder / path.name
            if not place.exists() and not path.name.endswith((".dist-info", ".pth")):
                place.symlink_to(path.resolve())
