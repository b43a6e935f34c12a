"""The oldest Linux driver that code of CUDA needs: by release, by PTX and by compression.

Drivers are from NVIDIA's CUDA release notes: "CUDA Toolkit and Minimum Required Driver Version for
CUDA Minor Version Compatibility" for majors, "CUDA Toolkit and Corresponding Driver Versions" for
releases. PTX isn't part of minor version compatibility ("CUDA Compatibility", chapter "Minor
Version Compatibility"): the driver compiles only the PTX of releases that it knows. The release of
a PTX version is from "PTX ISA", chapter "Release Notes".
"""

from __future__ import annotations

from collections.abc import Iterable

from cuwheel.base.formats.binaries.archs import DeviceCode, runs_on
from cuwheel.base.system.versions import version_key
from cuwheel.check.cuda.toolkits import TOOLKITS

_BY_RELEASE = {
    "11.0": "450.51.05",
    "11.1": "455.23",
    "11.2": "460.27.03",
    "11.3": "465.19.01",
    "11.4": "470.42.01",
    "11.5": "495.29.05",
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
}
# PTX 7.0 to 7.8 came with CUDA 11.0 to 11.8, 8.0 to 8.5 with 12.0 to 12.5, 9.0 and later with 13.0
# and later.
_PTX_RELEASES = {(8, 6): "12.7", (8, 7): "12.8", (8, 8): "12.9"}
_MAJOR_AFTER = 4  # CUDA 12 has PTX 8
_OLDEST_PTX = 7  # that came with one major of CUDA
# Machine code that `nvcc --compress-mode=size` has packed: rapids-cmake's documentation of
# `rapids_cuda_enable_fatbin_compression`.
ZSTD_DRIVER = "550.54.14"


def oldest_driver(major: int | None) -> str:
    """Return the oldest Linux driver for a major release of CUDA; empty if unknown."""
    drivers = (toolkit.min_driver for toolkit in TOOLKITS if toolkit.major == major)
    return next(drivers, "")


def driver_of_release(release: str) -> str:
    """Return the oldest Linux driver with all functions of a release; empty if unknown."""
    return _BY_RELEASE.get(release, "")


def release_of_ptx(version: tuple[int, int]) -> str:
    """Return the CUDA release whose driver first compiles a version of PTX; empty if unknown."""
    major, minor = version
    if major < _OLDEST_PTX:
        return ""
    return _PTX_RELEASES.get(version, f"{major + _MAJOR_AFTER}.{minor}")


def ptx_driver(code: DeviceCode) -> str:
    """Return the oldest Linux driver that compiles the PTX; empty if there is none, or unknown."""
    return driver_of_release(release_of_ptx(code.ptx_version)) if code.ptx else ""


def newest_driver(drivers: Iterable[str]) -> str:
    """Return the newest of several drivers; empty without any."""
    return max(filter(None, drivers), key=version_key, default="")


def is_older(driver: str, least: str) -> bool:
    """Return True if a driver is older than another; `580` is any driver of that branch."""
    key = version_key(driver)
    return bool(driver and least) and key < version_key(least)[: len(key)]


def is_before(driver: str, release: str) -> bool:
    """Return True if a driver is surely older than that of a release, which may be a newer one."""
    newest = max(_BY_RELEASE, key=version_key)
    is_newer = version_key(release) > version_key(newest)
    return is_older(driver, _BY_RELEASE[newest] if is_newer else driver_of_release(release))


def code_fault(code: DeviceCode, capability: str, driver: str, newest_cuda: str = "") -> str:
    """Return why a driver can't run code on a GPU that has code for it; empty if it can.

    Args:
        capability: of the GPU, `90`.
        driver: its version; empty: unknown.
        newest_cuda: the release that the driver supports, `13.0`; empty: unknown.
    """
    if code.is_zstd and is_older(driver, ZSTD_DRIVER):
        return f"its machine code is compressed with zstd, which needs driver {ZSTD_DRIVER}"
    release, least = release_of_ptx(code.ptx_version), ptx_driver(code)
    is_too_new = is_older(driver, least)
    if newest_cuda and release:
        is_too_new = version_key(newest_cuda) < version_key(release)
    if runs_on(code, capability) != "PTX" or not is_too_new:
        return ""
    version = ".".join(map(str, code.ptx_version))
    needs = f" (driver {least} or newer)" if least else ""
    return (
        f"for sm_{capability} it has only PTX {version}, which a driver for CUDA {release}"
        f"{needs} compiles"
    )
