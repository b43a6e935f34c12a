"""Which loaded libraries count, whose they are, and who asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import SmokeError
from cuwheel.smoke.loaded_libraries import print_loaded_libraries
from cuwheel.stages.smoke import smoke
from tests.support.factories import (
    compile_library,
    heard,
    make_job,
)
from tests.support.smoked import (
    MODULE,
    compile_needing,
    compile_tiny,
    save_wheel,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.model.target import Target
    from cuwheel.workspace.workspace import Workspace


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
        smoke(make_job(target, workspace, sandbox="none"))

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

    passed = smoke(make_job(target, workspace, sandbox="none"))

    assert passed.libraries == ()


def test_records_who_brought_a_library_and_who_asked_for_it(
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
    ("suppliers", "told"),
    [
        (("nvidia-cublas 13", "torch 2", "torch 2"), "2 from torch 2, 1 from NVIDIA's wheels"),
        (("", "torch 2.11.0"), "1 from torch 2.11.0, /opt/lib0.so without a supplier"),
    ],
)
def test_counts_who_brought_libraries(
    workspace: Workspace, suppliers: tuple[str, ...], told: str
) -> None:
    loaded = [("x.so", f"/opt/lib{i}.so", by, "") for i, by in enumerate(suppliers)]

    print_loaded_libraries(loaded, workspace.console)

    assert f"{len(suppliers)} libraries loaded: {told}" in heard(workspace)


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


def test_leaves_modules_of_other_pythons_alone(
    workspace: Workspace, tmp_path: Path, target: Target
) -> None:
    name = "_C.cpython-27-x86_64-linux-gnu.so"
    save_wheel(workspace, "", compile_needing(tmp_path / name, "libcudart.so.99"))

    passed = smoke(make_job(target, workspace))

    assert passed.imported == ("tiny_cuda",)
