"""The choice of a wheel among all that the indexes offer, or of the nearest one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

from cuwheel.base.fetch.indexes.offers import (
    Offer,
    PartOfOffers,
    UnreadMetadataError,
    read_metadata,
    read_offers,
    with_hash,
)
from cuwheel.base.fetch.indexes.pages import PageFault
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, local_path, redact_url
from cuwheel.base.system.parallel import Stop, run_all
from cuwheel.check.pick.contents import is_remote, read_contents, read_remote
from cuwheel.check.pick.declarations import read_parameters, read_signers
from cuwheel.check.pick.fit import Judgement, RemoteWheelFacts, WheelJudge
from cuwheel.check.pick.known_sources import SourcePage
from cuwheel.check.pick.machine import TargetMachine

# Reasons for installers to ignore a wheel.
_INSTALLERS_SEE = ("abi", "glibc", "platform", "python", "yanked")
_MOST_NEAREST = 5  # wheels that are read to find the nearest
_AT_ONCE = 8
_MOST_FILES = 4  # wheels on servers of which the file is read, or parts of it
_SOURCES_TIME_LIMIT = 4.0  # seconds for all known sources together
_SOURCE_PAGES = 2  # of a source's list of releases, the newest first
_MOST_READ = 64  # wheels with METADATA to read; the newest that may fit come first


@dataclass(frozen=True, kw_only=True)
class Offers:
    """The files of a project on all indexes.

    Attributes:
        files: wheels and sdists of the wanted versions, in the order of the addresses.
        counts: of these files, by address.
        faults: why there are no files of an address, or that there are more.
        sources: names of known sources by address; the caller's own indexes aren't among them.
    """

    files: tuple[Offer, ...]
    counts: Mapping[str, int]
    faults: Mapping[str, PageFault]
    sources: Mapping[str, str] = field(default_factory=dict)

    def source_of(self, offer: Offer) -> str:
        """Return the name of the known source of a file; empty: it is from the caller's indexes."""
        return self.sources.get(offer.index, "")

    @property
    def silent(self) -> str:
        """What is known of places whose files aren't all known: `astral didn't answer`."""
        silent = (url for url, fault in self.faults.items() if fault.kind == "unasked")
        names = ((self.sources.get(url) or redact_url(url), url in self.counts) for url in silent)
        return silence(names)

    def __add__(self, others: Offers) -> Offers:
        """Return the files of both, and the faults."""
        return Offers(
            files=(*self.files, *others.files),
            counts={**self.counts, **others.counts},
            faults={**self.faults, **others.faults},
            sources={**self.sources, **others.sources},
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The chosen wheel, and its alternatives.

    Attributes:
        taken: the wheel that fits; None: none does.
        nearest: if none fits, the one with the least against it; None: there is no wheel.
        rivals: wheels of its index that installers prefer to it by its version alone.
        newer: the nearest newer wheel that doesn't fit.
        others: how many wheels were judged.
        is_cut: not all wheels that may fit were read.
    """

    taken: Judgement | None
    nearest: Judgement | None
    rivals: tuple[Offer, ...] = ()
    newer: Judgement | None
    others: int
    sdist: Offer | None
    is_cut: bool = False


def silence(places: Iterable[tuple[str, bool]]) -> str:
    """Return which places didn't answer, and which have more than was read; empty: none.

    Args:
        places: the name of each, and whether a part of its files was read.
    """
    parts: dict[bool, dict[str, None]] = {False: {}, True: {}}
    for name, is_part in places:
        parts[is_part][name] = None
    mute, more = map(", ".join, parts.values())
    texts = (mute and f"{mute} didn't answer", more and f"not all pages of {more} were read")
    return ", and ".join(filter(None, texts))


def query_indexes(wanted: Requirement, addresses: Iterable[str]) -> Offers:
    """Query all addresses in parallel.

    Args:
        addresses: as for `read_offers`.
    """
    urls, stop = tuple(dict.fromkeys(addresses)), Stop()
    tasks = [partial(read_offers, url, wanted.name, Attempts(stop)) for url in urls]
    return _wanted_offers(wanted, dict(zip(urls, run_all(tasks, stop), strict=True)))


def query_sources(
    wanted: Requirement, pages: Iterable[SourcePage], *, seconds: float = _SOURCES_TIME_LIMIT
) -> Offers:
    """Query known sources in parallel, each once, and all within a few seconds."""
    stop, pages = Stop(), tuple(pages)
    tasks = [
        partial(
            read_offers,
            page.address,
            wanted.name,
            Attempts(stop, most=1, total=seconds),
            form=page.source.reads,
            most_pages=_SOURCE_PAGES,
        )
        for page in pages
    ]
    answers: dict[str, tuple[Offer, ...] | PageFault] = {}
    for page, answer in zip(pages, run_all(tasks, stop), strict=True):
        answers[page.address] = answer
        if not isinstance(answer, PageFault):
            files = tuple(replace(offer, declares=page.declares) for offer in answer)
            fault = _fault_of(answer)
            answers[page.address] = files if fault is None else PartOfOffers(files, fault)
    names = {page.address: page.source.name for page in pages}
    return replace(_wanted_offers(wanted, answers), sources=names)


def _wanted_offers(
    wanted: Requirement, answers: Mapping[str, tuple[Offer, ...] | PageFault]
) -> Offers:
    versions = wanted.specifier
    files = {
        url: [file for file in answer if versions.contains(file.version, prereleases=True)]
        for url, answer in answers.items()
        if not isinstance(answer, PageFault)
    }
    faults = {url: _fault_of(answer) for url, answer in answers.items()}
    return Offers(
        files=tuple(itertools.chain.from_iterable(files.values())),
        counts={url: len(offers) for url, offers in files.items()},
        faults={url: fault for url, fault in faults.items() if fault is not None},
    )


def _fault_of(answer: tuple[Offer, ...] | PageFault) -> PageFault | None:
    if isinstance(answer, PartOfOffers):
        return answer.fault
    return answer if isinstance(answer, PageFault) else None


def choose(
    offers: Offers,
    machine: TargetMachine,
    wanted: Requirement,
) -> Choice:
    """Choose the newest wheel that fits; METADATA is read only of those that may fit.

    Args:
        offers: from `query_indexes`.
    """
    chooser = _Chooser(machine, wanted)
    wheels = [file for file in offers.files if file.is_wheel]
    judged = [WheelJudge(wheel, machine, RemoteWheelFacts(), wanted).judge() for wheel in wheels]
    ordered = best_first(judged)
    taken, read = chooser.first_that_fits(ordered)
    if taken is None:
        taken, others = chooser.first_that_loads(ordered)
        read |= others
    ordered = [read.get(wheel.offer.url, wheel) for wheel in ordered]
    sdists = [file for file in offers.files if not file.is_wheel]
    newer = [wheel for wheel in ordered if taken and wheel.offer.version > taken.offer.version]
    return Choice(
        taken=taken and replace(taken, offer=with_hash(taken.offer)),
        nearest=None if taken else chooser.nearest(ordered),
        rivals=_rivals(taken, ordered) if taken else (),
        newer=chooser.nearest(newer),
        others=len(judged),
        sdist=max(sdists, key=lambda sdist: sdist.version, default=None),
        is_cut=taken is None and len(read) < sum(wheel.fits for wheel in judged),
    )


def best_first(judged: Iterable[Judgement]) -> list[Judgement]:
    """Return wheels as installers choose: the highest version and build, then the best tag."""
    ordered = sorted(judged, key=lambda wheel: wheel.rank)
    return sorted(
        ordered, key=lambda wheel: parse_wheel_filename(wheel.offer.name)[1:3], reverse=True
    )


def _rivals(taken: Judgement, ordered: Iterable[Judgement]) -> tuple[Offer, ...]:
    """Return the wheels of one index that installers prefer for `==`: PEP 440, local versions."""
    same = SpecifierSet(f"=={taken.offer.version}")
    before = itertools.takewhile(lambda wheel: wheel.offer.url != taken.offer.url, ordered)
    return tuple(
        wheel.offer
        for wheel in before
        if wheel.offer.index == taken.offer.index
        and same.contains(wheel.offer.version, prereleases=True)
        and not any(reason.kind in _INSTALLERS_SEE for reason in wheel.reasons)
    )


@dataclass(frozen=True)
class _Chooser:
    machine: TargetMachine
    wanted: Requirement
    facts: dict[str, RemoteWheelFacts] = field(default_factory=dict)

    def first_that_fits(
        self, ordered: Sequence[Judgement]
    ) -> tuple[Judgement | None, dict[str, Judgement]]:
        """Return the first wheel with nothing against it, and all that were read, by address."""
        read: dict[str, Judgement] = {}
        offers = [wheel.offer for wheel in ordered if wheel.fits][:_MOST_READ]
        files = 0
        size = 1  # most often the newest fits; otherwise many may not
        while offers:
            batch, offers = offers[:size], offers[size:]
            wheels = run_all([partial(self._read, offer) for offer in batch], Stop())
            for wheel in wheels:
                may_read = wheel.fits and files < _MOST_FILES and is_remote(wheel.offer)
                known = self._read_file(wheel) if may_read else wheel
                files += may_read
                read[wheel.offer.url] = known
                if known.fits:
                    return known, read
            size = _AT_ONCE
        return None, read

    def first_that_loads(
        self, ordered: Sequence[Judgement]
    ) -> tuple[Judgement | None, dict[str, Judgement]]:
        """Return the first wheel for another framework whose file shows that it loads with this."""
        read: dict[str, Judgement] = {}
        for wheel in ordered:
            is_other = {reason.kind for reason in wheel.reasons} == {"framework"}
            if is_other and len(read) < _MOST_FILES:
                known = self._read_file(self._read(wheel.offer))
                read[wheel.offer.url] = known
                if known.fits:
                    return known, read
        return None, read

    def nearest(self, ordered: Sequence[Judgement]) -> Judgement | None:
        """Return the wheel with the least against it, with its METADATA read."""
        against = [wheel for wheel in ordered if not wheel.fits]  # the others weren't read
        for _ in range(_MOST_NEAREST):
            best = min(against, key=lambda wheel: wheel.weight, default=None)
            if best is None or best.is_whole:
                return best
            # Its requirements may count against it too.
            against[against.index(best)] = self._read(best.offer)
        return min((wheel for wheel in against if wheel.is_whole), key=lambda wheel: wheel.weight)

    def _read(self, offer: Offer) -> Judgement:
        facts = self.facts[offer.url] = read_facts(offer)
        return WheelJudge(offer, self.machine, facts, self.wanted).judge()

    def _read_file(self, wheel: Judgement) -> Judgement:
        """Judge a wheel that fits by its METADATA again, by its file or parts of it."""
        facts = with_contents(self.facts[wheel.offer.url], wheel.offer)
        facts = replace(facts, signers=read_signers(wheel.offer, Attempts()))
        return WheelJudge(wheel.offer, self.machine, facts, self.wanted).judge()


def read_facts(offer: Offer) -> RemoteWheelFacts:
    """Read METADATA and provenance of a wheel; the whole file of one on this machine."""
    attempts = Attempts()
    statement = read_parameters(offer, attempts)
    attempts.reset_count()
    contents = read_contents(local_path(offer.url)) if is_local(offer.url) else None
    try:
        metadata = read_metadata(offer, attempts)
    except UnreadMetadataError as problem:
        return RemoteWheelFacts(
            unread=str(problem), is_unusable=problem.is_unusable, statement=statement
        )
    return RemoteWheelFacts(metadata=metadata, statement=statement, contents=contents)


def with_contents(facts: RemoteWheelFacts, offer: Offer) -> RemoteWheelFacts:
    """Return the facts of a wheel with those of its file, or of parts of it."""
    if facts.contents or not is_remote(offer):
        return facts
    return replace(facts, contents=read_remote(offer))
