"""A framework's release tried with recipes, whose files stay as they are.

For each recipe: the lock with the release, the stages up to preflight, and a compile of two files.
What fails is tried again with a change; only what has compiled counts as a way out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuwheel.base.errors import (
    AuditError,
    BuildFailedError,
    CommandFailedError,
    CuwheelError,
    DiskFullError,
    InstallError,
    LockError,
    PreflightError,
    RecipeError,
    SmokeError,
    SourceError,
)
from cuwheel.base.fetch.indexes.indexes import configured_indexes, find_releases
from cuwheel.base.system.files import naming_full_disk
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.base.system.quantities import GIB
from cuwheel.base.system.regular_files import open_file, read_bytes
from cuwheel.base.system.versions import version_key
from cuwheel.build.drafts.updates.file_changes import diff_of
from cuwheel.build.drafts.updates.framework_change import (
    FrameworkChange,
    changed_project,
    loosened,
)
from cuwheel.build.environments.framework_release import FrameworkRelease, read_framework_release
from cuwheel.build.locks.framework_fit import fit_specs
from cuwheel.build.locks.lock_jobs import spec_of
from cuwheel.build.locks.resolve import resolve_locks
from cuwheel.build.pipeline import pipeline
from cuwheel.build.pipeline.checks import check
from cuwheel.build.pipeline.package_build.trial import FileTrial, try_configuration, try_files
from cuwheel.build.recipe.catalogue import CatalogueEntry
from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.build.recipe.recipe_lock import lock_of
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import TOOLKITS, toolkit_by_release
from cuwheel.check.explain.explanation import Explainer
from cuwheel.lab.day_zero.verdict import Verdict

# Errors about the recipe with this release; others are about the machine or the network.
_OF_RECIPE = (
    *(AuditError, BuildFailedError, LockError, PreflightError),
    *(RecipeError, SmokeError, SourceError),
)
_UNSATISFIABLE = "No solution found"  # uv's message where requirements contradict each other
# Causes of the failure catalogue that say nothing about the framework.
_OF_MACHINE = {"oom-killed-compile", "compile-exceeds-memory", "disk-full", "time-limit"}
_DISK = GIB  # bytes for the source and a few objects
_STANDARD = "20"  # C++ that a failed compile is tried with

# Returns the job of a target: the recipe, which may be a changed copy, and the toolkit's tag.
MakeJob = Callable[[CatalogueEntry, str], Job]


@dataclass(frozen=True, kw_only=True)
class DayZero:
    """The trial of one release.

    Attributes:
        builds: a recipe whose files compile is built, checked and tested as a whole.
        is_quick: no file of a package is compiled.
    """

    release: FrameworkRelease
    make_job: MakeJob
    workspace: Workspace
    builds: bool = False
    is_quick: bool = False

    @property
    def framework(self) -> Framework:
        """The release as recipes name it."""
        return Framework(name=self.release.name, version=self.release.version)

    def verdicts(self, entries: Sequence[CatalogueEntry]) -> Iterator[Verdict]:
        """Yield a verdict for each recipe.

        Raises:
            DiskFullError: a disk ran full, as it would for the others.
        """
        for entry in entries:
            if entry.recipe is None:
                yield Verdict(recipe=entry.name, version="", state="unknown", why=entry.fault)
                continue
            self.workspace.console.heading(entry.recipe.name)
            started = time.monotonic()
            with temporary_folder() as folder:
                verdict = _RecipeTrial(self, entry, entry.recipe, folder).verdict()
            yield replace(verdict, seconds=time.monotonic() - started)


def read_release(framework: Framework, python: str, workspace: Workspace) -> FrameworkRelease:
    """Return a framework's release; refuse one that no recipe can be tried with.

    Raises:
        RecipeError: it doesn't exist, was built with a CUDA release that cuwheel has no toolchain
            for, or has no wheel for this Python.
        DownloadError: the index can't be reached.
    """
    release = read_framework_release(framework.name, framework.version, workspace)
    if release.cuda not in {toolkit.release for toolkit in TOOLKITS}:
        raise RecipeError(
            f"{framework.pin} can't be tried: nothing was found out",
            why=f"it was built with CUDA {release.cuda}, which cuwheel has no toolchain for"
            if release.cuda
            else "its requirements don't name a release of CUDA",
            fix="docs/architecture.md describes how to add a CUDA release",
        )
    if python not in release.pythons:
        plain = [name for name in release.pythons if not name.endswith("t")]
        raise RecipeError(
            f"{framework.pin} has no wheel for Python {python}: nothing was found out",
            why=f"the index has it for {', '.join(release.pythons)}",
            fix=f"-- --python {plain[-1]}",
        )
    return release


def new_frameworks(entries: Sequence[CatalogueEntry], workspace: Workspace) -> tuple[str, ...]:
    """Return the newest release of each framework that no recipe names yet: `torch==2.15.0`.

    Raises:
        DownloadError: the index can't be reached.
    """
    known: dict[str, list[str]] = {}
    for entry in entries:
        for framework in entry.recipe.frameworks if entry.recipe else ():
            versions = known.setdefault(framework.name, [])
            versions += [framework.version, *framework.serves]
    pins = []
    for name, versions in known.items():
        releases = find_releases(name, indexes=configured_indexes(workspace.environ))
        newest = max(
            (str(release.version) for release in releases if release.is_final and release.wheels),
            key=version_key,
            default="",
        )
        if newest and version_key(newest) > max(map(version_key, versions)):
            pins.append(f"{name}=={newest}")
    return tuple(pins)


@dataclass(frozen=True)
class _RecipeTrial:
    """The trial of one recipe; its changed copies are in `folder`."""

    day: DayZero
    entry: CatalogueEntry
    recipe: Recipe
    folder: Path

    def verdict(self) -> Verdict:
        change = FrameworkChange(framework=self.day.framework, cuda=self.day.release.cuda)
        stable = [each for each in self.recipe.frameworks if each.serves]
        if any(self.day.framework in (each, *each.served) for each in stable):
            why = "its wheel of the stable ABI serves it"
            return replace(self._plain(), state="works", why=why)
        try:
            change, project = self._locked(change)
            if problem := self._problem_here(project, change):
                return self._unknown(change, problem)
            return self._tried(change, project)
        except DiskFullError:
            raise
        except CuwheelError as error:
            return self._failed(change, error)

    def _problem_here(self, entry: CatalogueEntry, change: FrameworkChange) -> CuwheelError | None:
        """Return what this machine lacks: disk space, a compiler, a sandbox; None: nothing."""
        try:
            check(self._job(entry, change), "early")
        except CuwheelError as error:
            return error
        return None

    def _plain(self) -> Verdict:
        return Verdict(recipe=self.recipe.name, version=self.recipe.version, state="unknown")

    def _locked(self, change: FrameworkChange) -> tuple[FrameworkChange, CatalogueEntry]:
        """Return the change with which there is a lock, and the project folder with both.

        Raises:
            LockError: requirements contradict each other, also without their upper limits.
            CuwheelError: the index can't be reached.
        """
        reasons = []
        for requirements in ({}, *loosened(self.recipe)):
            candidate = replace(change, requirements=requirements)
            try:
                return candidate, self._lock(candidate)
            except InstallError as error:
                if _UNSATISFIABLE not in error.why:
                    raise
                reasons.append(error.why)
        raise LockError(
            f"{self.recipe.name} can't be locked for {change.framework.pin}",
            why=reasons[0],
            fix=f"change `requires` in {self.recipe.module}",
        )

    def _lock(self, change: FrameworkChange) -> CatalogueEntry:
        entry = self._changed(change)
        recipe, major = entry.recipe, int(change.cuda.split(".")[0])
        if recipe is None:  # pragma: no cover - `changed_project` has refused it
            raise RecipeError(f"{self.recipe.name} can't be changed", why=entry.fault)
        locks = {
            lock_of(recipe, kind, major, change.framework): None for kind in ("build", "smoke")
        }
        specs = fit_specs(tuple(spec_of(lock, entry.root) for lock in locks), self.day.workspace)
        resolve_locks(specs, self.day.workspace, cooldown=0)
        return entry

    def _changed(self, change: FrameworkChange) -> CatalogueEntry:
        return changed_project(self.entry, change, self.folder)

    def _tried(self, change: FrameworkChange, entry: CatalogueEntry) -> Verdict:
        """Return the verdict on a locked change, or on it with a newer C++."""
        failed = ""
        try:
            trial, job = self._trial(entry, change)
        except _OF_RECIPE as error:
            failure: CuwheelError = error
        else:
            if trial.failure is None:
                return self._works(change, trial, job)
            failed, failure = trial.failed, trial.failure
        newer = replace(change, cxx_standard=_STANDARD)
        if self._may_need(failure):
            self.day.workspace.console.note(f"trying again with C++{_STANDARD}")
            entry = self._changed(newer)
            if problem := self._problem_here(entry, newer):
                return self._unknown(change, problem)
            try:
                trial, job = self._trial(entry, newer, failed)
            except _OF_RECIPE:
                return self._failed(change, failure)
            if trial.failure is None:
                return self._works(newer, trial, job)
        return self._failed(change, failure)

    def _trial(
        self, entry: CatalogueEntry, change: FrameworkChange, failed: str = ""
    ) -> tuple[FileTrial, Job]:
        job = self._job(entry, change)
        pipeline.make(job, last="preflight")
        with job.workspace.console.stage("trial"), naming_full_disk(job.workspace.work):
            trial = try_configuration(job) if self.day.is_quick else try_files(job, failed)
            return trial, job

    def _job(self, entry: CatalogueEntry, change: FrameworkChange) -> Job:
        job = self.day.make_job(entry, toolkit_by_release(change.cuda).tag)
        if self.day.builds:
            return job
        recipe = replace(job.target.recipe, disk=_DISK)
        return replace(job, target=replace(job.target, recipe=recipe))

    def _may_need(self, failure: CuwheelError) -> bool:
        """Return False where the package compiles with this C++ already."""
        shown = failure.command if isinstance(failure, CommandFailedError) else ()
        return not any(f"c++{_STANDARD}" in word for word in shown)

    def _works(self, change: FrameworkChange, trial: FileTrial, job: Job) -> Verdict:
        needed = change.is_needed(self.recipe)
        build = f"nox -s build -- {self.recipe.name} --framework {self.day.framework.pin}"
        verdict = replace(
            self._plain(),
            target=job.target.id,
            state="works with changes" if needed else "works",
            changes=change.summary(self.recipe),
            diff=self._diff() if needed else "",
            command=self._command(change) if needed else build,
            files=trial.files,
            count=trial.count,
        )
        if not self.day.builds:
            return verdict
        try:
            summary = pipeline.make(job)
        except _OF_RECIPE as error:
            return replace(self._failed(change, error), files=trial.files, count=trial.count)
        return replace(verdict, wheel=summary.wheel if summary else "")

    def _diff(self) -> str:
        path = self.entry.root / self.recipe.module
        after = {path: read_bytes(self.folder / self.recipe.module)}
        return "\n".join(diff_of({path: read_bytes(path)}, after, self.entry.root))

    def _command(self, change: FrameworkChange) -> str:
        options = [f"--cxx-standard {change.cxx_standard}"] if change.cxx_standard else []
        options += [f"--require '{new}'" for new in change.requirements.values()]
        words = (f"nox -s bump -- {self.recipe.name} --framework {change.framework.pin}", *options)
        return " ".join((*words, "--cooldown 0"))

    def _failed(self, change: FrameworkChange, error: CuwheelError) -> Verdict:
        """Return the verdict on an error: about the recipe, or about something else."""
        cause, slug = _explained(error)
        if not isinstance(error, _OF_RECIPE) or slug in _OF_MACHINE:
            return self._unknown(change, error)
        compile_ = error if isinstance(error, CommandFailedError) else None
        first = compile_.first.text if compile_ and compile_.first else ""
        return replace(
            self._plain(),
            state="broken",
            changes=change.summary(self.recipe),
            why=cause or first or error.why or error.what,
            error=first,
            log=str((compile_ and compile_.log) or ""),
        )

    def _unknown(self, change: FrameworkChange, error: CuwheelError) -> Verdict:
        why = f"nothing was found out: {error.what}: {error.why}"
        return replace(self._plain(), changes=change.summary(self.recipe), why=why)


def _explained(error: CuwheelError) -> tuple[str, str]:
    """Return title and slug of the cause that the log of an error shows; empty: none."""
    if not isinstance(error, CommandFailedError) or not error.log or not error.log.is_file():
        return "", ""
    known: Mapping[str, str] = error.known
    with open_file(error.log) as stream:
        causes = Explainer().explain(stream, known).causes
    return (causes[0].title, causes[0].slug) if causes else ("", "")
