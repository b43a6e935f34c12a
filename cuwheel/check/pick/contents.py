"""The facts in a wheel's file: archs, CUDA and the oldest drivers, as the audit reads them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.base.errors import DownloadError, UnsafeArchiveError
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.urls import is_local
from cuwheel.base.formats.binaries.archs import DeviceCode
from cuwheel.base.system.quantities import show_size
from cuwheel.check.cuda.torch_exports import minor_of

if TYPE_CHECKING:
    from cuwheel.check.audit.verdict import AuditResult

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
        read: how much of a file on a server was read, `16.6 MB of 535.6 MB`, so that `code` may
            not be all of it; empty: enough.
    """

    code: DeviceCode
    cuda: tuple[int, ...]
    drivers: tuple[str, ...]
    torch: tuple[str, ...] = ()
    read: str = ""


def is_remote(offer: Offer) -> bool:
    """Return True if a wheel is on a server, and parts of it may show more than METADATA does.

    Those of PyTorch itself name their CUDA, and their symbols are for others.
    """
    return not is_local(offer.url) and not offer.name.startswith("torch-")


def read_remote(offer: Offer) -> WheelContents | None:
    """Read parts of a wheel on a server, or a small one whole; None: it can't be read.

    A wheel that was read whole and has another hash than its index states counts as not read.
    """
    from cuwheel.check.audit.remote import audit_remote  # noqa: PLC0415 - as below
    from cuwheel.check.audit.verdict import read_wheel_facts  # noqa: PLC0415 - as below

    try:
        with _AUDITING:
            result = audit_remote(offer.url, offer.name, read_wheel_facts)
    except (DownloadError, UnsafeArchiveError, OSError):
        return None
    is_same = result.parts or offer.sha256 in {"", result.case.scan.sha256}
    return _contents(result) if is_same else None


def read_contents(wheel: Path) -> WheelContents | None:
    """Read a wheel from end to end; None: it can't be read as one, which others report."""
    # The audit loads slowly, and most wheels are only names on an index.
    from cuwheel.check.audit.verdict import read_wheel_facts  # noqa: PLC0415

    try:
        with _AUDITING:
            return _contents(read_wheel_facts(wheel))
    except (UnsafeArchiveError, OSError):
        return None


def _contents(result: AuditResult) -> WheelContents:
    parts = result.parts
    read = ""
    if parts and not parts.is_all_code_known:
        read = f"{show_size(parts.received)} of {show_size(parts.size)}"
    return WheelContents(
        code=result.code,
        cuda=result.majors,
        drivers=tuple(driver for _, driver in result.min_driver),
        torch=tuple(map(minor_of, result.torch or ())),
        read=read,
    )
