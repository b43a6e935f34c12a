"""Toolkits and compilers of machines that aren't as they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.diagnose.facts import installed_toolkits
from cuwheel.diagnose.facts.environment import FrameworkFacts
from cuwheel.diagnose.facts.installed_toolkits import find_installations
from cuwheel.diagnose.rules.toolkit import judge_installations
from tests.support.factories import write_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.diagnose.verdict import Verdict

_SAYS = "Cuda compilation tools, release {}, V{}.88"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a toolkit in the usual places."""
    monkeypatch.setattr(installed_toolkits, "_LOCAL", tmp_path / "local")
    monkeypatch.setattr(installed_toolkits, "_DISTRIBUTIONS", tmp_path / "usr" / "bin" / "nvcc")


def write_nvcc(folder: Path, release: str, script: str = "") -> Path:
    """A stand-in for an nvcc that this machine doesn't have: it only says which one it is."""
    program = folder / "bin" / "nvcc"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script or f'echo {_SAYS.format(release, release)!r}'}\n")
    program.chmod(0o755)
    return folder


def judged(*, triton: bool = False, torch: str = "", **environ: str) -> list[Verdict]:
    framework = FrameworkFacts(name="torch", version="2", cuda=torch) if torch else None
    found = find_installations({"PATH": "/usr/bin:/bin", **environ})
    return list(judge_installations(found, framework, has_triton=triton))


def test_reads_real_nvcc(cuda_home: Path) -> None:
    found = find_installations({"PATH": "/usr/bin:/bin", "CUDA_HOME": str(cuda_home)})

    [nvcc] = found.nvccs
    assert (nvcc.release, nvcc.max_gcc, nvcc.found) == ("13.0", 15, ("CUDA_HOME",))


def test_finds_system_compilers() -> None:
    tools = {tool.name: tool for tool in find_installations({"PATH": "/usr/bin:/bin"}).tools}

    assert tools["g++"].version.count(".") == 2
    assert tools["g++"].path is not None


def test_says_nothing_without_toolkit() -> None:
    assert judged() == []


@pytest.mark.parametrize("script", ["true", "exit 3", "sleep 100", "head -c 999 /dev/urandom"])
def test_goes_on_past_nvcc_that_does_not_tell(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_toolkits, "_TIME_LIMIT", 1.0)
    home = write_nvcc(tmp_path / "cuda", "", script)

    [found] = judged(CUDA_HOME=str(home))

    assert (found.level, found.anchor) == ("warning", "diagnose-not-asked")


@pytest.mark.parametrize(
    ("value", "why", "fix"),
    [
        ("{}:/other", "it is a list", "export CUDA_HOME={}"),
        ("{}/bin", "the folder above bin", "export CUDA_HOME={}"),
        ("{}/bin/nvcc", "the folder above bin", "export CUDA_HOME={}"),
        ('"{}"', "quotes or blanks", "export CUDA_HOME={}"),
        ("{}/gone", "there is no such folder", "unset CUDA_HOME"),
    ],
)
def test_names_malformed_home(tmp_path: Path, value: str, why: str, fix: str) -> None:
    home = write_nvcc(tmp_path / "cuda", "13.0")

    found = judged(CUDA_HOME=value.format(home))[0]

    assert (found.level, found.anchor) == ("broken", "malformed-cuda-home")
    assert why in found.cause
    assert found.fix.startswith(fix.format(home))


def test_names_host_compiler_that_is_too_new(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "12.2")
    write_compiler(tmp_path / "new", "g++", "16.1.0")

    [found] = judged(CUDA_HOME=str(home), PATH=f"{tmp_path / 'new'}:/usr/bin:/bin")

    assert found.anchor == "host-compiler-too-new"
    assert "takes GCC up to 12" in found.cause


def test_asks_the_host_compiler_that_is_named(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "12.2")
    named = write_compiler(tmp_path / "old", "g++-11", "11.4.0")

    [found] = judged(CUDA_HOME=str(home), NVCC_CCBIN=str(named))

    assert found.level == "ok"


def test_names_two_releases(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "13.0")
    other = write_nvcc(tmp_path / "other", "12.4")

    [found] = judged(CUDA_HOME=str(home), PATH=f"{other / 'bin'}:/usr/bin:/bin")

    assert found.anchor == "wrong-nvcc-picked"
    assert "is 13.0" in found.cause
    assert "is 12.4" in found.cause


def test_names_distribution_that_hides_newer_one(tmp_path: Path) -> None:
    usr = write_nvcc(tmp_path / "usr", "11.8")
    write_nvcc(tmp_path / "local" / "cuda-13.0", "13.0")

    found = judged(PATH=f"{usr / 'bin'}:/usr/bin:/bin", NVCC_CCBIN="nonesuch")

    assert [one.anchor for one in found] == ["wrong-nvcc-picked"]


def test_names_torch_of_other_cuda(tmp_path: Path) -> None:
    home = write_nvcc(tmp_path / "cuda", "13.0")

    [found] = judged(CUDA_HOME=str(home), torch="12.8")

    assert found.anchor == "torch-cuda-mismatch"


def test_names_missing_compiler_of_triton(tmp_path: Path) -> None:
    [found] = judged(triton=True, PATH=str(tmp_path))

    assert found.anchor == "triton-no-c-compiler"
