"""The facts in a wheel's file: archs, CUDA and the oldest drivers, as the audit reads them."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import DownloadError, UnsafeArchiveError
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.remote_file import open_remote
from cuwheel.base.fetch.urls import is_local
from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.base.system.folders.temporary import temporary_folder
from cuwheel.check.cuda.torch_exports import minor_of

_SMALL = 16 << 20  # bytes
# Python 3.11's `ast.parse` fails in several threads (python/cpython#106905).
_AUDITING = threading.Lock()


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


def is_small(offer: Offer) -> bool:
    """Return True if a wheel on a server can be read whole in the time of a few pages."""
    return not is_local(offer.url) and offer.size is not None and offer.size <= _SMALL


def read_small(offer: Offer) -> WheelContents | None:
    """Read a small wheel on a server, by one range request; None: it can't be read.

    A wheel with another hash than its index states isn't read.
    """
    try:
        with open_remote(offer.url, window=_SMALL) as stream:
            content = stream.read(_SMALL + 1)
    except (DownloadError, OSError):
        return None
    if offer.sha256 not in {"", hashlib.sha256(content).hexdigest()}:
        return None
    with temporary_folder() as folder:
        path = folder / offer.name
        path.write_bytes(content)
        return read_contents(path)


def read_contents(wheel: Path) -> WheelContents | None:
    """Read a wheel from end to end; None: it can't be read as one, which others report."""
    # The audit loads slowly, and most wheels are only names on an index.
    from cuwheel.check.audit.verdict import audit_wheel  # noqa: PLC0415

    try:
        with _AUDITING:
            result = audit_wheel(wheel)
    except (UnsafeArchiveError, OSError):
        return None
    drivers = tuple(driver for _, driver in result.min_driver)
    torch = tuple(map(minor_of, result.torch or ()))
    return WheelContents(code=result.code, cuda=result.majors, drivers=drivers, torch=torch)
