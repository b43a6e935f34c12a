"""The draft's requirements: of the build, and of the finished wheel.

An import name is no distribution: anybody can register a free name and would get into the build. So
only requirements of the source's own metadata and well-known pairs count; else the recipe's author
has to decide.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from cuwheel.build.drafts.draft import TORCH, Call, Draft, Value
from cuwheel.build.drafts.readers.facts import SourceFact
from cuwheel.build.drafts.readers.survey import Survey, listings_of
from cuwheel.build.recipe.recipe_lock import QUESTION

# Modules that builds import, and the projects that provide them.
_SAME_NAME = (
    *("absl", "build", "certifi", "cffi", "click", "cmake", "einops", "expecttest"),
    *("fastrlock", "filelock", "hatchling", "hjson", "hypothesis", "jax", "jaxlib", "lit", "mako"),
    *("mpi4py", "nanobind", "networkx", "ninja", "numba", "numpy", "packaging", "pandas"),
    *("pathspec", "platformdirs", "psutil", "pybind11", "pytest", "pytools", "regex", "requests"),
    *("scipy", "setuptools", "six", "sympy", "tabulate", "tensorflow", "toml", "tomli", "torch"),
    *("torchaudio", "torchvision", "tqdm", "transformers", "triton", "versioneer", "wheel"),
)
_OTHER_NAME = {
    "Cython": "cython",
    "PIL": "pillow",
    "absl": "absl-py",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cpuinfo": "py-cpuinfo",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "distutils": "setuptools",
    "flit_core": "flit-core",
    "git": "gitpython",
    "hatch_vcs": "hatch-vcs",
    "jinja2": "jinja2",
    "mesonpy": "meson-python",
    "pkg_resources": "setuptools",
    "py_build_cmake": "py-build-cmake",
    "pybind11_stubgen": "pybind11-stubgen",
    "scikit_build_core": "scikit-build-core",
    "setuptools_rust": "setuptools-rust",
    "setuptools_scm": "setuptools-scm",
    "skbuild": "scikit-build",
    "sklearn": "scikit-learn",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
}
_KNOWN = {name: name for name in _SAME_NAME} | _OTHER_NAME

_ROOTS = ("", "src", "python", "lib")  # folders below which a source's own packages lie
_MODULES = (".py", ".pyi", ".so", ".pyx")


def choose_requires(draft: Draft, survey: Survey) -> tuple[str, ...]:
    """Choose `[build-system] requires`, what setup.py imports, and the programs that it runs."""
    required: dict[str, str] = {}
    for text in survey.system.requires:
        if (name := name_of(text)) and name != "torch":
            required[name] = _in_recipe_form(text)
            if Requirement(text).url:  # a file that is on no index
                required[name] = f"{QUESTION}{name}"
                question = f"which release of {name} serves: upstream names {text}"
                draft.stop("requires", question)
    imported = _choose_imported(draft, survey, required)
    required |= {name: name for name in imported}
    if programs := [call for call in survey.relevant("program") if call.name not in required]:
        first = {call.name: call.where for call in reversed(programs)}
        listed = ", ".join(f"{name} ({where})" for name, where in first.items())
        draft.guess("requires", f"the build runs {listed}")
        required |= {name: name for name in first}
    required = dict(_tools(survey)) | required
    requires = tuple(sorted(required.values()))
    draft.values["requires"] = requires
    return requires


def _choose_imported(draft: Draft, survey: Survey, required: Collection[str]) -> tuple[str, ...]:
    """Return the distributions of what the build imports, beyond those that it states."""
    imported: dict[str, str] = {}
    unknown: list[str] = []
    optional: list[SourceFact] = []
    for module, distribution in match_imports(survey):
        if module.kind == "optional import" or (module.guard and not distribution):
            optional.append(module)
        elif not distribution:
            draft.stop("requires", _question(module))
            unknown.append(f"{QUESTION}{module.name}")
        elif distribution not in required:
            imported.setdefault(distribution, module.where)
    if imported:
        listed = ", ".join(f"{name} ({where})" for name, where in sorted(imported.items()))
        draft.guess("requires", f"imported by the build, but not in [build-system]: {listed}")
    if left_out := [module for module in optional if name_of(module.name) not in required]:
        listed = ", ".join(f"{module.name} ({module.where})" for module in left_out)
        draft.guess("requires", f"left out, as the build has a way without: {listed}")
    return (*imported, *unknown)


def match_imports(survey: Survey) -> Iterator[tuple[SourceFact, str]]:
    """Yield each import of the build that isn't the source's own, with its distribution.

    A distribution that isn't known is empty. Modules that lie deep in the tree, as in
    `third_party/`, and namespace packages hide no known distribution.
    """
    roots = {*_ROOTS, *(Path(path).as_posix().strip(".") for path in survey.system.backend_path)}
    certain = {name.lower() for name in survey.packages}
    elsewhere: set[str] = set()
    for name, folder, is_regular in _modules(survey.tree):
        (certain if is_regular and folder.strip(".") in roots else elsewhere).add(name)
    stated = {*map(name_of, (*survey.system.requires, *survey.metadata.requires))}
    facts = (*survey.relevant("import"), *survey.relevant("optional import"))
    modules = {fact.name: fact for fact in reversed(facts)}
    for name in dict.fromkeys(fact.name for fact in facts):
        project = canonicalize_name(name)
        distribution = project if project in stated else _KNOWN.get(name, "")
        is_own = {name, name.lower()} & certain or not (distribution or name not in elsewhere)
        if not is_own and distribution != "torch":
            yield modules[name], distribution


def _modules(tree: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield name and folder of each module and package, and False for a namespace package."""
    for base, folders, files in os.walk(tree):
        folders.sort()
        folder = Path(base).relative_to(tree)
        stems = [name.partition(".")[0] for name in sorted(files) if name.endswith(_MODULES)]
        if stems and folder.name:
            yield folder.name, folder.parent.as_posix(), "__init__" in stems
        if "__init__" not in stems:
            yield from ((stem, folder.as_posix(), True) for stem in stems)


def name_of(text: str) -> str:
    """Return the normalised project of a requirement; empty for an invalid one."""
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def _question(module: SourceFact) -> str:
    return (
        f"which distribution provides {module.name}, which {module.where} imports: replace "
        f'"{QUESTION}{module.name}" by its name, or remove it if the build works without; a '
        "project of the same name may be a stranger's"
    )


def _tools(survey: Survey) -> Iterator[tuple[str, str]]:
    """Yield what backends need but don't state: scikit-build-core requires it while it runs."""
    if survey.uses_cmake:
        minimum = min(survey.of("minimum"), key=lambda call: call.where.count("/"), default=None)
        oldest = minimum.name.partition("...")[0] if minimum else ""
        yield "cmake", f"cmake>={oldest}" if oldest else "cmake"
        yield "ninja", "ninja"
    elif survey.has_setup:
        yield "setuptools", "setuptools"
        yield "wheel", "wheel"
    if survey.uses_torch or survey.runs_cmake:
        yield "ninja", "ninja"  # PyTorch's BuildExtension and CMake run it


def choose_smoke(draft: Draft, survey: Survey, requires: tuple[str, ...]) -> None:
    """Choose to import all that the wheel installs, with all that it requires.

    Args:
        requires: of the build, whose lock serves the smoke test too if it has all.
    """
    modules = [module.name for module in survey.of("extension") if "CMake" not in module.where]
    valid = [name for name in modules if name.replace(".", "").replace("_", "").isalnum()]
    imports = tuple(dict.fromkeys((*survey.packages, *valid)))
    if not imports:
        text = "which modules to import: no package or extension module was found"
        draft.find_out("smoke", text)
    elif not listings_of(survey.tree):
        text = "the packages found in the source; keep those that the wheel contains"
        draft.guess("smoke", text)
    keywords: dict[str, Value] = {"imports": imports}
    required = [_in_recipe_form(text) for text in survey.metadata.requires]
    required += _choose_undeclared(draft, survey, imports)
    locked = {*map(name_of, requires)}
    others = [text for text in required if name_of(text) != "torch"]
    needs_torch = len(others) < len(required) and not survey.uses_torch
    # The build's lock has no extras.
    if needs_torch or any(name_of(text) not in locked or "[" in text for text in others):
        keywords["requires"] = (*others, *([f"torch=={TORCH}"] if needs_torch else []))
    if survey.metadata.dynamic and not required:
        draft.find_out("smoke", "what the wheel requires: the build computes it")
    draft.values["smoke"] = Call(name="Smoke", keywords=keywords)


def _choose_undeclared(draft: Draft, survey: Survey, imports: Collection[str]) -> list[str]:
    """Return known distributions of what the packages import and their metadata doesn't state."""
    stated = {"torch", *map(name_of, survey.metadata.requires)}
    modules = {module.name: module.where for module in reversed(survey.of("import of package"))}
    undeclared: dict[str, str] = {}
    for name, where in modules.items():
        distribution = _KNOWN.get(name, "")
        if name in imports or {canonicalize_name(name), distribution} & stated:
            continue
        if distribution:
            undeclared[distribution] = where
        else:
            text = f"whether the wheel's requirements bring {name}, which {where} imports"
            draft.find_out("smoke", f"{text}: else `requires` needs its distribution")
    if undeclared:
        listed = ", ".join(f"{name} ({where})" for name, where in undeclared.items())
        draft.guess("smoke", f"imported by the package, but not in its metadata: {listed}")
    return list(undeclared)


def _in_recipe_form(text: str) -> str:
    return str(Requirement(text)).replace('"', "'")
