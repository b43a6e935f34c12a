"""The locks of a recipe: what is to be in each, its file, and what writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from cuwheel.cuda.components import component_by_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.model.recipe import Framework, Recipe


_BY_MAJOR = "{cuda}"  # in a requirement: each major release of CUDA has a lock of its own


@dataclass(frozen=True, kw_only=True)
class RecipeLock:
    """A lock of a recipe, made from what the recipe declares.

    Attributes:
        recipe: whose.
        kind: `build`, what the build environment holds; `smoke`, what the installed wheel needs.
        cuda: the major release of CUDA that it is for; None: it serves them all.
        framework: what is compiled against; the recipe's unless `--framework` said otherwise.
    """

    recipe: Recipe = field(hash=False)
    kind: Literal["build", "smoke"]
    cuda: int | None
    framework: Framework | None

    @property
    def name(self) -> str:
        """What `nox -s lock` calls it: `build:causal-conv1d`, `smoke:jax-finufft:cu13`.

        Where the recipe names several releases of its framework, this stands for a lock of each.
        """
        return f"{self.kind}:{self.recipe.name}" + (f":cu{self.cuda}" if self.cuda else "")

    @property
    def path(self) -> PurePosixPath:
        """Its file below the project folder: `envs/build/causal_conv1d-torch2.12.0.lock`."""
        major = f"-cu{self.cuda}" if self.cuda else ""
        other = f"-{self._other_framework}".replace("==", "") if self._other_framework else ""
        return PurePosixPath(f"envs/{self.kind}/{self.recipe.folder}{major}{other}.lock")

    @property
    def command(self) -> str:
        """What a person types to write it again."""
        other = self._other_framework
        return f"nox -s lock -- {self.name}" + (f" --framework {other}" if other else "")

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is to be in it, in order.

        Raises:
            UsageError: the recipe links a component that there isn't.
        """
        return tuple(sorted(set(self._declared())))

    def way_to_add(self, *names: str) -> str:
        """What to do so that it holds packages that it doesn't."""
        owner = "`requires`" if self.kind == "build" else "`requires` of `smoke`"
        return f"add {', '.join(names)} to {owner} in {self.recipe.module}, then `{self.command}`"

    def _declared(self) -> Iterator[str]:
        for text in _texts(self.recipe, self.kind):
            yield text.format(cuda=self.cuda)
        if self.framework:
            yield self.framework.pin
        if self.kind == "build":
            yield "build"  # the frontend, which the engine calls
        else:
            yield from self._suppliers()

    def _suppliers(self) -> Iterator[str]:
        """The wheels that the finished wheel finds its libraries in."""
        majors = {int(release.split(".")[0]) for release in self.recipe.toolkits}
        for major in [self.cuda] if self.cuda else majors:
            for name in self.recipe.link.components:
                yield component_by_name(name, major).distribution

    @property
    def _other_framework(self) -> str:
        is_own = self.framework is None or self.framework == self.recipe.framework
        return "" if is_own or self.framework is None else self.framework.pin


def lock_of(
    recipe: Recipe, kind: Literal["build", "smoke"], cuda: int, framework: Framework | None
) -> RecipeLock:
    """The lock that serves one major release of CUDA.

    The smoke test of a recipe that declares nothing for it takes what the build's lock holds.

    Args:
        recipe: whose.
        kind: of which environment.
        cuda: the major release.
        framework: what is compiled against.
    """
    if kind == "smoke" and not recipe.smoke.requires:
        kind = "build"
    is_by_major = any(_BY_MAJOR in text for text in _texts(recipe, kind))
    return RecipeLock(
        recipe=recipe, kind=kind, cuda=cuda if is_by_major else None, framework=framework
    )


def locks_of(recipe: Recipe) -> tuple[RecipeLock, ...]:
    """Every lock that a recipe has to have."""
    return tuple(dict.fromkeys(_locks_of(recipe)))


def _locks_of(recipe: Recipe) -> Iterator[RecipeLock]:
    kinds: tuple[Literal["build", "smoke"], ...] = ("build", "smoke")
    for kind in kinds:
        for release in recipe.toolkits:
            major, framework = int(release.split(".")[0]), recipe.framework_for(release)
            yield lock_of(recipe, kind, major, framework)
            for other in framework.served if framework else ():
                yield lock_of(recipe, "smoke", major, other)


def _texts(recipe: Recipe, kind: str) -> tuple[str, ...]:
    return recipe.requires if kind == "build" else recipe.smoke.requires
