"""Whether a recipe is well formed: every field against the engine's tables."""

from __future__ import annotations

import functools
import itertools
import re
import string
import typing
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuwheel.cuda.components import component_by_name
from cuwheel.cuda.toolkits import TOOLKITS, check_archs, toolkit_by_release
from cuwheel.errors import CuwheelError, RecipeError, suggest
from cuwheel.model.recipe import (
    PLACEHOLDERS,
    SMOKE_PLACEHOLDERS,
    WHEEL_PLACEHOLDERS,
    External,
    Folder,
    GitCommit,
    Recipe,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuwheel.model.recipe import Source


_NAME = "[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]"  # core metadata specification, "Name"


def check_recipe(recipe: Recipe) -> None:
    """Check a recipe against the engine's tables, all fields together.

    Raises:
        RecipeError: with every fault found.
    """
    faults = [
        *_faults_of_names(recipe),
        *_faults_of_sources(recipe),
        *_faults_of_texts(recipe),
        *_faults_of_tables(recipe),
        *_faults_of_wheel(recipe),
        *_faults_of_words(recipe),
    ]
    if faults:
        raise RecipeError(
            f"{recipe.name}: the recipe has {len(faults)} fault{'s'[: len(faults) > 1]}",
            why="\n".join(faults),
            fix=f"correct recipes/{recipe.folder}.py",
        )


def _faults_of_names(recipe: Recipe) -> list[str]:
    faults = []
    if recipe.name != recipe.name.lower() or "_" in recipe.name:
        faults.append(f'name "{recipe.name}" has to be lower case with "-" between words')
    empty = [name for name in ("toolkits", "maintainers") if not getattr(recipe, name)]
    return faults + [f"{name} is empty" for name in empty]


def _faults_of_sources(recipe: Recipe) -> list[str]:
    faults = _faults_of_pin("source", recipe.source)
    for resource in recipe.resources:
        faults += _faults_of_pin(f"resource {resource.name}: source", resource.source)
        if not _stays_inside(resource.to):
            faults.append(f'resource {resource.name}: to="{resource.to}" leads out of the folder')
    places = [PurePosixPath(resource.to) for resource in recipe.resources]
    for place, other in itertools.combinations(places, 2):
        if place.is_relative_to(other) or other.is_relative_to(place):
            faults.append(f'two resources want one place: to="{place}" and to="{other}"')
    return faults


def _stays_inside(to: str) -> bool:
    """Whether a path names something inside the folder that it starts from, by its words alone."""
    path = PurePosixPath(to)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _faults_of_pin(owner: str, source: Source) -> list[str]:
    if isinstance(source, Folder):
        fault = f'{owner}.path="{source.path}" has to name a folder inside the project'
        return [] if _stays_inside(source.path) else [fault]
    faults = []
    is_commit = isinstance(source, GitCommit)
    if isinstance(source, GitCommit) and not re.fullmatch(r"[0-9a-f]{40}", source.commit):
        faults.append(f"{owner}.commit has to have 40 hexadecimal digits")
    if not re.fullmatch(r"[0-9a-f]{64}", source.sha256) and (source.sha256 or not is_commit):
        faults.append(f"{owner}.sha256 has to have 64 hexadecimal digits")
    return faults


def _faults_of_texts(recipe: Recipe) -> list[str]:
    """Placeholders that the engine doesn't fill, and settings that aren't the recipe's."""
    texts = {**recipe.build.env, **getattr(recipe.build, "define", {})}
    faults = [
        fault
        for name, text in texts.items()
        for fault in _faults_of_text(f"{name}={text}", text, PLACEHOLDERS)
    ]
    for name, text in texts.items():
        faults += choice_faults(name, text)
    for text in recipe.smoke.libraries:
        faults += _faults_of_text(f"smoke.libraries: {text}", text, SMOKE_PLACEHOLDERS)
    return faults


def _faults_of_text(shown: str, text: str, known: tuple[str, ...]) -> list[str]:
    try:
        asked = {field for _, field, _, _ in string.Formatter().parse(text)} - {None}
    except ValueError as error:
        return [f"{shown}: {error} (a brace itself is written twice)"]
    unknown = sorted(map(str, asked - set(known)))
    return [f"{shown}: {{{one}}}: {suggest(one, known)}" for one in unknown]


def _faults_of_tables(recipe: Recipe) -> list[str]:
    majors: set[int | None] = {one.major for one in TOOLKITS if one.release in recipe.toolkits}
    checks: list[Callable[[], object]] = [
        functools.partial(component_by_name, name, major)
        for name in recipe.link.components
        for major in majors or {None}
    ]
    checks += [functools.partial(_check_release, recipe, release) for release in recipe.toolkits]
    strays = sorted(set(recipe.more_archs) - set(recipe.toolkits))
    faults = [f'more_archs names "{release}", which toolkits doesn\'t' for release in strays]
    faults += [fault for check in checks if (fault := _fault_of(check))]
    return list(dict.fromkeys(faults))  # a name may be wrong for two majors in the same words


def _faults_of_words(recipe: Recipe) -> list[str]:
    """Fields that take one of a few words."""
    faults = []
    for owner, declaration in (("", recipe), ("link: ", recipe.link.mode)):
        hints = typing.get_type_hints(type(declaration), localns={"Mapping": Mapping})
        for name, hint in hints.items():
            words, value = typing.get_args(hint), getattr(declaration, name)
            if typing.get_origin(hint) is typing.Literal and value not in words:
                known = [str(word) for word in words]
                faults.append(f'{owner}{name}="{value}": {suggest(str(value), known)}')
            if hint is bool and not isinstance(value, bool):
                faults.append(f"{owner}{name} has to be True or False, not {value!r}")
            if hint is int and not isinstance(value, int):
                faults.append(f"{owner}{name} has to be a number of bytes, not {value!r}")
    return faults


def _faults_of_wheel(recipe: Recipe) -> list[str]:
    """Names that can't be filled in, and wheels that would get the same name."""
    mode = recipe.link.mode
    extras = (
        {"extra": mode.extra, "local_extra": mode.local_extra} if isinstance(mode, External) else {}
    )
    texts = {"wheel_name": recipe.wheel_name, **extras}
    faults = [
        fault
        for name, text in texts.items()
        for fault in _faults_of_text(f"{name}={text}", text, WHEEL_PLACEHOLDERS)
    ]
    faults += [
        f'{name}="{text}" is no name that a wheel can have: letters, digits, "-", "_", "."'
        for name, text in texts.items()
        if text and not re.fullmatch(_NAME, re.sub(r"\{\w*\}", "0", text), re.IGNORECASE)
    ]
    if extras.get("extra") and extras["extra"] == extras["local_extra"]:
        faults.append(f'link: extra and local_extra are both "{extras["extra"]}"')
    if extras.get("local_extra") and not extras.get("extra"):
        faults.append("link: local_extra without extra: the wheel requires NVIDIA's wheels anyway")
    if not recipe.has_local_version and not faults:
        majors = [release.split(".")[0] for release in recipe.toolkits]
        names = [recipe.wheel_name.format(cuda=major) for major in majors]
        if len(set(names)) < len(names):
            faults.append("has_local_version=False: wheels of two toolkits get the same name")
    return faults


def _check_release(recipe: Recipe, release: str) -> None:
    check_archs(recipe.name, toolkit_by_release(release), recipe.archs_for(release))


def _fault_of(check: Callable[[], object]) -> str:
    try:
        check()
    except CuwheelError as error:
        return f"{error.what} ({error.why})"
    return ""


# nvcc's documentation, "NVIDIA CUDA Compiler Driver NVCC", chapter "Command Option Description".
_UNCHECKED = re.compile(r"-?-allow-unsupported-compiler\b")


_OTHER_HOST = re.compile(r"-?-(ccbin|compiler-bindir)\b")


# Read by nvcc, CMake, PyTorch and setuptools. The toolchain's own stand in them.
_CHOSEN = (
    "CC",
    "CXX",
    "CUDACXX",
    "CUDAHOSTCXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDAToolkit_ROOT",
    "NVCC_CCBIN",
    "PATH",
    *(f"CMAKE_{language}_COMPILER" for language in ("C", "CXX", "CUDA", "CUDA_HOST")),
)


def choice_faults(name: str, text: str) -> list[str]:
    """What is wrong with a variable or definition of a recipe, one line each.

    Args:
        name: of an environment variable, or of a CMake cache variable.
        text: its value.
    """
    shown = f"{name}={text}"
    faults = []
    if _UNCHECKED.search(text):
        faults.append(
            f"{shown}: -allow-unsupported-compiler only moves the failure into the headers "
            "(`_Float32` is undefined) or into wrong code; the toolchain has a GCC that nvcc takes"
        )
    if name in _CHOSEN or _OTHER_HOST.search(text):
        faults.append(
            f"{shown}: the compilers are the toolchain's, which preflight has checked against each "
            "other; leave it out"
        )
    return faults
