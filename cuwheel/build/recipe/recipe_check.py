"""The check of a recipe: every field against the engine's tables."""

from __future__ import annotations

import itertools
import re
import string
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from cuwheel.base.errors import CuwheelError, RecipeError, suggest
from cuwheel.base.fetch.urls import split_url
from cuwheel.base.system.quantities import plural
from cuwheel.build.recipe import link, source
from cuwheel.build.recipe.link import External
from cuwheel.build.recipe.recipe import (
    CUDA_PLACEHOLDERS,
    CXX_STANDARDS,
    NEEDS,
    PLACEHOLDERS,
    RELEASE_PLACEHOLDERS,
    CMake,
    Recipe,
)
from cuwheel.build.recipe.recipe_lock import QUESTION
from cuwheel.build.recipe.source import (
    SOURCE_PLACEHOLDERS,
    Archive,
    Folder,
    GitCommit,
    Sdist,
    Source,
)
from cuwheel.check.cuda import library_choice
from cuwheel.check.cuda.components import component_by_name
from cuwheel.check.cuda.suppliers import is_cuda_library, is_from_driver
from cuwheel.check.cuda.toolkits import TOOLKITS, Toolkit, check_archs, toolkit_by_release

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_WHEEL_NAME = "[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]"  # core metadata specification, "Name"
_HANDLE = r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*"  # GitHub: letters, digits, single hyphens between them
# In annotations of declarations.
_NAMES = {**vars(link), **vars(library_choice), **vars(source), "Mapping": Mapping}
_LONGEST_CALL = 90  # characters
_EXAMPLE = "your-name"  # of drafts
# nvcc's documentation, "NVIDIA CUDA Compiler Driver NVCC", chapter "Command Option Description".
_UNCHECKED = re.compile(r"-?-allow-unsupported-compiler\b")
_OTHER_HOST = re.compile(r"-?-(ccbin|compiler-bindir)\b")
# Read by nvcc, CMake, PyTorch and setuptools. The engine sets them to the toolchain's own.
_CHOSEN = (
    *("CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"),
    *("NVCC_CCBIN", "PATH"),
    *(f"CMAKE_{language}_COMPILER" for language in ("C", "CXX", "CUDA", "CUDA_HOST")),
)


def check_recipe(recipe: Recipe) -> None:
    """Check all fields of a recipe.

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
        name = re.sub(r"[^a-z0-9]+", "-", recipe.name.lower()).strip("-")
        yield f'name="{recipe.name}" has to be lower case, with "-" between words: "{name}"'
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
    page = split_url(recipe.homepage)
    if page.scheme != "https" or "." not in page.netloc:
        yield (
            f'homepage="{recipe.homepage}" is not a URL: write that of upstream\'s page, https://…'
        )
    if not recipe.maintainers:
        yield "maintainers is empty: name the handle of the recipe's maintainer"
    for name in recipe.maintainers:
        if not is_handle(name):
            yield f'maintainers: "{name}" is not a handle, such as octocat: write yours'


def is_handle(name: str) -> bool:
    """Return True if a text is a maintainer's handle."""
    return bool(re.fullmatch(_HANDLE, name)) and name != _EXAMPLE


def _faults_of_toolkits(recipe: Recipe) -> Iterator[str]:
    if not recipe.toolkits:
        yield 'toolkits is empty: name the CUDA releases to build with, such as "13.0"'
    for release in recipe.toolkits:
        yield from _fault_of(partial(toolkit_by_release, release))
    for name in ("archs", "framework"):
        declared = getattr(recipe, name)
        if isinstance(declared, Mapping):
            for release in sorted({*recipe.toolkits} - {*declared}):
                yield f'{name} has no entry for "{release}", which toolkits names'
            yield from _faults_of_releases(name, declared, recipe)
    yield from _faults_of_releases("never_built", recipe.never_built, recipe)
    for patch in recipe.patches:
        yield from _faults_of_releases(f"toolkits of {patch.file}", patch.toolkits, recipe)
    for name, value in _settings(recipe):
        if not isinstance(value, str):
            yield from _faults_of_releases(name, value, recipe)


def _faults_of_standard(recipe: Recipe) -> Iterator[str]:
    declared = recipe.cxx_standard
    names = "|".join(re.escape(name) for name in {each.name for each in recipe.frameworks}) or "$."
    for key, standard in ({"": declared} if isinstance(declared, str) else declared).items():
        if key and not re.fullmatch(rf"({names})>=\d+(\.\d+)*", key):
            yield f'cxx_standard: "{key}" is not a release of its framework on, such as torch>=2.14'
        if standard and standard not in CXX_STANDARDS:
            yield f'cxx_standard: "{standard}": {suggest(standard, CXX_STANDARDS)}'


def _settings(recipe: Recipe) -> list[tuple[str, str | Mapping[str, str]]]:
    """Return the settings of the build, for all releases of CUDA."""
    define = recipe.build.define if isinstance(recipe.build, CMake) else {}
    return [*recipe.build.env.items(), *define.items()]


def _faults_of_releases(owner: str, releases: Iterable[str], recipe: Recipe) -> Iterator[str]:
    for release in sorted({*releases} - {*recipe.toolkits}):
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
    majors = dict.fromkeys(toolkit.major for toolkit in _toolkits(recipe)) or (None,)
    for name, major in itertools.product(recipe.link.components, majors):
        yield from _fault_of(partial(component_by_name, name, major))
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
    for owner, texts in (("requires", recipe.requires), ("smoke.requires", recipe.smoke.requires)):
        for text in texts:
            placeholders = list(_faults_of_text(f"{owner}: {text}", text, CUDA_PLACEHOLDERS))
            yield from placeholders or _faults_of_requirement(owner, text, recipe)
    for key in sorted({*recipe.needs} - {*NEEDS}):
        yield f'needs: "{key}": {suggest(key, NEEDS)}'


def _faults_of_requirement(owner: str, text: str, recipe: Recipe) -> Iterator[str]:
    if text.startswith(QUESTION):
        yield (
            f'{owner}: "{text}" is a question of the draft: write the distribution that provides '
            f"the module {text.removeprefix(QUESTION)}, or remove it"
        )
        return
    try:
        requirement = Requirement(text.format(cuda=0))
    except InvalidRequirement as error:
        yield f'{owner}: "{text}" is not a requirement: {str(error).splitlines()[0]}'
        return
    if requirement.url:
        yield f'{owner}: "{text}" names an address: name a release that the index has'
    names = {canonicalize_name(framework.name) for framework in recipe.frameworks}
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
    for name, value in _settings(recipe):
        for text in [value] if isinstance(value, str) else value.values():
            yield from _faults_of_setting(name, text)
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
    faults = list(_faults_of_text(owner, declared.file, RELEASE_PLACEHOLDERS))
    yield from faults
    placeholders = re.findall(r"\{\w+\}", declared.file.rpartition("/")[2])
    if not faults and len(placeholders) != 1:
        yield f"{owner}: the file name has to contain the CUDA release once: {{toolkit_tag}}"
    if not _stays_inside(declared.file):
        yield f"{owner} has to be a path below site-packages"
    if bool(declared.check) != bool(declared.success):
        yield "library_per_cuda: check and success need each other: what is run, and what it prints"


def _faults_of_values(recipe: Recipe) -> Iterator[str]:
    """Check fields that take one of a few texts, a number or a boolean."""
    owners: tuple[tuple[str, object], ...] = (
        ("", recipe),
        ("link: ", recipe.link.mode),
        ("library_per_cuda: ", recipe.library_per_cuda),
    )
    for owner, declaration in owners:
        hints = typing.get_type_hints(type(declaration), localns=_NAMES)
        for name, hint in hints.items():
            allowed, value = typing.get_args(hint), getattr(declaration, name)
            if typing.get_origin(hint) is typing.Literal and value not in allowed:
                yield f'{owner}{name}="{value}": {suggest(str(value), map(str, allowed))}'
            if hint is bool and not isinstance(value, bool):
                yield f"{owner}{name} has to be True or False, not {value!r}"
            if hint is int and not isinstance(value, int):
                yield f"{owner}{name} has to be a number of bytes, such as 60 * MIB, not {value!r}"


def _faults_of_wheel(recipe: Recipe) -> Iterator[str]:
    """Check names with placeholders, and that no two wheels get the same name."""
    mode = recipe.link.mode
    extras = (mode.extra, mode.local_extra) if isinstance(mode, External) else ("", "")
    names = ("wheel_name", "extra", "local_extra")
    for name, text in zip(names, (recipe.wheel_name, *extras), strict=True):
        yield from _faults_of_text(f"{name}={text}", text, CUDA_PLACEHOLDERS)
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


def _faults_of_source(recipe: Recipe) -> Iterator[str]:
    yield from _faults_of_pin("source", recipe.source)
    if isinstance(recipe.source, Sdist):
        yield from _faults_of_text("source.version", recipe.source.version, SOURCE_PLACEHOLDERS)
    if isinstance(recipe.source, Archive):
        yield from _faults_of_text("source.url", recipe.source.url, SOURCE_PLACEHOLDERS)


def _faults_of_resources(recipe: Recipe) -> Iterator[str]:
    for resource in recipe.resources:
        yield from _faults_of_pin(f"resource {resource.name}: source", resource.source)
        if isinstance(resource.source, Archive):  # its release isn't the recipe's
            yield from _faults_of_text(
                f"resource {resource.name}: source.url", resource.source.url, ()
            )
        if not _stays_inside(resource.to):
            yield f'resource {resource.name}: to="{resource.to}" leads outside of the folder'
    paths = [PurePosixPath(resource.to) for resource in recipe.resources]
    for path, other in itertools.combinations(paths, 2):
        if path.is_relative_to(other) or other.is_relative_to(path):
            yield f'two resources overlap: to="{path}" and to="{other}"'


def _stays_inside(to: str) -> bool:
    """Return True if a path stays inside the folder that it starts from, by its text alone."""
    path = PurePosixPath(to)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _faults_of_pin(owner: str, source: Source) -> Iterator[str]:
    if isinstance(source, Folder):
        if not _stays_inside(source.path):
            yield f'{owner}.path="{source.path}" has to name a folder inside the project'
        return
    is_commit = isinstance(source, GitCommit)
    if isinstance(source, GitCommit) and not re.fullmatch(r"[0-9a-f]{40}", source.commit):
        yield f"{owner}.commit has to have 40 hexadecimal digits"
    if not re.fullmatch(r"[0-9a-f]{64}", source.sha256) and (source.sha256 or not is_commit):
        yield f"{owner}.sha256 has to have 64 hexadecimal digits, letters small"


def _faults_of_text(shown: str, text: str, known: tuple[str, ...]) -> Iterator[str]:
    """Yield one line for each placeholder that the engine doesn't fill."""
    try:
        names = {field for _, field, _, _ in string.Formatter().parse(text)} - {None}
    except ValueError as error:
        yield f"{shown}: {error} (write a literal brace twice)"
        return
    for name in sorted(map(str, names - set(known))):
        yield f"{shown}: {{{name}}}: {suggest(name, known)}"


def _faults_of_setting(name: str, text: str) -> Iterator[str]:
    """Yield one line for each error in a variable or definition of a build."""
    shown = f"{name}={text}"
    yield from _faults_of_text(shown, text, PLACEHOLDERS)
    if _UNCHECKED.search(text):
        yield (
            f"{shown}: -allow-unsupported-compiler only moves the failure into the headers "
            "(`_Float32` is undefined) or into wrong code; the toolchain has a GCC that nvcc "
            "supports"
        )
    if name in _CHOSEN or _OTHER_HOST.search(text):
        yield (
            f"{shown}: the compilers come from the toolchain, and preflight checks that they are "
            "compatible; remove it"
        )


_CHECKS: tuple[Callable[[Recipe], Iterable[str]], ...] = (
    _faults_of_identity,
    _faults_of_source,
    _faults_of_resources,
    _faults_of_toolkits,
    _faults_of_standard,
    _faults_of_archs,
    _faults_of_link,
    _faults_of_requirements,
    _faults_of_python,
    _faults_of_texts,
    _faults_of_libraries,
    _faults_of_values,
    _faults_of_wheel,
)
