"""What is said of requirements that aren't met."""

from __future__ import annotations

import pytest

from tests.support.diagnosed import Env, anchors, look_into, verdict_on


def test_names_missing_nvidia_wheel(env: Env) -> None:
    env.install_torch(requires=("nvidia-cuda-runtime==13.0.96; platform_system == 'Linux'",))

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert found.level == "broken"
    assert found.what == "torch 2.11.0 requires nvidia-cuda-runtime==13.0.96"
    assert found.command.endswith(" nvidia-cuda-runtime==13.0.96")


def test_follows_extras_of_toolkit(env: Env) -> None:
    env.install_torch(requires=("cuda-toolkit[cublas]==13.0.2",))
    env.install(
        "cuda_toolkit",
        version="13.0.2",
        requires=('nvidia-cublas==13.1.0.3; extra == "cublas"', 'other; extra == "other"'),
    )

    found = verdict_on(look_into(env), "cuda-math-lib-not-found")

    assert found.what == "cuda-toolkit 13.0.2 requires nvidia-cublas==13.1.0.3"


def test_names_nvidia_wheel_of_other_version(env: Env) -> None:
    env.install_torch(requires=("nvidia-nvjitlink==13.0.88",))
    env.install("nvidia_nvjitlink", version="13.0.39")

    found = verdict_on(look_into(env), "nvjitlink-mismatch")

    assert (found.level, found.cause) == ("warning", "13.0.39 is installed")


def test_installs_all_that_is_missing_at_once(env: Env) -> None:
    names = ("cublas", "cufft", "curand", "cusolver")
    env.install_torch(requires=tuple(f"nvidia-{name}==1.0" for name in names))

    found = verdict_on(look_into(env), "cuda-math-lib-not-found")

    assert found.what == "torch 2.11.0 lacks 4 of the packages that it requires"
    assert found.command.endswith(" torch==2.11.0")


@pytest.mark.parametrize("owner", ["tensorflow", "triton", "ext"])
def test_names_unmet_requirement_of_framework_part_and_gpu_package(env: Env, owner: str) -> None:
    files = {"ext/libext.so": env.extension("", "libcuda.so.1")} if owner == "ext" else {}
    env.install(owner, files, requires=("numpy>=2",))

    found = verdict_on(look_into(env), "diagnose-versions")

    assert found.what == f"{owner} 1.2.3 requires numpy>=2"
    assert found.level == ("broken" if owner == "tensorflow" else "warning")


def test_is_silent_on_what_has_no_gpu_code(env: Env) -> None:
    env.install("other", requires=("numpy>=2",))

    assert "diagnose-versions" not in anchors(look_into(env))


def test_prints_no_command_where_two_packages_exclude_each_other(env: Env) -> None:
    env.install_torch(requires=("triton==3.6.0",))
    env.install("triton", version="3.3.0")
    env.install("other", requires=("triton==3.3.0",))

    found = verdict_on(look_into(env), "diagnose-versions")

    assert found.command == ""
    assert found.fix.startswith("other requires triton==3.3.0: use a separate environment for each")


@pytest.mark.parametrize(
    ("asked", "is_installable"),
    [
        ("triton>=3.4,==3.5.*", True),
        ("triton===3.6.0", True),
        ("triton==3.6.0", False),
        ("triton==3.6.0,>=3.4", False),
    ],
)
def test_holds_single_releases_against_what_others_require(
    env: Env, asked: str, *, is_installable: bool
) -> None:
    env.install_torch(requires=(asked,))
    env.install("triton", version="3.3.0")
    env.install("other", requires=("triton<3.6",))

    found = verdict_on(look_into(env), "diagnose-versions")

    assert bool(found.command) == is_installable
    assert found.fix.startswith("other requires triton<3.6: ") != is_installable


def test_does_not_hold_a_package_against_itself(env: Env) -> None:
    env.install_torch(requires=("triton==3.6.0", "triton<3.6"))

    found = verdict_on(look_into(env), "diagnose-versions")

    assert "a separate environment" not in found.fix


@pytest.mark.parametrize(
    ("asked", "ending"),
    [
        ("triton==3.6.0+cu128", ""),
        ("triton@ https://host.test/triton.whl", " 'triton @ https://host.test/triton.whl'"),
    ],
)
def test_asks_the_index_only_for_what_it_may_have(env: Env, asked: str, ending: str) -> None:
    env.install_torch(requires=(asked,))

    found = verdict_on(look_into(env), "diagnose-versions")

    assert found.what.startswith("torch 2.11.0 requires triton")
    assert found.command.endswith(ending)
    assert bool(found.command) == bool(ending)
