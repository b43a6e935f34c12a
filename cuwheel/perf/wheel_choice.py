"""Which wheel is measured, by which recipe's probe."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from cuwheel.errors import UsageError, suggest
from cuwheel.system.files import sha256_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.recipe import Framework, Recipe

_TAG = re.compile(r"cu(\d+)")  # of a local version: cu130torch2.11


@dataclass(frozen=True, kw_only=True)
class ChosenWheel:
    """A wheel and its recipe.

    Attributes:
        path: of the wheel.
        entry: the recipe's.
        tag: the toolkit's, `130`; empty: the wheel's name doesn't say it.
        sha256: of the wheel.
    """

    path: Path
    entry: CatalogueEntry
    tag: str
    sha256: str

    @property
    def python(self) -> str:
        """The release of Python that it is for, `3.12`; empty: several."""
        tags = parse_wheel_filename(self.path.name)[3]
        found = {tag.interpreter for tag in tags if tag.abi.startswith(tag.interpreter)}
        [only] = found if len(found) == 1 else [""]
        return f"3.{only.removeprefix('cp3')}" if only.startswith("cp3") else ""


def read_wheel(path: Path, entries: Iterable[CatalogueEntry]) -> ChosenWheel:
    """A wheel that is named, of ours or of others, and the recipe that knows its package.

    Raises:
        UsageError: there is no such file, it is no wheel, or no recipe is for its package.
    """
    if not path.is_file():
        raise UsageError(
            f"there is no wheel {path}",
            why="no file has this name",
            fix="nox -l lists what can be built; built wheels are in dist/",
        )
    try:
        project, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as problem:
        raise UsageError(
            f"{path.name} is not a wheel", why=str(problem), fix="give a .whl file"
        ) from None
    found = _TAG.match(version.local or "")
    tag = found[1] if found else ""
    known = [one for one in entries if one.recipe]
    own = [one for one in known if one.recipe and project in _projects(one.recipe)]
    if not own:
        raise UsageError(
            f"there is no recipe for {project}, so there is no probe to measure it with",
            why=suggest(project, [one.name for one in known]),
            fix=f"the probes are in recipes/perf/; `nox -s new -- {project}` drafts a recipe",
        )

    def fits(entry: CatalogueEntry) -> tuple[bool, bool]:
        """Of several recipes for a package, the one for this release and toolkit comes first."""
        is_release = entry.recipe is not None and entry.recipe.version == version.public
        return is_release, any(name.endswith(f"-{tag}") for name in entry.target_names)

    return ChosenWheel(path=path, entry=max(own, key=fits), tag=tag, sha256=sha256_of_file(path))


def newest_wheel(
    dist: Path, entries: Iterable[CatalogueEntry], target: tuple[CatalogueEntry, str] | None
) -> ChosenWheel | None:
    """The newest wheel of a folder that has a probe; None: there is none.

    Args:
        dist: the folder.
        entries: the catalogue.
        target: recipe and toolkit's tag that it has to be of; None: any.
    """
    entries = tuple(entries)
    known = {name for entry in entries if entry.recipe for name in _projects(entry.recipe)}
    found = []
    for path in dist.glob("*.whl"):
        try:
            project, version, _, _ = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if project not in known:
            continue
        if target and target[0].recipe:
            is_of_recipe = project in _projects(target[0].recipe)
            tag = _TAG.match(version.local or "")
            if not is_of_recipe or not tag or tag[1] != target[1]:
                continue
        found.append(path)
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    chosen = (read_wheel(path, entries) for path in newest)
    return next((one for one in chosen if probe_of(one.entry).is_file()), None)


def probe_of(entry: CatalogueEntry) -> Path:
    """The file of a recipe's probe, whether it is there or not."""
    name = entry.recipe.folder if entry.recipe else entry.name
    return entry.root / "recipes" / "perf" / f"{name}.py"


def check_probe(entry: CatalogueEntry) -> Path:
    """The file of a recipe's probe.

    Raises:
        UsageError: it has none.
    """
    probe = probe_of(entry)
    if not probe.is_file():
        have = sorted(path.stem for path in probe.parent.glob("*.py"))
        raise UsageError(
            f"{entry.name} has no performance probe",
            why=f"{probe} doesn't exist; there are probes for {', '.join(have)}",
            fix="write one as described in CONTRIBUTING.md: what to call, the reference, bytes, "
            "operations",
        )
    return probe


def check_framework(wheel: ChosenWheel, framework: Framework | None) -> None:
    """See that an environment is made with the release that a wheel's version names.

    Args:
        wheel: of ours or of others.
        framework: of the environment; None: the recipe has none.

    Raises:
        UsageError: it would be another one.
    """
    named = re.search(rf"{framework.name}(\d+\.\d+)", wheel.path.name) if framework else None
    if not (framework and named) or f"{framework.version}.".startswith(f"{named[1]}."):
        return
    raise UsageError(
        f"no environment can be made for {wheel.path.name}",
        why=f"it is for {framework.name} {named[1]}; without the provenance that cuwheel writes "
        f"beside a wheel only its recipe is known, which is for {framework.version}",
        fix=f"put {wheel.path.name}.provenance.json beside it, or give the interpreter of an "
        "environment with its requirements: -- --python /path/to/bin/python",
    )


def _projects(recipe: Recipe) -> frozenset[str]:
    """The names that its wheels can have."""
    names = {recipe.name}
    if recipe.wheel_name:
        majors = {release.partition(".")[0] for release in recipe.toolkits}
        names |= {recipe.wheel_name.format(cuda=major) for major in majors}
    return frozenset(canonicalize_name(name) for name in names)
