"""Whether an environment's frameworks work, and NVIDIA's wheels in it go together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.cuda.components import COMPONENTS
from cuwheel.cuda.suppliers import components_of
from cuwheel.cuda.toolkits import oldest_driver
from cuwheel.diagnose.facts.loader import missing_files
from cuwheel.diagnose.verdict import broken, warns, works
from cuwheel.system.quantities import plural
from cuwheel.system.versions import version_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.diagnose.facts.environment import Distribution, PythonEnvironment
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.rules.requirements import UnmetRequirement
    from cuwheel.diagnose.verdict import Anchor, Verdict


class _Failure(NamedTuple):
    """What the words of a failed import tell; without a fix, it is to be installed again."""

    pattern: str
    anchor: Anchor
    fix: str = ""

    def line_in(self, text: str) -> str:
        """The line that says so; empty where none does."""
        return next((line for line in text.splitlines() if re.search(self.pattern, line)), "")


# The first that fits counts.
_FAILURES = (
    _Failure(
        r"undefined symbol: \w*nv[Jj]it[Ll]ink",
        "nvjitlink-mismatch",
        fix="an older libnvJitLink is loaded first: take CUDA folders out of LD_LIBRARY_PATH, or "
        "upgrade nvidia-nvjitlink",
    ),
    _Failure(
        r"undefined symbol: nccl",
        "nccl-version-mismatch",
        fix="another libnccl is loaded first: take its folder out of LD_LIBRARY_PATH, or install "
        "the nvidia-nccl that torch requires",
    ),
    _Failure(r"libcudart[\w.-]*: cannot open", "libcudart-not-found"),
    _Failure(r"libcudnn[\w.-]*: cannot open", "libcudnn-not-found"),
    _Failure(r"libnvrtc[\w.-]*: cannot open", "libnvrtc-missing"),
    _Failure(r"lib(cuda|nvidia-ml)\.so\.1: cannot open", "libcuda-driver-missing"),
    _Failure(r"lib(cu|nv|nccl)[\w.-]*: cannot open", "cuda-math-lib-not-found"),
    _Failure(
        r"(GLIBCXX|CXXABI)_[\d.]+.* not found",
        "glibcxx-too-old",
        fix="an older libstdc++ is loaded first: take its folder out of LD_LIBRARY_PATH, or "
        "install a newer one",
    ),
    _Failure(
        r"GLIBC_[\d.]+.* not found",
        "glibc-too-old",
        fix="it was built for a newer system: install a release for this one",
    ),
    _Failure(
        r"numpy\.(dtype size|core\.multiarray)|_ARRAY_API|compiled using NumPy 1",
        "numpy-abi-mismatch",
        fix="install the NumPy that it was built for, most often: pip install 'numpy<2'",
    ),
    _Failure(
        r"undefined symbol: _Z", "torch-abi-mismatch", fix="install its parts again, together"
    ),
    _Failure(r"cuDNN version incompatib", "cudnn-version-mismatch"),
)
_LOST = re.compile(r"(lib\S+): cannot open shared object file")
_REINSTALL = "install it again with all that it requires: pip install --force-reinstall {}=={}"

# What is to be read where one of NVIDIA's wheels is missing; others hold mathematical libraries.
_ANCHORS: dict[str, Anchor] = {
    "cudart": "libcudart-not-found",
    "cudnn": "libcudnn-not-found",
    "nvrtc": "libnvrtc-missing",
    "nccl": "nccl-version-mismatch",
}
# The same where it is of another version than the one that is required.
_OTHER_VERSION: dict[str, Anchor] = {
    "nvJitLink": "nvjitlink-mismatch",
    "cudnn": "cudnn-version-mismatch",
    "nccl": "nccl-version-mismatch",
}
_NAMES = {one.distribution: one.name for one in reversed(COMPONENTS)}
_NVIDIAS = re.compile(r"nvidia-.*")
_SUFFIX = re.compile(r"-cu(\d+)$")


def judge_frameworks(
    frameworks: Iterable[FrameworkFacts], driver: Driver, disagreements: Iterable[UnmetRequirement]
) -> Iterator[Verdict]:
    """Judge each framework: whether it can be imported, sees a GPU, and has code for it."""
    unmet = tuple(disagreements)
    for one in frameworks:
        name = f"{one.name} {one.version}"
        faults = [*_import_fault(name, one, unmet), *_cuda_fault(name, one, driver)]
        faults += [] if faults else [*_visibility_fault(name, one, driver)]
        yield from faults
        if one.was_imported and not faults:
            sees = f"sees {plural(len(one.devices), 'GPU')}"
            sees = sees if one.available else "can be imported"
            yield works(f"{name} {sees}{f', CUDA {one.cuda}' if one.cuda else ''}")


def _import_fault(
    name: str, framework: FrameworkFacts, unmet: Iterable[UnmetRequirement]
) -> Iterator[Verdict]:
    words = framework.last_words
    if not words:
        return
    again = _REINSTALL.format(framework.name, framework.version.partition("+")[0])
    if lost := _LOST.search(framework.failure):
        suppliers = {component.distribution for component in components_of(lost[1])}
        asked = (one.asked for one in unmet if one.project in suppliers)
        again = next((f"pip install '{one}'" for one in asked), again)
    for failure in _FAILURES:
        if line := failure.line_in(framework.failure):
            fix = failure.fix or again
            yield broken(failure.anchor, f"{name} can't be imported", line.strip(), fix)
            return
    yield broken(
        "diagnose-import-failed",
        f"{name} can't be imported",
        words,
        f"python -c 'import {framework.name}' shows all of it",
    )


def _cuda_fault(name: str, framework: FrameworkFacts, driver: Driver) -> Iterator[Verdict]:
    if framework.is_cpu_only:
        judged = broken if driver.gpus else warns
        yield judged(
            "built-without-cuda",
            f"{name} is built without CUDA",
            "it is the build for the CPU",
            f"install one with CUDA: pip install --force-reinstall {framework.name}",
        )
        return
    least = oldest_driver(int(framework.major)) if framework.major.isdigit() else ""
    if least and driver.version and version_key(driver.version) < version_key(least):
        yield broken(
            "driver-too-old",
            f"driver {driver.version} is too old for {name}",
            f"that is built with CUDA {framework.cuda}, which needs driver {least} at least; this "
            f"one supports CUDA up to {driver.newest_cuda or 'an older one'}",
            f"update the driver, or install a {framework.name} for "
            f"CUDA {driver.newest_cuda.partition('.')[0] or 'an older release'}",
        )


def _visibility_fault(name: str, framework: FrameworkFacts, driver: Driver) -> Iterator[Verdict]:
    if framework.trouble:
        last = framework.trouble.strip().rpartition("\n")[2]
        known = next((one for one in _FAILURES if one.line_in(framework.trouble)), None)
        yield warns(
            known.anchor if known else "diagnose-import-failed",
            f"{name} failed when it was asked about CUDA",
            last,
            (known.fix if known else "")
            or f"python -c 'import {framework.name}' and on from there",
        )
    elif framework.available is False and driver.visible:
        yield broken(
            "no-cuda-device",
            f"{name} sees no GPU, though a CUDA program sees {driver.visible}",
            framework.why_not or "it doesn't say why",
            "see that the driver isn't older than its CUDA, and that LD_LIBRARY_PATH leads to no "
            "other libcuda",
        )
    if framework.archs:
        yield from _arch_fault(name, framework, driver)


def _arch_fault(name: str, framework: FrameworkFacts, driver: Driver) -> Iterator[Verdict]:
    parts = [arch.partition("_") for arch in framework.archs]
    code = DeviceCode(
        sass=tuple(number for kind, _, number in parts if kind == "sm"),
        ptx=tuple(number for kind, _, number in parts if kind == "compute"),
    )
    for capability in sorted({gpu.capability for gpu in driver.gpus if gpu.capability}):
        if not runs_on(code, capability):
            yield broken(
                "no-kernel-image",
                f"{name} holds no code for this GPU, sm_{capability}",
                f"it holds {describe_code(code)}",
                f"install a {framework.name} built for sm_{capability}: an older release for an "
                "older GPU, a newer one for a newer",
            )


def judge_nvidia_wheels(
    environment: PythonEnvironment,
    disagreements: Iterable[UnmetRequirement],
    frameworks: Iterable[FrameworkFacts],
) -> Iterator[Verdict]:
    """Judge NVIDIA's wheels: whole, as required, of one CUDA."""
    wheels = nvidia_wheels(environment)
    faults = [*_lost(wheels), *_unmet(environment, disagreements), *_majors(wheels, frameworks)]
    yield from faults
    if wheels and not faults:
        majors = sorted(cuda_majors(wheels))
        of = f" of CUDA {' and '.join(majors)}" if majors else ""
        yield works(f"NVIDIA's {len(wheels)} wheels{of} are what is required")


def nvidia_wheels(environment: PythonEnvironment) -> tuple[Distribution, ...]:
    """The wheels of NVIDIA's libraries in an environment."""
    return tuple(
        one for name, one in sorted(environment.distributions.items()) if _is_nvidias(name)
    )


def cuda_majors(wheels: Iterable[Distribution]) -> dict[str, list[str]]:
    """Which of NVIDIA's wheels are for which CUDA: `13`, and the names; others tell nothing."""
    found: dict[str, list[str]] = {}
    for wheel in wheels:
        suffix = _SUFFIX.search(wheel.name)
        known = next((one.cuda for one in COMPONENTS if one.distribution == wheel.name), None)
        if major := (suffix[1] if suffix else str(known or "")):
            found.setdefault(major, []).append(wheel.name)
    return found


def _is_nvidias(name: str) -> bool:
    return bool(_NVIDIAS.fullmatch(name)) or (name in _NAMES and name != "torch")


def _lost(wheels: Iterable[Distribution]) -> Iterator[Verdict]:
    for wheel in wheels:
        lost = missing_files(wheel)
        if lost:
            yield broken(
                _anchor(wheel.name, _ANCHORS, "cuda-math-lib-not-found"),
                f"{wheel.name} {wheel.version} is installed, and its files aren't there",
                f"{lost[0].name} is missing: most often a wheel of another CUDA with files of the "
                "same name was removed",
                f"pip install --force-reinstall --no-deps {wheel.name}=={wheel.version}",
            )


def _unmet(environment: PythonEnvironment, found: Iterable[UnmetRequirement]) -> Iterator[Verdict]:
    """Of what NVIDIA's wheels are required; a missing one whose file comes from elsewhere works."""
    for one in found:
        if not _is_nvidias(one.project):
            continue
        if one.installed:
            yield warns(
                _anchor(one.project, _OTHER_VERSION, "diagnose-versions"),
                f"{one.project} is {one.installed}",
                f"{one.owner} requires {one.asked}",
                f"pip install '{one.asked}'",
            )
        elif not environment.is_conda:
            yield broken(
                _anchor(one.project, _ANCHORS, "cuda-math-lib-not-found"),
                f"{one.project} is missing",
                f"{one.owner} requires {one.asked}",
                f"pip install '{one.asked}'",
            )


def _anchor(project: str, table: dict[str, Anchor], otherwise: Anchor) -> Anchor:
    names = (one.name for one in COMPONENTS if one.distribution == project)
    return next((table[name] for name in names if name in table), otherwise)


def _majors(
    wheels: Iterable[Distribution], frameworks: Iterable[FrameworkFacts]
) -> Iterator[Verdict]:
    majors = cuda_majors(wheels)
    used = {one.major: one for one in frameworks if one.major}
    if len(used) > 1:
        (_, first), (_, second) = sorted(used.items())[:2]
        yield warns(
            "diagnose-mixed-cuda",
            f"{first.name} is for CUDA {first.major}, {second.name} for CUDA {second.major}",
            "in one process both would load libraries of their own release",
            "install both for the same CUDA",
        )
    elif len(majors) > 1:
        listed = "; ".join(
            f"CUDA {major}: {_few(names)}" for major, names in sorted(majors.items())
        )
        of = next((f", {one.name}'s is {one.cuda}" for one in used.values()), "")
        yield warns(
            "diagnose-mixed-cuda",
            f"NVIDIA's wheels are of CUDA {' and '.join(sorted(majors))}{of}",
            listed,
            "remove those that nothing requires: pip check shows what does",
        )


def _few(names: list[str]) -> str:
    return f"{', '.join(names[:2])}{f' and {len(names) - 2} more' if len(names) > 2 else ''}"  # noqa: PLR2004
