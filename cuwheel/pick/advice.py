"""Which recipe to build where no wheel of a package fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from cuwheel.binaries.archs import DeviceCode, runs_on
from cuwheel.cuda.torch_exports import minor_of
from cuwheel.model.target import declared_target
from cuwheel.spelling import as_typed
from cuwheel.system.versions import version_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.target import Target
    from cuwheel.pick.machine import TargetMachine


def build_advice(entries: Iterable[CatalogueEntry], project: str, machine: TargetMachine) -> str:
    """Say which command builds a wheel of a project, or drafts a recipe for one.

    Args:
        entries: the catalogue; recipes that can't be loaded are passed over.
        project: normalised, as wheels are called.
        machine: that the wheel is to fit. Of the targets that suit it best, the newest is named.
    """
    targets = [
        target
        for target in _declared_targets(entries, machine)
        if canonicalize_name(target.project) == project
    ]
    if not targets:
        return as_typed(f"`nox -s new -- {project}` drafts a recipe")
    best = max(targets, key=lambda target: _preference(target, machine))
    framework = best.framework
    against = f" and {framework.name} {minor_of(framework.version)}" if framework else ""
    untried = "" if _was_built(best) else "; nobody has built it yet"
    return as_typed(
        f"`nox -s build-{best.name}` builds one for CUDA {best.toolkit.release}{against}{untried}"
    )


def _declared_targets(
    entries: Iterable[CatalogueEntry], machine: TargetMachine
) -> Iterator[Target]:
    python = ".".join(map(str, machine.release))
    for entry in entries:
        if recipe := entry.recipe:
            for release in recipe.toolkits:
                yield declared_target(recipe, release, python, entry.root)


def _preference(target: Target, machine: TargetMachine) -> tuple[object, ...]:
    """Larger is better: what suits, then what was built, then what is newest."""
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
    """Whether each thing that is known of the machine speaks against a target."""
    toolkit, framework = target.toolkit, target.framework
    yield machine.cuda[:1].isdigit() and machine.cuda.split(".")[0] != str(toolkit.major)
    yield bool(machine.driver) and version_key(machine.driver) < version_key(toolkit.min_driver)
    installed = machine.framework(framework.name) if framework else ""
    if framework and installed:
        yield not SpecifierSet(framework.specifier).contains(installed, prereleases=True)
    code = DeviceCode(sass=target.archs, ptx=target.ptx_archs)
    yield bool(target.archs) and not all(runs_on(code, arch) for arch in machine.archs)
    pythons = SpecifierSet(target.recipe.requires_python)
    yield not pythons.contains(target.python, prereleases=True)
