"""The facts in a wheel's file: archs, CUDA and the oldest drivers, as the audit reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.check.audit.verdict import audit_wheel
from cuwheel.check.cuda.torch_exports import minor_of


@dataclass(frozen=True, kw_only=True)
class WheelContents:
    """What a wheel's file holds.

    Attributes:
        code: its device code.
        cuda: majors that its libraries need; several are alternatives.
        drivers: the oldest for each, as far as it is known.
        torch: minor releases of PyTorch that have all symbols of its libraries; empty: not known.
    """

    code: DeviceCode
    cuda: tuple[int, ...]
    drivers: tuple[str, ...]
    torch: tuple[str, ...] = ()


def read_contents(wheel: Path) -> WheelContents | None:
    """Read a wheel from end to end; None: it can't be read as one, which others report."""
    try:
        result = audit_wheel(wheel)
    except (UnsafeArchiveError, OSError):
        return None
    drivers = tuple(driver for _, driver in result.min_driver)
    torch = tuple(map(minor_of, result.torch or ()))
    return WheelContents(code=result.code, cuda=result.majors, drivers=drivers, torch=torch)
