"""Each fix that is printed as a command: run by a shell, it ends in a second, clean report.

The environments are made and broken by uv, from an index of tiny wheels; with those of the package
index: tests/e2e/test_diagnose.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.diagnosed import Env, anchors, look_closely, look_into, make_env

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Defect = Callable[[Env], set[str]]

pytestmark = pytest.mark.e2e

_FOLDER = "nvidia/cuda_runtime/lib"
_DAMAGED = "diagnose-damaged-installation"
# What a package does that opens CUDA by its path: at its import, or where it is asked to.
_OPENS = f"""
import ctypes, pathlib
def open_cuda():
    there = pathlib.Path(__file__).parents[1] / "{_FOLDER}" / "libcudart.so.12"
    ctypes.CDLL(str(there), mode=ctypes.RTLD_GLOBAL)
"""


def put_torch(env: Env, *requires: str, **facts: Any) -> None:
    env.offer("torch", env.torch_files(**facts), version="2.11.0", requires=requires)


def put_cudart(env: Env) -> None:
    library = {f"{_FOLDER}/libcudart.so.12": env.compile("libcudart.so.12", "int own;")}
    env.offer("nvidia_cuda_runtime_cu12", library)


def lack_requirements(env: Env) -> set[str]:
    names = [f"nvidia-{name}==1.2.3" for name in ("cublas", "cufft", "curand", "cusolver")]
    put_torch(env, *names)
    for name in ("cublas", "cufft", "curand", "cusolver"):
        env.offer(f"nvidia_{name}")
    env.uv("torch", "--no-deps")
    return {"cuda-math-lib-not-found"}


def have_other_versions(env: Env) -> set[str]:
    """Triton of another torch, torchvision for another torch, a plugin of another JAX."""
    put_torch(env, "triton==3.6.0")
    env.offer("triton", version="3.6.0")
    env.offer("triton", version="3.3.0")
    vision = {"torchvision/libvision.so": env.extension("", "libcuda.so.1")}
    env.offer("torchvision", vision, version="0.26.0", requires=("torch==2.11.0",))
    env.offer("torchvision", vision, version="0.25.0", requires=("torch==2.10.0",))
    jax = 'jax-cuda13-plugin==0.5.3; extra == "cuda13"'
    env.offer("jax", {"jax/__init__.py": b"devices = list"}, version="0.5.3", requires=(jax,))
    env.offer("jax_cuda13_plugin", version="0.5.3")
    env.offer("jax_cuda13_plugin", version="0.4.36")
    older = "triton==3.3.0 torchvision==0.25.0 jax-cuda13-plugin==0.4.36"
    env.uv("torch jax", older, "--no-deps")
    return {"diagnose-versions", "torchvision-mismatch"}


def lack_all(env: Env) -> set[str]:
    env.offer("numpy")
    env.offer("tensorflow", {"tensorflow/libtf.so": env.extension("")}, requires=("numpy",))
    env.uv("tensorflow", "--no-deps")
    return {"diagnose-versions"}


def share_files(env: Env) -> set[str]:
    """A build for the CPU over that for GPUs; NCCL for another CUDA over the one for torch's."""
    put_torch(env, "nvidia-nccl-cu13==1.2.3")
    for cuda in ("12", "13"):
        library = env.compile("libnccl.so.2", f"int nccl_{cuda};")
        env.offer(f"nvidia_nccl_cu{cuda}", {"nvidia/nccl/lib/libnccl.so.2": library})
    own: dict[str, bytes | Path] = {
        "ort/gpu.so": env.extension("", "libcuda.so.1"),
        "ort/__init__.py": b"gpu = 1",
    }
    env.offer("onnxruntime_gpu", own)
    env.offer("onnxruntime", {"ort/__init__.py": b"", "ort/cpu.py": b""})
    env.uv("torch onnxruntime-gpu")
    env.uv("onnxruntime nvidia-nccl-cu12")
    return {"diagnose-shared-files"}


def cut_library(env: Env) -> set[str]:
    put_torch(env)
    library = env.extension("", "libcuda.so.1")
    env.offer("ext", {"ext/libext.so": library})
    env.uv("torch ext")
    replace(env.site / "ext" / "libext.so", library.read_bytes()[:1000])
    return {_DAMAGED}


def zero_library(env: Env) -> set[str]:
    put_torch(env)
    env.uv("torch")
    library = env.site / "torch" / "lib" / "libc10.so"
    replace(library, bytes(library.stat().st_size))
    return {_DAMAGED}


def cut_module(env: Env) -> set[str]:
    put_torch(env)
    env.uv("torch")
    module = env.site / "torch" / "__init__.py"
    replace(module, module.read_bytes()[:200])
    return {_DAMAGED, "diagnose-import-failed"}


def interrupt_removal(env: Env) -> set[str]:
    """As pip leaves it: each folder renamed, then removed one after the other."""
    put_torch(env)
    env.uv("torch")
    for name in ("torch", "torch-2.11.0.dist-info"):
        (env.site / name).rename(env.site / f"~{name[1:]}")
    return {_DAMAGED}


def mix_releases(env: Env) -> set[str]:
    put_torch(env, "nvidia-cublas")
    env.offer("nvidia_cublas")
    env.offer("nvidia_cublas_cu12")
    env.offer("nvidia_cudnn_cu12", requires=("nvidia-cublas-cu12",))
    env.uv("torch nvidia-cudnn-cu12")
    return {"diagnose-mixed-cuda"}


def lack_extra(env: Env) -> set[str]:
    put_cudart(env)
    library = env.extension("", "libcudart.so.12")
    files: dict[str, bytes | Path] = {
        "ext/libext.so": library,
        "ext/__init__.py": _OPENS.encode() + b"open_cuda()",
    }
    env.offer("ext", files, requires=('nvidia-cuda-runtime-cu12; extra == "cuda"',))
    env.uv("ext")
    return {"libcudart-not-found"}


def lack_wheel_of_rpath(env: Env) -> set[str]:
    put_cudart(env)
    rpath = f"-Wl,-rpath,$ORIGIN/../{_FOLDER}"
    library = env.compile(
        "libext.so", "", "-Wl,--no-as-needed", env.compile("libcudart.so.12", ""), rpath
    )
    env.offer("ext", {"ext/libext.so": library})
    env.uv("ext")
    return {"libcudart-not-found"}


def have_torch_without_cuda(env: Env) -> set[str]:
    """The CPU's torch under a torchvision for CUDA: one cause, not "built for another torch"."""
    env.offer("torch", env.torch_files(cuda=None, available=False), version="2.11.0+cpu")
    code = "namespace at { namespace cuda { void go(); } } void use() { at::cuda::go(); }"
    library = env.extension(code, "libtorch_cuda.so")
    env.offer("torchvision", {"torchvision/_C.so": library}, requires=("torch==2.11.0",))
    env.uv("torch torchvision")
    next((env.folder / "index").glob("torch-*")).unlink()
    loads = "import ctypes, os\nctypes.CDLL(os.path.dirname(__file__) + '/lib/libtorch_cuda.so')"
    cuda = env.torch_files(more=loads)
    cuda["torch/lib/libtorch_cuda.so"] = env.compile(
        "libtorch_cuda.so", "namespace at { namespace cuda { void go() {} } }"
    )
    env.offer("torch", cuda, version="2.11.0")
    return {"built-without-cuda"}


def have_other_python(env: Env) -> set[str]:
    library = env.extension('extern "C" void *PyInit_ext() { return 0; }', "libcuda.so.1")
    env.offer("ext", {"ext/ext.so": library})
    env.uv("ext")
    (env.site / "ext" / "ext.so").rename(env.site / "ext" / "ext.cpython-27-x86_64-linux-gnu.so")
    record = env.site / "ext-1.2.3.dist-info" / "RECORD"
    record.write_text(record.read_text().replace("ext.so", "ext.cpython-27-x86_64-linux-gnu.so"))
    return {"python-version-unsupported"}


def replace(path: Path, content: bytes) -> None:
    """Another file in its place; the cache of uv may have the first one too."""
    path.unlink()
    path.write_bytes(content)


@pytest.fixture
def env(tmp_path: Path) -> Env:
    return make_env(tmp_path)


DEFECTS: tuple[Defect, ...] = (
    *(lack_requirements, have_other_versions, lack_all, share_files, cut_library, zero_library),
    *(cut_module, interrupt_removal, mix_releases, lack_extra, lack_wheel_of_rpath),
    *(have_torch_without_cuda, have_other_python),
)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.__name__)
def test_command_ends_in_clean_report(env: Env, defect: Defect) -> None:
    expected = defect(env)

    first = look_into(env)

    faults = [one for one in first.verdicts if one.level in ("warning", "broken")]
    assert expected <= anchors(first), faults
    for command in dict.fromkeys(one.command for one in faults if one.command):
        env.shell(command)
    second = look_into(env)
    assert second.level in ("ok", "note"), [str(one) for one in second.verdicts]


def test_reads_every_file_where_that_is_asked(env: Env) -> None:
    put_torch(env)
    env.uv("torch")
    library = env.site / "torch" / "lib" / "libc10.so"
    content = library.read_bytes()
    replace(library, content[:-64] + bytes(64))

    [found] = [one for one in look_closely(env).verdicts if one.anchor == _DAMAGED]

    assert found.cause == "libc10.so holds other bytes than its wheel brought"
    env.shell(found.command)
    assert _DAMAGED not in anchors(look_closely(env))


def test_names_file_that_hides_torch(env: Env) -> None:
    put_torch(env)
    env.uv("torch")
    folder = env.folder / "work"
    folder.mkdir()
    (folder / "torch.py").write_text("x = 1\n")

    [found] = [
        one
        for one in look_into(env, PYTHONPATH=str(folder)).verdicts
        if one.anchor == "diagnose-shadowed-module"
    ]

    assert found.what == f"{folder / 'torch.py'} hides torch 2.11.0"
    assert found.command == "unset PYTHONPATH"
    assert "diagnose-shadowed-module" not in anchors(look_into(env))
