"""What is installed for the load proof, from which lock, and what of the caller stays outside."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from cuwheel.base.errors import InstallError, UsageError
from cuwheel.build.pipeline.stages.smoke import smoke
from cuwheel.build.recipe.link import External, Link
from cuwheel.build.recipe.target import Target
from cuwheel.build.toolchains.driver_stub import compile_driver_stub
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.smoke_tests import (
    MODULE,
    compile_needing,
    compile_tiny,
    needs_no_driver,
    refusal,
    save_wheel,
    target_of,
)
from tests.support.factories import (
    compile_library,
    heard,
    make_job,
)
from tests.support.requirements import require


def test_leaves_the_locks_other_packages_out(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "import iniconfig\n")

    assert "No module named 'iniconfig'" in refusal(target, workspace).why


def test_names_the_lock_of_a_missing_requirement(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "", requires=("six",))

    error = refusal(target, workspace, InstallError)

    assert "`six`" in error.why
    assert "add it to `requires` in recipes/tiny_cuda.py, then" in error.fix


def test_refuses_wheel_that_was_changed(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "").write_bytes(save_wheel(workspace, "evil = True").read_bytes() + b"\0")

    assert "is not the wheel that was built" in refusal(target, workspace, UsageError).why


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

    error = refusal(target, workspace, InstallError)

    assert "`requires` of `smoke` in recipes/tiny_cuda.py" in error.fix
    assert "smoke:tiny-cuda" in error.fix


@pytest.fixture
def system_cuda(tmp_path: Path, cuda_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit of the machine, as CUDA_HOME names it; only the runtime is in it."""
    home = tmp_path / "system-cuda"
    (home / "nvvm").mkdir(parents=True)
    (home / "lib64").mkdir()
    shutil.copy(cuda_home / "lib64" / "libcudart.so.13", home / "lib64")
    monkeypatch.setenv("CUDA_HOME", str(home))
    return home


def test_hides_the_toolkit_that_the_caller_names(
    workspace: Workspace, tmp_path: Path, target: Target, system_cuda: Path
) -> None:
    require("namespaces", "that the smoke test hides the machine's CUDA")
    library = compile_tiny(tmp_path, system_cuda, str(system_cuda / "lib64"))
    save_wheel(workspace, MODULE, library)

    error = refusal(target, workspace)

    assert "libcudart.so.13: cannot open shared object file" in error.why
    assert "has it, but" in error.why
    assert 'declare "cudart" in the recipe\'s `link`' in error.fix


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
) -> None:
    library = compile_tiny(tmp_path, system_cuda, str(system_cuda / "lib64"))
    save_wheel(workspace, MODULE, library)

    assert (
        f"libcudart.so.13 is {system_cuda / 'lib64' / 'libcudart.so.13'}"
        in refusal(target, workspace, sandbox="none").why
    )


@pytest.mark.usefixtures("system_cuda")
def test_reports_that_nothing_is_hidden(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "")

    passed = smoke(make_job(target, workspace, sandbox="none"))

    assert passed.hidden is None
    assert "CUDA is not hidden from the wheel" in heard(workspace)


def test_search_path_and_preload_of_the_caller_have_no_effect(
    workspace: Workspace, tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = compile_needing(tmp_path / "libtiny.so", "libcudart.so.99")
    neighbour = tmp_path / "beside" / "libcudart.so.99"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(neighbour.parent))
    monkeypatch.setenv("LD_PRELOAD", str(neighbour))
    save_wheel(workspace, "import ctypes\n" + MODULE, library)

    error = refusal(target, workspace)

    assert "libcudart.so.99: cannot open shared object file" in error.why
    assert "were loaded from outside" not in error.why


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


def test_stub_replaces_a_missing_driver(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    needs_no_driver()
    (tmp_path / "libcuda.so").write_bytes(compile_driver_stub("13.0", Path("gcc")))
    source = tmp_path / "tiny.c"
    source.write_text("int cuInit(unsigned); int start(void) { return cuInit(0); }\n")
    linked = (f"-L{tmp_path}", "-lcuda")
    library = compile_library(tmp_path / "libtiny.so", "gcc", "-fPIC", source, *linked)
    save_wheel(workspace, MODULE.replace(".version", ""), library)

    passed = smoke(make_job(target, workspace))

    [(soname, _, supplier, _)] = passed.loaded
    assert passed.has_driver_stub
    assert (soname, supplier) == ("libcuda.so.1", "a stub in place of NVIDIA's driver")
    assert "this machine has no NVIDIA driver: a stub was used" in heard(workspace)


def test_takes_no_stub_where_none_is_needed(workspace: Workspace, target: Target) -> None:
    save_wheel(workspace, "")

    passed = smoke(make_job(target, workspace))

    assert not passed.has_driver_stub
    assert passed.loaded == ()
