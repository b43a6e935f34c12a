"""The requirements of a source, to build and to run, and those that are missing."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.formats.wheel.metadata import header, parse_requirement
from cuwheel.base.system.regular_files import read_text, read_toml
from cuwheel.base.system.versions import plain_release
from cuwheel.build.environments.lock_file import read_pins

# The defaults of PEP 517 for a project without the table.
_DEFAULT_REQUIRES = ("setuptools",)
_DEFAULT_BACKEND = "setuptools.build_meta:__legacy__"
# From it on a source's PKG-INFO names the fields that a build may change (PEP 643).
_FIRST_WITH_DYNAMIC = Version("2.2")


@dataclass(frozen=True, kw_only=True)
class BuildSystem:
    """The table `build-system` of a `pyproject.toml` (PEP 517 and 518).

    Attributes:
        object: the backend inside of the module, with dots; empty: the module itself.
    """

    tree: Path
    requires: tuple[str, ...]
    module: str
    object: str
    backend_path: tuple[str, ...]


def read_pyproject(tree: Path) -> dict[str, Any]:
    """Read the pyproject.toml of a source; a missing or invalid one is empty."""
    try:
        return read_toml(tree / "pyproject.toml")
    except (OSError, ValueError):
        return {}


def read_build_system(tree: Path) -> BuildSystem:
    """Read the table; a missing or invalid file gives the defaults."""
    table: dict[str, Any] = read_pyproject(tree).get("build-system", {})
    module, _, inside = str(table.get("build-backend", _DEFAULT_BACKEND)).partition(":")
    return BuildSystem(
        tree=tree,
        requires=tuple(table.get("requires", _DEFAULT_REQUIRES)),
        module=module,
        object=inside,
        backend_path=tuple(table.get("backend-path", ())),
    )


def unmet_requirements(requirements: Iterable[str], site_packages: Path) -> list[str]:
    """Return the requirements that nothing in a folder satisfies."""
    installed: dict[str, str] = {
        canonicalize_name(distribution.metadata["Name"]): distribution.version
        for distribution in importlib.metadata.distributions(path=[str(site_packages)])
    }
    return [text for text in requirements if not _is_met(text, installed)]


def _is_met(text: str, installed: Mapping[str, str]) -> bool:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        return True
    version = installed.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def stated_requirements(tree: Path) -> tuple[str, ...] | None:
    """Return all `Requires-Dist` that a source states; None: its backend computes them."""
    project = read_pyproject(tree).get("project")
    if project is None:
        return _pkg_info_requirements(tree)
    if {"dependencies", "optional-dependencies"} & {*project.get("dynamic", ())}:
        return None
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    optional = [_with_extra(text, extra) for extra, texts in extras.items() for text in texts]
    return (*project.get("dependencies", ()), *optional)


def unlocked_requirements(
    wanted: Iterable[str],
    lock: Path,
    *,
    python: str,
    extra: str = "",
    without: Collection[str] = (),
) -> list[str]:
    """Return the requirements that a lock doesn't hold, as lines for its input.

    Args:
        wanted: `Requires-Dist` lines.
        python: `3.12`.
        extra: the wheel's extra that is installed; empty: none.
        without: names of packages that needn't be in the lock.

    Raises:
        OSError: the lock can't be read.
        InvalidRequirement: a line of it is no requirement.
    """
    plain = plain_release(python)
    around = {"python_version": plain, "python_full_version": f"{plain}.0"}
    pinned = {
        canonicalize_name(pin.requirement.name): pin.version
        for pin in read_pins(lock)
        if _applies(pin.requirement, around)
    }
    lacking = []
    for requirement in filter(None, map(parse_requirement, wanted)):
        name, specifier = canonicalize_name(requirement.name), requirement.specifier
        applies = _applies(requirement, {**around, "extra": extra})
        version = pinned.get(name)
        is_met = version is not None and specifier.contains(version, prereleases=True)
        if applies and name not in without and not is_met:
            lacking.append(f"{requirement.name}{specifier}")
    return list(dict.fromkeys(lacking))


def _with_extra(text: str, extra: str) -> str:
    condition = f'extra == "{canonicalize_name(extra)}"'
    try:
        marker = Requirement(text).marker
    except InvalidRequirement:
        return text
    bare = text.partition(";")[0].strip()
    return f"{bare}; ({marker}) and {condition}" if marker else f"{bare}; {condition}"


def _pkg_info_requirements(tree: Path) -> tuple[str, ...] | None:
    try:
        text = read_text(tree / "PKG-INFO")
        version = Version(header(text, "metadata-version")[0])
    except (OSError, ValueError, IndexError, InvalidVersion):
        return None
    dynamic = {name.lower() for name in header(text, "dynamic")}
    if version < _FIRST_WITH_DYNAMIC or "requires-dist" in dynamic:
        return None
    return header(text, "requires-dist")


def _applies(requirement: Requirement, around: dict[str, str]) -> bool:
    marker = requirement.marker
    return marker is None or marker.evaluate({"extra": "", **around})
