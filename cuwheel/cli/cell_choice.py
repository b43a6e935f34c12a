"""The cells of the matrix that a command line asks for: package, CUDA, Python, framework."""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from cuwheel.cli.target_choice import (
    choose_target,
    foreign_root_of,
    framework_of,
    platform_of,
    stable_abi_python,
    target_root_of,
)
from cuwheel.cli.target_jobs import requested_job
from cuwheel.cuda.toolkits import toolkit_by_release
from cuwheel.errors import CuwheelError, FrameworkError, TargetRootError, UsageError, suggest
from cuwheel.locks.framework_fit import fitting_toolkit, python_fault
from cuwheel.matrix.changes import changed_files, is_about
from cuwheel.matrix.state import Cell
from cuwheel.model.catalogue import load_catalogue
from cuwheel.model.recipe_check import check_recipe
from cuwheel.paths import project_roots
from cuwheel.system.pythons import own_python
from cuwheel.system.versions import plain_release, version_key
from cuwheel.workspace.workspace import bare_workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuwheel.model.catalogue import CatalogueEntry
    from cuwheel.model.recipe import Framework, Recipe
    from cuwheel.model.target import Target
    from cuwheel.system.console import Console
    from cuwheel.workspace.job import Job, Machine


# What a recipe is shown for that names no Python itself.
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """What stands behind `build` for one cell, and what can be said against it beforehand.

    Attributes:
        entry: the recipe.
        tag: the toolkit's, `130`.
        python: `3.12`; empty: the Python that runs nox.
        framework: `torch==2.11.0` where it isn't the recipe's own; else empty.
        link: `--link` as it was given; empty: the recipe's.
        toolchain: `--toolchain` likewise.
        platform: `--platform` likewise; empty: this machine's.
        impossible: why there can be no such wheel; empty: there can.
    """

    entry: CatalogueEntry
    tag: str
    python: str
    framework: str
    link: str = ""
    toolchain: str = ""
    platform: str = ""
    impossible: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Target and options."""
        values = {
            "--python": self.python,
            "--framework": self.framework,
            "--link": self.link,
            "--toolchain": self.toolchain,
            "--platform": self.platform,
        }
        words = (word for name, value in values.items() if value for word in (name, value))
        return (f"{self.entry.name}-{self.tag}", *words)


def chosen_cells(given: argparse.Namespace, console: Console) -> tuple[Cell, ...]:
    """Every cell that the options allow, those that share kernels beside each other.

    Raises:
        UsageError: an option is wrong, or none is left.
        CuwheelError: the index has to be asked and can't be.
    """
    chooser = _Chooser(given=given, console=console)
    named = {chooser.name_of(options): options for options in chooser.options()}
    tags = {toolkit_by_release(release).tag for release in given.cuda}
    kept = [
        options
        for name, options in named.items()
        if _is_asked(name, given.only) and (not tags or options.tag in tags)
    ]
    if not named:
        raise _no_framework(given.framework)
    if not kept:
        raise UsageError(
            f"there is no cell {' or '.join(given.only)}" if given.only else "there is no cell",
            why=suggest((given.only or [""])[0], named),
            fix="`nox -s matrix` shows all; write a pattern as --only 'causal-conv1d-130-*'",
        )
    cells = sorted(map(chooser.cell, kept), key=_order)
    return tuple(cell for cell in cells if _is_changed(cell, given.changed_since))


def _no_framework(asked: Sequence[str]) -> UsageError:
    recipes = [entry.recipe for entry in load_catalogue(project_roots()) if entry.recipe]
    known = sorted({one.name for recipe in recipes for one in recipe.frameworks})
    return UsageError(
        f"no recipe is compiled against {' or '.join(asked)}",
        why=f"the recipes name {', '.join(known) or 'no framework'}",
        fix="leave out --framework, which also shows packages without one",
    )


def cell_job_options(
    given: argparse.Namespace, words: Sequence[str], *, only_looks: bool
) -> argparse.Namespace:
    """The options of `build` for one cell.

    Args:
        given: the options of `matrix`.
        words: target and options of the cell.
        only_looks: nothing may be installed or written for it.
    """
    values = dict(zip(words[1::2], words[2::2], strict=True))
    named = {name: values.get(f"--{name}") for name in ("framework", "platform")}
    own = {**named, "dry_run": only_looks}
    return argparse.Namespace(**{**vars(given), **own})


def _order(cell: Cell) -> tuple[object, ...]:
    target = cell.job.target
    framework = version_key(target.framework.version) if target.framework else ()
    release = version_key(target.toolkit.release)
    platform = (target.platform.is_foreign, target.platform.name)
    return target.recipe.name, release, framework, version_key(target.python), platform


def _is_changed(cell: Cell, since: str | None) -> bool:
    if since is None:
        return True
    target = cell.job.target
    return is_about(target, changed_files(target.root, since))


def _is_asked(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, one) for one in patterns)


@dataclass(frozen=True, kw_only=True)
class _Chooser:
    given: argparse.Namespace
    console: Console
    # Read once for each provider and platform, with another machine's root for each Python.
    machines: dict[tuple[str, str, str], Machine] = field(default_factory=dict)

    def options(self) -> Iterator[CellOptions]:
        """Every combination; whether the index has a wheel for its Python isn't asked yet."""
        for entry in load_catalogue(project_roots()):
            if entry.recipe is None:
                self.console.warn(f"{entry.name} is skipped: {entry.fault}")
                continue
            check_recipe(entry.recipe)
            for tag, framework, fault in self._combinations(entry, entry.recipe):
                own = entry.recipe.framework_for(toolkit_by_release(tag).release)
                named = "" if framework in {None, own} else framework.pin
                for platform, python in self._platforms(entry.recipe):
                    yield CellOptions(
                        entry=entry,
                        tag=tag,
                        python=python,
                        framework=named,
                        link=self.given.link or "",
                        toolchain=self.given.toolchain or "",
                        platform=platform,
                        impossible=fault,
                    )

    def name_of(self, options: CellOptions) -> str:
        """The target's id."""
        given = cell_job_options(self.given, options.words, only_looks=True)
        if os.sep in options.python:  # only the interpreter itself says which release it is
            return self.cell(options).id
        python = options.python or own_python().release
        return choose_target(options.entry, options.tag, python, given).id

    def cell(self, options: CellOptions) -> Cell:
        """The cell: its build, and why it can't be."""
        given = cell_job_options(self.given, options.words, only_looks=True)
        provider = given.toolchain or toolkit_by_release(options.tag).provider
        read = (provider, options.platform, options.python if options.platform else "")
        job = requested_job(
            options.entry,
            options.tag,
            options.python,
            given,
            self.console,
            machine=self.machines.get(read),
        )
        self.machines.setdefault(read, job.machine)
        fault = (
            options.impossible
            or job.target.platform_fault
            or self._root_fault(job)
            or self._python_fault(job.target, options.python)
        )
        return Cell(job=job, options=options.words, impossible=fault)

    def _combinations(
        self, entry: CatalogueEntry, recipe: Recipe
    ) -> Iterator[tuple[str, Framework | None, str]]:
        """Toolkit's tag, framework where one is asked for, and why they don't go together."""
        asked = [framework_of(text) for text in self.given.framework]
        if not asked:
            for release in recipe.toolkits:
                yield toolkit_by_release(release).tag, None, ""
            yield from self._locked_combinations(entry, recipe)
            return
        names = {one.name for one in recipe.frameworks}
        for framework in asked:
            if framework is None or framework.name not in names:
                continue
            workspace, offline = bare_workspace(self.console), self.given.offline
            try:
                release = fitting_toolkit(recipe, entry.root, framework, workspace, offline=offline)
                yield toolkit_by_release(release).tag, framework, ""
            except FrameworkError as error:
                yield toolkit_by_release(recipe.toolkits[-1]).tag, framework, _said(error)

    def _locked_combinations(
        self, entry: CatalogueEntry, recipe: Recipe
    ) -> Iterator[tuple[str, Framework | None, str]]:
        """Releases of the framework that somebody has made a lock for."""
        served = {other for one in recipe.frameworks for other in one.served}
        for framework in recipe.frameworks[:1]:
            pattern = re.compile(rf"{recipe.folder}-{framework.name}(\d[\w.]*)\.lock")
            names = (path.name for path in (entry.root / "envs" / "build").glob("*.lock"))
            found = (pattern.fullmatch(name) for name in names)
            versions = sorted((one[1] for one in found if one), key=version_key)
            for version in versions:
                other = framework_of(f"{framework.name}=={version}")
                if other is None or other in recipe.frameworks or other in served:
                    continue
                workspace = bare_workspace(self.console)
                release = fitting_toolkit(recipe, entry.root, other, workspace, offline=True)
                yield toolkit_by_release(release).tag, other, ""

    def _platforms(self, recipe: Recipe) -> Iterator[tuple[str, str]]:
        """Platform, where one is named, and Python."""
        for platform in self.given.platform or [""]:
            yield from ((platform, python) for python in self._pythons(recipe, platform))

    def _pythons(self, recipe: Recipe, platform: str) -> tuple[str, ...]:
        """One stands for all where the wheel serves several Pythons."""
        asked = tuple(self.given.python)
        if recipe.python == "any":
            return asked[:1] or ("",)
        if recipe.python == "abi3":
            root = target_root_of(self.given)
            return (stable_abi_python(recipe, platform_of(platform), root),)
        required = Requirement(f"x{recipe.requires_python}").specifier
        return asked or tuple(one for one in PYTHONS if required.contains(one))

    def _root_fault(self, job: Job) -> str:
        """What a root folder that is named lacks for a cell."""
        faults = [one for one in job.machine.faults if isinstance(one, TargetRootError)]
        return _said(faults[0]) if faults and foreign_root_of(self.given) else ""

    def _python_fault(self, target: Target, python: str) -> str:
        """Why there is no wheel for a Python, as far as it can be known now."""
        recipe = target.recipe
        required = Requirement(f"x{recipe.requires_python}").specifier
        if python and not required.contains(plain_release(target.python)):
            return f"the recipe is for Python {recipe.requires_python}"
        if target.framework is None or not python:
            return ""
        workspace, offline = bare_workspace(self.console), self.given.offline
        return python_fault(target.framework, target.python, workspace, offline=offline)


def _said(error: CuwheelError) -> str:
    return f"{error.what}: {error.why}"
