"""Variables with which a program fails, and the part of their value."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from cuwheel.check.diagnose.facts.variables import VariableChange, find_culprit, without_entry
from cuwheel.check.diagnose.rules.variables import judge_named, judge_switches


@pytest.mark.parametrize(
    ("value", "command"),
    [
        ("/bad", "unset LD_LIBRARY_PATH"),
        ("/good:/bad:/other one", "export LD_LIBRARY_PATH='/good:/other one'"),
        ("/bad/:/good", "export LD_LIBRARY_PATH=/good"),
    ],
)
def test_takes_only_the_folder_that_does_harm(value: str, command: str) -> None:
    def works(environ: Mapping[str, str]) -> bool:
        return "/bad" not in environ.get("LD_LIBRARY_PATH", "")

    change = find_culprit(works, {"LD_LIBRARY_PATH": value, "CUDA_HOME": "/cuda"})

    assert change is not None
    assert change.command == command


def test_names_variable_among_several() -> None:
    environ = {"NUMBA_BAD": "1", "PYTHONPATH": "/a", "HOME": "/"}

    change = find_culprit(lambda variables: "NUMBA_BAD" not in variables, environ)

    assert change == VariableChange(name="NUMBA_BAD", taken="1")


@pytest.mark.parametrize("environ", [{}, {"HOME": "/"}, {"LD_LIBRARY_PATH": "/a"}])
def test_blames_no_variable_without_which_it_fails_too(environ: dict[str, str]) -> None:
    assert find_culprit(lambda _: False, environ) is None


def test_changes_no_list_without_the_entry() -> None:
    assert without_entry({"PYTHONPATH": "/a:/b"}, "PYTHONPATH", "/c") is None


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("CUDA_VISIBLE_DEVICES", "", 1),
        ("CUDA_VISIBLE_DEVICES", "-1", 1),
        ("CUDA_VISIBLE_DEVICES", "0,1", 0),
        ("JAX_PLATFORMS", "cpu", 1),
        ("JAX_PLATFORMS", "cuda,cpu", 0),
        ("NUMBA_DISABLE_CUDA", "1", 0),
    ],
)
def test_names_variable_that_switches_the_gpu_off(
    name: str, value: str, count: int, tmp_path: Path
) -> None:
    verdicts = list(judge_switches({name: value}, {"jax"}, tmp_path, has_gpu=False))

    assert [one.command for one in verdicts] == [f"unset {name}"] * count
    assert list(judge_switches({name: value}, {"jax"}, tmp_path, has_gpu=True)) == []


@pytest.mark.parametrize(
    ("line", "variable", "projects", "place"),
    [
        ("threading_layer: tbb", None, {"numba", "pyyaml"}, "file"),
        ("threading_layer: tbb", None, {"numba", "pyyaml", "tbb"}, ""),
        ("threading_layer: omp", None, {"numba", "pyyaml"}, ""),
        ("enable_cudasim: 1", None, {"numba", "pyyaml"}, "file"),
        ("enable_cudasim : true  # for tests", None, {"numba", "pyyaml"}, "file"),
        ("enable_cudasim: 0", "1", {"numba"}, "variable"),
        ("enable_cudasim: 1", "0", {"numba", "pyyaml"}, ""),
        ("enable_cudasim: 1", None, {"numba"}, ""),
        ("enable_cudasim: 1", None, {"pyyaml"}, ""),
        ("other: 1", None, {"numba", "pyyaml"}, ""),
    ],
)
def test_names_lines_of_numbas_file(
    line: str, variable: str | None, projects: set[str], place: str, tmp_path: Path
) -> None:
    file = tmp_path / ".numba_config.yaml"
    file.write_text(f"opt: 3\n{line}\n")
    environ = {"NUMBA_ENABLE_CUDASIM": variable} if variable else {}

    verdicts = list(judge_switches(environ, projects, tmp_path, has_gpu=True))

    assert [verdict.level for verdict in verdicts] == ["warning"] * bool(place)
    for verdict in verdicts:
        assert (str(file) in verdict.what) == (place == "file")
        subprocess.run(["bash", "-c", verdict.command], check=True)
    assert file.read_text() == "opt: 3\n" + f"{line}\n" * (place != "file")


@pytest.mark.parametrize(
    ("variable", "installed", "cause"),
    [
        ("CXX=/no/g++ -O2", "", "would run it"),
        ("CXX=sh -c", "", ""),
        ("NVCC_CCBIN=/usr/bin", "", ""),
        ("TORCH_CUDA_ARCH_LIST=sm80", "torch", "Unknown CUDA arch"),
        ("TORCH_CUDA_ARCH_LIST=8.0,9.0", "torch", "Unknown CUDA arch"),
        ("TORCH_CUDA_ARCH_LIST=sm80", "numba", ""),
        ("TORCH_CUDA_ARCH_LIST=8.0 9.0a+PTX;Volta+Tegra;", "torch", ""),
        ("KERAS_BACKEND=torch", "keras", "torch isn't installed"),
        ("KERAS_BACKEND=tensorflow", "keras tensorflow-cpu", ""),
        ("KERAS_BACKEND=own", "keras", ""),
        ("DGLBACKEND=pytorch", "torch", ""),
        ("NUMBA_CPU_FEATURES=avx512f", "numba", "ends in LLVM"),
        ("NUMBA_CPU_FEATURES=+avx2, -sse", "numba", "ends in LLVM"),
        ("NUMBA_CPU_FEATURES=+sse4.2,-64bit-mode,", "numba", ""),
        ("NUMBA_CPU_FEATURES=avx512f", "torch", ""),
        ("SETUPTOOLS_USE_DISTUTILS=stdlib", "setuptools", "has no distutils"),
        ("SETUPTOOLS_USE_DISTUTILS=local", "setuptools", ""),
        ("SETUPTOOLS_USE_DISTUTILS=stdlib", "pip", ""),
    ],
)
def test_names_variable_that_names_nothing(variable: str, installed: str, cause: str) -> None:
    name, _, value = variable.partition("=")

    verdicts = list(judge_named({name: value, "PATH": "/bin"}, installed.split(), "3.12"))

    assert [one.command for one in verdicts] == [f"unset {name}"] * bool(cause)
    assert all(cause in one.cause for one in verdicts)


def test_tries_variables_of_paths_before_all_others() -> None:
    environ = {**{f"A{number}": "" for number in range(64)}, "PYTHONPATH": "/a"}
    trials = []

    def works(variables: Mapping[str, str]) -> bool:
        trials.append(variables)
        return "PYTHONPATH" not in variables

    assert find_culprit(works, environ) == VariableChange(name="PYTHONPATH", taken="/a")
    assert len(trials) == 3


@pytest.mark.parametrize(
    ("environ", "has_entry", "count"),
    [
        ({}, False, 1),
        ({"USER": "a"}, False, 0),
        ({}, True, 0),
    ],
)
def test_names_user_without_name(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], count: int, *, has_entry: bool
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0 if has_entry else 4321234)

    verdicts = [*judge_named({"PATH": "/bin", **environ}, ("torch",))]

    assert [one.command for one in verdicts] == ["export USER=user4321234"] * count
