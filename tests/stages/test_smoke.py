from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.errors import InstallError, SmokeError, StageOrderError
from cuwheel.model.link import External, Link
from cuwheel.model.recipe import LibraryPerCuda, Smoke
from cuwheel.pypi.uv import resolve
from cuwheel.smoke import environment
from cuwheel.stages.smoke import smoke
from cuwheel.system.files import sha256_of_file
from cuwheel.workspace.records import Environment, RepairedWheel, Toolchain
from tests.support.factories import (
    compile_library,
    heard,
    make_job,
    make_target,
    make_workspace,
    write_wheel,
)
from tests.support.requirements import require

if TYPE_CHECKING:
    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace

SOURCE = """
int cudaRuntimeGetVersion(int *version);
int version(void) { int found = 0; cudaRuntimeGetVersion(&found); return found; }
"""
MODULE = """
import ctypes, pathlib
version = ctypes.CDLL(str(pathlib.Path(__file__).with_name("libtiny.so"))).version
"""
RUNTIME = "nvidia-cuda-runtime==13.0.96"  # a wheel of 2 MB, of the toolkit that the tests use


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> str:
    """A lock of the CUDA runtime's wheel and of one that only builds would need."""
    asked = tmp_path_factory.mktemp("lock") / "tiny_cuda.in"
    asked.write_text(f"{RUNTIME}\niniconfig==2.0.0\n")
    return resolve(
        asked,
        python="3.10",
        uploaded_before="2026-11-01T00:00:00Z",
        cache=shared_cache,
        offline=False,
    )


@pytest.fixture
def workspace(tmp_path: Path, shared_cache: Path) -> Workspace:
    workspace = make_workspace(tmp_path, cache=shared_cache)
    environment = Environment(
        python=Path(sys.executable),
        site_packages=tmp_path,
        fingerprint="",
        base_python=Path(sys.executable),
        base_version="",
    )
    workspace.save("environment", environment)
    return workspace


@pytest.fixture
def target(tmp_path: Path, lock: str) -> Target:
    return target_of(tmp_path, lock)


def target_of(
    root: Path, lock: str, libraries: LibraryPerCuda | None = None, **wanted: Any
) -> Target:
    """A target whose recipe imports `tiny_cuda`, and does what `wanted` says."""
    smoke = Smoke(imports=("tiny_cuda",), **wanted)
    target = make_target(root=root, smoke=smoke, library_per_cuda=libraries)
    target.lock.parent.mkdir(parents=True, exist_ok=True)
    target.lock.write_text(lock)
    return target


def save_wheel(
    workspace: Workspace,
    module: str,
    *libraries: Path,
    requires: tuple[str, ...] = (),
    external: tuple[str, ...] = (),
) -> Path:
    """Leave in the work folder what the repair leaves."""
    files: dict[str, bytes | Path] = {"tiny_cuda/__init__.py": module.encode()}
    files |= {f"tiny_cuda/{path.name}": path for path in libraries}
    folder = workspace.folder("repaired")
    wheel = write_wheel(folder, files, tag="py3-none-linux_x86_64", requires=requires)
    repaired = RepairedWheel(
        path=wheel,
        sha256=sha256_of_file(wheel),
        size=wheel.stat().st_size,
        platform_tag="linux_x86_64",
        external=external,
        requires=requires,
        tools=(),
    )
    workspace.save("repair", repaired)
    return wheel


def compile_tiny(folder: Path, cuda_home: Path, rpath: str) -> Path:
    """A library that calls the CUDA runtime, found by this rpath."""
    source = folder / "tiny.c"
    source.write_text(SOURCE)
    search = (f"-L{cuda_home / 'lib64'}", "-l:libcudart.so.13", f"-Wl,-rpath,{rpath}")
    return compile_library(folder / "libtiny.so", "gcc", "-fPIC", source, *search)


def test_takes_cuda_from_the_required_wheel(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    save_wheel(workspace, MODULE, library, requires=("nvidia-cuda-runtime>=13.0,<14",))
    target = target_of(tmp_path, lock, call="tiny_cuda.version()", expect="13000")

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)
    assert passed.imported == ("tiny_cuda",)


def test_refuses_cuda_from_outside(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, str(cuda_home / "lib"))
    save_wheel(workspace, MODULE, library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    found = (cuda_home / "lib" / "libcudart.so.13").resolve()
    assert f"libcudart.so.13 is {found}" in caught.value.why


@pytest.mark.parametrize("imported", ["libforeign", "libsound"])
def test_refuses_cuda_from_outside_whichever_process_loads_it(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path, imported: str
) -> None:
    """What the import loads and what it leaves alone are looked at in two processes."""
    rpaths = {"libforeign": str(cuda_home / "lib"), "libsound": "$ORIGIN/../nvidia/cu13/lib"}
    libraries = []
    for name, rpath in rpaths.items():
        library = compile_tiny(tmp_path, cuda_home, rpath)
        libraries.append(library.rename(library.with_stem(name)))
    module = MODULE.replace("libtiny", imported)
    save_wheel(workspace, module, *libraries, requires=("nvidia-cuda-runtime>=13.0,<14",))

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target_of(tmp_path, lock), workspace))

    found = (cuda_home / "lib" / "libcudart.so.13").resolve()
    assert f"libcudart.so.13 is {found}" in caught.value.why


def test_knows_cuda_under_another_file_name(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "any.c"
    source.write_text("int any;\n")
    hidden = compile_library(
        tmp_path / "outside" / "renamed.so.1", "gcc", source, "-Wl,-soname,libcublas.so.13"
    )
    save_wheel(workspace, f"import ctypes; ctypes.CDLL({str(hidden)!r})")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert f"libcublas.so.13 is {hidden}" in caught.value.why


def test_lets_the_driver_come_from_the_machine(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "any.c"
    source.write_text("int any;\n")
    driver = compile_library(
        tmp_path / "driver" / "libcuda.so.580.95.05", "gcc", source, "-Wl,-soname,libcuda.so.1"
    )
    save_wheel(workspace, f"import ctypes; ctypes.CDLL({str(driver)!r})")

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == ()


def test_says_which_library_is_not_found(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "any.c"
    source.write_text("int any;\n")
    # Of a release that no machine has: a CUDA 13 that is on this one would be found.
    absent = compile_library(
        tmp_path / "libcudart.so.99", "gcc", source, "-Wl,-soname,libcudart.so.99"
    )
    needs = ("-Wl,--no-as-needed", absent)
    save_wheel(workspace, MODULE, compile_library(tmp_path / "libtiny.so", "gcc", source, *needs))

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "libcudart.so.99: cannot open shared object file" in caught.value.why
    assert "`link`" in caught.value.fix


def test_refuses_other_value_than_expected(workspace: Workspace, tmp_path: Path, lock: str) -> None:
    save_wheel(workspace, "def add(a, b): return a - b\n")
    target = target_of(tmp_path, lock, call="tiny_cuda.add(1, 2)", expect="3")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "tiny_cuda.add(1, 2) gives -1, not 3" in caught.value.why


def test_shows_the_end_of_the_traceback(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "raise RuntimeError('no luck today')\n")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "RuntimeError: no luck today" in caught.value.why


def test_shows_an_import_failure_and_foreign_libraries_together(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, str(cuda_home / "lib"))
    save_wheel(workspace, f"{MODULE}\nraise RuntimeError('no luck today')\n", library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "no luck today" in caught.value.why
    assert "libcudart.so.13 is " in caught.value.why


def test_leaves_the_locks_other_packages_out(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import iniconfig\n")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "No module named 'iniconfig'" in caught.value.why


def test_says_where_to_lock_what_is_required(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "", requires=("six",))

    with pytest.raises(InstallError) as caught:
        smoke(make_job(target, workspace))

    assert "`six`" in caught.value.why
    assert "add it to `requires` in recipes/tiny_cuda.py, then" in caught.value.fix


def test_refuses_wheel_that_was_changed(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "").write_bytes(save_wheel(workspace, "evil = True").read_bytes() + b"\0")

    with pytest.raises(InstallError) as caught:
        smoke(make_job(target, workspace))

    assert "Hash mismatch" in caught.value.why


def test_gives_the_package_no_variable_of_the_caller(
    workspace: Workspace, tmp_path: Path, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("CUDA_HOME", "/somewhere")
    save_wheel(workspace, "import os\n")
    target = target_of(
        tmp_path, lock, call="sorted(tiny_cuda.os.environ)", expect="['HOME', 'LC_ALL', 'PATH']"
    )

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)


@pytest.fixture
def scripted(tmp_path: Path, lock: str) -> Target:
    """A target with a smoke test of its own, which wants 42."""
    target = target_of(tmp_path, lock, script="tiny_cuda.py")
    script = tmp_path / "recipes" / "smoke" / "tiny_cuda.py"
    script.parent.mkdir(parents=True)
    script.write_text("import tiny_cuda\nfound = tiny_cuda.answer()\nassert found == 42, found\n")
    return target


def test_runs_smoke_test_of_the_recipe(workspace: Workspace, scripted: Target) -> None:
    save_wheel(workspace, "def answer(): return 42\n")

    assert smoke(make_job(scripted, workspace)).imported == ("tiny_cuda",)


def test_says_which_line_of_the_smoke_test_failed(workspace: Workspace, scripted: Target) -> None:
    save_wheel(workspace, "def answer(): return 41\n")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(scripted, workspace))

    assert 'recipes/smoke/tiny_cuda.py", line 3' in caught.value.why
    assert "AssertionError: 41" in caught.value.why
    assert "correct the package, or its smoke test" in caught.value.fix


def test_sees_what_the_smoke_test_loads(
    workspace: Workspace, tmp_path: Path, scripted: Target, cuda_home: Path
) -> None:
    """Libraries count, and where they come from, as those of imports do."""
    library = compile_tiny(tmp_path, cuda_home, str(cuda_home / "lib64"))
    save_wheel(workspace, "", library)
    assert scripted.smoke_script
    scripted.smoke_script.write_text(
        f"import ctypes\nctypes.CDLL({str(cuda_home / 'lib64/libcudart.so.13')!r})\n"
    )

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(scripted, workspace))

    assert "libraries came from outside site-packages: libcudart.so.13" in caught.value.why


def test_hears_the_answer_of_a_noisy_package(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import atexit\nprint('{')\natexit.register(print, 'bye')\n")

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)


def test_says_where_the_interpreter_crashed(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import ctypes\nctypes.string_at(0)\n")

    with pytest.raises(SmokeError, match="the interpreter died") as caught:
        smoke(make_job(target, workspace))

    assert "status -11" in caught.value.why
    assert "tiny_cuda/__init__.py" in workspace.log("smoke").read_text()


def test_tells_which_libraries_stayed_untested(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "", external=("libcublas.so.13",))

    smoke(make_job(target, workspace))

    assert "importing tiny_cuda didn't load libcublas.so.13" in heard(workspace)


def test_loads_library_that_the_import_leaves_alone(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    named = library.rename(library.with_name("libtiny130.so"))
    save_wheel(workspace, "", named, requires=("nvidia-cuda-runtime>=13.0,<14",))
    declared = LibraryPerCuda(file="tiny_cuda/libtiny{toolkit_tag}.so", framework="torch")
    target = target_of(tmp_path, lock, declared)

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)


def test_refuses_library_with_a_symbol_that_nobody_has(
    workspace: Workspace, tmp_path: Path, lock: str
) -> None:
    source = tmp_path / "lost.c"
    source.write_text("int nowhere(void); int call(void) { return nowhere(); }\n")
    library = compile_library(tmp_path / "liblost.so", "gcc", "-fPIC", source)
    save_wheel(workspace, "", library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target_of(tmp_path, lock), workspace))

    assert "undefined symbol: nowhere" in caught.value.why


def test_refuses_library_that_the_wheel_does_not_hold(
    workspace: Workspace, tmp_path: Path, lock: str
) -> None:
    save_wheel(workspace, "")
    declared = LibraryPerCuda(file="tiny_cuda/libtiny{toolkit_tag}.so", framework="torch")

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target_of(tmp_path, lock, declared), workspace))

    assert "tiny_cuda/libtiny130.so: cannot open shared object file" in caught.value.why


def test_installs_from_lock_of_its_own(workspace: Workspace, tmp_path: Path, lock: str) -> None:
    save_wheel(workspace, "", requires=("nvidia-cuda-runtime>=13.0,<14",))
    target = target_of(tmp_path, "", requires=("six",))
    target.smoke_lock.parent.mkdir()
    target.smoke_lock.write_text(lock)

    assert smoke(make_job(target, workspace)).imported == ("tiny_cuda",)


def test_names_the_lock_that_lacks_a_requirement(workspace: Workspace, tmp_path: Path) -> None:
    save_wheel(workspace, "", requires=("nvidia-cuda-runtime>=13.0,<14",))
    target = target_of(tmp_path, "", requires=("six",))
    target.smoke_lock.parent.mkdir()
    target.smoke_lock.touch()

    with pytest.raises(InstallError) as caught:
        smoke(make_job(target, workspace))

    assert "`requires` of `smoke` in recipes/tiny_cuda.py" in caught.value.fix
    assert "smoke:tiny-cuda" in caught.value.fix


@pytest.fixture
def system_cuda(tmp_path: Path, cuda_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit of the machine, as CUDA_HOME names it; only the runtime is in it."""
    home = tmp_path / "system-cuda"
    (home / "nvvm").mkdir(parents=True)
    (home / "lib64").mkdir()
    shutil.copy(cuda_home / "lib64" / "libcudart.so.13", home / "lib64")
    monkeypatch.setenv("CUDA_HOME", str(home))
    return home


def compile_needing(path: Path, soname: str) -> Path:
    """A library that needs another, which is nowhere but beside the linker."""
    source = path.with_suffix(".c")
    source.write_text("int any;\n")
    other = compile_library(path.parent / "beside" / soname, "gcc", source, f"-Wl,-soname,{soname}")
    return compile_library(path, "gcc", "-fPIC", source, "-Wl,--no-as-needed", other)


def needs_no_driver() -> None:
    """Skip where NVIDIA's driver is: nothing stands in for it there."""
    require("driverless", "what the smoke test does where there is no driver")


def save_toolchain(workspace: Workspace, home: Path) -> None:
    record = Toolchain(home=home, version="13.0.88", provider="pypi", fingerprint="", pinned=True)
    workspace.save("toolchain", record)


def compile_stub(home: Path) -> None:
    """What a toolkit has in the driver's place, for linkers."""
    source = home / "stub.c"
    home.mkdir()
    source.write_text("int cuInit(unsigned flags) { return 34; }\n")
    name = home / "lib64" / "stubs" / "libcuda.so"
    compile_library(name, "gcc", "-fPIC", source, "-Wl,-soname,libcuda.so.1")


def test_records_who_brought_a_library_and_who_asked_for_it(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    save_wheel(workspace, MODULE, library, requires=("nvidia-cuda-runtime>=13.0,<14",))

    passed = smoke(make_job(target, workspace))

    file = "nvidia/cu13/lib/libcudart.so.13"
    row = ("libcudart.so.13", file, "nvidia-cuda-runtime 13.0.96", "tiny_cuda/libtiny.so")
    assert passed.loaded == (row,)
    assert all(cell in heard(workspace) for cell in (*row[:3], "libtiny.so"))


def test_hides_the_toolkit_that_the_caller_names(
    workspace: Workspace, tmp_path: Path, target: Target, system_cuda: Path
) -> None:
    require("namespaces", "that the smoke test hides the machine's CUDA")
    library = compile_tiny(tmp_path, system_cuda, str(system_cuda / "lib64"))
    save_wheel(workspace, MODULE, library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "libcudart.so.13: cannot open shared object file" in caught.value.why
    assert "has it, but" in caught.value.why
    assert 'declare "cudart" in the recipe\'s `link`' in caught.value.fix


def test_names_what_was_hidden(workspace: Workspace, target: Target, system_cuda: Path) -> None:
    require("namespaces", "that the smoke test hides the machine's CUDA")
    save_wheel(workspace, "")

    passed = smoke(make_job(target, workspace))

    assert passed.hidden is not None
    assert str(system_cuda) in passed.hidden
    assert str(system_cuda) in heard(workspace)


def test_refuses_the_machines_cuda_where_it_cannot_be_hidden(
    workspace: Workspace,
    tmp_path: Path,
    target: Target,
    system_cuda: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "hiding", lambda *_: ())
    library = compile_tiny(tmp_path, system_cuda, str(system_cuda / "lib64"))
    save_wheel(workspace, MODULE, library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert f"libcudart.so.13 is {system_cuda / 'lib64' / 'libcudart.so.13'}" in caught.value.why


@pytest.mark.usefixtures("system_cuda")
def test_says_that_nothing_could_be_hidden(
    workspace: Workspace, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "hiding", lambda *_: ())
    save_wheel(workspace, "")

    passed = smoke(make_job(target, workspace))

    assert passed.hidden is None
    assert "refuses a mount namespace" in heard(workspace)


def test_search_path_and_preload_of_the_caller_have_no_effect(
    workspace: Workspace, tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = compile_needing(tmp_path / "libtiny.so", "libcudart.so.99")
    beside = tmp_path / "beside" / "libcudart.so.99"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(beside.parent))
    monkeypatch.setenv("LD_PRELOAD", str(beside))
    save_wheel(workspace, "import ctypes\n" + MODULE, library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "libcudart.so.99: cannot open shared object file" in caught.value.why
    assert "came from outside" not in caught.value.why


def test_refuses_two_cuda_releases_in_one_process(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    compile_needing(tmp_path / "libolder.so", "libcudart.so.12")
    module = f"{MODULE}\nctypes.CDLL(str(pathlib.Path(__file__).with_name('libcudart.so.12')))"
    beside = tmp_path / "beside" / "libcudart.so.12"
    requires = ("nvidia-cuda-runtime>=13.0,<14",)
    save_wheel(workspace, module, library, beside, requires=requires)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "CUDA 12 and 13 are in one process: libcudart.so.12 (tiny_cuda 1.2.3" in (
        caught.value.why
    )
    assert "libcudart.so.13 (nvidia-cuda-runtime 13.0.96" in caught.value.why


def test_loads_alone_what_the_imports_leave_alone(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    save_wheel(workspace, "", library, requires=("nvidia-cuda-runtime>=13.0,<14",))

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)


def test_names_each_library_that_cannot_be_loaded(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    first = compile_needing(tmp_path / "libone.so", "libcudart.so.99")
    second = compile_needing(tmp_path / "libtwo.so", "libcublas.so.99")
    save_wheel(workspace, "", first, second)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "tiny_cuda/libone.so can't be loaded: OSError: libcudart.so.99" in caught.value.why
    assert "tiny_cuda/libtwo.so can't be loaded: OSError: libcublas.so.99" in caught.value.why


def test_says_what_a_library_lacks_when_the_package_keeps_it_to_itself(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    library = compile_needing(tmp_path / "libtiny.so", "libcublas.so.99")
    module = "\n".join(("try:", *(f"    {line}" for line in MODULE.strip().splitlines())))
    module += "\nexcept OSError:\n    raise ImportError('no library anywhere') from None\n"
    save_wheel(workspace, module, library)

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "ImportError: no library anywhere" in caught.value.why
    assert "tiny_cuda/libtiny.so can't be loaded: OSError: libcublas.so.99" in caught.value.why


def test_installs_the_extra_that_brings_cuda(
    workspace: Workspace, tmp_path: Path, lock: str, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    requires = ("nvidia-cuda-runtime>=13.0,<14; extra == 'cuda13'",)
    save_wheel(workspace, MODULE, library, requires=requires)
    link = Link("cudart", mode=External(extra="cuda{cuda}"))
    target = target_of(tmp_path, lock)
    with_extra = dataclasses.replace(
        target, mode=link.mode, recipe=dataclasses.replace(target.recipe, link=link)
    )

    passed = smoke(make_job(with_extra, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)


def test_refuses_library_whose_constructor_crashes(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "crash.c"
    source.write_text("__attribute__((constructor)) void run(void) { *(volatile int *)0 = 1; }\n")
    save_wheel(workspace, "", compile_library(tmp_path / "libcrash.so", "gcc", "-fPIC", source))

    with pytest.raises(SmokeError) as caught:
        smoke(make_job(target, workspace))

    assert "loading tiny_cuda/libcrash.so ends the interpreter: status -11" in caught.value.why


def test_lets_library_rely_on_what_the_import_loads(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    library = compile_needing(tmp_path / "libtiny.so", "libbase.so.99")
    base = tmp_path / "beside" / "libbase.so.99"
    module = "import ctypes, pathlib\nctypes.CDLL(str(pathlib.Path(__file__).with_name('{}')))"
    save_wheel(workspace, module.format(base.name), library, base)

    smoke(make_job(target, workspace))

    assert "tiny_cuda/libtiny.so loads only after `import tiny_cuda`" in heard(workspace)


def test_leaves_modules_of_other_pythons_alone(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    name = "_C.cpython-27-x86_64-linux-gnu.so"
    save_wheel(workspace, "", compile_needing(tmp_path / name, "libcudart.so.99"))

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)


def test_stub_stands_in_for_a_driver_that_is_not_there(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    needs_no_driver()
    library = compile_needing(tmp_path / "libtiny.so", "libcuda.so.1")
    compile_stub(tmp_path / "toolkit")
    save_toolchain(workspace, tmp_path / "toolkit")
    save_wheel(workspace, MODULE.replace(".version", ""), library)

    passed = smoke(make_job(target, workspace))

    [(soname, _, supplier, _)] = passed.loaded
    assert passed.has_driver_stub
    assert (soname, supplier) == ("libcuda.so.1", "the toolkit's stub of NVIDIA's driver")
    assert "the toolkit's stub stood in for it" in heard(workspace)


def test_takes_no_stub_where_none_is_needed(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    compile_stub(tmp_path / "toolkit")
    save_toolchain(workspace, tmp_path / "toolkit")
    save_wheel(workspace, "")

    passed = smoke(make_job(target, workspace))

    assert not passed.has_driver_stub
    assert passed.loaded == ()


def test_tells_which_library_waits_for_a_driver(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    needs_no_driver()
    save_wheel(workspace, "", compile_needing(tmp_path / "libtiny.so", "libcuda.so.1"))

    passed = smoke(make_job(target, workspace))

    assert passed.loaded == ()
    assert "tiny_cuda/libtiny.so needs libcuda.so.1, which NVIDIA's driver brings" in heard(
        workspace
    )


def test_says_how_to_get_a_wheel(workspace: Workspace, target: Target) -> None:
    with pytest.raises(StageOrderError, match="no wheel to install") as caught:
        smoke(make_job(target, workspace))

    assert "`nox -s build-tiny-cuda-130`" in caught.value.fix


def test_names_wheel_that_is_gone(workspace: Workspace, target: Target) -> None:
    wheel = save_wheel(workspace, "")
    wheel.unlink()

    with pytest.raises(StageOrderError) as caught:
        smoke(make_job(target, workspace))

    assert f"{wheel} is gone" in caught.value.why
