"""The JSON document of `pick`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from cuwheel.base.fetch.urls import redact_url, without_credentials
from cuwheel.base.system.output.documents import Schema
from cuwheel.check.pick.choice import Offers, silence
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
        source: name of the known source that it is from; empty: from one of the caller's indexes.
        trust: where its hash is from, for whom it is signed, and whether a statement of its build
            was found.
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
    source: str
    trust: str
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
        fault: why, or that not all pages of its list were read; empty: neither.
        source: name of the known source that it belongs to; empty: it is the caller's.
        is_silent: it did not answer, or not all was read, so what else it has is unknown.
    """

    address: str
    files: int | None = None
    fault: str = ""
    source: str = ""
    is_silent: bool = False


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
        all_answered: whether all indexes answered; else one may have a wheel that fits.
    """

    SCHEMA: ClassVar[Schema] = Schema("pick", "1.3")

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
    all_answered: bool


def describe_wheel(wheel: Judgement | None, offers: Offers) -> PickedWheel | None:
    """Return a judged wheel as in the document, without passwords."""
    if wheel is None:
        return None
    offer = wheel.offer
    return PickedWheel(
        name=offer.name,
        version=str(offer.version),
        url=without_credentials(offer.url),
        index=redact_url(offer.index),
        source=offers.source_of(offer),
        trust=_trust(wheel),
        sha256=offer.sha256,
        size=offer.size,
        cuda=wheel.cuda,
        archs=wheel.archs,
        needs=tuple(wheel.needs),
        extras=tuple(wheel.extras),
        reasons=tuple(wheel.reasons),
        unknown=tuple(wheel.unknown),
    )


def _trust(wheel: Judgement) -> str:
    """Return where a wheel's hash is from, who signed it, and what is known of its build."""
    hashed = "SHA-256 from the index" if wheel.offer.sha256 else "no SHA-256"
    stated = (
        "a statement of its build, unsigned" if wheel.is_stated else "no statement of its build"
    )
    names = " and ".join(wheel.signers)
    signed = f"signed for {names} by its index's word" if names else "no signature"
    return f"{hashed}, {signed}, {stated}"


def describe_indexes(offers: Offers) -> tuple[AskedIndex, ...]:
    """Return the indexes as in the document: those with files, then the others."""
    return tuple(
        AskedIndex(
            address=redact_url(url),
            files=offers.counts.get(url),
            fault=str(offers.faults.get(url, "")),
            source=offers.sources.get(url, ""),
            is_silent=url in offers.faults and offers.faults[url].kind == "unasked",
        )
        for url in dict.fromkeys((*offers.counts, *offers.faults))
    )


def fault_texts(indexes: Iterable[AskedIndex]) -> Iterator[str]:
    """Yield why there is nothing, for each index of the caller's and each known source."""
    reasons: dict[tuple[str, str], str] = {}
    for index in indexes:
        name = index.source or index.address
        if index.fault:
            reasons.setdefault((name, index.fault), index.address)
    for (name, fault), address in reasons.items():
        yield f"{name}: {fault}" if name == address else f"{name} ({address}): {fault}"


def silent_places(indexes: Iterable[AskedIndex]) -> str:
    """Return which places didn't answer, or not in full; empty: all did."""
    silent = (index for index in indexes if index.is_silent)
    return silence((index.source or index.address, index.files is not None) for index in silent)


def silent_sources(indexes: Iterable[AskedIndex]) -> str:
    """Return which known sources didn't answer, or not in full, and what to do; empty: all did."""
    silent = [index for index in indexes if index.source and index.is_silent]
    texts = []
    if mute := [index for index in silent if index.files is None]:
        texts.append(f"{silent_places(mute)} ({mute[0].fault}); `--sources none` leaves them out")
    if cut := [index for index in silent if index.files is not None]:
        texts.append(f"{silent_places(cut)}; `--index {cut[0].address}` reads more of them")
    return "; ".join(texts)
