"""Advice on which recipe to build where no wheel of a package fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.base.formats.binaries.archs import DeviceCode, archs_for, runs_on
from cuwheel.base.paths import find_project
from cuwheel.base.spelling import as_typed
from cuwheel.base.system.quantities import plural, show_size
from cuwheel.base.system.versions import version_key
from cuwheel.build.pipeline.build_needs import seconds_of
from cuwheel.build.pipeline.published import PublishedRecord
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.source import Sdist
from cuwheel.build.recipe.target import Target, declared_target
from cuwheel.build.workspace.serialization import read_record
from cuwheel.check.cuda.torch_exports import minor_of
from cuwheel.check.pick.machine import TargetMachine
from cuwheel.check.pick.release_lines import share_that_meets


def build_advice(
    entries: Iterable[CatalogueEntry], dist: Path, wanted: Requirement, machine: TargetMachine
) -> str:
    """Return which command builds a wheel of a project, or drafts a recipe for one.

    Args:
        entries: the catalogue; recipes that can't be loaded are passed over.
        machine: that the wheel is to fit. Of the targets that suit it best, the newest is named.
    """
    known = _targets_of(wanted, entries, machine)
    best = best_target(entries, wanted, machine)
    if not known:
        pins = [part.version for part in wanted.specifier if part.operator in {"==", "==="}]
        version = f" --version {pins[0]}" if pins and not pins[0].endswith(".*") else ""
        draft = f"`nox -s new -- {canonicalize_name(wanted.name)}{version}` drafts a recipe"
        draft += ", if the index has that source" * bool(version)
        return as_typed(draft if find_project() else f"in a project (`cuwheel init`) {draft}")
    if best is None:
        best = max(known, key=lambda target: _preference(target, machine))
        others = ", ".join(dict.fromkeys(target.recipe.version for target in known))
        release = next(
            (part.version for part in wanted.specifier if part.operator == "=="), "VERSION"
        )
        is_sdist = isinstance(best.recipe.source, Sdist)
        source = "" if is_sdist else " --source DIR"
        return as_typed(
            f"recipes pin {others}, not {wanted.specifier}; `nox -s build -- {best.name}=="
            f"{release.replace('.*', '')}{source}` tries the recipe of {best.recipe.version} with "
            f"that source{', if the index has it' * is_sdist}"
        )
    framework = best.framework
    against = f" and {framework.name} {minor_of(framework.version)}" if framework else ""
    untried = "" if _was_built(best) else "; nobody has built it yet"
    untried += "; it wouldn't fit this machine either" * any(_misfits(best, machine))
    chosen = archs_for(machine.archs, best.archs)
    options = "".join(f" --arch {arch}" for arch in chosen)
    if machine.is_planned and best.recipe.python == "each":
        options += f" --python {best.python}"
    command = f"nox -s build-{best.name}" + (f" --{options}" if options else "")
    return as_typed(
        f"`{command}` builds one for CUDA {best.toolkit.release}{against}{untried}; "
        f"{_cost(best, chosen, dist)}"
    )


def can_build(
    entries: Iterable[CatalogueEntry], wanted: Requirement, machine: TargetMachine
) -> bool:
    """Return True if a recipe's target of a wanted release suits a machine, and its framework."""
    target = best_target(entries, wanted, machine)
    return target is not None and not any(_misfits(target, machine))


def best_target(
    entries: Iterable[CatalogueEntry], wanted: Requirement, machine: TargetMachine
) -> Target | None:
    """Return the target of a wanted release that suits a machine best; None: no recipe pins it."""
    targets = (
        target
        for target in _targets_of(wanted, entries, machine)
        if wanted.specifier.contains(target.recipe.version, prereleases=True)
    )
    return max(targets, key=lambda target: _preference(target, machine), default=None)


def _targets_of(
    wanted: Requirement, entries: Iterable[CatalogueEntry], machine: TargetMachine
) -> list[Target]:
    """Return the targets of a project, whatever their release."""
    python, project = ".".join(map(str, machine.release)), canonicalize_name(wanted.name)
    declared = (
        declared_target(entry.recipe, release, python, entry.root)
        for entry in entries
        if entry.recipe
        for release in entry.recipe.toolkits
    )
    return [target for target in declared if canonicalize_name(target.project) == project]


def _cost(target: Target, archs: tuple[str, ...], dist: Path) -> str:
    """Return what a build needs: by its recipe, and by the last build of the same archs here."""
    needs = (
        f"it needs {show_size(target.recipe.memory_per_job)} of memory for each parallel compile "
        f"and {show_size(target.recipe.disk)} of disk"
    )
    record = read_record(dist / ".cuwheel" / f"{target.id}.json", PublishedRecord)
    archs = archs or target.archs
    if seconds := seconds_of(record, archs):
        return f"{needs}; the last build here took {seconds / 60:.0f} min"
    return f"{needs}; its time for {plural(len(archs), 'arch')} on this machine is unknown"


def _preference(target: Target, machine: TargetMachine) -> tuple[object, ...]:
    """Return a key, larger is better: what suits, then what was built, then what is newest."""
    framework = target.framework
    return (
        -sum(_misfits(target, machine)),
        _was_built(target),
        target.toolkit.release == machine.cuda,
        not target.recipe.held_back,
        version_key(target.toolkit.release),
        version_key(framework.version) if framework else version_key("0"),
    )


def _was_built(target: Target) -> bool:
    return target.toolkit.release not in target.recipe.never_built


def _misfits(target: Target, machine: TargetMachine) -> Iterator[bool]:
    """Yield for each known fact of the machine whether the target doesn't suit it."""
    toolkit, framework = target.toolkit, target.framework
    yield machine.cuda[:1].isdigit() and machine.cuda.split(".")[0] != str(toolkit.major)
    yield bool(machine.driver) and version_key(machine.driver) < version_key(toolkit.min_driver)
    installed = machine.framework(framework.name) if framework else ""
    if framework and installed:
        yield share_that_meets(installed, SpecifierSet(framework.specifier)) == "none"
    code = DeviceCode(sass=target.archs, ptx=target.ptx_archs)
    yield bool(target.archs) and not all(runs_on(code, arch) for arch in machine.archs)
    pythons = SpecifierSet(target.recipe.requires_python)
    yield not pythons.contains(target.python, prereleases=True)
