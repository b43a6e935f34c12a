"""What a package requires when it runs, and what of that a lock doesn't hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.pypi.lock_file import read_pins
from cuwheel.system.parsed_files import read_toml
from cuwheel.system.versions import plain_release
from cuwheel.system.whole_files import read_text
from cuwheel.wheel.metadata import header, parse_requirement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

# From there on a source's PKG-INFO says which of its fields a build may change (PEP 643).
_FIRST_WITH_DYNAMIC = Version("2.2")


def stated_requirements(tree: Path) -> tuple[str, ...] | None:
    """The `Requires-Dist` that a source states for every build of it, those of its extras too.

    Args:
        tree: the folder with `pyproject.toml` or `setup.py`.

    Returns:
        None where only the backend knows them: it may compute them.
    """
    try:
        project = read_toml(tree / "pyproject.toml").get("project")
    except (OSError, ValueError):
        project = None
    if project is None:
        return _of_pkg_info(tree)
    if {"dependencies", "optional-dependencies"} & {*project.get("dynamic", ())}:
        return None
    return tuple(_of_project(project))


def unlocked_requirements(
    wanted: Iterable[str],
    lock: Path,
    *,
    python: str,
    extra: str = "",
    without: Collection[str] = (),
) -> list[str]:
    """Those of the requirements that a lock doesn't hold, as they are to be written.

    Args:
        wanted: `Requires-Dist` lines.
        lock: what is installed beside the wheel.
        python: the release that counts, `3.12`.
        extra: the wheel's extra that is installed; empty: none.
        without: normalised names of what isn't looked for.

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
    for one in filter(None, map(parse_requirement, wanted)):
        name = canonicalize_name(one.name)
        applies = _applies(one, {**around, "extra": extra})
        version = pinned.get(name)
        is_met = version is not None and one.specifier.contains(version, prereleases=True)
        if applies and name not in without and not is_met:
            lacking.append(f"{one.name}{one.specifier}")
    return list(dict.fromkeys(lacking))


def _of_project(project: dict[str, Any]) -> Iterator[str]:
    yield from project.get("dependencies", ())
    for extra, texts in project.get("optional-dependencies", {}).items():
        for text in texts:
            yield _behind_extra(text, extra)


def _behind_extra(text: str, extra: str) -> str:
    condition = f'extra == "{canonicalize_name(extra)}"'
    try:
        marker = Requirement(text).marker
    except InvalidRequirement:
        return text
    bare = text.partition(";")[0].strip()
    return f"{bare}; ({marker}) and {condition}" if marker else f"{bare}; {condition}"


def _of_pkg_info(tree: Path) -> tuple[str, ...] | None:
    try:
        text = read_text(tree / "PKG-INFO")
        version = Version(header(text, "metadata-version")[0])
    except (OSError, ValueError, IndexError, InvalidVersion):
        return None
    dynamic = {name.lower() for name in header(text, "dynamic")}
    if version < _FIRST_WITH_DYNAMIC or "requires-dist" in dynamic:
        return None
    return header(text, "requires-dist")


def _applies(one: Requirement, around: dict[str, str]) -> bool:
    return one.marker is None or one.marker.evaluate({"extra": "", **around})
