"""Archs of the installed PyTorch, read from its own files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cuwheel.build.compile.torch_extension import check_torch_extension
from cuwheel.build.recipe.recipe import Framework, TorchExtension
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import Environment
from tests.support.factories import heard, make_job, make_target, make_workspace

# As torch 2.13.0 has them.
_EXTENSION = """
    supported_arches = ['8.9', '9.0', '9.0a', '10.0',
                        '10.0a', '12.0a']
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A build with the files of PyTorch that are read."""
    workspace = make_workspace(tmp_path)
    path = tmp_path / "site" / "torch" / "utils" / "cpp_extension.py"
    path.parent.mkdir(parents=True)
    path.write_text(_EXTENSION)
    environment = Environment(
        python=tmp_path / "bin" / "python",
        site_packages=tmp_path / "site",
        fingerprint="0" * 64,
        base_python=tmp_path / "bin" / "python",
        base_version="3.11.7",
    )
    workspace.save("environment", environment)
    torch = Framework(name="torch", version="2.13.0")
    target = make_target(build=TorchExtension(), framework=torch, archs=("90a", "100f", "120a"))
    return make_job(target, workspace)


def test_warns_of_archs_that_pytorch_refuses(job: Job) -> None:
    check_torch_extension(job)
    assert "torch==2.13.0 rejects 10.0f in TORCH_CUDA_ARCH_LIST" in heard(job.workspace)


def test_does_not_warn_of_known_archs(job: Job) -> None:
    target = dataclasses.replace(job.target, archs=("90", "90a", "120a"))

    check_torch_extension(dataclasses.replace(job, target=target))
    assert "refuses" not in heard(job.workspace)
