"""Requirements of a wheel: only wheels of releases, which replace no installed package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import InvalidVersion, Version

from cuwheel.base.errors import InstallError
from cuwheel.base.fetch.indexes.offers import IndexFile
from cuwheel.base.formats.wheel.archive import open_wheel
from cuwheel.base.formats.wheel.metadata import header
from cuwheel.build.environments.additions import (
    UserEnvironment,
    direct_references,
    missing_releases,
    wheels_of,
)
from cuwheel.check.diagnose.facts.environment import PythonEnvironment
from cuwheel.check.pick.machine import Here, TargetMachine
from cuwheel.check.pick.tags import fit_tags


def pinned_wheel(wheel: Path, named: str, sha256: str) -> str:
    """Return a wheel as a requirement with its hash, which the installer checks again."""
    return f"{named} @ {wheel.absolute().as_uri()}#sha256={sha256}"


def check_direct_references(
    wheels: Iterable[Path], environment: PythonEnvironment, extra: str = ""
) -> None:
    """Raise an error if a wheel requires a file or an address, not a release.

    An installer would fetch it, and compile it if it isn't a wheel.

    Args:
        extra: that is installed; empty: none.

    """
    around = {**environment.markers, "extra": extra}
    for path in wheels:
        with open_wheel(path) as wheel:
            requires = header(wheel.read_text("METADATA"), "requires-dist")
        if lines := direct_references(requires, around):
            raise InstallError(
                f"{path.name} requires something that isn't a release of an index",
                why=f"Requires-Dist: {'; '.join(lines)}",
                fix="the environment is unchanged; install that requirement yourself and a wheel "
                "that names a release of it, or ask the publisher for one",
            )


def find_requirements(
    destination: UserEnvironment, here: Here, wanted: Sequence[str], *, but: str
) -> tuple[IndexFile, ...]:
    """Choose the wheel of each release that requirements bring.

    Args:
        but: the only installed project that may be replaced.
    """
    pins = []
    for name, distribution in here.environment.distributions.items():
        with contextlib.suppress(InvalidVersion):
            pins += [f"{name}=={Version(distribution.version)}"] if name != but else []
    missing = missing_releases(destination, wanted, pins, but=but)
    return tuple(_best(files, here.machine) for files in wheels_of(destination, missing))


def _best(files: Sequence[IndexFile], machine: TargetMachine) -> IndexFile:
    """Return the wheel that pip takes: the tag that fits best, then the highest build tag."""
    ranked = []
    for file in files:
        _, _, build, tags = parse_wheel_filename(file.name)
        fit = fit_tags(tags, machine)
        if fit.fits:
            ranked.append((fit.rank, tuple(-part for part in build[:1]), file))
    if not ranked:
        raise InstallError(
            f"{files[0].name} can't be installed",
            why="it has no wheel for this Python and machine",
            fix="install that requirement in another way first, or use another Python",
        )
    return min(ranked, key=lambda row: row[:2])[2]
