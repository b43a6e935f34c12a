"""Toolkits and compilers, real and damaged ones, and the verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.check.cuda import installed_toolkits
from cuwheel.check.diagnose.toolkits import find_installations
from tests.check.diagnose.samples import toolkit_verdicts
from tests.support.factories import write_compiler
from tests.support.toolchains.layouts import write_toolkit

pytestmark = pytest.mark.usefixtures("bare_machine")


def test_reads_real_nvcc_and_compilers(cuda_home: Path) -> None:
    installations = find_installations({"PATH": "/usr/bin:/bin", "CUDA_HOME": str(cuda_home)})

    [nvcc] = installations.toolkits
    assert (nvcc.release, nvcc.header_release, nvcc.found) == ("13.0", "13.0", ("CUDA_HOME",))
    [gcc] = [tool for tool in installations.tools if tool.name == "g++"]
    assert gcc.path
    assert gcc.version.count(".") == 2


def test_has_no_verdict_without_toolkit() -> None:
    assert toolkit_verdicts() == []


@pytest.mark.parametrize(
    ("script", "limit"),
    [("true", 60.0), ("exit 3", 60.0), ("sleep 100", 1.0), (r"printf 'a\0\377\200\n'", 60.0)],
)
def test_goes_on_past_nvcc_without_version(
    tmp_path: Path, script: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_toolkits, "TIME_LIMIT", limit)
    home = write_toolkit(tmp_path / "cuda", "", script=script)

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home))

    assert (verdict.level, verdict.anchor) == ("warning", "diagnose-not-asked")


@pytest.mark.parametrize("value", ["{}:/other", "{}/bin", "{}/bin/nvcc", '"{}"', "{}/gone"])
def test_names_malformed_home(tmp_path: Path, value: str) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")

    verdict = toolkit_verdicts(CUDA_HOME=value.format(home))[0]

    assert (verdict.level, verdict.anchor) == ("broken", "malformed-cuda-home")
    assert verdict.cause.startswith(f'it is "{value.format(home)}"')


@pytest.mark.parametrize(
    ("name", "version", "anchor"),
    [("g++", "16.1.0", "host-compiler-too-new"), ("g++-11", "11.4.0", "")],
)
def test_judges_the_host_compiler(tmp_path: Path, name: str, version: str, anchor: str) -> None:
    home = write_toolkit(tmp_path / "cuda", "12.2")
    compiler = write_compiler(tmp_path / "bin", name, version)

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), NVCC_CCBIN=str(compiler))

    assert verdict.anchor == anchor


def test_names_two_releases(tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")
    other = write_toolkit(tmp_path / "other", "12.4")

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), PATH=f"{other / 'bin'}:/usr/bin:/bin")

    assert verdict.anchor == "wrong-nvcc-picked"


def test_names_distribution_that_hides_newer_one(tmp_path: Path) -> None:
    usr = write_toolkit(tmp_path / "usr", "11.8")
    write_toolkit(tmp_path / "usr" / "local" / "cuda-13.0", "13.0")

    [verdict] = toolkit_verdicts(PATH=f"{usr / 'bin'}:/usr/bin:/bin", NVCC_CCBIN="nonesuch")

    assert verdict.anchor == "wrong-nvcc-picked"


def test_names_torch_of_other_cuda(tmp_path: Path) -> None:
    home = write_toolkit(tmp_path / "cuda", "13.0")

    [verdict] = toolkit_verdicts(CUDA_HOME=str(home), torch="12.8")

    assert verdict.anchor == "torch-cuda-mismatch"


def test_names_missing_compiler_of_triton(tmp_path: Path) -> None:
    [verdict] = toolkit_verdicts(triton=True, PATH=str(tmp_path))

    assert verdict.anchor == "triton-no-c-compiler"
