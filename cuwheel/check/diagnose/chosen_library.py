"""Packages with a library for each CUDA release: which one is loaded, and verdicts on that.

The recipe declares how the package chooses: `library_per_cuda`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from packaging.utils import canonicalize_name

from cuwheel.base.spelling import as_typed
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.library_choice import LibraryPerCuda
from cuwheel.check.diagnose.facts.environment import Distribution
from cuwheel.check.diagnose.facts.imports import FrameworkFacts, ModuleRun
from cuwheel.check.diagnose.rules.context import RuleContext
from cuwheel.check.diagnose.verdict import Diagnosis, broken, not_examined, notes, warns, works

_SHOWN = 200  # characters of a program's output
_SIGNIFICANT = re.compile(
    r"cannot open shared object|undefined symbol|not found at|no kernel image|Error\b"
)
# Forms of a release in a file's name, 128, 12.8 or 12: pattern, and separator of its numbers.
_FORMS = {
    "{toolkit_tag}": (r"(\d+)(\d)", ""),
    "{toolkit}": (r"(\d+)\.(\d+)", "."),
    "{cuda}": (r"(\d+)", ""),
}


class ChoosingRecipe(Protocol):
    """The part of a recipe that declares how its package chooses among its libraries."""

    @property
    def name(self) -> str:
        """Its name in the catalogue."""

    @property
    def wheel_name(self) -> str:
        """The project's name, with `{cuda}` for the major release; empty: `name`."""

    @property
    def toolkits(self) -> tuple[str, ...]:
        """The releases of CUDA that it builds for, `12.8`."""

    @property
    def version(self) -> str:
        """The release that it builds."""

    @property
    def library_per_cuda(self) -> LibraryPerCuda | None:
        """The declaration; None: the package doesn't choose."""


@dataclass(frozen=True, kw_only=True)
class ChosenLibrary:
    """What a package will load; releases of CUDA are written as in the names of its files.

    Attributes:
        version: of the package.
        library: the file's name; empty where nothing is loaded.
        release: that it is for, `130`; empty for the one without GPU.
        decided_by: a variable's name, or whose CUDA it is.
        held: the releases that the package has libraries for, the oldest first.
        held_releases: the same as `12.8`.
        wanted: the release that the framework was built with; empty: none, or it isn't known.
        nearest: of `held` the nearest to `wanted` with the same major release; empty: there is
            none.
        hint: what undoes a choice that isn't the framework's; empty where it is.
    """

    version: str
    library: str
    release: str
    decided_by: str
    held: tuple[str, ...]
    held_releases: tuple[str, ...]
    wanted: str
    nearest: str
    hint: str

    @property
    def is_held(self) -> bool:
        """True if the package has that library."""
        return not self.release or self.release in self.held


def choosing_packages(recipes: Iterable[ChoosingRecipe]) -> dict[str, ChoosingRecipe]:
    """Return the recipes that declare a choice, by the names that their wheels install."""
    packages: dict[str, ChoosingRecipe] = {}
    for recipe in recipes:
        if recipe.library_per_cuda:
            majors = (release.partition(".")[0] for release in recipe.toolkits)
            names = (recipe.name, *(recipe.wheel_name.format(cuda=major) for major in majors))
            packages |= {canonicalize_name(name): recipe for name in names if name}
    return packages


def choose_library(
    declared: LibraryPerCuda,
    distribution: Distribution,
    framework: FrameworkFacts | None,
    environ: Mapping[str, str],
) -> ChosenLibrary:
    """Return the library that a package takes where the framework sees the GPU.

    Args:
        framework: the one that decides; None where it isn't installed.
    """
    names = _FileNames(declared)
    files = (path.name for path in distribution.libraries if os.access(path, os.F_OK))
    held = sorted({names.release_in(name) for name in files} - {""}, key=names.numbers)
    wanted = names.release_of(framework.cuda if framework else "")
    override = environ.get(declared.variable, "") if declared.variable and wanted else ""
    release, owner = override or wanted, f"{declared.framework}'s CUDA"
    # Of the same major release, the newest that isn't newer, else the oldest.
    number = names.numbers(wanted)
    same = [known for known in held if names.numbers(known)[:1] == number[:1]]
    older = [known for known in same if names.numbers(known) <= number]
    undo = f"unset {declared.variable}: the package has the library for {owner}, {wanted}"
    return ChosenLibrary(
        version=distribution.version,
        library=f"{names.before}{release}{names.after}" if release else declared.without_gpu,
        release=release,
        decided_by=declared.variable if override else owner,
        held=tuple(held),
        held_releases=tuple(".".join(map(str, names.numbers(known))) for known in held),
        wanted=wanted,
        nearest=(older or ["", *same[::-1]])[-1],
        hint=undo if release != wanted and wanted in held else "",
    )


class _FileNames:
    """The names of the libraries that a package chooses among."""

    def __init__(self, declared: LibraryPerCuda) -> None:
        placeholder = next(name for name in _FORMS if name in declared.file)
        self.before, self.after = declared.file.rpartition("/")[2].split(placeholder)
        self._pattern, self._separator = _FORMS[placeholder]
        self._count = 1 if placeholder == "{cuda}" else 2

    def release_in(self, name: str) -> str:
        """Return the release in a file's name; empty where it is no library of this kind."""
        pattern = f"{re.escape(self.before)}(?P<release>{self._pattern}){re.escape(self.after)}"
        match = re.fullmatch(pattern, name)
        return match["release"] if match else ""

    def release_of(self, cuda: str) -> str:
        """Return `12.8` as in the files' names; empty if they need a minor that is unknown."""
        known = [part for part in cuda.split(".")[: self._count] if part]
        return self._separator.join(known) if len(known) == self._count else ""

    def numbers(self, release: str) -> tuple[int, ...]:
        """Return the numbers of a release in the files' form."""
        match = re.fullmatch(self._pattern, release)
        return tuple(map(int, match.groups())) if match else ()


@dataclass(frozen=True, kw_only=True)
class LibraryJudge:
    """The judge of one package's choice."""

    context: RuleContext
    distribution: Distribution
    recipe: ChoosingRecipe
    declared: LibraryPerCuda

    @property
    def framework(self) -> FrameworkFacts | None:
        """The framework that decides; None where it isn't installed."""
        return self.context.framework(self.declared.framework)

    @cached_property
    def choice(self) -> ChosenLibrary:
        """The library that the package takes."""
        return choose_library(
            self.declared, self.distribution, self.framework, self.context.environ
        )

    def judge(self, check: ModuleRun | None) -> Iterator[Diagnosis]:
        """Judge the choice, and the result of the package's own check; None: it wasn't run."""
        choice, framework, title = self.choice, self.framework, self.distribution.title
        has_gpu = bool(self.context.driver.gpus) and self.context.driver.visible != 0
        if framework is None or not choice.wanted:
            state = "isn't installed" if framework is None else "is built without CUDA"
            judged = broken if has_gpu or framework is None else notes
            yield judged(
                "built-without-cuda",
                f"{title} can't use a GPU",
                f"it uses the CUDA of {self.declared.framework}, which {state}",
                f"install {self.declared.framework} with CUDA",
                self.context.cuda_build(self.declared.framework),
            )
        elif not choice.is_held:
            yield broken(
                self._anchor,
                f"{title} lacks {choice.library}",
                f"{choice.decided_by} selects {choice.release}; the package has "
                f"{', '.join(choice.held) or 'none'}",
                *self._fix_for_missing(framework),
            )
        elif has_gpu and framework.available is False:
            yield warns(
                "no-cuda-device",
                f"{title} uses {self.declared.without_gpu or 'no library'}, not {choice.library}",
                f"{framework.name} sees no GPU",
                f"fix {framework.name} first, then run this again",
            )
        elif has_gpu and check is not None:
            yield self._judge_check(check)
        elif choice.release != choice.wanted:
            yield warns(
                self._anchor,
                f"{title} will load {choice.library}, not the one for {framework.name}",
                f"{choice.decided_by}={choice.release} selects it, and {framework.name} is built "
                f"with CUDA {framework.cuda}",
                choice.hint or self._fix_for_choice(framework),
            )
        elif not framework.failure:
            why = "it has no self-check" if has_gpu else "there is no GPU"
            yield works(f"{title} would load {choice.library}; not run here: {why}")

    @property
    def _anchor(self) -> str:
        return self.declared.explained or "diagnose-no-library"

    def _fix_for_missing(self, framework: FrameworkFacts) -> tuple[str, str]:
        """Return fix and command; the recipe knows a release with that library, if it is newer."""
        choice, recipe, name = self.choice, self.recipe, self.distribution.name
        words = choice.hint or self._fix_for_choice(framework)
        is_newer = version_key(recipe.version) > version_key(self.distribution.version)
        if choice.hint or not is_newer or framework.cuda not in recipe.toolkits:
            return words, ""
        newer = f"install {name} {recipe.version} or newer, which is built for CUDA"
        command = self.context.installer.install(f"{name}>={recipe.version}")
        return f"{newer} {framework.cuda}, or {words}", command

    def _fix_for_choice(self, framework: FrameworkFacts) -> str:
        """Return how to load a library that the package has, or to get the missing one."""
        choice, name, cuda = self.choice, framework.name, framework.cuda
        if choice.nearest and self.declared.variable:
            return (
                f"export {self.declared.variable}={choice.nearest}: of the libraries in the "
                f"package the nearest to {name}'s CUDA {cuda}"
            )
        session = f"build-{self.recipe.name}-{cuda.replace('.', '')}"
        is_built = cuda in self.recipe.toolkits
        builds = as_typed(f", or build it: nox -s {session}") if is_built else ""
        return (
            f"install a {self.distribution.name} with a library for CUDA {framework.major}, or a "
            f"{name} for {', '.join(choice.held_releases) or 'another CUDA'}{builds}"
        )

    def _judge_check(self, check: ModuleRun) -> Diagnosis:
        choice, success, title = self.choice, self.declared.success, self.distribution.title
        command = f"python -m {self.declared.check}"
        if check.fault:
            return not_examined(command, check.fault)
        if success not in check.output:
            lines = [line.strip() for line in check.output.splitlines() if line.strip()]
            line = next(filter(_SIGNIFICANT.search, lines), (lines or ["nothing"])[-1])[:_SHOWN]
            return broken(
                self._anchor,
                f"{title} doesn't work with {choice.library}",
                f"`{command}` ended with status {check.status}, without {success}: {line}",
                choice.hint
                or f"{command} shows the full output; first fix what else is broken in this report",
            )
        names, own = [path.name for path in check.libraries], _FileNames(self.declared)
        if choice.library in names:
            return works(f"{title}: `{command}` prints {success} with {choice.library}")
        loaded = [n for n in names if own.release_in(n) or n == self.declared.without_gpu]
        unset = f"unset {self.declared.variable}, or " if self.declared.variable else ""
        return warns(
            self._anchor,
            f"{title} has loaded {', '.join(loaded) or 'no library'}",
            f"{choice.decided_by} selects {choice.library}",
            f"{unset}install the package again",
        )
