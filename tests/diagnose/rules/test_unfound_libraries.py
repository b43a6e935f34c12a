"""What is said of libraries that aren't found."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.binaries.archs import DeviceCode
from cuwheel.diagnose.facts.gpu_packages import InstalledLibrary, InstalledPackage
from cuwheel.diagnose.facts.loader import Loader
from cuwheel.diagnose.rules.installer import Installer
from cuwheel.diagnose.rules.unfound_libraries import UnfoundLibrariesJudge
from tests.diagnose.rules.test_requirements import make_environment
from tests.support.diagnosed import Env, anchors, look_into, verdict_on

_OPENS = """
import ctypes, pathlib
there = pathlib.Path(__file__).parents[1] / "nvidia/cuda_runtime/lib/libcudart.so.12"
def preload(): ctypes.CDLL(str(there), mode=ctypes.RTLD_GLOBAL)
"""


def install_cudart(env: Env) -> None:
    library = env.compile("libcudart.so.12", "")
    folder = "nvidia/cuda_runtime/lib"
    env.install("nvidia_cuda_runtime_cu12", {f"{folder}/libcudart.so.12": library})


def install_ext(env: Env, source: str, *requires: str) -> None:
    library = env.extension("", "libcudart.so.12")
    files: dict[str, bytes | Path] = {
        "ext/libext.so": library,
        "ext/__init__.py": source.encode(),
    }
    env.install("ext", files, requires=requires)


def test_finds_what_import_opens_by_path(env: Env) -> None:
    install_cudart(env)
    install_ext(env, f"{_OPENS}\npreload()\ndel preload\n")

    report = look_into(env)

    assert anchors(report) == {"no-cuda-device"}
    assert report.packages[0].suppliers == {"libcudart.so.12": "nvidia-cuda-runtime-cu12 1.2.3"}


def test_names_call_that_opens_it(env: Env) -> None:
    install_cudart(env)
    install_ext(env, _OPENS)

    found = verdict_on(look_into(env), "diagnose-not-loaded-yet")

    assert found.level == "note"
    assert found.fix == "call ext.preload() before anything that uses the GPU"


def test_names_extra_that_brings_it(env: Env) -> None:
    install_ext(env, _OPENS, 'nvidia-cuda-runtime-cu12; extra == "cuda"', 'x; extra == "other"')

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert found.command.endswith(" 'ext[cuda]==1.2.3'")


def test_says_that_installed_wheel_is_not_led_to(env: Env) -> None:
    install_cudart(env)
    install_ext(env, "")

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert found.fix.startswith(
        "nvidia-cuda-runtime-cu12 1.2.3 is installed, but no rpath entry points"
    )
    assert found.command == ""


def test_blames_torch_for_the_cpu_for_what_its_cuda_has(env: Env) -> None:
    env.install_torch(version="2.11.0+cpu", cuda=None, available=False)
    code = "namespace at { namespace cuda { void go(); } } void use() { at::cuda::go(); }"
    library = env.extension(code, "libtorch_cuda.so")
    env.install("torchvision", {"torchvision/_C.so": library}, requires=("torch==2.11.0",))

    report = look_into(env)

    assert "torch-abi-mismatch" not in anchors(report)
    [found] = [one for one in report.verdicts if one.level == "broken"]
    assert found.cause == "it is built for a torch with CUDA, and torch 2.11.0+cpu is for the CPU"
    removed, installed = found.command.split(" && ")
    assert removed.endswith(" torch")
    assert installed.endswith(f"{env.python} torch==2.11.0")


@pytest.mark.parametrize("turn", range(3))
def test_names_what_the_spare_library_lacks_first(turn: int) -> None:
    """Of several libraries, in whatever order they were found, the one that needs the runtime."""
    needs = ("libcublas.so.12", "libcudart.so.12", "libcufft.so.11")
    spare = [
        InstalledLibrary(path=Path(f"for_{soname}"), needs=((soname, None),)) for soname in needs
    ]
    whole = InstalledLibrary(path=Path("libgood.so"), code=DeviceCode(sass=("90",)))
    libraries = (*spare[turn:], *spare[:turn], whole)
    package = InstalledPackage(name="ext", version="1", libraries=libraries, requires=())
    loader = Loader(environment=make_environment(), environ={}, frameworks=(), known={})
    judge = UnfoundLibrariesJudge(
        torch=None,
        loader=loader,
        installer=Installer(python="", has_pip=True),
        cuda_build="",
        hint="",
        is_faulty=False,
    )

    [found] = judge.judge("ext 1", package)

    assert found.anchor == "libcudart-not-found"
    assert found.what == "for_libcudart.so.12 of ext 1 can't be loaded here"
