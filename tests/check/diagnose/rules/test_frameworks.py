"""Verdicts on frameworks."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuwheel.check.diagnose.facts.imports import Device, FrameworkFacts
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.check.diagnose.rules.caches import judge_caches
from cuwheel.check.diagnose.rules.frameworks import judge_frameworks, judge_nvidia_wheels
from cuwheel.check.diagnose.verdict import Diagnosis
from tests.check.diagnose.samples import make_context, make_distribution
from tests.support.check.environments import Env, look_into, verdict_on

_GPU = DriverGpu(index=0, name="A", capability="90")
_TORCH = FrameworkFacts(
    name="torch",
    version="2.11.0",
    cuda="13.0",
    was_imported=True,
    archs=("sm_90",),
    available=True,
    devices=(Device(name="A", capability="90"),),
)


def judged(torch: FrameworkFacts = _TORCH, **changes: Any) -> list[tuple[str, str]]:
    """Level and anchor of each verdict."""
    facts = {"version": "580.65.06", "newest_cuda": "13.0", "gpus": (_GPU,), **changes}
    context = make_context(frameworks=(torch,), driver=Driver(**facts))
    verdicts = judge_frameworks(context, {})
    return [(verdict.level, verdict.anchor) for verdict in verdicts]


@pytest.mark.parametrize("version", ["580.65.06", "580.105.08", "590.1", "1000.10.01", ""])
def test_takes_driver_that_is_new_enough(version: str) -> None:
    assert judged(version=version) == [("ok", "")]


@pytest.mark.parametrize("version", ["580.9.10", "580.65.05", "575.57.08", "99.100.0"])
def test_names_driver_below_the_oldest_of_its_cuda(version: str) -> None:
    assert judged(version=version) == [("broken", "driver-too-old")]


@pytest.mark.parametrize(("gpus", "level"), [((_GPU,), "broken"), ((), "note")])
def test_needs_cuda_only_where_there_is_a_gpu(gpus: tuple[DriverGpu, ...], level: str) -> None:
    torch = FrameworkFacts(name="torch", version="2+cpu", is_cpu_only=True, was_imported=True)

    assert judged(torch, gpus=gpus) == [(level, "built-without-cuda")]


@pytest.mark.parametrize(
    ("reasons", "levels"), [({"cublas": "libcublas.so.12: no"}, ["note", "ok"]), ({}, ["ok"])]
)
def test_names_parts_that_only_their_first_use_would_show(
    reasons: dict[str, str], levels: list[str]
) -> None:
    cupy = FrameworkFacts(name="cupy", version="14", was_imported=True, lacking=reasons)
    context = make_context(make_distribution("cupy-cuda12x"), frameworks=(cupy,))

    assert [one.level for one in judge_frameworks(context, {})] == levels


@pytest.mark.parametrize(
    ("cuda", "stub", "anchor"),
    [(None, "580.65.06", "built-without-cuda"), ("13.0", "535.104.05", "driver-too-old")],
)
def test_names_torch_that_does_not_fit(
    env: Env, driver: Path, cuda: str | None, stub: str, anchor: str
) -> None:
    env.install_torch(cuda=cuda, available=cuda is not None)

    report = look_into(env, LD_LIBRARY_PATH=str(driver), STUB_DRIVER=stub)

    assert verdict_on(report, anchor).level == "broken"


@pytest.mark.parametrize(
    ("line", "anchor"),
    [
        ("raise ImportError('libcudnn.so.9: cannot open shared object')", "libcudnn-not-found"),
        ("raise ImportError('x: undefined symbol: __nvJitLinkGet_12_4')", "nvjitlink-mismatch"),
        ("raise ImportError('x: undefined symbol: ncclCommRegister')", "nccl-version-mismatch"),
        ("raise ImportError('version `GLIBCXX_3.4.32` not found')", "glibcxx-too-old"),
        ("raise ImportError('version `GLIBC_2.38` not found')", "glibc-too-old"),
        ("raise ValueError('odd')", "diagnose-import-failed"),
        ("import os; os.abort()", "diagnose-import-failed"),
    ],
)
def test_explains_failed_import_of_torch(env: Env, line: str, anchor: str) -> None:
    env.install_torch(more=line)

    report = look_into(env)

    assert verdict_on(report, anchor).level == "broken"
    assert report.environment.frameworks[0].cuda == "13.0"


_JAX = FrameworkFacts(name="jax", version="0.8.1", was_imported=True, available=False)
_REFUSED = "JAX plugin jax_cuda13_plugin version 0.8.2 is installed, so it will not be used"


def judged_jax(jax: FrameworkFacts, *names: str, **environ: str) -> Diagnosis:
    parts = [make_distribution(name, version="0.8.1") for name in ("jax", "jaxlib", *names)]
    driver = Driver(version="580.65.06", newest_cuda="13.0", gpus=(_GPU,), visible=1)
    context = make_context(*parts, frameworks=(jax,), driver=driver, environ=environ)
    [verdict] = judge_frameworks(context, {})
    return verdict


def test_finds_jax_that_runs_on_the_cpu() -> None:
    verdict = judged_jax(_JAX)

    assert (verdict.level, verdict.anchor) == ("broken", "no-cuda-device")
    assert "runs on the CPU" in verdict.what
    assert verdict.command.endswith("install 'jax[cuda13]==0.8.1'")


def test_names_variable_that_keeps_jax_on_the_cpu() -> None:
    jax = replace(_JAX, cuda="13")

    verdict = judged_jax(jax, "jax-cuda13-plugin", JAX_PLATFORMS="cpu")

    assert verdict.command == "unset JAX_PLATFORMS"


def test_finds_plugin_that_jax_refuses() -> None:
    jax = replace(_JAX, cuda="13", why_not=_REFUSED)

    verdict = judged_jax(jax, "jax-cuda13-plugin")

    assert verdict.cause == _REFUSED
    assert verdict.command.endswith("install jax-cuda13-plugin==0.8.1")


_UNLOADED = "Unable to load {}. Is it installed?"


@pytest.mark.parametrize(
    ("why", "installed", "command"),
    [
        ("CUDA", (), "'jax-cuda13-plugin[with-cuda]==0.8.1' 'nvidia-cuda-cupti==13.0.*'"),
        ("cuPTI", ("nvidia-cuda-cupti",), "'nvidia-cuda-cupti==13.0.*'"),
        ("cuFFT", ("nvidia-cuda-cupti",), ""),
    ],
)
def test_takes_the_cupti_that_jax_is_built_for(
    why: str, installed: tuple[str, ...], command: str
) -> None:
    wants = ('nvidia-cuda-cupti>=13.0.48; extra == "with-cuda"',)
    plugin = make_distribution("jax-cuda13-plugin", version="0.8.1", requires=wants)
    others = (make_distribution(name, version="13.5.1") for name in installed)
    jax = replace(_JAX, cuda="13", why_not=_UNLOADED.format(why))
    own = make_distribution("jax", version="0.8.1")
    context = make_context(own, plugin, *others, frameworks=(jax,))

    [verdict] = judge_frameworks(context, {})

    assert verdict.command.partition("install ")[2] == command


def test_names_call_in_which_jax_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "check.py"
    file.write_text('version = get()\n_check("cuPTI", get)\n')
    frames = (f'  File "{file}", line {line} in check' for line in (1, 2))
    trouble = "\n".join((*frames, "it ended with signal 11"))
    wants = ('nvidia-cuda-cupti>=13.0.48; extra == "with-cuda"',)
    plugin = make_distribution("jax-cuda13-plugin", requires=wants)
    jax = replace(_JAX, cuda="13", trouble=trouble)
    context = make_context(make_distribution("jax"), plugin, frameworks=(jax,))

    [verdict] = judge_frameworks(context, {})

    assert verdict.level == "broken"
    assert '`version = get()` in `_check("cuPTI", get)`' in verdict.cause
    assert verdict.command.endswith("install 'nvidia-cuda-cupti==13.0.*'")


@pytest.mark.parametrize("pjrt", [False, True])
def test_claims_no_cuda_for_half_a_plugin(*, pjrt: bool) -> None:
    names = ("jax", "jax-cuda13-plugin", *["jax-cuda13-pjrt"] * pjrt)
    jax = replace(_JAX, cuda="13")
    context = make_context(*map(make_distribution, names), frameworks=(jax,))

    [verdict] = judge_frameworks(context, {})

    assert verdict.what == "jax 0.8.1 can be imported" + ", CUDA 13" * pjrt


@pytest.mark.parametrize(
    ("soname", "level"), [("libcudart.so.12", "warning"), ("libcudart.so.13", "note")]
)
def test_compares_libraries_of_conda_with_cupy(tmp_path: Path, soname: str, level: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / soname).touch()
    lacking = {"cublas": "no libcublas listdir(/lib)"}
    cupy = FrameworkFacts(
        name="cupy", version="14", cuda="13.2", was_imported=True, lacking=lacking
    )
    context = make_context(make_distribution("cupy-cuda13x"), frameworks=(cupy,))
    conda = replace(context.environment, prefix=tmp_path, is_conda=True)

    first, _ = judge_frameworks(replace(context, environment=conda), {})

    assert first.level == level
    assert "listdir" not in first.cause


def test_names_folder_of_kernels_that_can_not_be_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.touch()
    distribution = make_distribution("cupy-cuda13x")
    context = make_context(distribution, environ={"HOME": str(home)})

    [verdict] = judge_caches(context)

    assert str(home / ".cupy") in verdict.what
    writable = make_context(distribution, environ={"CUPY_CACHE_DIR": str(tmp_path / "new")})
    assert list(judge_caches(writable)) == []


@pytest.mark.parametrize(
    ("variable", "project", "free", "flag", "end"),
    [
        ("TORCHINDUCTOR_CACHE_DIR", "torch", 1 << 30, os.ST_NOEXEC, "is mounted with noexec"),
        ("TORCHINDUCTOR_CACHE_DIR", "torch", 1 << 30, 0, ""),
        ("TORCHINDUCTOR_CACHE_DIR", "numba", 1 << 30, os.ST_NOEXEC, ""),
        ("NUMBA_CACHE_DIR", "numba", 1 << 30, os.ST_NOEXEC, ""),
        ("TMPDIR", "numba", 1 << 20, 0, "has 1.0 MiB free"),
        ("TMPDIR", "numpy", 1 << 20, 0, ""),
    ],
)
def test_names_folder_for_what_is_compiled(  # noqa: PLR0913, PLR0917 - a table's columns
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    project: str,
    free: int,
    flag: int,
    end: str,
) -> None:
    usage = SimpleNamespace(total=1 << 40, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    status = SimpleNamespace(f_flag=flag, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    environ = {variable: str(tmp_path / "new")}

    verdicts = [*judge_caches(make_context(make_distribution(project), environ=environ))]

    assert [one.what.endswith(end) for one in verdicts] == [True] * bool(end)
    assert not any(one.command for one in verdicts), "the usual folder is of no use either"


def test_brings_back_the_usual_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ = {"TRITON_CACHE_DIR": str(tmp_path / "file"), "HOME": str(tmp_path)}

    [verdict] = judge_caches(make_context(make_distribution("triton"), environ=environ))

    assert verdict.what.endswith("file is no folder")
    assert verdict.command == verdict.fix == "unset TRITON_CACHE_DIR"
    environ = {"NUMBA_CACHE_DIR": str(tmp_path / "file"), "HOME": str(tmp_path)}
    [verdict] = judge_caches(make_context(make_distribution("numba"), environ=environ))
    assert verdict.command.startswith('export NUMBA_CACHE_DIR="$(mktemp -d -p ')


def problems_of_jax(*installed: str, why: str = "") -> list[Diagnosis]:
    jax = FrameworkFacts(name="jax", version="0.7.2", cuda="12", was_imported=True, why_not=why)
    wants = ('nvidia-cudnn-cu12; extra == "with-cuda"',)
    parts = [make_distribution(name, requires=wants) for name in installed]
    parts += [make_distribution("jax"), make_distribution("jaxlib", version="2.0")]
    context = make_context(*parts, frameworks=(jax,))
    return [one for one in judge_frameworks(context, {}) if one.level != "ok"]


@pytest.mark.parametrize("wheel", ["nvidia-cudnn-cu12", "nvidia-cudnn-cu13"])
def test_names_second_plugin_of_jax(wheel: str) -> None:
    plugins = ("jax-cuda12-plugin", "jax-cuda13-plugin")
    [verdict] = problems_of_jax(*plugins, wheel)

    [kept] = [name for name in plugins if name[8:10] == wheel[-2:]]
    assert verdict.anchor == "diagnose-mixed-cuda"
    assert kept not in verdict.command
    assert problems_of_jax(kept, wheel) == []


@pytest.mark.parametrize(
    ("why", "command"),
    [
        ("Unable to load cuDNN. Is it installed?", "'jax-cuda12-plugin[with-cuda]==1.0'"),
        ("JAX plugin will not be used", "jax-cuda12-plugin==2.0"),
        (
            "JAX plugin will not be used; Unable to load CUDA. Is it installed?",
            "'jax-cuda12-plugin[with-cuda]==2.0'",
        ),
        ("operation cuInit(0) failed", ""),
    ],
)
def test_installs_libraries_of_the_plugin(why: str, command: str) -> None:
    verdicts = problems_of_jax("jax-cuda12-plugin", why=why)

    assert [one.command.rpartition(" ")[2] for one in verdicts] == [command] * bool(command)


@pytest.mark.parametrize("flags", ["--a", ""])
def test_names_variable_with_which_cudnn_ends_the_process(env: Env, flags: str) -> None:
    ends = "import os\nclass backends:\n class cudnn: "
    ends += "version = staticmethod(lambda: os.environ.get('XLA_FLAGS') and os.abort())"
    env.install_torch(more=ends)

    found = [one.command for one in look_into(env, XLA_FLAGS=flags).verdicts if one.command]

    assert found == ["unset XLA_FLAGS"] * bool(flags)


@pytest.mark.parametrize(("installed", "start"), [(True, "export LD_"), (False, "")])
def test_names_compiler_of_kernels_that_cupy_does_not_open(*, installed: bool, start: str) -> None:
    trouble = "RuntimeError: CuPy failed to load libnvrtc.so.12: OSError"
    cupy = FrameworkFacts(name="cupy", version="13", was_imported=True, trouble=trouble)
    wheels = [make_distribution("nvidia-cuda-nvrtc-cu12")] * installed
    own = make_distribution("cupy-cuda12x")
    [verdict] = judge_frameworks(make_context(own, *wheels, frameworks=(cupy,)), {})

    assert verdict.anchor == "libnvrtc-missing"
    assert verdict.command.startswith(start or "python -m pip install nvidia-cuda-nvrtc-cu12 && ")


@pytest.mark.parametrize(
    ("requirer", "needed", "level", "has_command"),
    [("", "", "note", True), ("", "12", "warning", True), ("user", "", "warning", False)],
)
def test_takes_wheels_that_nothing_requires_for_no_fault(
    requirer: str, needed: str, level: str, *, has_command: bool
) -> None:
    torch = FrameworkFacts(name="torch", version="2", cuda="13.0", was_imported=True)
    wheels = [make_distribution("nvidia-nccl-cu12"), make_distribution("nvidia-nccl-cu13")]
    user = make_distribution("user", requires=("nvidia-nccl-cu12",) if requirer else ())
    context = make_context(make_distribution("torch"), user, *wheels, frameworks=(torch,))

    [verdict] = judge_nvidia_wheels(context, frozenset(), frozenset(filter(None, [needed])))

    assert (verdict.level, bool(verdict.command)) == (level, has_command)
