"""Whether a recipe is well formed: every field against the engine's tables."""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.cuda.components import component_by_name
from cuwheel.cuda.suppliers import is_cuda_library, is_from_driver
from cuwheel.cuda.toolkits import TOOLKITS, check_archs, toolkit_by_release
from cuwheel.errors import CuwheelError, RecipeError, suggest
from cuwheel.model import link, source
from cuwheel.model.link import External
from cuwheel.model.recipe import CUDA_PLACEHOLDERS, NEEDS, RELEASE_PLACEHOLDERS, CMake, Recipe
from cuwheel.model.recipe_texts import faults_of_setting, faults_of_text
from cuwheel.model.source_check import faults_of_resources, faults_of_source, stays_inside
from cuwheel.system.quantities import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cuwheel.cuda.toolkits import Toolkit


_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_WHEEL_NAME = "[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]"  # core metadata specification, "Name"
_HANDLE = r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*"  # GitHub: letters, digits, single hyphens between them
_NAMES = {**vars(link), **vars(source), "Mapping": Mapping}  # in annotations of declarations
_LONGEST_CALL = 90  # characters
_EXAMPLE = "your-name"  # stands in drafts until somebody writes their own


def check_recipe(recipe: Recipe) -> None:
    """Check a recipe against the engine's tables, all fields together.

    Raises:
        RecipeError: with every fault found.
    """
    faults = list(dict.fromkeys(fault for check in _CHECKS for fault in check(recipe)))
    if faults:
        raise RecipeError(
            f"{recipe.name}: the recipe has {plural(len(faults), 'error')}",
            why="\n".join(faults),
            fix=f"correct {recipe.module}; docs/reference/recipe.md explains every field",
        )


def _faults_of_identity(recipe: Recipe) -> Iterator[str]:
    if not re.fullmatch(_NAME, recipe.name):
        meant = re.sub(r"[^a-z0-9]+", "-", recipe.name.lower()).strip("-")
        yield f'name="{recipe.name}" has to be lower case, with "-" between words: "{meant}"'
    try:
        Version(recipe.version)
    except InvalidVersion:
        yield f'version="{recipe.version}" is not a version of a Python package, such as 1.2.3'
    try:
        canonicalize_license_expression(recipe.license)
    except InvalidLicenseExpression as error:
        yield (
            f'license="{recipe.license}" is not an SPDX expression such as MIT ({error}): '
            "https://spdx.org/licenses lists the names"
        )
    page = urlsplit(recipe.homepage)
    if page.scheme != "https" or "." not in page.netloc:
        yield (
            f'homepage="{recipe.homepage}" is not a URL: write that of upstream\'s page, https://…'
        )


def _faults_of_maintainers(recipe: Recipe) -> Iterator[str]:
    if not recipe.maintainers:
        yield "maintainers is empty: name the handle of the recipe's maintainer"
    for name in recipe.maintainers:
        if not is_handle(name):
            yield f'maintainers: "{name}" is not a handle, such as octocat: write yours'


def is_handle(name: str) -> bool:
    """Whether a maintainer may be called so."""
    return bool(re.fullmatch(_HANDLE, name)) and name != _EXAMPLE


def _faults_of_toolkits(recipe: Recipe) -> Iterator[str]:
    if not recipe.toolkits:
        yield 'toolkits is empty: name the CUDA releases to build with, such as "13.0"'
    for release in recipe.toolkits:
        yield from _fault_of(partial(toolkit_by_release, release))
    for name in ("archs", "framework"):
        named = getattr(recipe, name)
        if isinstance(named, Mapping):
            for release in sorted({*recipe.toolkits} - {*named}):
                yield f'{name} has no entry for "{release}", which toolkits names'
            yield from _faults_of_releases(name, named, recipe)
    yield from _faults_of_releases("never_built", recipe.never_built, recipe)
    for patch in recipe.patches:
        yield from _faults_of_releases(f"toolkits of {patch.file}", patch.toolkits, recipe)
    for name, value in _settings(recipe):
        if not isinstance(value, str):
            yield from _faults_of_releases(name, value, recipe)


def _settings(recipe: Recipe) -> list[tuple[str, str | Mapping[str, str]]]:
    """What the recipe tells its build, for whichever release of CUDA."""
    define = recipe.build.define if isinstance(recipe.build, CMake) else {}
    return [*recipe.build.env.items(), *define.items()]


def _faults_of_releases(owner: str, named: Iterable[str], recipe: Recipe) -> Iterator[str]:
    for release in sorted({*named} - {*recipe.toolkits}):
        yield f'{owner} names "{release}", which isn\'t in toolkits'


def _faults_of_archs(recipe: Recipe) -> Iterator[str]:
    for toolkit in _toolkits(recipe):
        if not isinstance(recipe.archs, Mapping) or toolkit.release in recipe.archs:
            archs = recipe.archs_for(toolkit.release)
            yield from _fault_of(partial(check_archs, recipe.name, toolkit, archs))
            if recipe.ptx == "last" and archs and not any(arch.isdigit() for arch in archs):
                yield (
                    f'ptx="last": PTX of {archs[-1]} doesn\'t run on newer GPUs: add '
                    f'"{archs[-1][:-1]}"'
                )


def _faults_of_link(recipe: Recipe) -> Iterator[str]:
    """A name may be wrong for two majors in the same words."""
    majors = dict.fromkeys(toolkit.major for toolkit in _toolkits(recipe)) or (None,)
    for name, major in itertools.product(recipe.link.components, majors):
        yield from _fault_of(partial(component_by_name, name, major))


def _faults_of_bundles(recipe: Recipe) -> Iterator[str]:
    for name in recipe.link.bundles:
        if not re.fullmatch(r"lib[A-Za-z0-9_+.-]+", name) or ".so" in name:
            yield f'link: bundles: "{name}" is not a library name without ".so", such as "libgomp"'
        elif is_cuda_library(f"{name}.so") or is_from_driver(f"{name}.so.1"):
            yield (
                f'link: bundles: "{name}" isn\'t a system library: name its component, and a mode'
            )


def _toolkits(recipe: Recipe) -> list[Toolkit]:
    return [toolkit for toolkit in TOOLKITS if toolkit.release in recipe.toolkits]


def _fault_of(check: Callable[[], object]) -> Iterator[str]:
    try:
        check()
    except CuwheelError as error:
        yield f"{error.what} ({error.why})"


def _faults_of_requirements(recipe: Recipe) -> Iterator[str]:
    """What the locks are made from."""
    for owner, texts in (("requires", recipe.requires), ("smoke.requires", recipe.smoke.requires)):
        for text in texts:
            placeholders = list(faults_of_text(f"{owner}: {text}", text, CUDA_PLACEHOLDERS))
            yield from placeholders or _faults_of_requirement(owner, text, recipe)
    for key in sorted({*recipe.needs} - {*NEEDS}):
        yield f'needs: "{key}": {suggest(key, NEEDS)}'


def _faults_of_requirement(owner: str, text: str, recipe: Recipe) -> Iterator[str]:
    try:
        requirement = Requirement(text.format(cuda=0))
    except InvalidRequirement as error:
        yield f'{owner}: "{text}" is not a requirement: {str(error).splitlines()[0]}'
        return
    names = {canonicalize_name(one.name) for one in recipe.frameworks}
    if canonicalize_name(requirement.name) in names:
        yield f'{owner}: "{text}": framework already pins {requirement.name}; remove it'


def _faults_of_python(recipe: Recipe) -> Iterator[str]:
    text = recipe.requires_python
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        yield f'requires_python="{text}": {error}'
        return
    if not re.match(r">=\d+\.\d+", text):
        yield f'requires_python="{text}" has to start with the oldest, such as ">=3.10"'


def _faults_of_texts(recipe: Recipe) -> Iterator[str]:
    """Placeholders that the engine doesn't fill, and settings that aren't the recipe's."""
    for name, value in _settings(recipe):
        for text in [value] if isinstance(value, str) else value.values():
            yield from faults_of_setting(name, text)
    script, call = recipe.smoke.script, recipe.smoke.call
    if not recipe.smoke.imports:
        yield (
            "smoke.imports is empty, so nothing would test the wheel: name its modules, such as "
            f'("{recipe.folder}",)'
        )
    if script and not re.fullmatch(r"\w+\.py", script):
        yield f'smoke.script="{script}" has to name a file in recipes/smoke: "{recipe.folder}.py"'
    if len(call) > _LONGEST_CALL or "\n" in call:
        yield f"smoke.call is too long: make it a script, recipes/smoke/{recipe.folder}.py"


def _faults_of_libraries(recipe: Recipe) -> Iterator[str]:
    declared = recipe.library_per_cuda
    if declared is None:
        return
    owner = f"library_per_cuda.file={declared.file}"
    faults = list(faults_of_text(owner, declared.file, RELEASE_PLACEHOLDERS))
    yield from faults
    found = re.findall(r"\{\w+\}", declared.file.rpartition("/")[2])
    if not faults and len(found) != 1:
        yield f"{owner}: the file name has to contain the CUDA release once: {{toolkit_tag}}"
    if not stays_inside(declared.file):
        yield f"{owner} has to be a path below site-packages"
    if bool(declared.check) != bool(declared.success):
        yield "library_per_cuda: check and success need each other: what is run, and what it prints"


def _faults_of_words(recipe: Recipe) -> Iterator[str]:
    """Fields that take one of a few words, or a number."""
    owners: tuple[tuple[str, object], ...] = (
        ("", recipe),
        ("link: ", recipe.link.mode),
        ("library_per_cuda: ", recipe.library_per_cuda),
    )
    for owner, declaration in owners:
        hints = typing.get_type_hints(type(declaration), localns=_NAMES)
        for name, hint in hints.items():
            words, value = typing.get_args(hint), getattr(declaration, name)
            if typing.get_origin(hint) is typing.Literal and value not in words:
                yield f'{owner}{name}="{value}": {suggest(str(value), map(str, words))}'
            if hint is bool and not isinstance(value, bool):
                yield f"{owner}{name} has to be True or False, not {value!r}"
            if hint is int and not isinstance(value, int):
                yield f"{owner}{name} has to be a number of bytes, such as 60 * MIB, not {value!r}"


def _faults_of_wheel(recipe: Recipe) -> Iterator[str]:
    """Names that can't be filled in, and wheels that would get the same name."""
    mode = recipe.link.mode
    extras = (mode.extra, mode.local_extra) if isinstance(mode, External) else ("", "")
    names = ("wheel_name", "extra", "local_extra")
    for name, text in zip(names, (recipe.wheel_name, *extras), strict=True):
        yield from faults_of_text(f"{name}={text}", text, CUDA_PLACEHOLDERS)
        if text and not re.fullmatch(_WHEEL_NAME, re.sub(r"\{\w*\}", "0", text), re.IGNORECASE):
            yield (f'{name}="{text}" is not a valid wheel name: letters, digits, "-", "_", "."')
    extra, local_extra = extras
    if extra and extra == local_extra:
        yield f'link: extra and local_extra are both "{extra}"'
    if local_extra and not extra:
        yield "link: local_extra without extra: the wheel requires NVIDIA's wheels in any case"
    majors = [release.split(".")[0] for release in recipe.toolkits]
    filled = {recipe.wheel_name.replace("{cuda}", major) for major in majors}
    if not recipe.has_local_version and len(filled) < len(majors):
        yield "has_local_version=False: wheels of two toolkits would get the same name"


_CHECKS: tuple[Callable[[Recipe], Iterable[str]], ...] = (
    _faults_of_identity,
    _faults_of_maintainers,
    faults_of_source,
    faults_of_resources,
    _faults_of_toolkits,
    _faults_of_archs,
    _faults_of_link,
    _faults_of_bundles,
    _faults_of_requirements,
    _faults_of_python,
    _faults_of_texts,
    _faults_of_libraries,
    _faults_of_words,
    _faults_of_wheel,
)
