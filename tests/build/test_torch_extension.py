"""What the installed PyTorch takes, read from the file that says so."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.torch_extension import check_torch_extension
from cuwheel.model.recipe import Framework, TorchExtension
from cuwheel.workspace.records import Environment, SourceTree
from tests.support.factories import EPOCH, heard, make_job, make_target, make_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.workspace.job import Job

# As torch 2.13.0 has them.
_EXTENSION = """
            cpp_flag_prefix = cpp_format_prefix.format('std')
            cpp_flag = cpp_flag_prefix + 'c++20'
    supported_arches = ['8.9', '9.0', '9.0a', '10.0',
                        '10.0a', '12.0a']
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A build whose environment holds PyTorch, as far as this reads it."""
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
    assert check_torch_extension(job) == []
    assert "torch==2.13.0 rejects 10.0f in TORCH_CUDA_ARCH_LIST" in heard(job.workspace)


def test_says_nothing_of_archs_that_it_takes(job: Job) -> None:
    target = dataclasses.replace(job.target, archs=("90", "90a", "120a"))

    assert check_torch_extension(dataclasses.replace(job, target=target)) == []
    assert "refuses" not in heard(job.workspace)


def write_source(job: Job, setup: str) -> None:
    tree = job.workspace.folder("source")
    (tree / "setup.py").write_text(setup)
    record = SourceTree(path=tree, origin="here", sha256="0" * 64, epoch=EPOCH, pinned=True)
    job.workspace.save("source", record)


@pytest.mark.parametrize(
    ("least", "flag", "is_told"),
    [(20, "-std=c++17", True), (20, "-std=c++20", False), (17, "-std=c++17", False)],
)
def test_warns_of_older_standard_in_setup(
    job: Job, tmp_path: Path, least: int, flag: str, *, is_told: bool
) -> None:
    header = tmp_path / "site" / "torch" / "include" / "ATen" / "ATen.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#error C++{least} or later compatible compiler is required to use ATen.\n")
    write_source(job, f'import x\nargs = ["-O3", "{flag}"]\n')

    assert check_torch_extension(job) == []
    assert ("in setup.py line 2 says -std=c++17" in heard(job.workspace)) is is_told


def test_refuses_compiler_without_the_standard(job: Job) -> None:
    old = [dataclasses.replace(one, version="9.4.0") for one in job.machine.compilers]
    machine = dataclasses.replace(job.machine, compilers=tuple(old))

    [problem] = check_torch_extension(dataclasses.replace(job, machine=machine))

    assert problem.what == "GCC 9.4.0 can't compile C++20"
