"""Whether a package works with the one of its libraries that it will load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.diagnose.facts.chosen_library import is_own_library
from cuwheel.diagnose.verdict import DeclaredEntry, broken, not_asked, warns, works
from cuwheel.spelling import as_typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.diagnose.facts.chosen_library import ChosenLibrary
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.imports import FrameworkFacts, ModuleRun
    from cuwheel.diagnose.verdict import Anchor, Verdict
    from cuwheel.model.recipe import LibraryPerCuda, Recipe


_SHOWN = 200  # characters of its own words
_SIGNIFICANT = re.compile(
    r"cannot open shared object|undefined symbol|not found at|no kernel image|Error\b"
)


@dataclass(frozen=True, kw_only=True)
class LibraryJudge:
    """Judges the choice of one package.

    Attributes:
        project: the name that it is installed by.
        recipe: of the package.
        declared: how it chooses.
        choice: what it will load.
        driver: whether there is a GPU.
        framework: what is known of the one that decides; None where it isn't installed.
        cuda_build: the command that installs this framework with CUDA; empty where it isn't there.
    """

    project: str
    recipe: Recipe
    declared: LibraryPerCuda
    choice: ChosenLibrary
    driver: Driver
    framework: FrameworkFacts | None
    cuda_build: str

    def judge(self, done: ModuleRun | None) -> Iterator[Verdict]:
        """Judge the choice, and what the package's own check gave.

        Args:
            done: what that gave; None where it wasn't run.
        """
        choice, framework = self.choice, self.framework
        has_gpu = bool(self.driver.gpus) and self.driver.visible != 0
        if framework is None or not choice.wanted:
            yield self._without_cuda()
        elif not choice.is_held:
            yield self._not_held()
        elif has_gpu and framework.available is False:
            yield warns(
                "no-cuda-device",
                f"{self._name} uses {self.declared.without_gpu or 'no library'}, not "
                f"{choice.library}",
                f"{framework.name} sees no GPU",
                f"fix {framework.name} first, then run this again",
            )
        elif has_gpu and done is not None:
            yield self._judge_check(done)
        elif choice.release != choice.wanted:
            yield self._other_release(framework)
        elif not framework.failure:
            why = "it has no self-check" if has_gpu else "there is no GPU"
            yield works(f"{self._name} would load {choice.library}; not run here: {why}")

    @property
    def _name(self) -> str:
        return f"{self.project} {self.choice.version}"

    @property
    def _anchor(self) -> Anchor:
        explained = self.declared.explained
        return DeclaredEntry(explained) if explained else "diagnose-no-library"

    def _without_cuda(self) -> Verdict:
        name = self.declared.framework
        state = "isn't installed" if self.framework is None else "is built without CUDA"
        return broken(
            "built-without-cuda",
            f"{self._name} can't use a GPU",
            f"it uses the CUDA of {name}, which {state}",
            f"install {name} with CUDA",
            self.cuda_build,
        )

    def _not_held(self) -> Verdict:
        choice = self.choice
        return broken(
            self._anchor,
            f"{self._name} lacks {choice.library}",
            f"{choice.decided_by} selects {choice.release}; the package has "
            f"{', '.join(choice.held) or 'none'}",
            choice.hint or self._fix_for_choice(),
        )

    def _other_release(self, framework: FrameworkFacts) -> Verdict:
        choice = self.choice
        return warns(
            self._anchor,
            f"{self._name} will load {choice.library}, not the one for {framework.name}",
            f"{choice.decided_by}={choice.release} selects it, and {framework.name} is built "
            f"with CUDA {framework.cuda}",
            choice.hint or self._fix_for_choice(),
        )

    def _fix_for_choice(self) -> str:
        """What makes it load a library that it has, or brings the one that it lacks."""
        choice, recipe = self.choice, self.recipe
        name, cuda = self.declared.framework, self.framework.cuda if self.framework else ""
        if choice.nearest and self.declared.variable:
            return (
                f"export {self.declared.variable}={choice.nearest}: of the libraries in the "
                f"package the nearest to {name}'s CUDA {cuda}"
            )
        session = f"build-{recipe.name}-{cuda.replace('.', '')}"
        builds = as_typed(f", or build it: nox -s {session}") if cuda in recipe.toolkits else ""
        return (
            f"install a {self.project} with a library for CUDA {cuda.partition('.')[0]}, or a "
            f"{name} for {', '.join(choice.held_releases) or 'another CUDA'}{builds}"
        )

    def _judge_check(self, done: ModuleRun) -> Verdict:
        choice, success = self.choice, self.declared.success
        said = f"python -m {self.declared.check}"
        if done.fault:
            return not_asked(said, done.fault)
        if success not in done.output:
            return broken(
                self._anchor,
                f"{self._name} doesn't work with {choice.library}",
                f"`{said}` ended with status {done.status}, without {success}: "
                f"{_significant_line(done.output)}",
                choice.hint
                or f"{said} shows the full output; first fix what else is broken in this report",
            )
        names = [path.name for path in done.libraries]
        if choice.library in names:
            return works(f"{self._name}: `{said}` prints {success} with {choice.library}")
        own = [name for name in names if is_own_library(self.declared, name)]
        unset = f"unset {self.declared.variable}, or " if self.declared.variable else ""
        return warns(
            self._anchor,
            f"{self._name} has loaded {', '.join(own) or 'no library'}",
            f"{choice.decided_by} selects {choice.library}",
            f"{unset}install the package again",
        )


def _significant_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = (line for line in lines if _SIGNIFICANT.search(line))
    return next(found, (lines or ["nothing"])[-1])[:_SHOWN]
