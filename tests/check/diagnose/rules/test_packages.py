"""Verdicts on GPU packages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.check.diagnose.facts.gpu_packages import DiagnosedPackage, InstalledLibrary
from cuwheel.check.diagnose.facts.imports import FrameworkFacts
from cuwheel.check.diagnose.facts.machine import Driver, DriverGpu
from cuwheel.check.diagnose.rules.packages import judge_package
from tests.check.diagnose.samples import make_context, make_distribution
from tests.support.check.environments import Env, anchors, look_into, verdict_on
from tests.support.check.scans import begin_fatbin
from tests.support.factories import compile_cuda


def package_of(*libraries: InstalledLibrary) -> DiagnosedPackage:
    codes = [library.code for library in libraries if library.code]
    return DiagnosedPackage(
        name="ext",
        version="1",
        archs=tuple(arch for code in codes for arch in code.sass),
        ptx_archs=tuple(arch for code in codes for arch in code.ptx),
        suppliers={},
        other_libraries=0,
        libraries=libraries,
    )


@pytest.mark.e2e
def test_names_archs_that_gpu_lacks(env: Env, driver: Path, cuda_home: Path) -> None:
    source = env.folder / "kernel.cu"
    source.write_text("__global__ void kernel() {}\nvoid run() { kernel<<<1, 1>>>(); }\n")
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=static")
    library = compile_cuda(env.folder / "libkernel.so", cuda_home, source, *flags)
    env.install("ext", {"ext/libkernel.so": library})

    report = look_into(env, LD_LIBRARY_PATH=str(driver), STUB_CAPABILITY="80")

    verdict = verdict_on(report, "no-kernel-image")
    assert verdict.what.endswith(" sm_80")
    assert verdict.cause == "it contains sm_90"


@pytest.mark.parametrize(
    ("ptx", "level"),
    [((9, 0), "ok"), ((9, 1), "warning"), ((9, 10), "warning"), ((6, 3), "ok")],
)
def test_holds_ptx_to_the_newest_cuda_of_the_driver(
    tmp_path: Path, ptx: tuple[int, int], level: str
) -> None:
    """PTX of a newer CUDA than the driver's may be more than it can compile."""
    code = DeviceCode(ptx=("80",), ptx_version=ptx)
    library = InstalledLibrary(path=tmp_path / "libext.so", code=code)
    package = package_of(library)
    gpu = DriverGpu(index=0, name="A", capability="90")
    context = make_context(
        make_distribution("ext"),
        driver=Driver(version="580.65.06", newest_cuda="13.0", gpus=(gpu,)),
    )

    assert [verdict.level for verdict in judge_package(package, context)] == [level]


_LINKED = ("-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined")
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
    files: dict[str, bytes | Path] = {"ext/libext.so": library, "ext/__init__.py": source.encode()}
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

    verdict = verdict_on(look_into(env), "diagnose-not-loaded-yet")

    assert verdict.level == "note"
    assert verdict.fix.startswith("call ext.preload() ")


def test_names_library_that_is_not_found(env: Env) -> None:
    env.install("ext", {"ext/libext.so": env.extension("", "libcudart.so.12", "libcublas.so.12")})

    verdict = verdict_on(look_into(env), "libcudart-not-found")

    assert verdict.what.endswith(" libcudart.so.12, libcublas.so.12")
    assert verdict.fix.startswith("install nvidia-cublas-cu12, nvidia-cuda-runtime-cu12, ")
    assert verdict.command == ""  # where its rpath leads nowhere, no wheel helps by itself


@pytest.mark.parametrize("kind", ["--enable-new-dtags", "--disable-new-dtags"])
def test_follows_rpath_of_whole_package(env: Env, kind: str) -> None:
    """What needs a library hands its RPATH down to it, and no RUNPATH; Python imports neither."""
    install_cudart(env)
    inner = env.compile("libinner.so", "", *_LINKED, env.compile("libcudart.so.12", ""))
    rpath = f"-Wl,{kind},-rpath,$ORIGIN:$ORIGIN/../nvidia/cuda_runtime/lib"
    outer = env.compile("libouter.so", "", *_LINKED, rpath, inner)
    env.install("ext", {"ext/libouter.so": outer, "ext/libinner.so": inner})

    report = look_into(env)

    expected = set() if kind == "--disable-new-dtags" else {"libcudart-not-found"}
    assert anchors(report) - {"no-cuda-device"} == expected


def test_names_installed_wheel_without_rpath_to_it(env: Env) -> None:
    install_cudart(env)
    install_ext(env, "")

    verdict = verdict_on(look_into(env), "libcudart-not-found")

    assert verdict.fix.startswith("nvidia-cuda-runtime-cu12 1.2.3 is installed, ")
    assert verdict.command == ""


@pytest.mark.parametrize("turn", range(3))
def test_names_what_the_spare_library_lacks_first(turn: int) -> None:
    """Of several libraries, in any order, the one that needs the runtime."""
    needs = ("libcublas.so.12", "libcudart.so.12", "libcufft.so.11")
    spare = [
        InstalledLibrary(path=Path(f"for_{soname}"), needs=((soname, None),)) for soname in needs
    ]
    whole = InstalledLibrary(path=Path("libgood.so"), code=DeviceCode(sass=("90",)))
    libraries = (*spare[turn:], *spare[:turn], whole)
    package = package_of(*libraries)
    [verdict] = judge_package(package, make_context(make_distribution("ext")))

    assert verdict.anchor == "libcudart-not-found"
    assert verdict.what.startswith("for_libcudart.so.12 of ext 1 ")


def test_names_supplier_for_the_cuda_in_the_packages_name(env: Env) -> None:
    library = env.extension("", "libnvinfer.so.11")
    env.install("tensorrt_cu13_bindings", {"tensorrt_bindings/libext.so": library})

    [verdict] = [one for one in look_into(env).verdicts if "libnvinfer" in one.what]

    assert verdict.fix.startswith("install tensorrt-cu13-libs==1.2.3, ")


@pytest.mark.parametrize(
    ("soname", "wheel"),
    [("libcudnn.so.8", "nvidia-cudnn-cu11>=8,<9"), ("libcublas.so.11", "nvidia-cublas-cu11")],
)
def test_names_release_of_the_wheel_by_the_librarys_name(env: Env, soname: str, wheel: str) -> None:
    env.install("ext_cu11", {"ext/libext.so": env.extension("", soname)})

    [verdict] = [one for one in look_into(env).verdicts if soname in one.what]

    assert verdict.fix.startswith(f"install {wheel}, then ")


@pytest.mark.parametrize(("installed", "is_other"), [("cu12", True), ("cu11", False)])
def test_wants_the_cuda_of_nvidias_wheels(env: Env, installed: str, *, is_other: bool) -> None:
    env.install(f"nvidia_cufft_{installed}")
    env.install("ext", {"ext/libext.so": env.extension("", "libcublas.so.11")})

    [verdict] = [one for one in look_into(env).verdicts if "libcublas" in one.what]

    assert verdict.fix.startswith("install a release of it for CUDA 12, ") == is_other


@pytest.mark.parametrize(
    ("part", "is_broken"),
    [
        ("raise OSError('not found')", True),
        ("def compile_ptx(*_, cc): raise OSError('not found')", True),
        ("def compile_ptx(*_, cc): pass", False),
    ],
)
def test_imports_the_part_for_cuda(env: Env, part: str, *, is_broken: bool) -> None:
    cuda = f"{part}\ndef is_available(): return False\n".encode()
    env.install("numba", {"numba/__init__.py": b"", "numba/cuda.py": cuda})
    extras = ("numba", 'nvidia-cublas-cu12; extra == "cu12"', 'nvidia-cublas; extra == "cu13"')
    env.install("numba_cuda", {"numba_cuda/__init__.py": b""}, requires=extras)

    parts = ("can't use CUDA", "can't compile a kernel")
    verdicts = [one for one in look_into(env).verdicts if one.what.endswith(parts)]

    found = [(one.what.partition(" ")[0], one.cause) for one in verdicts]
    assert found == [("numba-cuda", "OSError: not found")] * is_broken
    assert all(one.command.endswith("'numba-cuda[cu13]==1.2.3'") for one in verdicts)


@pytest.mark.parametrize(
    ("shipped", "end", "count"),
    [
        ("libtorchtext.so", "undefined symbol: f", 0),
        ("libtorchtext.so", "libtorchtext.so: cannot open shared object file", 1),
        ("libother.so", "undefined symbol: f", 1),
    ],
)
def test_searches_no_library_that_the_package_opens_itself(
    tmp_path: Path, shipped: str, end: str, count: int
) -> None:
    needs = (("libtorchtext.so", None),)
    library = InstalledLibrary(path=tmp_path / "_ext.so", needs=needs, is_module=True)
    package = replace(package_of(library), failure=f"OSError: {end}")
    context = make_context(make_distribution("ext", libraries=(tmp_path / "lib" / shipped,)))

    found = [one.what for one in judge_package(package, context)]

    assert sum("find libtorchtext.so" in what for what in found) == count


@pytest.mark.parametrize(
    ("files", "cuda", "command"),
    [
        (("cuda118", "cuda129"), "13.2", "python -m pip install 'ext>1'"),
        (("cuda118", "cuda129"), "12.4", ""),
        (("cpu", "cudart"), "13.2", ""),
        (("cuda118",), "", ""),
    ],
)
def test_wants_a_library_for_the_cuda_of_torch(
    files: tuple[str, ...], cuda: str, command: str
) -> None:
    libraries = tuple(Path(f"ext/libext_{name}.so") for name in files)
    torch = FrameworkFacts(name="torch", version="2", cuda=cuda)
    context = make_context(make_distribution("ext", libraries=libraries), frameworks=(torch,))

    [verdict] = judge_package(package_of(), context)

    assert (verdict.level, verdict.command) == ("broken" if command else "ok", command)


@pytest.mark.parametrize(
    ("package", "text", "found", "is_blind"),
    [
        ("ext", "libcublas.so.12", "", True),
        ("ext", "libcuda.so.1", "", False),
        ("ext", "libcublas.so.12", "libcublas.so.12", False),
        ("tensorflow", "", "", True),
        ("tensorflow", "", "libcublas.so.12", False),
    ],
)
def test_names_libraries_that_are_opened_by_name(
    env: Env, package: str, text: str, found: str, *, is_blind: bool
) -> None:
    fatbin = ",".join(map(str, begin_fatbin(90, 0)))
    code = f"""#include <dlfcn.h>
    __attribute__((section(".nv_fatbin"), used)) static const unsigned char f[] = {{{fatbin}}};
    void *open() {{ return dlopen("{text}", RTLD_NOW); }}"""
    requires = ('nvidia-cublas-cu12; extra == "and-cuda"',)
    module = {f"{package}/__init__.py": b"class keras: layers = 1\n"}
    env.install(package, {"a/a.so": env.compile("a.so", code), **module}, requires=requires)
    folder = env.compile(found, "").parent if found else ""

    verdicts = look_into(env, package, LD_LIBRARY_PATH=str(folder)).verdicts

    blind = [one for one in verdicts if "can't use a GPU" in one.what]
    assert [one.level for one in blind] == ["note"] * is_blind
    assert all(" libcublas.so.12" in one.what for one in blind)
