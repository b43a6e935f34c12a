"""The locks of a recipe: the requirements of each, its file, and the command that writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from cuwheel.build.recipe.recipe import Framework, Recipe
from cuwheel.check.cuda.components import component_by_name

QUESTION = "?"  # before an import name in a draft's `requires`: its distribution is unknown
_BY_MAJOR = "{cuda}"  # in a requirement: each major release of CUDA has a lock of its own


@dataclass(frozen=True, kw_only=True)
class RecipeLock:
    """A lock of a recipe.

    Attributes:
        kind: `build`, of the build environment; `smoke`, of the installed wheel's requirements.
        cuda: the major release of CUDA that it is for; None: it serves them all.
        framework: that is compiled against, the recipe's or that of `--framework`.
    """

    recipe: Recipe = field(hash=False)
    kind: Literal["build", "smoke"]
    cuda: int | None
    framework: Framework | None

    @property
    def name(self) -> str:
        """The name for `nox -s lock`: `build:causal-conv1d`, `smoke:jax-finufft:cu13`.

        Where the recipe names several releases of its framework, it means a lock of each.
        """
        return f"{self.kind}:{self.recipe.name}" + (f":cu{self.cuda}" if self.cuda else "")

    @property
    def path(self) -> PurePosixPath:
        """The path in the project folder: `envs/build/causal_conv1d-torch2.12.0.lock`."""
        major = f"-cu{self.cuda}" if self.cuda else ""
        other = f"-{self._other_framework}".replace("==", "") if self._other_framework else ""
        return PurePosixPath(f"envs/{self.kind}/{self.recipe.folder}{major}{other}.lock")

    @property
    def command(self) -> str:
        """The command that writes it again."""
        other = self._other_framework
        return f"nox -s lock -- {self.name}" + (f" --framework {other}" if other else "")

    @property
    def requirements(self) -> tuple[str, ...]:
        """The requirements that it is made from, in order.

        Raises:
            UsageError: the recipe links an unknown component.
        """
        requirements = {text.format(cuda=self.cuda) for text in _texts(self.recipe, self.kind)}
        if self.framework:
            requirements.add(self.framework.pin)
        if self.kind == "build":
            requirements.add("build")  # the frontend, which the engine calls
        else:  # the wheels with the libraries of the finished wheel
            majors = {int(release.split(".")[0]) for release in self.recipe.toolkits}
            for major in [self.cuda] if self.cuda else majors:
                for name in self.recipe.link.components:
                    requirements.add(component_by_name(name, major).distribution)
        return tuple(sorted(requirements))

    @property
    def questions(self) -> tuple[str, ...]:
        """Import names whose distribution a draft left open, as they are in `requires`."""
        return tuple(text for text in _texts(self.recipe, self.kind) if text.startswith(QUESTION))

    def way_to_add(self, *names: str) -> str:
        """Return the fix for requirements that it doesn't meet; a framework is pinned elsewhere."""
        owner = "`requires`" if self.kind == "build" else "`requires` of `smoke`"
        framework = self.framework.name if self.framework else ""
        pinned = [name for name in names if re.split(r"[^\w.-]", name)[0].lower() == framework]
        others = ", ".join(name for name in names if name not in pinned)
        parts = [f"add {others} to {owner} in {self.recipe.module}"] if others else []
        if pinned:
            parts.append(
                f"declare a release that satisfies {', '.join(pinned)} in `framework` of "
                f"{self.recipe.module}, or let a patch of the source's build files allow "
                f"{self.framework.version if self.framework else 'it'}"
            )
        return f"{'; '.join(parts)}, then `{self.command}`"

    @property
    def _other_framework(self) -> str:
        if self.framework is None or self.framework == self.recipe.framework:
            return ""
        return self.framework.pin


def lock_of(
    recipe: Recipe, kind: Literal["build", "smoke"], cuda: int, framework: Framework | None
) -> RecipeLock:
    """Return the lock for one major release of CUDA.

    The smoke test of a recipe without requirements for it uses the build's lock.
    """
    if kind == "smoke" and not recipe.smoke.requires:
        kind = "build"
    is_by_major = any(_BY_MAJOR in text for text in _texts(recipe, kind))
    return RecipeLock(
        recipe=recipe, kind=kind, cuda=cuda if is_by_major else None, framework=framework
    )


def locks_of(recipe: Recipe) -> tuple[RecipeLock, ...]:
    """Return every lock that a recipe has to have."""
    kinds: tuple[Literal["build", "smoke"], ...] = ("build", "smoke")
    locks = []
    for kind in kinds:
        for release in recipe.toolkits:
            major, framework = int(release.split(".")[0]), recipe.framework_for(release)
            locks.append(lock_of(recipe, kind, major, framework))
            served = framework.served if framework else ()
            locks += [lock_of(recipe, "smoke", major, other) for other in served]
    return tuple(dict.fromkeys(locks))


def _texts(recipe: Recipe, kind: str) -> tuple[str, ...]:
    return recipe.requires if kind == "build" else recipe.smoke.requires
