"""Whether an environment's frameworks work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.binaries.archs import DeviceCode, describe_code, runs_on
from cuwheel.cuda.toolkits import oldest_driver
from cuwheel.diagnose.facts.imports import frameworks_of
from cuwheel.diagnose.rules.nvidia_wheels import is_nvidias
from cuwheel.diagnose.verdict import broken, warns, works
from cuwheel.system.quantities import plural
from cuwheel.system.versions import version_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.diagnose.facts.environment import PythonEnvironment
    from cuwheel.diagnose.facts.gpus import Driver
    from cuwheel.diagnose.facts.imports import FrameworkFacts
    from cuwheel.diagnose.rules.installer import Installer
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
        fix="an older libnvJitLink is loaded first: remove CUDA folders from LD_LIBRARY_PATH, "
        "or upgrade nvidia-nvjitlink",
    ),
    _Failure(
        r"undefined symbol: nccl",
        "nccl-version-mismatch",
        fix="another libnccl is loaded first: remove its folder from LD_LIBRARY_PATH, or "
        "install the nvidia-nccl that torch requires",
    ),
    _Failure(r"libcudart[\w.-]*: cannot open", "libcudart-not-found"),
    _Failure(r"libcudnn[\w.-]*: cannot open", "libcudnn-not-found"),
    _Failure(r"libnvrtc[\w.-]*: cannot open", "libnvrtc-missing"),
    _Failure(r"lib(cuda|nvidia-ml)\.so\.1: cannot open", "libcuda-driver-missing"),
    _Failure(r"lib(cu|nv|nccl)[\w.-]*: cannot open", "cuda-math-lib-not-found"),
    _Failure(
        r"(GLIBCXX|CXXABI)_[\d.]+.* not found",
        "glibcxx-too-old",
        fix="an older libstdc++ is loaded first: remove its folder from LD_LIBRARY_PATH, or "
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
        fix="install the NumPy that it was built for, usually one below 2",
    ),
    _Failure(
        r"undefined symbol: _Z",
        "torch-abi-mismatch",
        fix="reinstall all packages that belong to it, together",
    ),
    _Failure(r"cuDNN version incompatib", "cudnn-version-mismatch"),
)
_FIRST = "first fix what else this report says about it, then run this again"


def judge_frameworks(
    frameworks: Iterable[FrameworkFacts],
    driver: Driver,
    remedies: Mapping[str, str],
    cuda_builds: Mapping[str, str],
) -> Iterator[Verdict]:
    """Judge each framework: whether it can be imported, sees a GPU, and has code for it.

    Args:
        frameworks: what is known of each.
        driver: of this machine.
        remedies: `remedies_of` them.
        cuda_builds: commands that install the same release with CUDA, by framework.
    """
    for one in frameworks:
        name = f"{one.name} {one.version}"
        remedy = remedies.get(one.name)
        faults = [*_import_fault(name, one, remedy)]
        faults += _cuda_fault(name, one, driver, cuda_builds.get(one.name, ""))
        faults += [] if faults else [*_visibility_fault(name, one, driver, remedy)]
        yield from faults
        if one.was_imported and not faults:
            sees = f"sees {plural(len(one.devices), 'GPU')}"
            sees = sees if one.available else "can be imported"
            yield works(f"{name} {sees}{f', CUDA {one.cuda}' if one.cuda else ''}")


def _import_fault(name: str, framework: FrameworkFacts, remedy: str | None) -> Iterator[Verdict]:
    words = framework.last_words
    if not words:
        return
    what = f"{name} can't be imported"
    for failure in _FAILURES:
        if line := failure.line_in(framework.failure):
            fix = failure.fix or "reinstall it with everything that it requires"
            fix = fix if remedy is None else _FIRST
            yield broken(failure.anchor, what, line.strip(), fix, remedy or "")
            return
    fix = f"python -c 'import {framework.name}' shows the full error; its files are as they were "
    fix += "installed, as far as RECORD lists them"
    fix = fix if remedy is None else _FIRST
    yield broken("diagnose-import-failed", what, words, fix, remedy or "")


def _cuda_fault(
    name: str, framework: FrameworkFacts, driver: Driver, command: str
) -> Iterator[Verdict]:
    if framework.is_cpu_only:
        judged = broken if driver.gpus else warns
        yield judged(
            "built-without-cuda",
            f"{name} is built without CUDA",
            "it is the CPU-only build",
            "install the same release with CUDA",
            command,
        )
        return
    least = oldest_driver(int(framework.major)) if framework.major.isdigit() else ""
    if least and driver.version and version_key(driver.version) < version_key(least):
        yield broken(
            "driver-too-old",
            f"driver {driver.version} is too old for {name}",
            f"it is built with CUDA {framework.cuda}, which needs driver {least} or newer; this "
            f"one supports CUDA up to {driver.newest_cuda or 'an older one'}",
            f"update the driver, or install a {framework.name} for "
            f"CUDA {driver.newest_cuda.partition('.')[0] or 'an older release'}",
        )


def _visibility_fault(
    name: str, framework: FrameworkFacts, driver: Driver, remedy: str | None
) -> Iterator[Verdict]:
    if framework.trouble:
        last = framework.trouble.strip().rpartition("\n")[2]
        known = next((one for one in _FAILURES if one.line_in(framework.trouble)), None)
        fix = (known.fix if known else "") or (
            f"list the devices with {framework.name} itself; --verify-files finds damaged files"
        )
        yield warns(
            known.anchor if known else "diagnose-import-failed",
            f"{name} failed to report its CUDA devices",
            last,
            fix if remedy is None else _FIRST,
            remedy or "",
        )
    elif framework.available is False and driver.visible:
        yield broken(
            "no-cuda-device",
            f"{name} sees no GPU, though a CUDA program sees {driver.visible}",
            framework.why_not or "it reports no reason",
            "check that the driver isn't older than its CUDA, and that LD_LIBRARY_PATH contains "
            "no other libcuda",
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
                f"{name} has no code for this GPU, sm_{capability}",
                f"it contains {describe_code(code)}",
                f"install a {framework.name} built for sm_{capability}: an older release for an "
                "older GPU, a newer one for a newer",
            )


def cuda_builds(environment: PythonEnvironment, installer: Installer) -> dict[str, str]:
    """Commands that install the release of each framework that is there from the index.

    PyTorch's there has CUDA on Linux; conda chooses its build by other means.
    """
    if environment.is_conda:
        return {}
    return {
        name: installer.exchange(one.name, f"{one.name}=={one.version.partition('+')[0]}")
        for name, one in frameworks_of(environment).items()
    }


def remedies_of(
    frameworks: Iterable[FrameworkFacts],
    environment: PythonEnvironment,
    remedies: Mapping[str, str],
) -> dict[str, str]:
    """What is to be done first, a command or nothing, by framework, where something is.

    Args:
        frameworks: which.
        environment: that they are in.
        remedies: of every distribution with faulty files or unmet requirements.
    """
    of_nvidia = [command for name, command in remedies.items() if is_nvidias(name)]
    found = {}
    for one in frameworks:
        project = frameworks_of(environment)[one.name].name
        if project in remedies:
            found[one.name] = remedies[project]
        elif of_nvidia:
            found[one.name] = of_nvidia[0]
    return found
