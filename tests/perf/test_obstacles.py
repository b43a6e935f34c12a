"""A GPU that gives no figure that counts is told, with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.binaries.archs import DeviceCode
from cuwheel.errors import GpuError
from cuwheel.perf.gpu_state import GpuState
from cuwheel.perf.obstacles import (
    check_alone,
    check_code,
    check_has_driver,
    check_health,
    driver_folders,
    notes_of,
)
from cuwheel.perf.records import Clocks, GpuFacts

if TYPE_CHECKING:
    from pathlib import Path

GPU = GpuFacts(name="NVIDIA H100", uuid="GPU-1", capability="90")


def test_no_code_for_this_gpu() -> None:
    with pytest.raises(GpuError) as caught:
        check_code(DeviceCode(sass=("80", "100"), ptx=("100",)), GPU, "x.whl")

    assert caught.value.why == "that is sm_90; the wheel contains sm_80 sm_100 compute_100 (PTX)"
    assert caught.value.fix == "build it for this GPU: -- --arch 90"


@pytest.mark.parametrize("code", [DeviceCode(sass=("90",)), DeviceCode()])
def test_code_that_runs_is_no_note(code: DeviceCode) -> None:
    assert check_code(code, GPU, "x.whl") == ""


def test_code_that_the_driver_compiles_is_a_note() -> None:
    assert "compiles its PTX" in check_code(DeviceCode(ptx=("80",)), GPU, "x.whl")


def test_memory_that_had_errors() -> None:
    with pytest.raises(GpuError) as caught:
        check_health(GpuState(uncorrected=3), GPU)

    assert "3 memory errors" in caught.value.what


@pytest.mark.parametrize("count", [0, None])
def test_memory_that_is_sound(count: int | None) -> None:
    check_health(GpuState(uncorrected=count), GPU)


def test_others_on_the_gpu() -> None:
    state = GpuState(others=((12, 1 << 30), (13, 1), (14, 1), (15, 1)))

    with pytest.raises(GpuError) as caught:
        check_alone(state, GPU, is_shared=False)

    assert caught.value.what == "other processes use NVIDIA H100: times can't be compared"
    assert caught.value.why.startswith("process 12 with 1.0 GiB, process 13")
    assert caught.value.why.endswith("and 1 more")


def test_others_that_are_known_of() -> None:
    check_alone(GpuState(others=((12, 1),)), GPU, is_shared=True)


def test_notes_tell_of_slice_others_and_clocks() -> None:
    state = GpuState(mig_slice=True, others=((12, 1 << 20),), unread="")
    clocks = Clocks(sm=(1200, 1800, 1980), slowed_by=("heat", "power limit"))

    notes = list(notes_of(state, clocks))

    assert notes[0].startswith("the GPU is a MIG slice")
    assert notes[1] == "other processes used the GPU during the run: process 12 with 1.0 MiB"
    assert notes[2] == "clocks were limited by heat: SM 1200 to 1980 MHz"


def test_notes_tell_what_is_not_known() -> None:
    [note] = notes_of(GpuState(unread="NVML says: no"), Clocks())

    assert note == "clocks, ECC errors and other processes aren't known: NVML says: no"


def test_folders_that_are_named_for_the_driver(tmp_path: Path) -> None:
    for name in ("driver", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "driver" / "libcuda.so.1").touch()
    named = ("", "relative", tmp_path / "other", tmp_path / "driver", tmp_path / "driver")

    found = driver_folders({"LD_LIBRARY_PATH": ":".join(map(str, named))})

    assert found == (tmp_path / "driver",)


def test_no_folder_is_named_for_the_driver() -> None:
    assert driver_folders({}) == ()


def test_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.perf.obstacles.DRIVER_SONAME", "libcuda-that-isnt-there.so.1")

    with pytest.raises(GpuError) as caught:
        check_has_driver("gsplat")

    assert caught.value.what == "gsplat can't be measured: NVIDIA's driver isn't installed here"
