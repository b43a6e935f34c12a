"""The JSON document of `pick`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cuwheel.base.fetch.urls import redact_url, without_credentials
from cuwheel.base.system.output.documents import Schema
from cuwheel.check.pick.choice import Offers
from cuwheel.check.pick.fit import Judgement
from cuwheel.check.pick.machine import TargetMachine
from cuwheel.check.pick.tags import Reason


@dataclass(frozen=True, kw_only=True)
class PickedWheel:
    """A wheel that was judged.

    Attributes:
        name: its file name.
        version: of the package.
        url: where it is, without user and password.
        index: who offers it, likewise.
        sha256: as the index states it; empty: it doesn't.
        size: bytes; null: the index doesn't say.
        cuda: the release that it is for; empty: not known.
        archs: what its device code is for, in words; empty: not known.
        needs: its requirements that count.
        extras: those that bring libraries.
        reasons: why it doesn't fit; none: it does.
        unknown: what couldn't be told.
    """

    name: str
    version: str
    url: str
    index: str
    sha256: str
    size: int | None
    cuda: str
    archs: str
    needs: tuple[str, ...]
    extras: tuple[str, ...]
    reasons: tuple[Reason, ...]
    unknown: tuple[Reason, ...]


@dataclass(frozen=True, kw_only=True)
class AskedIndex:
    """An index that was asked.

    Attributes:
        address: without user and password.
        files: that it offers of the project; null: it could not be asked, or has none.
        fault: why; empty where it has files.
    """

    address: str
    files: int | None = None
    fault: str = ""


@dataclass(frozen=True, kw_only=True)
class PickDocument:
    """What `pick --json` prints.

    Attributes:
        project: what was asked for.
        specifier: the versions that were; empty: all.
        fits: whether a wheel fits.
        machine: for which machine.
        wheel: the newest that fits; null: none does.
        nearest: where none fits, the one that lacks least; null: there is none at all.
        newer: the newest that doesn't fit, where an older one does.
        commands: by installer, the line to type; empty ones can't install.
        obstacle: why nothing can be installed there; empty where it can.
        sdist: file name of a source that is offered too.
        indexes: that were asked.
        judged: how many other wheels were judged.
        all_read: whether that is all that is offered; else only the newest were read.
    """

    SCHEMA: ClassVar[Schema] = Schema("pick", "1.1")

    project: str
    specifier: str
    fits: bool
    machine: TargetMachine
    wheel: PickedWheel | None
    nearest: PickedWheel | None
    newer: PickedWheel | None
    commands: dict[str, str]
    obstacle: str
    sdist: str | None
    indexes: tuple[AskedIndex, ...]
    judged: int
    all_read: bool


def describe_wheel(wheel: Judgement | None) -> PickedWheel | None:
    """Return a judged wheel as in the document, without passwords."""
    if wheel is None:
        return None
    offer = wheel.offer
    return PickedWheel(
        name=offer.name,
        version=str(offer.version),
        url=without_credentials(offer.url),
        index=redact_url(offer.index),
        sha256=offer.sha256,
        size=offer.size,
        cuda=wheel.cuda,
        archs=wheel.archs,
        needs=tuple(wheel.needs),
        extras=tuple(wheel.extras),
        reasons=tuple(wheel.reasons),
        unknown=tuple(wheel.unknown),
    )


def describe_indexes(offers: Offers) -> tuple[AskedIndex, ...]:
    """Return the indexes as in the document: those with files, then the others."""
    known = offers.counts.items()
    return (
        *(AskedIndex(address=redact_url(url), files=count) for url, count in known),
        *(
            AskedIndex(address=redact_url(url), fault=str(why))
            for url, why in offers.faults.items()
        ),
    )
