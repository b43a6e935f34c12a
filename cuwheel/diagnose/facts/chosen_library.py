"""Of a package with a library for each CUDA release: which one it will load.

How it chooses stands in its recipe, `library_per_cuda`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.diagnose.facts.environment import Distribution
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.model.recipe import LibraryPerCuda, Recipe


# How a file's name says a release: 128, 12.8 or 12.
_FORMS = {"{toolkit_tag}": r"(\d+)(\d)", "{toolkit}": r"(\d+)\.(\d+)", "{cuda}": r"(\d+)"}
_SEPARATORS = {"{toolkit_tag}": "", "{toolkit}": ".", "{cuda}": ""}


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
        """Whether the package has that library."""
        return not self.release or self.release in self.held


def choosing_packages(recipes: Iterable[Recipe]) -> dict[str, Recipe]:
    """The recipes that say how their package chooses among its libraries, by installed names."""
    found: dict[str, Recipe] = {}
    for recipe in recipes:
        if recipe.library_per_cuda:
            majors = (release.partition(".")[0] for release in recipe.toolkits)
            names = (recipe.name, *(recipe.wheel_name.format(cuda=major) for major in majors))
            found |= {canonicalize_name(name): recipe for name in names if name}
    return found


def choose_library(
    declared: LibraryPerCuda,
    distribution: Distribution,
    framework: FrameworkFacts | None,
    environ: Mapping[str, str],
) -> ChosenLibrary:
    """Which library a package takes on a machine whose GPU the framework sees.

    Args:
        declared: how it chooses.
        distribution: of the package.
        framework: what is known of the one that decides; None where it isn't installed.
        environ: of the caller.
    """
    found = (_release_in(declared, path.name) for path in distribution.libraries if path.exists())
    held = sorted({one for one in found if one}, key=lambda one: _numbers(declared, one))
    wanted = _release_of(declared, framework.cuda if framework else "")
    asked = environ.get(declared.variable, "") if declared.variable and wanted else ""
    release = asked or wanted
    file = _stem(declared).replace(_placeholder(declared), release)
    return ChosenLibrary(
        version=distribution.version,
        library=file if release else declared.without_gpu,
        release=release,
        decided_by=declared.variable if asked else f"{declared.framework}'s CUDA",
        held=tuple(held),
        held_releases=tuple(".".join(map(str, _numbers(declared, one))) for one in held),
        wanted=wanted,
        nearest=_nearest(declared, wanted, held),
        hint=f"unset {declared.variable}: the package has the library for "
        f"{declared.framework}'s CUDA, {wanted}"
        if release != wanted and wanted in held
        else "",
    )


def is_own_library(declared: LibraryPerCuda, name: str) -> bool:
    """Whether a file of this name is one of those that a package chooses among."""
    return bool(_release_in(declared, name)) or name == declared.without_gpu


def _release_in(declared: LibraryPerCuda, name: str) -> str:
    """The release that a file's name says; empty where it is no library of this kind."""
    placeholder = _placeholder(declared)
    before, after = map(re.escape, _stem(declared).split(placeholder))
    match = re.fullmatch(f"{before}(?P<release>{_FORMS[placeholder]}){after}", name)
    return match["release"] if match else ""


def _stem(declared: LibraryPerCuda) -> str:
    return declared.file.rpartition("/")[2]


def _placeholder(declared: LibraryPerCuda) -> str:
    return next(name for name in _FORMS if name in declared.file)


def _release_of(declared: LibraryPerCuda, cuda: str) -> str:
    """`12.8` as the names of files have it; empty where they say more than is known."""
    placeholder, parts = _placeholder(declared), cuda.split(".")
    count = 1 if placeholder == "{cuda}" else 2
    known = [part for part in parts[:count] if part]
    return _SEPARATORS[placeholder].join(known) if len(known) == count else ""


def _numbers(declared: LibraryPerCuda, release: str) -> tuple[int, ...]:
    match = re.fullmatch(_FORMS[_placeholder(declared)], release)
    return tuple(map(int, match.groups())) if match else ()


def _nearest(declared: LibraryPerCuda, wanted: str, held: list[str]) -> str:
    """Of the same major release: the newest that isn't newer, else the oldest."""
    number = _numbers(declared, wanted)
    same = [one for one in held if _numbers(declared, one)[:1] == number[:1]]
    older = [one for one in same if _numbers(declared, one) <= number]
    return (older or ["", *same[::-1]])[-1]
