"""The draft's build system and its settings: variables, CMake options, downloads."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

from cuwheel.build.drafts.draft import Call, Draft, Value
from cuwheel.build.drafts.readers.facts import FLAGS, OFF, SourceFact, locations
from cuwheel.build.drafts.readers.survey import Survey

# Every build gets these from the engine (docs/build-environment.md), or they don't matter to it.
_SET_BY_ENGINE = {
    *("CUDA_HOME", "CUDA_PATH", "CUDACXX", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "PATH"),
    *("MAX_JOBS", "NVCC_THREADS", "TORCH_CUDA_ARCH_LIST", "CMAKE_ARGS", "CMAKE_GENERATOR"),
    *("CUDAARCHS", "CMAKE_BUILD_PARALLEL_LEVEL", "HOME", "TMPDIR", "SOURCE_DATE_EPOCH"),
}
_FORCE = re.compile(r"(FORCE_BUILD|FORCE_(WITH_)?CUDA|(WITH|USE|BUILD|ENABLE)_CUDA)(_EXT\w*)?$")
_ARCH = re.compile(
    r"(CUDA|GPU|SM|NVCC)_?ARCH|ARCHS?(_LIST)?$|GENCODE|GENERATE_CODE|COMPUTE_CAPABILIT"
)
_NOT_CUDA = re.compile(r"HIP|ROCM|AMD|GFX|_NO_|^NO_|SKIP|DISABLE|SYCL|XPU|MUSA")
_OTHER = re.compile(r"HIP|ROCM|HEXAGON|MUSA|SYCL|VULKAN|ASCEND|^Windows|^VC[A-Z]|^GITHUB_")
_MANY = 4  # downloads that the draft names
_LONG = 70  # characters of a condition that the draft shows
_FORMS = "{archs} is 80;90, {torch_archs} 8.0;9.0, {gencode} nvcc's"
_SWITCH = re.compile(r"(?:^|_)(?:WITH_|USE_|ENABLE_|BUILD_)?(?:CUDA|GPU)$")
_NATIVE = re.compile(r"(?:^|_)NATIVE$")


def choose_build(draft: Draft, survey: Survey) -> None:
    """Choose the build system and its settings, so that it compiles offline and for the archs."""
    variables = list(_variables(survey))
    options = list(_options(survey)) if survey.uses_cmake else []
    env = {variable.name: value for variable, value, _ in variables}
    keywords: dict[str, Value] = {}
    if options:
        keywords["define"] = {option.name: value for option, value, _ in options}
    if env:
        keywords["env"] = env
    for fact, _, why in (*variables, *options):
        draft.guess("build", f"{fact.where}{why}")
    _note_downloads(draft, survey, env)
    if only := survey.relevant("only with gpu"):
        text = f"{locations(only)} ends the build without a GPU: remove that with a patch"
        draft.stop("build", text)
    gpus = survey.relevant("gpu")
    if gpus and not any(map(_FORCE.search, env)):
        text = f"how it compiles CUDA code without a GPU: {locations(gpus)} requires one"
        draft.find_out("build", text)
    for text in _questions(survey, {*env}, {option.where for option, *_ in options}):
        draft.find_out("build", text)
    is_cmake = survey.uses_cmake or survey.runs_cmake
    name = "CMake" if is_cmake else "TorchExtension" if survey.uses_torch else "Setuptools"
    draft.values["build"] = Call(name=name, keywords=keywords)


def _variables(survey: Survey) -> Iterator[tuple[SourceFact, str, str]]:
    """Yield setup.py's own variables that have to be set, each with a value and why."""
    for name, variable in sorted(survey.variables().items()):
        if name in _SET_BY_ENGINE or _NOT_CUDA.search(name) or name.startswith("CMAKE_"):
            continue
        default = variable.default
        if _FORCE.search(name):
            comparison = f' == "{variable.wants}"' if variable.wants else ""
            yield variable, variable.wants or "1", f" requires {name}{comparison}"
        # PyTorch adds the archs where a package has none.
        elif _ARCH.search(name) and default != "native" and (default or not survey.uses_torch):
            form = f"by default {default}" if default else f"in a format to find out; {_FORMS}"
            yield variable, _arch_placeholder(default), f" reads the archs from {name}, {form}"


def _arch_placeholder(default: str) -> str:
    """Return the placeholder whose form is that of a default value."""
    if "compute_" in default or "gencode" in default:
        return "{gencode}"
    return "{torch_archs}" if re.search(r"\d\.\d", default) else "{archs}"


def _options(survey: Survey) -> Iterator[tuple[SourceFact, str, str]]:
    """Yield CMake options that switch CUDA on or this machine's CPU off, with a value and why."""
    switches = _switches(survey)
    for option in survey.relevant("option"):
        name, default = option.name, option.default
        if name in survey.defined:
            continue  # the source's pyproject.toml decides
        if option in switches:
            yield option, "ON", ": CUDA is off by default"
        elif _NATIVE.search(name):
            yield option, "OFF", ": otherwise it is only for this machine's CPU"
        elif "native" in default:
            yield option, "", f": its default is {default}"
        elif re.search(r"CUDA_ARCH|COMPUTE_CAPABILIT", name) and not name.startswith("CMAKE_"):
            yield option, "{archs}", ": an arch list of its own"


def _switches(survey: Survey) -> tuple[SourceFact, ...]:
    """Return the package's own options that are off and switch CUDA on.

    Next to `USE_CUDA` a `USE_GPU` is another thing, such as OpenCL; and bundled sources, deeper in
    the tree, have switches of their own.
    """
    switches = [
        option
        for option in survey.relevant("option")
        if _SWITCH.search(option.name) and not _NOT_CUDA.search(option.name)
    ]
    switches = [option for option in switches if option.name.endswith("CUDA")] or switches
    top = min((option.where.count("/") for option in switches), default=0)
    return tuple(
        option
        for option in switches
        if option.where.count("/") == top and option.default.upper() in OFF
    )


def _questions(survey: Survey, env: set[str], settled: set[str]) -> Iterator[str]:
    """Yield what may break the build; `settled` are lines whose option the draft sets."""
    for name, why in FLAGS.items():
        flags = [
            flag
            for flag in survey.relevant("flag")
            if flag.name == name and flag.where not in settled
        ]
        if flags:
            yield f"{name} ({locations(flags)}): {why}{_condition(flags[0])}"
    if slow := survey.of("no ninja"):
        yield (
            f"{locations(slow)} compiles one file at a time (use_ninja=False): a patch that "
            "sets it to True lets --jobs take effect"
        )
    for file in survey.relevant("missing"):
        if file in survey.missing_sources:
            continue
        yield (f"{file.where} names {file.name}, which is not in the source{_condition(file)}")
    for file in survey.of("unread"):
        yield f"{file.where} can't be read: {file.name}"
    if computed := survey.of("computed variable"):
        yield f"which variables it reads at {locations(computed)}: the name is computed"
    unknown = {*survey.variables()} - env - _SET_BY_ENGINE
    if unknown := {name for name in unknown if not _OTHER.search(name)}:
        listed = ", ".join(sorted(unknown))
        yield f"whether one of the variables that it reads matters: {listed}"
    yield from _questions_of_setup(survey)


def _questions_of_setup(survey: Survey) -> Iterator[str]:
    """Yield how the settings that the engine makes get through a setup.py."""
    if survey.runs_cmake:
        if "CMAKE_ARGS" not in survey.variables():
            yield "how its setup.py hands CMake definitions on: it doesn't read CMAKE_ARGS"
    elif not (survey.uses_cmake or survey.uses_torch) and survey.of("extension"):
        yield "how its setup.py calls nvcc: it has to take CUDA_HOME and the archs"


def _note_downloads(draft: Draft, survey: Survey, env: Mapping[str, str]) -> None:
    downloads = [call for call in survey.relevant("download") if not _is_cmake(call)]
    if downloads and any("FORCE_BUILD" in name for name in env):
        draft.guess("build", f"that keeps {locations(downloads)} from downloading a wheel")
    elif downloads:
        listed = [f"{call.where} {call.name}"[:90] for call in downloads[:_MANY]]
        more = ["…"] if len(downloads) > _MANY else []
        text = f"how to prevent its download: {'; '.join([*listed, *more])}"
        draft.find_out("build", text)


def _is_cmake(fact: SourceFact) -> bool:
    return fact.where.partition(":")[0].endswith((".cmake", "CMakeLists.txt"))


def _condition(fact: SourceFact) -> str:
    return f" (if {textwrap.shorten(fact.guard, _LONG)})" if fact.guard else ""


def note_resources(draft: Draft, survey: Survey) -> None:
    """Note what CMake would download: it has to be pinned, or switched off."""
    downloads = [call for call in survey.relevant("download") if _is_cmake(call)]
    for call in downloads[:_MANY]:
        text = f"how to avoid the download at {call.where}: {call.name}{_condition(call)}"
        draft.find_out("resources", text)
    if more := downloads[_MANY:]:
        draft.find_out("resources", f"likewise for {len(more)} more, from {more[0].where}")
