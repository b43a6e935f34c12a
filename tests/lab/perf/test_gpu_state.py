"""Checks of GPUs, and notes on their state."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from cuwheel.base.errors import GpuError
from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.lab.perf.gpu_state import (
    GpuMonitor,
    GpuState,
    check_alone,
    check_code,
    check_has_driver,
    check_health,
    driver_folders,
    merge_clocks,
    notes_of,
)
from cuwheel.lab.perf.records import Clocks, GpuFacts

GPU = GpuFacts(name="NVIDIA H100", uuid="GPU-1", capability="90")


def test_no_code_for_this_gpu() -> None:
    with pytest.raises(GpuError) as caught:
        check_code(DeviceCode(sass=("80", "100"), ptx=("100",)), GPU, "x.whl")

    assert caught.value.why == "that is sm_90; the wheel contains sm_80 sm_100 compute_100 (PTX)"
    assert caught.value.fix == "build it for this GPU: -- --arch 90"


@pytest.mark.parametrize(
    ("code", "note"),
    [
        (DeviceCode(sass=("90",)), ""),
        (DeviceCode(), ""),
        (DeviceCode(ptx=("80",)), "the wheel contains compute_80 (PTX): the driver compiles"),
    ],
)
def test_notes_code_that_the_driver_compiles(code: DeviceCode, note: str) -> None:
    assert check_code(code, GPU, "x.whl").startswith(note)
    assert bool(check_code(code, GPU, "x.whl")) == bool(note)


def test_refuses_memory_with_errors() -> None:
    for count in (0, None):
        check_health(GpuState(uncorrected=count), GPU)

    with pytest.raises(GpuError) as caught:
        check_health(GpuState(uncorrected=3), GPU)

    assert "3 memory errors" in caught.value.what


def test_refuses_other_processes_unless_shared() -> None:
    state = GpuState(others=((12, 1 << 30), (13, 1), (14, 1), (15, 1)))
    check_alone(state, GPU, is_shared=True)

    with pytest.raises(GpuError) as caught:
        check_alone(state, GPU, is_shared=False)

    assert caught.value.what == "other processes use NVIDIA H100: times can't be compared"
    assert caught.value.why.startswith("process 12 with 1.0 GiB, process 13")
    assert caught.value.why.endswith("and 1 more")


def test_notes_on_slice_others_and_clocks() -> None:
    state = GpuState(mig_slice=True, others=((12, 1 << 20),), unread="")
    clocks = Clocks(sm=(1200, 1800, 1980), slowed_by=("heat", "power limit"))

    notes = list(notes_of(state, clocks))

    assert notes[0].startswith("the GPU is a MIG slice")
    assert notes[1] == "other processes used the GPU during the run: process 12 with 1.0 MiB"
    assert notes[2] == "clocks were limited by heat: SM 1200 to 1980 MHz"
    [note] = notes_of(GpuState(unread="NVML reports: no"), Clocks())
    assert note == "clocks, ECC errors and other processes aren't known: NVML reports: no"


def test_folders_that_are_named_for_the_driver(tmp_path: Path) -> None:
    for name in ("driver", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "driver" / "libcuda.so.1").touch()
    named = ("", "relative", tmp_path / "other", tmp_path / "driver", tmp_path / "driver")

    folders = driver_folders({"LD_LIBRARY_PATH": ":".join(map(str, named))})

    assert folders == (tmp_path / "driver",)
    assert driver_folders({}) == ()


def test_machine_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.lab.perf.gpu_state.DRIVER_SONAME", "libcuda-that-isnt-there.so.1")

    with pytest.raises(GpuError) as caught:
        check_has_driver("gsplat")

    assert caught.value.what == "gsplat can't be measured: NVIDIA's driver isn't installed here"


def test_merges_periods() -> None:
    cool = Clocks(sm=(1900, 1980, 1980), memory=(2619,) * 3, temperature=40, power=200.0)
    hot = Clocks(
        sm=(1200, 1500, 1980), memory=(2619,) * 3, temperature=80, power=700.0, slowed_by=("heat",)
    )

    merged = merge_clocks([cool, Clocks(), hot])

    assert merge_clocks([]) == Clocks()
    assert merged.sm == (1200, 1940, 1980)
    assert (merged.temperature, merged.power, merged.slowed_by) == (80, 700.0, ("heat",))


def test_machine_without_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    monitor = GpuMonitor("GPU-1")

    with monitor.watching() as clocks:
        pass

    assert clocks == []
    assert monitor.state(()).unread == "NVML reports: NVML Shared Library Not Found"
