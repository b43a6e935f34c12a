"""The facts in a wheel's file: archs, CUDA and the oldest drivers, as the audit reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import UnsafeArchiveError
from cuwheel.base.formats.binaries.archs import DeviceCode


@dataclass(frozen=True, kw_only=True)
class WheelContents:
    """What a wheel's file holds.

    Attributes:
        code: its device code.
        cuda: majors that its libraries need; several are alternatives.
        drivers: the oldest for each, as far as it is known.
    """

    code: DeviceCode
    cuda: tuple[int, ...]
    drivers: tuple[str, ...]


def read_contents(wheel: Path) -> WheelContents | None:
    """Read a wheel from end to end; None: it can't be read as one, which others report."""
    # The audit loads slowly, and most wheels are only names on an index.
    from cuwheel.check.audit.verdict import audit_wheel  # noqa: PLC0415

    try:
        result = audit_wheel(wheel)
    except (UnsafeArchiveError, OSError):
        return None
    drivers = tuple(driver for _, driver in result.min_driver)
    return WheelContents(code=result.code, cuda=result.majors, drivers=drivers)
