"""What `pick` found, as data for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

from cuwheel.fetch.urls import redact_url, without_credentials
from cuwheel.system.output.documents import Schema

if TYPE_CHECKING:
    from cuwheel.pick.fit import Judgement
    from cuwheel.pick.machine import TargetMachine
    from cuwheel.pick.reason import Reason
    from cuwheel.pick.report import Report


@dataclass(frozen=True, kw_only=True)
class PickedMachine:
    """The machine that a wheel is for; what is empty isn't known.

    Attributes:
        python: its release, `3.12.4` or `3.12`; of the free-threaded one without the `t`.
        is_free_threaded: it has no GIL.
        pypy_abi: where it is PyPy, its ABI tag, `pypy310_pp73`; empty: it is CPython.
        platform: `x86_64`.
        glibc: `2.36`.
        driver: NVIDIA's, `580.65.06`.
        archs: capabilities of the GPUs, `90`.
        cuda: the release that the framework was built with, or its major; `cpu`: it knows none.
        cuda_of: the framework that says so; empty: nobody but the person.
        frameworks: version by name, of those that are installed.
        is_here: all frameworks were looked for; those that aren't named aren't installed.
    """

    python: str
    is_free_threaded: bool
    pypy_abi: str
    platform: str
    glibc: str
    driver: str
    archs: tuple[str, ...]
    cuda: str
    cuda_of: str
    frameworks: dict[str, str]
    is_here: bool

    @classmethod
    def of(cls, machine: TargetMachine) -> PickedMachine:
        """A machine as part of a document."""
        return cls(**{**asdict(machine), "frameworks": dict(machine.frameworks)})


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
    machine: PickedMachine
    wheel: PickedWheel | None
    nearest: PickedWheel | None
    newer: PickedWheel | None
    commands: dict[str, str]
    obstacle: str
    sdist: str | None
    indexes: tuple[AskedIndex, ...]
    judged: int
    all_read: bool


def pick_document(report: Report) -> PickDocument:
    """An answer as a document."""
    choice, offers = report.choice, report.offers
    return PickDocument(
        project=report.wanted.name,
        specifier=str(report.wanted.specifier),
        fits=choice.taken is not None,
        machine=PickedMachine.of(report.machine),
        wheel=_picked(choice.taken),
        nearest=_picked(choice.nearest),
        newer=_picked(choice.newer),
        commands=dict(report.commands),
        obstacle=report.obstacle,
        sdist=choice.sdist.name if choice.sdist else None,
        indexes=(
            *(AskedIndex(address=redact_url(one), files=n) for one, n in offers.counts.items()),
            *(
                AskedIndex(address=redact_url(one), fault=str(why))
                for one, why in offers.faults.items()
            ),
        ),
        judged=choice.others,
        all_read=not choice.is_cut,
    )


def _picked(one: Judgement | None) -> PickedWheel | None:
    if one is None:
        return None
    offer = one.offer
    return PickedWheel(
        name=offer.name,
        version=str(offer.version),
        url=without_credentials(offer.url),
        index=redact_url(offer.index),
        sha256=offer.sha256,
        size=offer.size,
        cuda=one.cuda,
        archs=one.archs,
        needs=tuple(one.needs),
        extras=tuple(one.extras),
        reasons=tuple(one.reasons),
        unknown=tuple(one.unknown),
    )
