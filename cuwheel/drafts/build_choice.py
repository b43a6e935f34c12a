"""Which build system a draft names, and its settings: knobs, switches, downloads."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from cuwheel.drafts.draft import Call, Field, Note, find_out, guess
from cuwheel.drafts.readers.flags import FLAGS
from cuwheel.drafts.readers.relevance import OFF
from cuwheel.drafts.target_choice import locations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.drafts.draft import Value
    from cuwheel.drafts.readers.finding import Finding
    from cuwheel.drafts.readers.survey import Survey

# What every build gets from the engine (docs/build-environment.md), or isn't about this build.
_GIVEN = {
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


def choose_build(survey: Survey) -> Field:
    """The build system, with the switches that make it compile, offline and for the archs."""
    switches = dict(_variables(survey))
    notes = [note for _, note in switches.values()]
    env = {name: value for name, (value, _) in switches.items()}
    given: dict[str, Value] = {}
    if survey.uses_cmake:
        defines = dict(_definitions(survey))
        notes += [note for _, note in defines.values()]
        if defines:
            given["define"] = {name: value for name, (value, _) in defines.items()}
    if env:
        given["env"] = env
    name = "CMake" if survey.uses_cmake else "TorchExtension" if survey.uses_torch else "Setuptools"
    notes += _about_build(survey, env, {note.text.partition(": ")[0] for note in notes})
    return Field(name="build", value=Call(name=name, given=given), notes=tuple(notes))


def _variables(survey: Survey) -> Iterator[tuple[str, tuple[str, Note]]]:
    """Variables of setup.py's own that have to be set."""
    for name, found in sorted(survey.variables().items()):
        if name in _GIVEN or _NOT_CUDA.search(name) or name.startswith("CMAKE_"):
            continue
        if _FORCE.search(name):
            value = found.wants or "1"
            shown = f' == "{found.wants}"' if found.wants else ""
            yield name, (value, guess(f"{found.where} requires {name}{shown}"))
        elif _ARCH.search(name) and found.default != "native":
            value = _arch_form(found.default)
            form = (
                f"by default {found.default}"
                if found.default
                else f"in a format to find out; {_FORMS}"
            )
            yield name, (value, guess(f"{found.where} reads the archs from {name}, {form}"))


def _arch_form(default: str) -> str:
    """The placeholder whose form is the default value's."""
    if "compute_" in default or "gencode" in default:
        return "{gencode}"
    if re.search(r"\d\.\d", default):
        return "{torch_archs}"
    return "{archs}"


def _definitions(survey: Survey) -> Iterator[tuple[str, tuple[str, Note]]]:
    """Options of CMake that switch CUDA on and this machine's CPU off."""
    switches = _switches(survey)
    for one in survey.relevant("option"):
        if one.name in survey.defined:
            continue  # its own pyproject.toml decides
        if one in switches:
            yield one.name, ("ON", guess(f"{one.where}: CUDA is off by default"))
        elif _NATIVE.search(one.name):
            yield (
                one.name,
                ("OFF", guess(f"{one.where}: otherwise it is only for this machine's CPU")),
            )
        elif "native" in one.default:
            yield one.name, ("", guess(f"{one.where}: its default is {one.default}"))
        elif re.search(r"CUDA_ARCH|COMPUTE_CAPABILIT", one.name) and one.name[:6] != "CMAKE_":
            yield one.name, ("{archs}", guess(f"{one.where}: an arch list of its own"))


def _switches(survey: Survey) -> tuple[Finding, ...]:
    """The package's own options that are off and switch CUDA on.

    Beside `USE_CUDA` a `USE_GPU` is another thing, such as OpenCL; and what the source brings
    along, deeper in the tree, has switches of its own.
    """
    found = [
        one
        for one in survey.relevant("option")
        if _SWITCH.search(one.name) and not _NOT_CUDA.search(one.name)
    ]
    found = [one for one in found if one.name.endswith("CUDA")] or found
    top = min((one.where.count("/") for one in found), default=0)
    return tuple(one for one in found if one.where.count("/") == top and one.default.upper() in OFF)


def _about_build(survey: Survey, env: dict[str, str], settled: set[str]) -> Iterator[Note]:
    """What else there is to say; `settled` are lines whose option the draft sets."""
    yield from _about_downloads(survey, env)
    gpus = survey.relevant("gpu")
    if gpus and not any(_FORCE.search(name) for name in env):
        yield find_out(f"how it compiles CUDA code without a GPU: {locations(gpus)} requires one")
    for name, why in FLAGS.items():
        found = [
            one for one in survey.relevant("flag") if one.name == name and one.where not in settled
        ]
        if found:
            yield find_out(f"{name} ({locations(found)}): {why}{_under(found[0])}")
    if slow := survey.of("no ninja"):
        yield find_out(
            f"{locations(slow)} compiles one file at a time (use_ninja=False): a patch that "
            "sets it to True lets --jobs take effect"
        )
    for one in survey.relevant("missing"):
        yield find_out(f"{one.where} names {one.name}, which is not in the source{_under(one)}")
    yield from _about_unknown(survey, env)


def _about_downloads(survey: Survey, env: dict[str, str]) -> Iterator[Note]:
    downloads = [one for one in survey.relevant("download") if not _is_cmake(one)]
    if downloads and any("FORCE_BUILD" in name for name in env):
        yield guess(f"that keeps {locations(downloads)} from downloading a wheel")
    elif downloads:
        yield find_out(f"how to prevent its download: {_said(downloads)}")


def _about_unknown(survey: Survey, env: dict[str, str]) -> Iterator[Note]:
    for one in survey.of("unread"):
        yield find_out(f"{one.where} can't be read: {one.name}")
    if computed := survey.of("computed variable"):
        yield find_out(f"which variables it reads at {locations(computed)}: the name is computed")
    left = sorted(
        name
        for name in survey.variables()
        if name not in env and name not in _GIVEN and not _OTHER.search(name)
    )
    if left:
        yield find_out(f"whether one of the variables that it reads matters: {', '.join(left)}")
    if not (survey.uses_cmake or survey.uses_torch):
        yield find_out("how its setup.py calls nvcc: it has to take CUDA_HOME and the archs")


def _is_cmake(finding: Finding) -> bool:
    file = finding.where.partition(":")[0]
    return file.endswith((".cmake", "CMakeLists.txt"))


def _under(finding: Finding) -> str:
    """The condition of a fact, short."""
    return f" (if {textwrap.shorten(finding.guard, _LONG)})" if finding.guard else ""


def _said(downloads: list[Finding]) -> str:
    shown = "; ".join(f"{one.where} {one.name}"[:90] for one in downloads[:_MANY])
    return f"{shown}; …" if len(downloads) > _MANY else shown


def choose_resources(survey: Survey) -> Iterator[Field]:
    """What CMake would fetch while it configures: it has to be pinned, or switched off."""
    found = [one for one in survey.relevant("download") if _is_cmake(one)]
    notes = [
        find_out(f"how to avoid the download at {one.where}: {one.name}{_under(one)}")
        for one in found[:_MANY]
    ]
    if len(found) > _MANY:
        notes.append(find_out(f"likewise for {len(found) - _MANY} more, from {found[_MANY].where}"))
    if notes:
        yield Field(name="resources", value=None, notes=tuple(notes))
