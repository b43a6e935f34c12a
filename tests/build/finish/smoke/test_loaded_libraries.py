"""The loaded libraries that count, their owners and requesters."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.finish.smoke.loaded_libraries import print_loaded_libraries
from cuwheel.build.pipeline.stages.smoke import smoke
from cuwheel.build.recipe.target import Target
from cuwheel.build.workspace.workspace import Workspace
from tests.support.build.smoke_tests import (
    MODULE,
    compile_needing,
    compile_tiny,
    refusal,
    save_wheel,
)
from tests.support.factories import (
    compile_library,
    heard,
    make_job,
)


def test_knows_cuda_under_another_file_name(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "any.c"
    source.write_text("int any;\n")
    hidden = compile_library(
        tmp_path / "outside" / "renamed.so.1", "gcc", source, "-Wl,-soname,libcublas.so.13"
    )
    save_wheel(workspace, f"import ctypes; ctypes.CDLL({str(hidden)!r})")

    assert f"libcublas.so.13 is {hidden}" in refusal(target, workspace, sandbox="none").why


def test_lets_the_driver_come_from_the_machine(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    source = tmp_path / "any.c"
    source.write_text("int any;\n")
    driver = compile_library(
        tmp_path / "driver" / "libcuda.so.580.95.05", "gcc", source, "-Wl,-soname,libcuda.so.1"
    )
    save_wheel(workspace, f"import ctypes; ctypes.CDLL({str(driver)!r})")

    passed = smoke(make_job(target, workspace, sandbox="none"))

    assert passed.libraries == ()


def test_records_supplier_and_requester(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    save_wheel(workspace, MODULE, library, requires=("nvidia-cuda-runtime>=13.0,<14",))

    workspace.console.is_verbose = True
    passed = smoke(make_job(target, workspace))

    file = "nvidia/cu13/lib/libcudart.so.13"
    row = ("libcudart.so.13", file, "nvidia-cuda-runtime 13.0.96", "tiny_cuda/libtiny.so")
    assert passed.loaded == (row,)
    assert all(cell in heard(workspace) for cell in (*row[:3], "libtiny.so"))


@pytest.mark.parametrize(
    ("suppliers", "summary"),
    [
        (("nvidia-cublas 13", "torch 2", "torch 2"), "2 from torch 2, 1 from NVIDIA's wheels"),
        (("", "torch 2.11.0"), "1 from torch 2.11.0, /opt/lib0.so without a supplier"),
    ],
)
def test_counts_who_brought_libraries(
    workspace: Workspace, suppliers: tuple[str, ...], summary: str
) -> None:
    loaded = [("x.so", f"/opt/lib{i}.so", by, "") for i, by in enumerate(suppliers)]

    print_loaded_libraries(loaded, workspace.console)

    assert f"{len(suppliers)} libraries loaded: {summary}" in heard(workspace)


def test_refuses_two_cuda_releases_in_one_process(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    compile_needing(tmp_path / "libolder.so", "libcudart.so.12")
    module = f"{MODULE}\nctypes.CDLL(str(pathlib.Path(__file__).with_name('libcudart.so.12')))"
    neighbour = tmp_path / "beside" / "libcudart.so.12"
    requires = ("nvidia-cuda-runtime>=13.0,<14",)
    save_wheel(workspace, module, library, neighbour, requires=requires)

    error = refusal(target, workspace)

    assert "CUDA 12 and 13 are in one process: libcudart.so.12 (tiny_cuda 1.2.3" in (error.why)
    assert "libcudart.so.13 (nvidia-cuda-runtime 13.0.96" in error.why


def test_loads_alone_what_the_imports_leave_alone(
    workspace: Workspace, tmp_path: Path, target: Target, cuda_home: Path
) -> None:
    library = compile_tiny(tmp_path, cuda_home, "$ORIGIN/../nvidia/cu13/lib")
    save_wheel(workspace, "", library, requires=("nvidia-cuda-runtime>=13.0,<14",))

    passed = smoke(make_job(target, workspace))

    assert passed.libraries == (("libcudart.so.13", "nvidia/cu13/lib/libcudart.so.13"),)


def test_leaves_modules_of_other_pythons_alone(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    name = "_C.cpython-27-x86_64-linux-gnu.so"
    save_wheel(workspace, "", compile_needing(tmp_path / name, "libcudart.so.99"))

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)
