"""Requirements that aren't met, NVIDIA's wheels, and the verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.rules.elsewhere import judge_absent
from cuwheel.check.diagnose.rules.requirements import (
    UnmetJudge,
    extra_fix,
    find_unmet_requirements,
)
from tests.check.diagnose.samples import make_context, make_distribution, make_environment
from tests.support.check.environments import CALL_OF_TORCH, Env, anchors, look_into, verdict_on


def unmet(**installed: tuple[str, ...]) -> list[str]:
    """Return the unmet requirements of distributions, each of version 1.0."""
    distributions = (make_distribution(name, requires=lines) for name, lines in installed.items())
    return [
        f"{unmet.owner} wants {unmet.text}, has {unmet.installed or 'none'}"
        for unmet in find_unmet_requirements(make_environment(*distributions))
    ]


def test_finds_nothing_where_all_agree() -> None:
    assert unmet(a=("b>=1", "c; sys_platform == 'win32'"), b=()) == []


def test_finds_missing_and_other_version() -> None:
    problems = unmet(a=("b==2.0", "C_c<3"), b=())

    assert problems == ["a 1.0 wants b==2.0, has 1.0", "a 1.0 wants C_c<3, has none"]


def test_follows_extra_only_where_it_is_required() -> None:
    wants = ('c; extra == "x"', 'd; extra == "y"')

    assert unmet(a=("b[x]",), b=wants) == ["b 1.0 wants c, has none"]
    assert unmet(b=wants) == []


def test_goes_on_past_what_is_no_requirement() -> None:
    assert unmet(a=("!!", "b ; nonsense == 'x'", "c")) == ["a 1.0 wants c, has none"]


def test_ends_where_extras_require_each_other() -> None:
    assert unmet(a=('b[x]; extra == "x"', "a[x]"), b=('a[x]; extra == "x"',)) == []


def test_finds_own_part_that_no_extra_takes() -> None:
    wants = ('jax-gpu==2.0; extra == "gpu"', 'jax-gpu<1; extra == "old"', 'b==9; extra == "gpu"')

    problems = unmet(jax=wants, **{"jax-gpu": ()}, b=())

    assert problems == ["jax 1.0 wants jax-gpu==2.0, has 1.0"]
    assert unmet(jax=(*wants, 'jax-gpu; extra == "a"'), **{"jax-gpu": ()}) == []
    # As faiss-gpu: an extra for an older release of what is required anyway.
    assert unmet(jax=(*wants, "jax-gpu>=1"), **{"jax-gpu": ()}) == []


@pytest.mark.parametrize(
    ("installed", "level", "anchor"),
    [("", "broken", "cuda-math-lib-not-found"), ("13.0.39", "warning", "nvjitlink-mismatch")],
)
def test_names_nvidia_wheel(env: Env, installed: str, level: str, anchor: str) -> None:
    env.install_torch(requires=("nvidia-nvjitlink==13.0.88; platform_system == 'Linux'",))
    if installed:
        env.install("nvidia_nvjitlink", version=installed)

    verdict = verdict_on(look_into(env), anchor)

    assert verdict.level == level
    assert verdict.what == "torch 2.11.0 requires nvidia-nvjitlink==13.0.88"
    assert verdict.command.endswith(" nvidia-nvjitlink==13.0.88")


def test_follows_extras_of_toolkit(env: Env) -> None:
    env.install_torch(requires=("cuda-toolkit[cublas]==13.0.2",))
    env.install(
        "cuda_toolkit",
        version="13.0.2",
        requires=('nvidia-cublas==13.1.0.3; extra == "cublas"', 'other; extra == "other"'),
    )

    verdict = verdict_on(look_into(env), "cuda-math-lib-not-found")

    assert verdict.what == "cuda-toolkit 13.0.2 requires nvidia-cublas==13.1.0.3"


@pytest.mark.parametrize("owner", ["tensorflow", "triton", "ext"])
def test_names_unmet_requirement_of_framework_part_and_gpu_package(env: Env, owner: str) -> None:
    files = {"ext/libext.so": env.extension("", "libcuda.so.1")} if owner == "ext" else {}
    env.install(owner, files, requires=("numpy>=2",))

    verdict = verdict_on(look_into(env), "diagnose-versions")

    assert verdict.what == f"{owner} 1.2.3 requires numpy>=2"
    assert verdict.level == ("broken" if owner == "tensorflow" else "warning")


def test_is_silent_on_what_has_no_gpu_code(env: Env) -> None:
    env.install("other", requires=("numpy>=2",))

    assert "diagnose-versions" not in anchors(look_into(env))


@pytest.mark.parametrize(
    ("requirement", "of_other", "is_installable"),
    [
        ("triton>=3.4,==3.5.*", "triton<3.6", True),
        ("triton===3.6.0", "triton<3.6", True),
        ("triton==3.6.0", "triton<3.6", False),
        ("triton==3.6.0,>=3.4", "triton<3.6", False),
        ("triton==3.6.0", "triton==3.3.0", False),
    ],
)
def test_compares_single_releases_with_requirements_of_others(
    env: Env, requirement: str, of_other: str, *, is_installable: bool
) -> None:
    env.install_torch(requires=(requirement,))
    env.install("triton", version="3.3.0")
    env.install("other", requires=(of_other,))

    verdict = verdict_on(look_into(env), "diagnose-versions")

    assert bool(verdict.command) == is_installable
    assert verdict.fix.startswith(f"other requires {of_other}: ") != is_installable


@pytest.mark.parametrize(
    ("requirements", "ending"),
    [
        (("triton==3.6.0", "triton<3.6"), " triton==3.6.0 'triton<3.6'"),
        (("triton==3.6.0+cu128",), ""),
        (("triton@ https://host.test/t.whl",), " 'triton @ https://host.test/t.whl'"),
    ],
)
def test_installs_from_the_index_only_what_it_may_have(
    env: Env, requirements: tuple[str, ...], ending: str
) -> None:
    env.install_torch(requires=requirements)

    verdict = verdict_on(look_into(env), "diagnose-versions")

    assert verdict.what.startswith("torch 2.11.0 ")
    assert verdict.command.endswith(ending)
    assert bool(verdict.command) == bool(ending)


def test_names_mixed_majors(env: Env) -> None:
    env.install_torch()
    env.install("nvidia_cublas_cu12")
    env.install("nvidia_cublas")
    library = env.extension(CALL_OF_TORCH % ("sound()", "sound()"), "libcudart.so.12", "libc10.so")
    lib = env.compile("libcudart.so.12", "")
    env.install("ext", {"ext/libext.so": library, "ext/libcudart.so.12": lib})

    report = look_into(env, LD_LIBRARY_PATH=str(env.site / "ext"))

    verdicts = [verdict for verdict in report.verdicts if verdict.anchor == "diagnose-mixed-cuda"]
    assert [(verdict.level, verdict.what[:9]) for verdict in verdicts] == [
        ("warning", "the NVIDI"),
        ("broken", "ext 1.2.3"),
    ]


def test_unused_wheels_of_two_majors_are_a_note(env: Env) -> None:
    env.install("nvidia_cublas_cu12")
    env.install("nvidia_cublas")

    assert verdict_on(look_into(env), "diagnose-mixed-cuda").level == "note"


def test_removes_only_wheels_that_nothing_requires(env: Env) -> None:
    env.install_torch()
    env.install("nvidia_cublas")
    env.install("nvidia_cublas_cu12")
    env.install("nvidia_cudnn_cu12", requires=("nvidia-cublas-cu12",))
    env.install("nvidia_cufft_cu12")
    env.install("other", requires=("nvidia-cufft-cu12",))

    verdict = verdict_on(look_into(env), "diagnose-mixed-cuda")

    assert verdict.command.endswith(" nvidia-cublas-cu12 nvidia-cudnn-cu12")


@pytest.mark.parametrize(
    ("owner", "wanted", "more", "count"),
    [
        ("plugin", ">=9.8", "", 1),
        ("plugin", ">=1", "", 0),
        ("plugin", ">=9.8", "nvidia-cufft-cu12", 0),  # which isn't there: nobody asked for it
        ("cuda-toolkit", ">=9.8", "", 0),
    ],
)
def test_finds_nvidia_wheel_that_no_extra_takes(
    owner: str, wanted: str, more: str, count: int
) -> None:
    names = [f"nvidia-cudnn-cu12{wanted}", *filter(None, [more])]
    wants = tuple(f'{name}; extra == "cuda"' for name in names)

    assert len(unmet(**{owner: wants, "nvidia-cudnn-cu12": ()})) == count


@pytest.mark.parametrize(
    ("installed", "major", "command"),
    [
        ((), "", "'numba-cuda[cu13]==1.0'"),
        ((), "13", "'numba-cuda[cu13]==1.0'"),
        (("nvidia-nvvm",), "", "'numba-cuda[cu13]==1.0'"),
        (("nvidia-nvvm", "cuda-bindings"), "", ""),
    ],
)
def test_takes_the_extra_with_the_libraries(
    installed: tuple[str, ...], major: str, command: str
) -> None:
    wants = (
        'nvidia-cuda-nvcc-cu12; extra == "cu12"',
        'nvidia-nvvm; extra == "cu13"',
        'cuda-bindings; extra == "cu13"',
        'numba-cuda[cu12]; extra == "test-cu12"',
    )
    own = make_distribution("numba-cuda", requires=wants)
    torch = FrameworkFacts(name="torch", version="2", cuda=f"{major}.0") if major else None
    context = make_context(
        own, *map(make_distribution, installed), frameworks=(torch,) if torch else ()
    )

    assert extra_fix(context, own)[1].rpartition("install ")[2] == command


@pytest.mark.parametrize(
    ("of_jax", "of_part", "roots"),
    [
        ("plugin>=2", "part==1", {"jax"}),
        ("plugin>=1", "part==1", {"plugin"}),
        ("plugin>=2", "jax==2", {"jax", "plugin"}),
    ],
)
def test_judges_no_needs_of_a_release_that_goes(of_jax: str, of_part: str, roots: set[str]) -> None:
    own = (make_distribution("jax", requires=(of_jax,)), make_distribution("part", version="2"))
    context = make_context(*own, make_distribution("plugin", requires=(of_part,)))
    unmet = find_unmet_requirements(context.environment)
    examined = frozenset(context.environment.distributions)

    judge = UnmetJudge(context=context, unmet=unmet, examined=examined, cuda={})

    assert judge.judge().keys() == roots


def test_takes_parts_of_nvcc_of_its_release() -> None:
    nvcc = make_distribution("nvidia-cuda-nvcc", version="13.0.88", requires=("nvidia-nvvm", "a"))
    context = make_context(nvcc)
    unmet = find_unmet_requirements(context.environment)

    [verdict] = (
        UnmetJudge(context=context, unmet=unmet, examined=frozenset({nvcc.name}), cuda={})
        .judge()
        .values()
    )

    assert verdict.command.endswith(" install 'nvidia-nvvm==13.0.*' a")


@pytest.mark.parametrize(
    ("files", "anchor", "command"),
    [
        ((), "diagnose-not-installed", "python -m pip install torch"),
        (("site/torch/version.py",), "diagnose-damaged-installation", "torch==2.0"),
        (("site/torch/lib/a",), "diagnose-damaged-installation", ""),
        (("lib/python3.9/site-packages/torch-2.0.dist-info/a",), "diagnose-not-installed", ""),
        (("site/torch/a", "site/own/RECORD"), "diagnose-not-installed", "install torch"),
    ],
)
def test_names_what_is_left_of_a_project(
    tmp_path: Path, files: tuple[str, ...], anchor: str, command: str
) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("torch/a,," if "RECORD" in file else "__version__ = '2.0'\n")
    context = make_context(make_distribution("own", metadata=tmp_path / "site" / "own"))
    scheme = {"purelib": tmp_path / "site"}
    environment = replace(context.environment, prefix=tmp_path, scheme=scheme)

    verdict = judge_absent(replace(context, environment=environment), "torch", "torch")

    assert (verdict.level, verdict.anchor) == ("broken", anchor)
    assert verdict.command.endswith(command)
    assert bool(verdict.command) == bool(command)
