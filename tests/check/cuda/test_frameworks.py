from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from cuwheel.check.cuda.frameworks import Dependency, dependencies_of, has_common_release, preloads


def majors_of(*requirements: str) -> set[int]:
    return {
        dependency.cuda
        for dependency in dependencies_of(requirements)
        if dependency.cuda is not None
    }


def names_of(*requirements: str) -> set[str]:
    return {dependency.distribution for dependency in dependencies_of(requirements)}


@pytest.mark.parametrize(
    ("requirement", "majors"),
    [
        ("torch==2.10.*", {12}),
        ("torch==2.11.*", {13}),
        ("torch==2.10.0+cu126", {12}),
        ("torch==2.14.0+cu126", {12}),
        ("torch==2.9.1+cu130", {13}),
        ("torch>=2.4,<2.9", {12}),
        ("torch<2.11", {12}),
        ("torch>2.11", {13}),
        ("torch>=2.16", {13}),
        ("torch>=2.10", {12, 13}),
        ("torch~=2.6", {12, 13}),
        ("torch!=2.11.*", {12, 13}),
        ("torch", {12, 13}),
        ("torch==1.13.1", {11}),
        ("torch>=2.0,<2.1", {11}),
        ("torch==1.12.1", set()),
        ("tensorrt==10.9.*", {12}),
        ("tensorrt>=11", {13}),
        ("cuda-toolkit[cublas]==12.*", {12}),
        ("cuda-toolkit[cublas]", {12, 13}),
        ("tensorflow[and-cuda]", {12}),
        ("tensorflow", set()),
        ("numpy>=2", set()),
    ],
)
def test_takes_majors_of_releases_that_specifier_allows(requirement: str, majors: set[int]) -> None:
    assert majors_of(requirement) == majors


def test_tells_what_starts_the_chain() -> None:
    dependencies = dependencies_of(["torch==2.11.*"])

    assert {dependency.by for dependency in dependencies} == {"torch"}
    assert Dependency(distribution="nvidia-cufft", by="torch", extra="", cuda=13) in dependencies
    assert Dependency(distribution="torch", by="torch", extra="", cuda=None) in dependencies


@pytest.mark.parametrize(
    ("requirement", "added"),
    [
        ("torch==2.6.*", "nvidia-cusparselt-cu12"),
        ("torch==2.7.*", "nvidia-cufile-cu12"),
        ("torch==2.9.*", "nvidia-nvshmem-cu12"),
        ("torch==2.14.*", "nvidia-curand"),
    ],
)
def test_knows_addition_of_a_torch_release(requirement: str, added: str) -> None:
    release = int(requirement[9:-2])
    other = release + (1 if added == "nvidia-curand" else -1)

    assert added in names_of(requirement)
    assert added not in names_of(f"torch==2.{other}.*")


def test_follows_requirements_of_nvidia_wheels() -> None:
    assert names_of("nvidia_cuSOLVER>=12") == {
        "nvidia-cusolver",
        "nvidia-cublas",
        "nvidia-cuda-nvrtc",
        "nvidia-cusparse",
        "nvidia-nvjitlink",
    }


def test_follows_extra_through_plugin() -> None:
    dependencies = dependencies_of(['jax[cuda13]>=0.8; extra == "cuda13"'])

    assert (
        Dependency(distribution="nvidia-cudnn-cu13", by="jax", extra="cuda13", cuda=13)
        in dependencies
    )


def test_local_extra_brings_plugin_alone() -> None:
    assert names_of("jax[cuda12-local]") == {"jax", "jax-cuda12-plugin", "jax-cuda12-pjrt"}


def test_keeps_extras_apart() -> None:
    lines = ['nvidia-curand; extra == "cuda13"', 'nvidia-curand-cu12; extra == "cuda12"']

    assert [(dependency.extra, dependency.cuda) for dependency in dependencies_of(lines)] == [
        ("cuda13", 13),
        ("cuda12", 12),
    ]


@pytest.mark.parametrize(
    "requirement",
    [
        'nvidia-cufft; sys_platform == "win32"',
        'nvidia-cufft; platform_machine == "aarch64"',
        "not a requirement",
    ],
)
def test_ignores_requirements_for_other_machines(requirement: str) -> None:
    assert dependencies_of([requirement]) == ()


def test_takes_either_extra_of_a_marker() -> None:
    dependencies = dependencies_of(['cupy-cuda13x[ctk]; extra == "gpu" or extra == "all"'])

    assert {dependency.extra for dependency in dependencies} == {"gpu", "all"}


@pytest.mark.parametrize("soname", ["", "libcublas.so.13", "libnvrtc-builtins.so.13.0"])
def test_torch_loads_its_libraries(soname: str) -> None:
    assert preloads("torch", soname)


@pytest.mark.parametrize(
    ("framework", "soname"),
    [
        ("torch", "libcusolverMg.so.12"),
        ("jax", ""),
        ("jax-cuda13-plugin", "libcublas.so.13"),
        ("numpy", ""),
    ],
)
def test_others_load_nothing(framework: str, soname: str) -> None:
    assert not preloads(framework, soname)


def test_takes_requirement_that_names_no_version() -> None:
    assert not has_common_release(SpecifierSet(">=2"), SpecifierSet("===foobar"))
    assert has_common_release(SpecifierSet("==2.11.*"), SpecifierSet("===2.11.0"))
    assert dependencies_of(("torch===foobar",))[0].distribution == "torch"
