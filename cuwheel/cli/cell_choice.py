"""Choice of the matrix's cells by a command line: package, CUDA, Python, framework."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import Requirement

from cuwheel.base.caller import Caller
from cuwheel.base.errors import RecipeError, TargetRootError, UsageError, suggest
from cuwheel.base.system.console import Console
from cuwheel.base.system.pythons import own_python
from cuwheel.base.system.versions import plain_release, version_key
from cuwheel.build.locks.framework_fit import fitting_toolkit, python_fault
from cuwheel.build.recipe.catalogue import CatalogueEntry, load_catalogue
from cuwheel.build.recipe.cells import locked_frameworks, pythons_of
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_check import check_recipe
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.job import Job, Machine
from cuwheel.build.workspace.request import BuildRequest
from cuwheel.build.workspace.workspace import bare_workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from cuwheel.cli.target_choice import (
    choose_target,
    framework_of,
    platform_of,
    requested_job,
    stable_abi_python,
)
from cuwheel.lab.matrix.github import changed_files, is_about
from cuwheel.lab.matrix.state import Cell


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A combination that may be a cell; the index isn't read yet.

    Attributes:
        tag: the toolkit's, `130`.
        impossible: why there can be no such wheel; empty: there can, as far as known.
    """

    entry: CatalogueEntry
    tag: str
    request: BuildRequest
    impossible: str


@dataclass(frozen=True, kw_only=True)
class CellChooser:
    """A choice of cells; what is empty allows everything that recipes and frameworks do.

    Attributes:
        request: the options that the builds of all cells have in common.
        only: patterns of cells' names.
        cuda: releases, `13.0`.
        frameworks: `torch==2.11.0`.
        changed_since: a commit; None: cells needn't have changed.
        machines: as for `requested_job`.
    """

    request: BuildRequest
    console: Console
    caller: Caller
    only: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    changed_since: str | None = None
    machines: dict[tuple[str, ...], Machine] = field(default_factory=dict)

    def cells(self) -> tuple[Cell, ...]:
        """Return every cell that is allowed; those that share kernels are adjacent.

        Raises:
            UsageError: an option is wrong, or no cell is left.
            CuwheelError: the index has to be read and can't be.
        """
        named = {self.name_of(candidate): candidate for candidate in self.candidates()}
        tags = {toolkit_by_release(release).tag for release in self.cuda}
        chosen = [
            candidate
            for name, candidate in named.items()
            if (not self.only or any(fnmatch.fnmatchcase(name, only) for only in self.only))
            and (not tags or candidate.tag in tags)
        ]
        if not named:
            raise _no_framework(self.frameworks, self.caller.roots)
        if not chosen:
            only = " or ".join(self.only)
            raise UsageError(
                f"there is no cell {only}".rstrip(),
                why=suggest((self.only or ("",))[0], named),
                fix="`nox -s matrix` shows all; write a pattern as --only 'causal-conv1d-130-*'",
            )
        return tuple(filter(self._is_changed, sorted(map(self.cell, chosen), key=_order)))

    def _is_changed(self, cell: Cell) -> bool:
        target, since = cell.job.target, self.changed_since
        return since is None or is_about(target, changed_files(target.root, since, self.caller))

    def candidates(self) -> Iterator[_Candidate]:
        """Yield every combination."""
        for entry in load_catalogue(self.caller.roots):
            if entry.recipe is None:
                self.console.warn(f"{entry.name} is skipped: {entry.fault}")
                continue
            check_recipe(entry.recipe)
            for tag, framework, fault in self._combinations(entry, entry.recipe):
                default = entry.recipe.framework_for(toolkit_by_release(tag).release)
                for platform in self.platforms or (None,):
                    for python in self._pythons(entry.recipe, platform):
                        request = replace(
                            self.request,
                            targets=(f"{entry.name}-{tag}",),
                            python=(python,) if python else (),
                            dry_run=True,  # nothing is installed to know a cell
                            framework=None if framework in {None, default} else framework.pin,
                            platform=platform,
                        )
                        yield _Candidate(entry=entry, tag=tag, request=request, impossible=fault)

    def name_of(self, candidate: _Candidate) -> str:
        """Return the target's id."""
        python = next(iter(candidate.request.python), "") or own_python().release
        if os.sep in python:  # the interpreter has to be run for its release
            return self.cell(candidate).id
        workspace = bare_workspace(self.console, self.caller)
        return choose_target(
            candidate.entry, candidate.tag, python, candidate.request, workspace
        ).id

    def cell(self, candidate: _Candidate) -> Cell:
        """Return the cell with its build, and the reason why that is impossible."""
        entry, tag, request = candidate.entry, candidate.tag, candidate.request
        job = requested_job(entry, tag, request, self.console, self.caller, machines=self.machines)
        fault = (
            candidate.impossible
            or job.target.platform_fault
            or self._root_fault(job)
            or self._python_fault(job.target, is_named=bool(request.python))
        )
        return Cell(job=job, impossible=fault)

    def _combinations(
        self, entry: CatalogueEntry, recipe: Recipe
    ) -> Iterator[tuple[str, Framework | None, str]]:
        """Yield the toolkit's tag, a framework that is requested or has a lock, and why not."""
        requested = [framework_of(text) for text in self.frameworks]
        workspace, offline = bare_workspace(self.console, self.caller), self.request.offline
        if not requested:
            for release in recipe.toolkits:
                yield toolkit_by_release(release).tag, None, ""
            served = {other for framework in recipe.frameworks for other in framework.served}
            known = {*recipe.frameworks, *served}
            locked = {*locked_frameworks(recipe, entry.root)} - known
            requested = [*sorted(locked, key=lambda framework: version_key(framework.version))]
            offline = True
        names = {framework.name for framework in recipe.frameworks}
        for framework in requested:
            if framework is None or framework.name not in names:
                continue
            try:
                release = fitting_toolkit(recipe, entry.root, framework, workspace, offline=offline)
                yield toolkit_by_release(release).tag, framework, ""
            except RecipeError as error:
                tag = toolkit_by_release(recipe.toolkits[-1]).tag
                yield tag, framework, f"{error.what}: {error.why}"

    def _pythons(self, recipe: Recipe, platform: str | None) -> tuple[str, ...]:
        """Return the requested Pythons; one is enough if the wheel serves several."""
        requested = self.python
        if recipe.python == "any":
            return requested[:1] or ("",)
        if recipe.python == "abi3":
            return (stable_abi_python(recipe, platform_of(platform), self.request.target_root),)
        return requested or pythons_of(recipe)

    def _root_fault(self, job: Job) -> str:
        if self.request.target_root and job.target.platform.is_foreign:
            for fault in job.machine.faults:
                if isinstance(fault, TargetRootError):
                    return f"{fault.what}: {fault.why}"
        return ""

    def _python_fault(self, target: Target, *, is_named: bool) -> str:
        """Return the reason why there is no wheel for a Python, as far as known now."""
        recipe = target.recipe
        required = Requirement(f"x{recipe.requires_python}").specifier
        if is_named and not required.contains(plain_release(target.python)):
            return f"the recipe is for Python {recipe.requires_python}"
        if target.framework is None or not is_named:
            return ""
        workspace, offline = bare_workspace(self.console, self.caller), self.request.offline
        return python_fault(target.framework, target.python, workspace, offline=offline)


def _no_framework(names: Sequence[str], roots: Sequence[Path]) -> UsageError:
    recipes = [entry.recipe for entry in load_catalogue(roots) if entry.recipe]
    known = sorted({framework.name for recipe in recipes for framework in recipe.frameworks})
    return UsageError(
        f"no recipe is compiled against {' or '.join(names)}",
        why=f"the recipes name {', '.join(known) or 'no framework'}",
        fix="leave out --framework, which also shows packages without one",
    )


def _order(cell: Cell) -> tuple[object, ...]:
    target = cell.job.target
    framework = version_key(target.framework.version) if target.framework else ()
    release = version_key(target.toolkit.release)
    platform = (target.platform.is_foreign, target.platform.name)
    return target.recipe.name, release, framework, version_key(target.python), platform
