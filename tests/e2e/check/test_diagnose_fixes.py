"""Each fix that is printed as a command: run by a shell, it ends in a second, clean report.

The environments are made and broken by uv, from an index of tiny wheels; with those of the package
index: test_diagnose.py. The commands are of uv, then, in environments with pip, of pip.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cuwheel.check.diagnose
from cuwheel.base.system import process
from tests.support.check.environments import Env, anchors, look_closely, look_into, make_env

Defect = Callable[[Env], set[str]]

pytestmark = pytest.mark.e2e

DIAGNOSE = Path(cuwheel.check.diagnose.__file__).parent
_WITHOUT_COMMAND = 4  # arguments of a verdict: entry, what, cause, fix
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
    env.offer(
        "jax",
        {"jax/__init__.py": b"devices = list\ndefault_backend = str"},
        version="0.5.3",
        requires=(jax,),
    )
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
        "ort/core.so": env.compile("core.so", "int gpu;"),
    }
    env.offer("onnxruntime_gpu", own)
    core = env.compile("core.so", "int cpu;")
    env.offer("onnxruntime", {"ort/__init__.py": b"", "ort/core.so": core})
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


def edit_module(env: Env) -> set[str]:
    put_torch(env)
    env.uv("torch")
    module = env.site / "torch" / "__init__.py"
    replace(module, module.read_bytes() + b"\n# edited\n")
    return {_DAMAGED}


def interrupt_removal(env: Env) -> set[str]:
    """As pip leaves it: each folder renamed, then removed one after the other."""
    put_torch(env)
    env.uv("torch")
    for name in ("torch", "torch-2.11.0.dist-info"):
        (env.site / name).rename(env.site / f"~{name[1:]}")
    return {_DAMAGED}


def lack_runtime(env: Env) -> set[str]:
    """What the import of torch itself opens."""
    put_cudart(env)
    opens = f"import ctypes\nctypes.CDLL(__file__[:-17] + '{_FOLDER}/libcudart.so.12')"
    put_torch(env, "nvidia-cuda-runtime-cu12", more=opens)
    env.uv("torch --no-deps")
    return {"libcudart-not-found"}


def lack_what_asks_for_gpus(env: Env) -> set[str]:
    env.offer("driver_api", {"driver_api.py": b""})
    asks = "def ask():\n    import driver_api\n    return True\ncuda.is_available = ask"
    put_torch(env, "driver-api", more=asks)
    env.uv("torch --no-deps")
    return {"diagnose-versions", "diagnose-import-failed"}


def mix_releases(env: Env) -> None:
    put_torch(env, "nvidia-cublas")
    env.offer("nvidia_cublas")
    env.offer("nvidia_cublas_cu12")
    env.offer("nvidia_cudnn_cu12", requires=("nvidia-cublas-cu12",))
    env.uv("torch nvidia-cudnn-cu12")


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


@pytest.fixture(scope="module")
def pip(module_path: Path) -> Path:
    """Where pip alone is installed."""
    process.run([sys.executable, "-m", "venv", str(module_path)], env={"PATH": "/usr/bin:/bin"})
    return next(module_path.glob("lib/python*/site-packages"))


def give_pip(env: Env, pip: Path) -> None:
    for folder in pip.glob("pip*"):
        shutil.copytree(folder, env.site / folder.name)


DEFECTS: tuple[Defect, ...] = (
    *(lack_requirements, have_other_versions, lack_all, share_files, cut_library, zero_library),
    *(cut_module, edit_module, interrupt_removal, lack_extra, lack_wheel_of_rpath),
    *(have_torch_without_cuda, have_other_python, lack_runtime, lack_what_asks_for_gpus),
)
_FIRST = "first fix what else this report says about it, then run this again"
# Each place that passes a command: the words beside it, and the defect that makes it print one.
TRIED: dict[str, tuple[str, Defect]] = {
    "installed_files._leftovers_in": (
        "install torch 2.11.0 again, then remove them",
        interrupt_removal,
    ),
    "installed_files._shared": (
        "remove the other, which also removes the shared files, and reinstall onnxruntime-gpu",
        share_files,
    ),
    "installed_files._faults": ("install it again", cut_library),
    "installed_files._faults 2": (
        "install it again, unless it was changed intentionally",
        edit_module,
    ),
    "frameworks._import_fault": (_FIRST, lack_runtime),
    "frameworks._trouble 2": (_FIRST, lack_what_asks_for_gpus),
    "packages._unimportable": ("reinstall it with this Python", have_other_python),
    "packages._broken": (
        "install the same torch with CUDA, or a torchvision for torch 2.11.0+cu130",
        have_torch_without_cuda,
    ),
    "packages._broken 2": ("install it with extra cuda", lack_extra),
    "requirements._judge": ("install what it requires", have_other_versions),
    "requirements._judge 2": ("install what it requires", lack_requirements),
}
# The same where no defect makes it.
TRIED_OTHERWISE = {
    "shadows._judge": "test_names_file_that_hides_torch: a variable is its shell's alone",
    "frameworks.judge_nvidia_wheels": "test_removes_what_nothing_requires",
    "variables._judge_simulator": "tests/check/diagnose/facts/test_variables.py: runs sed",
    "chosen_library.judge": "that of frameworks._cuda_fault, with a recipe",
    "elsewhere._without_metadata": "tests/check/diagnose/rules/test_requirements.py: as _faults",
    "elsewhere.judge_active": "a variable is its shell's alone",
    "elsewhere.judge_kernels": "a kernel.json of /usr/bin/python3, with ipykernel 7.1",
    "isolation._judge": "tests/check/diagnose/facts/test_isolation.py: each run by a shell",
    "elsewhere.judge_absent": "test_installs_package_that_is_named",
    "caches.judge_caches": "a variable is its shell's alone",
    "frameworks._cuda_fault": "that of packages._broken, on a machine with a GPU",
    "frameworks._judge_pair": "nvJitLink 12.1 beside cuSPARSE 12.9, upgraded",
    "frameworks._blind_jax": "a variable is its shell's alone",
    "frameworks._blind_jax 2": "tests/check/diagnose/rules/test_frameworks.py: JAX needs a GPU",
    "frameworks._plugin_fault": "jax-cuda12-plugin without its extra",
    "frameworks._plugin_fault 2": "tests/check/diagnose/rules/test_frameworks.py: likewise",
    "frameworks._trouble": "CuPy 13.6 without NVRTC",
    "frameworks._two_plugins": "JAX with plugins for CUDA 12 and 13",
    "installed_files._damaged_pip": "a pip that doesn't start: ensurepip",
    "installed_files._foreign_lines": "a program with CR LF: installed again",
    "installed_files._hidden": "pynvml over nvidia-ml-py",
    "installed_files._other_site": "a variable is its shell's alone",
    "installer.judge_variables": "a variable is its shell's alone",
    "installer.judge_variables 2": "a pip.conf that is no such file, moved away",
    "installer.judge_variables 3": "a pip.conf with no-index, by `pip config unset`",
    "known_causes.judge_known": "tests/check/diagnose/test_unseen_kinds.py: by message",
    "packages._no_library": "a newer bitsandbytes is installed, as with `_fix_for_missing`",
    "packages._without_cuda": "that of installed_files._faults",
    "packages._without_cuda 2": "tests/check/diagnose/test_unseen_kinds.py: Triton's ptxas",
    "packages._without_cuda 3": "numba-cuda without an extra",
    "packages._without_cuda_of_torch": "that of frameworks._cuda_fault, for torchvision",
    "installed_files._startup_fault": "test_startup_files.py: a .pth that raises, removed",
    "toolkits._judge_failing": "a variable is its shell's alone",
    "toolkits._refusal": "a variable is its shell's alone",
    "toolkits.judge_installations": "a variable is its shell's alone",
    "variables.judge_changed": "test_startup_files.py: sitecustomize.py, removed",
    "variables._absent_backends": "a variable is its shell's alone",
    "variables._absent_compilers": "a variable is its shell's alone",
    "variables._wrong_values": "a variable is its shell's alone",
    "variables._wrong_values 2": "a variable is its shell's alone",
    "variables.judge_named": "a variable is its shell's alone",
    "variables.judge_named 2": "a variable is its shell's alone",
    "variables.judge_named 3": "a variable is its shell's alone",
    "variables.judge_named 4": "a variable is its shell's alone",
    "variables.judge_switches": "a variable is its shell's alone",
    "variables.judge_switches 2": "numba's file in the working folder: sed, in its tests",
    "variables._nameless": "a variable is its shell's alone",
    "packages._import_failure": "that of installed_files._faults",
    "diagnose._judge_endless": "tests/check/diagnose/test_hidden_causes.py: a FIFO, removed",
    # test_broken_environments.py, with real packages:
    "diagnose._judge_start": "an empty bin/python, linked again",
    "diagnose._judge_start 2": "a pyvenv.cfg in UTF-16, written again",
    "diagnose._judge_start_variable": "PYTHONHOME of a removed Python",
    "diagnose._judge_ending": "a sitecustomize.py that waits, moved away",
    "diagnose._open_environment": "bin/python that leads nowhere, linked again",
    "installed_files._other_release": "packages of Python 3.12 under 3.10, linked again",
    "driver._fault_of_driver": "stub of libcuda on LD_LIBRARY_PATH",
    "driver._fault_of_driver 2": "empty libcuda on LD_LIBRARY_PATH",
    "isolation.judge_cause": "libc10 of another PyTorch on LD_LIBRARY_PATH",
    "installed_files._duplicates": "two folders on PYTHONPATH, one with another numpy",
    "installed_files._other_build": "numpy for aarch64",
    "installed_files._second_metadata": "metadata of two releases",
    "installed_files._unlisted": "RECORD and a file deleted",
    "installed_files._unreadable": "METADATA deleted",
    "packages.problems": "libstdc++ of a stub on LD_LIBRARY_PATH",
    "variables.judge_start": "LD_PRELOAD of a library that lacks a symbol",
    "variables.judge_variables": "LD_PRELOAD of a missing file",
}


@pytest.mark.parametrize("installer", ["uv pip", "python -m pip"])
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.__name__)
def test_command_ends_in_clean_report(env: Env, pip: Path, defect: Defect, installer: str) -> None:
    if installer != "uv pip":
        give_pip(env, pip)
    expected = defect(env)

    first = look_into(env)

    faults = [one for one in first.verdicts if one.level in ("warning", "broken")]
    assert expected <= anchors(first), faults
    commands = dict.fromkeys(one.command for one in faults if one.command)
    assert all(installer in command or "rm -r " in command for command in commands), commands
    printed = {one.fix for one in faults if one.command}
    assert {said for said, tried in TRIED.values() if tried is defect} <= printed, printed
    for command in commands:
        env.shell(command)
    second = look_into(env)
    assert second.verdict in ("ok", "note"), [str(one) for one in second.verdicts]


def test_reads_every_file_where_that_is_asked(env: Env) -> None:
    put_torch(env)
    env.uv("torch")
    library = env.site / "torch" / "lib" / "libc10.so"
    content = library.read_bytes()
    replace(library, content[:-64] + bytes(64))

    [found] = [one for one in look_closely(env).verdicts if one.anchor == _DAMAGED]

    assert found.cause == "libc10.so differs from the file in its wheel"
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


@pytest.mark.parametrize("has_pip", [False, True])
def test_exchange_of_torch_leaves_what_fits(env: Env, pip: Path, *, has_pip: bool) -> None:
    if has_pip:
        give_pip(env, pip)
    for version in ("1.0", "2.0"):
        env.offer("numpy", version=version)
    cpu = env.torch_files(cuda=None, available=False)
    env.offer("torch", cpu, version="2.11.0+cpu", requires=("numpy",))
    env.uv("torch numpy==1.0")
    next((env.folder / "index").glob("torch-*")).unlink()
    put_torch(env, "numpy")

    [found] = [one for one in look_into(env).verdicts if one.anchor == "built-without-cuda"]
    env.shell(found.command)

    assert (env.site / "torch-2.11.0.dist-info").is_dir()
    assert [path.name for path in env.site.glob("numpy-*")] == ["numpy-1.0.dist-info"]


def test_removes_what_nothing_requires(env: Env) -> None:
    mix_releases(env)

    [found] = [one for one in look_into(env).verdicts if one.anchor == "diagnose-mixed-cuda"]

    assert (found.level, found.fix) == ("note", "remove those that nothing requires")
    env.shell(found.command)
    assert "diagnose-mixed-cuda" not in anchors(look_into(env))


def test_installs_package_that_is_named(env: Env) -> None:
    env.offer("ext", {"ext/libext.so": env.extension("", "libcuda.so.1")})

    [found] = [one for one in look_into(env, "ext").verdicts if one.level == "broken"]

    env.shell(found.command)
    assert look_into(env, "ext").verdict in ("ok", "note")


def test_table_has_each_place_that_passes_a_command() -> None:
    rooms = (*DIAGNOSE.glob("*.py"), *(DIAGNOSE / "rules").glob("*.py"))
    places = [place for path in rooms for place in places_with_command(path)]

    assert sorted(places) == sorted([*TRIED, *TRIED_OTHERWISE])
    assert {defect for _, defect in TRIED.values()} <= set(DEFECTS)


def places_with_command(path: Path) -> Iterator[str]:
    """The functions in which a verdict gets a command, and which of several it is."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
            found = sorted(one.lineno for one in calls if passes_command(one))
            for number, _ in enumerate(found, 1):
                yield f"{path.stem}.{function.name}{f' {number}' if number > 1 else ''}"


def passes_command(call: ast.Call) -> bool:
    is_verdict = ast.unparse(call.func) in {"broken", "judged", "notes", "warns"}
    named = {keyword.arg for keyword in call.keywords}
    return is_verdict and (len(call.args) > _WITHOUT_COMMAND or "command" in named)
