"""What building a wheel again has given: a record of exactly these bytes, for who asks later."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from cuwheel.system.files import write_atomically
from cuwheel.system.output.documents import Schema, as_file
from cuwheel.workspace.serialization import from_json

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.verify.session import Verified, VerifiedAgainst

FOLDER = "verify"  # of the folder of reports


@dataclass(frozen=True, kw_only=True)
class WheelVerification:
    """What building a wheel again has given; what `reports/verify/` holds of it.

    Attributes:
        wheel: its file name.
        sha256: of it.
        target: that was built.
        date: in UTC, ISO 8601.
        is_same: every build gave these bytes.
        builds: the builds, in words.
        causes: of what differs, in words.
    """

    SCHEMA: ClassVar[Schema] = Schema("wheel-verification", "1.0")

    wheel: str
    sha256: str
    target: str
    date: str
    is_same: bool
    builds: tuple[str, ...]
    causes: tuple[str, ...] = ()


def record_verified(found: Verified, target: str, reports: Path) -> Path:
    """Record that builds were compared with each other.

    Args:
        found: what `verify` found; its first build is the usual one.
        target: that was built.
        reports: the folder of reports.

    Returns:
        The file.

    Raises:
        OSError: it can't be written.
    """
    first = found.builds[0]
    return _write(
        WheelVerification(
            wheel=first.wheel.name,
            sha256=first.sha256,
            target=target,
            date=_now(),
            is_same=not found.unequal,
            builds=tuple(f"{one.variation.name}: {one.variation.says}" for one in found.builds),
            causes=found.causes,
        ),
        reports,
    )


def record_against(found: VerifiedAgainst, target: str, reports: Path) -> Path:
    """Record that a published wheel was built again; see `record_verified`."""
    return _write(
        WheelVerification(
            wheel=found.theirs.wheel_name,
            sha256=found.theirs.sha256,
            target=target,
            date=_now(),
            is_same=found.is_equal,
            builds=(f"{found.build.variation.name}: {found.build.variation.says}",),
            causes=found.causes,
        ),
        reports,
    )


def read_verification(content: dict[str, Any]) -> WheelVerification:
    """A record again.

    Args:
        content: of its file; loses what names the form.

    Raises:
        KeyError: it names no form.
        ValueError: it is another document, or a field is of another type.
    """
    WheelVerification.SCHEMA.take_from(content)
    return from_json(WheelVerification, content)


def _write(found: WheelVerification, reports: Path) -> Path:
    path = reports / FOLDER / f"{found.sha256}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, as_file(found))
    return path


def _now() -> str:
    return datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="seconds")
