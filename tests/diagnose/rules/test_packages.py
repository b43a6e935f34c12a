"""What is said of GPU packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.binaries.archs import DeviceCode
from cuwheel.diagnose.facts.environment import PythonEnvironment
from cuwheel.diagnose.facts.gpu_packages import InstalledLibrary, InstalledPackage
from cuwheel.diagnose.facts.gpus import Driver, Gpu
from cuwheel.diagnose.facts.imports import FrameworkFacts
from cuwheel.diagnose.facts.loader import Loader
from cuwheel.diagnose.rules.installer import Installer
from cuwheel.diagnose.rules.packages import PackageJudge
from tests.support.diagnosed import Env, look_into, verdict_on
from tests.support.factories import compile_cuda

if TYPE_CHECKING:
    from pathlib import Path


def test_names_archs_that_gpu_lacks(env: Env, driver: Path, cuda_home: Path) -> None:
    source = env.folder / "kernel.cu"
    source.write_text("__global__ void kernel() {}\nvoid run() { kernel<<<1, 1>>>(); }\n")
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=static")
    library = compile_cuda(env.folder / "libkernel.so", cuda_home, source, *flags)
    env.install("ext", {"ext/libkernel.so": library})

    report = look_into(env, LD_LIBRARY_PATH=str(driver), STUB_CAPABILITY="80")

    found = verdict_on(report, "no-kernel-image")
    assert found.what == "ext 1.2.3 has no code for this GPU, sm_80"
    assert found.cause == "it contains sm_90"


@pytest.mark.parametrize(
    ("cuda", "level"), [("13.0", "ok"), ("13.1", "warning"), ("13.10", "warning"), ("9.2", "ok")]
)
def test_holds_ptx_to_the_newest_cuda_of_the_driver(tmp_path: Path, cuda: str, level: str) -> None:
    """PTX of a newer CUDA than the driver's may be more than it can compile."""
    code = DeviceCode(ptx=("80",))
    library = InstalledLibrary(path=tmp_path / "libext.so", code=code)
    package = InstalledPackage(name="ext", version="1", libraries=(library,), requires=())
    gpu = Gpu(index=0, name="A", capability="90")
    environment = PythonEnvironment(
        python=tmp_path / "python",
        version="3.12.1",
        prefix=tmp_path,
        sites=(),
        suffixes=(),
        is_conda=False,
        markers={},
        distributions={},
    )
    loader = Loader(environment=environment, environ={}, frameworks=(), known={})
    judge = PackageJudge(
        torch=FrameworkFacts(name="torch", version="2.11.0", cuda=cuda),
        driver=Driver(version="580.65.06", newest_cuda="13.0", gpus=(gpu,)),
        host=None,
        loader=loader,
        installer=Installer(python="", has_pip=True),
        faulty=frozenset(),
        cuda_builds={},
        hints={},
    )

    assert [one.level for one in judge.judge(package)] == [level]
