"""The draft of a surveyed source: a value for each field of the recipe, with notes."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Iterable

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from cuwheel.base.system.quantities import first_of, plural
from cuwheel.build.drafts.build_choice import choose_build, note_resources
from cuwheel.build.drafts.draft import TORCH, Call, Draft, Value
from cuwheel.build.drafts.readers.facts import SourceFact, locations
from cuwheel.build.drafts.readers.survey import Survey
from cuwheel.build.drafts.requirement_choice import choose_requires, choose_smoke, name_of
from cuwheel.build.drafts.upstream import Upstream
from cuwheel.build.environments.framework_release import FrameworkRelease
from cuwheel.build.recipe.link import DRIVER
from cuwheel.check.cuda.components import COMPONENTS
from cuwheel.check.cuda.toolkits import toolkit_by_release

# As in the other recipes: a toolkit with its compiler on the package index, and the release of
# PyTorch that was built with it.
TOOLKIT = "13.0"
ARCHS = ("80", "90", "100", "120")
PLACEHOLDER_HANDLE = "your-name"  # which the recipe's check refuses
_OLDEST_PYTHON = "3.10"  # the recipe's own default
_FOREIGN = re.compile(r"(^|/)(cutlass|third_party|composable_kernel)/")  # headers, mostly
_SHOWN = 4  # licence files that a note names
_PATCH_ARCHS = "remove the list with a patch, as patches/causal_conv1d/0001 does"
_UNLESS_SET = re.compile(r"NOT (?:\()?(?:DEFINED )?CMAKE_CUDA_ARCHITECTURES\b")
_STATIC = re.compile(r"_static(_nocallback)?$")
# Names of CMake's imported targets and of linker options that aren't the component's name.
_LIBRARIES = {"cuda": DRIVER, "cuda_driver": DRIVER}
_AMD = re.compile(r"(amd)?hip|roc|rccl")
# Of the C library and of compilers, which manylinux allows or the toolchain brings.
_SYSTEM = ("c", "dl", "gcc", "gomp", "m", "pthread", "rt", "stdc++", "toolkit")


def draft_of(
    upstream: Upstream,
    survey: Survey,
    maintainer: str,
    find_torch: Callable[[SpecifierSet], FrameworkRelease | None],
) -> Draft:
    """Choose a value for every field.

    Args:
        maintainer: the author's handle; empty: not known.
        find_torch: returns the newest release that a requirement allows and a toolkit exists for.
    """
    metadata = survey.metadata
    draft = Draft(name=canonicalize_name(upstream.project), summary=metadata.summary)
    draft.values.update(
        name=draft.name,
        version=upstream.version,
        license=metadata.license.value,
        homepage=metadata.homepage.value or upstream.page,
        maintainers=(maintainer or PLACEHOLDER_HANDLE,),
        source=_source_call(upstream),
    )
    _note_source(draft, survey, upstream)
    _note_license(draft, survey)
    if not draft.values["homepage"]:
        draft.stop("homepage", "upstream's home page, https://…")
    elif "address in" in metadata.homepage.where:
        draft.guess("homepage", f"{metadata.homepage.where}; the metadata has none")
    if not maintainer:
        draft.stop("maintainers", "your GitHub handle")
    _choose_framework(draft, survey, find_torch)
    _choose_archs(draft, survey)
    _choose_python(draft, survey)
    note_resources(draft, survey)
    requires = choose_requires(draft, survey)
    choose_build(draft, survey)
    _choose_link(draft, survey)
    choose_smoke(draft, survey, requires)
    _note_memory(draft, survey)
    return draft


def _source_call(upstream: Upstream) -> Call:
    """Return the declaration with what differs from its defaults."""
    source = upstream.given or upstream.sdist
    fields = [field for field in dataclasses.fields(source) if field.name != "version"]
    values = {field.name: getattr(source, field.name) for field in fields}
    keywords = {
        field.name: values[field.name] for field in fields if values[field.name] != field.default
    }
    return Call(name=type(source).__name__, keywords=keywords)


def _note_source(draft: Draft, survey: Survey, upstream: Upstream) -> None:
    """Note what the source lacks: files that it compiles, or everything that compiles its own."""
    if upstream.universal:
        text = f"whether it has to compile anything: the index has {upstream.universal}"
        draft.find_out("build", text)
    missing = survey.missing_sources
    if missing:
        files = first_of([f"{file.name} ({file.where})" for file in missing], _SHOWN)
        draft.stop("source", f"it lacks {files}, which the build compiles")
    if survey.compiles_nothing:
        draft.stop("build", "nothing in setup.py compiles its .cu files")


def _note_license(draft: Draft, survey: Survey) -> None:
    license_ = survey.metadata.license
    if not license_.value:
        files = sorted(path.name for path in survey.tree.glob("LICEN[CS]E*"))
        where = f"read {files[0]}" if files else "the source has no licence file: ask upstream"
        text = f"its SPDX name ({where}); https://spdx.org/licenses lists them"
        draft.stop("license", text)
    elif "text of" in license_.where:
        draft.guess("license", f"from {license_.where}; the metadata has none")
    elif "Expression" not in license_.where:
        draft.guess("license", license_.where)
    bundled = [
        f"{other.where} ({other.value or 'unknown'})"
        for other in survey.metadata.other_licenses
        if other.value != license_.value
    ]
    if bundled:
        listed = first_of(bundled, _SHOWN)
        draft.find_out("license", f"whether bundled code adds a licence: {listed}")


def _choose_framework(
    draft: Draft, survey: Survey, find_torch: Callable[[SpecifierSet], FrameworkRelease | None]
) -> None:
    """Choose the toolkit, and PyTorch if the package is compiled against it."""
    draft.values["toolkits"] = (TOOLKIT,)
    if not survey.uses_torch:
        return
    version, required = TORCH, _required_torch(survey)
    if not required.contains(TORCH):
        found = find_torch(required)
        version, toolkit = (found.version, found.cuda) if found else (TORCH, TOOLKIT)
        draft.values["toolkits"] = (toolkit,)
        limit = f"the source requires torch{required}"
        if found:
            draft.guess("framework", f"{limit}; a patch of its build files may allow {TORCH}")
        else:
            draft.stop("framework", f"{limit}, and no toolkit of cuwheel's is for such a release")
    keywords: dict[str, Value] = {"name": "torch", "version": version}
    draft.values["framework"] = Call(name="Framework", keywords=keywords)
    draft.guess("toolkits", f"PyTorch {version} was built with it")


def _required_torch(survey: Survey) -> SpecifierSet:
    """Return what the build and the finished wheel require of PyTorch."""
    texts = (*survey.system.requires, *survey.metadata.requires)
    required = [Requirement(text).specifier for text in texts if name_of(text) == "torch"]
    return functools.reduce(operator.and_, required, SpecifierSet())


def _choose_archs(draft: Draft, survey: Survey) -> None:
    """Choose one arch for each generation of GPUs, and note what makes the source ignore them."""
    known = toolkit_by_release(draft.toolkit).archs if survey.has_device_code else ()
    draft.values["archs"] = tuple(arch for arch in ARCHS if arch in known)
    generations = "machine code for one runs on all GPUs of its generation: Ampere, Hopper, …"
    draft.guess("archs", generations if known else "the source has no .cu file")
    fixed = survey.relevant("gencode")
    variables = (name for name in survey.variables() if not name.startswith("TORCH_"))
    if fixed and not any("ARCH" in name for name in variables):
        archs = sorted({flag.name for flag in fixed}, key=lambda arch: (len(arch), arch))
        ignored = (
            "PyTorch then adds none of TORCH_CUDA_ARCH_LIST"
            if survey.uses_torch
            else "`archs` and --arch then have no effect"
        )
        text = f"{locations(fixed)} hard-codes -gencode for {', '.join(archs)}: {ignored}"
        draft.find_out("archs", f"{text}; {_PATCH_ARCHS}")
    assignments = [
        command
        for command in survey.relevant("archs")
        if not _UNLESS_SET.search(command.guard) and "CMAKE_CUDA_ARCH" not in command.name
    ]
    if assignments:
        places = locations(assignments)
        text = f"whether {places} set CMAKE_CUDA_ARCHITECTURES only where it isn't given"
        draft.find_out("archs", text)


def _choose_python(draft: Draft, survey: Survey) -> None:
    """Choose one wheel for all Pythons if nothing uses Python's C interface; and the oldest."""
    settings = survey.metadata.tools.get("scikit-build", {}).get("wheel", {})
    if str(settings.get("py-api", "")).startswith("py"):
        draft.values["python"] = "any"
        draft.guess("python", f'pyproject.toml, wheel.py-api = "{settings["py-api"]}"')
    elif stable := survey.of("stable ABI"):
        draft.find_out(
            "python",
            'whether one wheel serves all Pythons from one on (python="abi3"): the stable ABI is '
            f"named at {locations(stable)}",
        )
    elif survey.uses_cmake and not survey.of("extension"):
        draft.values["python"] = "any"
        draft.guess("python", "no extension module was found, so it is loaded with ctypes")
    stated = survey.metadata.requires_python
    specifiers = SpecifierSet(stated.value)
    lowest = [Version(part.version) for part in specifiers if part.operator in {">=", "~=", ">"}]
    oldest = max([Version(_OLDEST_PYTHON), *lowest])
    others = sorted(str(part) for part in specifiers if part.operator in {"<", "<=", "!="})
    text = ",".join([f">={oldest.major}.{oldest.minor}", *others])
    if text != f">={_OLDEST_PYTHON}":
        draft.values["requires_python"] = text
        draft.guess("requires_python", f"{stated.where}, Requires-Python: {stated.value}")


def _choose_link(draft: Draft, survey: Survey) -> None:
    """Choose the components that the build names; `repair` compares them with the linker's."""
    first: dict[str, SourceFact] = {}  # of each component
    static, unknown = [], []
    for library in survey.relevant("library"):
        if _STATIC.search(library.name):
            static.append(library)
        elif component := _component(library.name):
            first.setdefault(component, library)
        elif library.name not in _SYSTEM and not _AMD.match(library.name):
            unknown.append(library)
    for fact in (*survey.of("header"), *survey.relevant("package")):
        if (component := _component(fact.name)) not in {"", "torch"}:
            first.setdefault(component, fact)
    torch = ("torch",) if survey.uses_torch else ()
    components = dict.fromkeys(("cudart", *torch, *sorted(first)))
    draft.values["link"] = Call(name="Link", args=tuple(components))
    for name, fact in sorted(first.items()):
        is_header = " includes its header" if fact.kind == "header" else ""
        draft.guess("link", f"{name}: {fact.where}{is_header}")
    if static:
        text = f"whether {_names(static)} are linked in ({locations(static)})"
        draft.find_out("link", text)
    if unknown:
        text = f"what supplies {_names(unknown)} ({locations(unknown)}); no component has that name"
        draft.find_out("link", text)


def _names(facts: Iterable[SourceFact]) -> str:
    return ", ".join(sorted({fact.name for fact in facts}))


def _component(library: str) -> str:
    """Return the component of a linked library; empty: none is known."""
    name = _LIBRARIES.get(library.lower(), library).lower()
    if re.match(r"(torch|c10)", name):
        return "torch"
    known = {component.name.lower(): component.name for component in COMPONENTS}
    return DRIVER if name == DRIVER else known.get(name, "")


def _note_memory(draft: Draft, survey: Survey) -> None:
    kernels = [name for name in survey.device_files if name.endswith(".cu")]
    kernels = [name for name in kernels if not _FOREIGN.search(name)] or kernels
    folders = sorted({name.rpartition("/")[0] or "its top folder" for name in kernels})
    if folders:
        draft.find_out(
            "memory_per_job",
            f"how much memory a compile needs: {plural(len(kernels), '.cu file')} in "
            f"{folders[0]}{' and elsewhere' if len(folders) > 1 else ''}, each of which takes from "
            "seconds to minutes for each arch; the default is 2 GiB, `nox -s profile` measures it",
        )
