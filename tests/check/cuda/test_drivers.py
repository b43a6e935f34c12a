"""The oldest driver by release, PTX and compression."""

from __future__ import annotations

import pytest

from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.check.cuda.drivers import (
    ZSTD_DRIVER,
    code_fault,
    is_older,
    oldest_driver,
    ptx_driver,
    release_of_ptx,
)

_PTX = DeviceCode(sass=("52",), ptx=("52",), ptx_version=(8, 5))
_ZSTD = DeviceCode(sass=("90",), is_zstd=True)


@pytest.mark.parametrize(
    ("version", "release"),
    [((6, 5), ""), ((7, 8), "11.8"), ((8, 5), "12.5"), ((8, 7), "12.8"), ((9, 2), "13.2")],
)
def test_knows_release_of_ptx(version: tuple[int, int], release: str) -> None:
    assert release_of_ptx(version) == release


def test_driver_of_ptx_is_of_its_release() -> None:
    assert ptx_driver(_PTX) == "555.42.02"
    assert ptx_driver(DeviceCode(sass=("90",), ptx_version=(8, 5))) == ""


@pytest.mark.parametrize(
    ("code", "capability", "driver", "is_faulty"),
    [
        (_PTX, "90", "550.54.15", True),
        (_PTX, "90", "560.28.03", False),
        (_PTX, "52", "550.54.15", False),  # which has machine code
        (_ZSTD, "90", "535.261.03", True),
        (_ZSTD, "90", ZSTD_DRIVER, False),
        (_ZSTD, "90", "", False),
    ],
)
def test_finds_code_that_driver_does_not_run(
    code: DeviceCode, capability: str, driver: str, *, is_faulty: bool
) -> None:
    assert bool(code_fault(code, capability, driver)) is is_faulty


def test_supported_cuda_decides_on_newer_ptx() -> None:
    newer = DeviceCode(ptx=("90",), ptx_version=(9, 3))

    assert code_fault(newer, "90", "580.95.05", "13.0")
    assert code_fault(newer, "90", "610.10", "13.3") == ""


@pytest.mark.parametrize(
    ("driver", "least", "is_old"),
    [("580", "580.65.06", False), ("575", "580.65.06", True), ("", "580.65.06", False)],
)
def test_compares_drivers_as_far_as_known(driver: str, least: str, *, is_old: bool) -> None:
    assert is_older(driver, least) is is_old


@pytest.mark.parametrize(
    ("major", "driver"), [(11, "450.80.02"), (13, "580.65.06"), (9, ""), (None, "")]
)
def test_knows_driver_of_major(major: int | None, driver: str) -> None:
    assert oldest_driver(major) == driver
