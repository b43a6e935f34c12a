from __future__ import annotations

import re
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from cuwheel.build.environments.lock_file import pinned_version
from cuwheel.build.toolchains.redist.lock_file import read_redist_lock
from cuwheel.check.cuda.components import (
    COMPONENTS,
    KNOWN_COMPONENTS,
    component_by_name,
    requirement_for,
)
from cuwheel.check.cuda.toolkits import TOOLKITS, Toolkit, toolkit_by_release
from tests.support.check.component_facts import faults_of, rows_of, unnamed_in, unrequired_by

every_toolkit = pytest.mark.parametrize("toolkit", TOOLKITS, ids=lambda toolkit: toolkit.tag)

# conda-forge's package with a component's headers, and the component.
_IN_CONDA = {
    "cuda-cudart-dev": "cudart",
    "cuda-nvrtc-dev": "nvrtc",
    "libcublas-dev": "cublas",
    "libcudnn-dev": "cudnn",
    "libcufft-dev": "cufft",
    "libcurand-dev": "curand",
    "libcusolver-dev": "cusolver",
    "libcusparse-dev": "cusparse",
}


def pins_of(toolkit: Toolkit) -> dict[str, Version]:
    """Return the release of each component of the toolchain."""
    folder = ROOT / "envs" / f"cuda{toolkit.tag}"
    if not (folder / "environment.yml").is_file() and (folder / "redist.lock").is_file():
        archives = read_redist_lock(folder / "redist.lock").archives
        return {
            archive.name.removeprefix("lib"): Version(archive.version)
            for archive in archives
            if archive.name.removeprefix("lib") in dict(toolkit.libraries)
        }
    if not (folder / "environment.yml").is_file():
        return {
            component.name: Version(version)
            for component in COMPONENTS
            if component.cuda == toolkit.major
            and (version := pinned_version(folder / "pypi.lock", component.distribution))
        }
    text = (folder / "environment.yml").read_text()
    pins = re.findall(r"^  - (\S+) ==(\S+)$", text, re.MULTILINE)
    return {_IN_CONDA[name]: Version(version) for name, version in pins if name in _IN_CONDA}


def required(name: str, toolkit: Toolkit) -> Requirement:
    return Requirement(requirement_for(component_by_name(name, toolkit.major), toolkit, ""))


@pytest.mark.parametrize(
    ("name", "cuda", "releases"),
    [("cudart", 13, ">=13,<14"), ("cusolver", 12, ">=11,<12"), ("cudensitymat", 13, "")],
)
def test_names_releases_with_the_sonames(name: str, cuda: int, releases: str) -> None:
    assert component_by_name(name, cuda).releases == releases


def test_names_nearest_component() -> None:
    with pytest.raises(UsageError) as caught:
        component_by_name("cublaslt")

    assert caught.value.why == 'did you mean "cublasLt"?'


@pytest.mark.parametrize(("cuda", "soname"), [(12, "libcudart.so.12"), (13, "libcudart.so.13")])
def test_gives_component_of_major(cuda: int, soname: str) -> None:
    assert component_by_name("cudart", cuda).sonames == (soname,)


def test_gives_component_of_cuda_11() -> None:
    assert component_by_name("cudart", 11).distribution == "nvidia-cuda-runtime-cu11"


@pytest.mark.parametrize("cuda", [12, 13])
def test_gives_framework_with_any_major(cuda: int) -> None:
    assert component_by_name("torch", cuda).cuda is None


def test_majors_differ_in_nvvm_only() -> None:
    names = {
        cuda: {component.name for component in COMPONENTS if component.cuda == cuda}
        for cuda in {toolkit.major for toolkit in TOOLKITS}
    }

    assert names[12] ^ names[13] == {"nvvm"}


def test_template_is_filled() -> None:
    assert [component for component in KNOWN_COMPONENTS if "|" in repr(component)] == []


def test_every_need_has_its_supplier() -> None:
    known = {(part.cuda, soname) for part in KNOWN_COMPONENTS for soname in part.sonames}

    lacking = [
        (part.name, soname)
        for part in KNOWN_COMPONENTS
        for soname in part.needs
        if (part.cuda, soname) not in known
    ]

    assert lacking == []


def test_everything_lost_is_needed() -> None:
    stray = [
        (part.name, name)
        for part in KNOWN_COMPONENTS
        for name, _ in part.lost
        if name not in {*part.needs, *part.opens, *part.may_open}
    ]

    assert stray == []


def test_no_two_components_of_a_major_share_a_soname() -> None:
    sonames = [(part.cuda, soname) for part in KNOWN_COMPONENTS for soname in part.sonames]

    assert len(set(sonames)) == len(sonames)


@every_toolkit
def test_requirement_names_its_distribution(toolkit: Toolkit) -> None:
    components = [part for part in COMPONENTS if part.cuda == toolkit.major]

    names = [Requirement(requirement_for(part, toolkit, "")).name for part in components]

    assert names == [part.distribution for part in components]


@every_toolkit
def test_requirement_takes_what_is_linked_against(toolkit: Toolkit) -> None:
    pins = pins_of(toolkit)

    refused = [
        name for name, version in pins.items() if version not in required(name, toolkit).specifier
    ]

    assert pins
    assert refused == []


@every_toolkit
def test_requirement_refuses_next_major(toolkit: Toolkit) -> None:
    pins = pins_of(toolkit)

    taken = [
        name
        for name, version in pins.items()
        if Version(f"{version.major + 1}.0") in required(name, toolkit).specifier
    ]

    assert taken == []


@every_toolkit
def test_table_holds_releases_of_libraries(toolkit: Toolkit) -> None:
    linked = {
        name: f"{version.major}.{version.minor}" for name, version in pins_of(toolkit).items()
    }

    stated = dict(toolkit.libraries)

    # Only 13.0 names an older cuBLAS than it has, as in published wheels.
    held_back = {"cublas"} if toolkit.release == "13.0" else set()
    assert {name for name, version in stated.items() if linked.get(name) != version} == held_back


def test_requirement_differs_between_minor_releases() -> None:
    requirements = {
        tag: str(required("cusparse", toolkit_by_release(tag))) for tag in ("122", "128")
    }

    assert requirements == {
        "122": "nvidia-cusparse-cu12<13,>=12.1",
        "128": "nvidia-cusparse-cu12<13,>=12.5",
    }


# Update 1 of 12.4 and 12.8, from which PyTorch's own wheels take their pins.
@pytest.mark.parametrize(
    ("release", "name", "version"),
    [
        ("12.4", "cublas", "12.4.5.8"),
        ("12.4", "cusparse", "12.3.1.170"),
        ("12.4", "cusolver", "11.6.1.9"),
        ("12.8", "cublas", "12.8.4.1"),
        ("12.8", "cusparse", "12.5.8.93"),
        ("13.0", "cublas", "13.0.0.19"),
    ],
)
def test_requirement_allows_other_updates_of_its_minor(
    release: str, name: str, version: str
) -> None:
    assert version in required(name, toolkit_by_release(release)).specifier


def test_requirement_pins_framework() -> None:
    toolkit = toolkit_by_release("13.0")

    assert requirement_for(component_by_name("torch", 13), toolkit, "==2.11.*") == "torch==2.11.*"


@pytest.mark.parametrize(
    ("name", "version", "requirement"),
    [
        ("cutensornet", "2.14.0", "cutensornet-cu13>=2.14,<3"),
        ("cutensornet", "", "cutensornet-cu13>=2.9,<3"),
        ("cudnn", "9.19.0.56", "nvidia-cudnn-cu13>=9.19,<10"),
        ("cudensitymat", "0.6.0", "cudensitymat-cu13==0.6.*"),
    ],
)
def test_requirement_takes_floor_of_build_environment(
    name: str, version: str, requirement: str
) -> None:
    component = component_by_name(name, 13)
    releases = {component.distribution: version} if version else {}

    line = requirement_for(component, toolkit_by_release("13.0"), "", releases)

    assert line == requirement


def test_requirement_takes_toolchain_before_build_environment() -> None:
    toolkit = toolkit_by_release("12.8")
    component = component_by_name("cudnn", 12)

    line = requirement_for(component, toolkit, "", {component.distribution: "9.1.0.70"})

    assert line == "nvidia-cudnn-cu12>=9.13,<10"


def wheels_of(cuda_home: Path) -> dict[str, Distribution]:
    """Return the wheels of the toolchain that are in the table."""
    wheels = distributions(path=[str(site_of(cuda_home))])
    return {wheel.metadata["Name"]: wheel for wheel in wheels if rows_of(wheel.metadata["Name"])}


def site_of(cuda_home: Path) -> Path:
    return cuda_home.parent.parent


def test_table_agrees_with_real_libraries(whole_cuda_home: Path) -> None:
    wheels = wheels_of(whole_cuda_home)

    faults = [
        fault
        for name, wheel in wheels.items()
        for fault in faults_of(site_of(whole_cuda_home), name, wheel.version)
    ]

    assert len(wheels) > 8
    assert faults == []


def test_opened_names_are_in_real_libraries(whole_cuda_home: Path) -> None:
    unnamed = [
        fault
        for name in wheels_of(whole_cuda_home)
        for fault in unnamed_in(site_of(whole_cuda_home), name)
    ]

    assert unnamed == []


def test_real_wheels_have_requirements_of_table(whole_cuda_home: Path) -> None:
    unrequired = {
        name: lacking
        for name, wheel in wheels_of(whole_cuda_home).items()
        if (lacking := unrequired_by(wheel.requires or (), name))
    }

    assert unrequired == {}


def test_toolchain_has_archives_of_runtime_only(whole_cuda_home: Path) -> None:
    archives = {path.stem.removeprefix("lib") for path in (whole_cuda_home / "lib").glob("*.a")}
    with_archives = [part for part in COMPONENTS if part.cuda == 13 and part.static]

    assert {part.name for part in with_archives if archives >= set(part.static)} == {"cudart"}
