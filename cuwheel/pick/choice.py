"""The wheel to take out of all that the indexes offer, or the nearest one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename

from cuwheel.fetch.retry import RETRY_POLICY, Attempts
from cuwheel.pick.fit import Judgement, WheelFacts, judge
from cuwheel.pick.statement import read_parameters
from cuwheel.pypi.offers import read_offers, with_hash
from cuwheel.pypi.pages import PageFault
from cuwheel.pypi.remote_metadata import UnreadMetadataError, read_metadata
from cuwheel.system.parallel import Stop, run_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.requirements import Requirement
    from packaging.version import Version

    from cuwheel.fetch.retry import RetryPolicy
    from cuwheel.pick.machine import TargetMachine
    from cuwheel.pypi.offers import Offer

_INSTALLERS_SEE = ("abi", "glibc", "platform", "python", "yanked")  # reasons, and pass it over
_MOST_NEAREST = 5  # likewise, of those that don't fit by their names
_AT_ONCE = 8
_MOST_READ = 64  # wheels whose METADATA is asked for; the newest that may fit come first


@dataclass(frozen=True, kw_only=True)
class Offers:
    """What all addresses offer of a project.

    Attributes:
        files: wheels and sdists of the versions that are wanted, in the order of the addresses.
        counts: how many of them each address has.
        faults: why an address has none.
    """

    files: tuple[Offer, ...]
    counts: Mapping[str, int]
    faults: Mapping[str, PageFault]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was found.

    Attributes:
        taken: the wheel that fits; None: none does.
        nearest: where none fits, the one with the least against it; None: there is no wheel.
        rivals: wheels of its index that installers prefer to it where only its version is named.
        newer: where one fits, the nearest of those with a higher version.
        others: how many wheels were judged.
        sdist: the newest sdist.
        is_cut: more wheels may fit by their names than were read.
    """

    taken: Judgement | None
    nearest: Judgement | None
    rivals: tuple[Offer, ...] = ()
    newer: Judgement | None
    others: int
    sdist: Offer | None
    is_cut: bool = False


def ask_indexes(
    wanted: Requirement, addresses: Iterable[str], retry_policy: RetryPolicy = RETRY_POLICY
) -> Offers:
    """Ask all addresses at once.

    Args:
        wanted: the project, perhaps with the versions that count.
        addresses: as `read_offers` takes them.
        retry_policy: how long to go on trying, for each.
    """
    asked, stop = tuple(dict.fromkeys(addresses)), Stop()
    tasks = [partial(read_offers, one, wanted.name, Attempts(retry_policy, stop)) for one in asked]
    answers = dict(zip(asked, run_all(tasks, stop), strict=True))
    found = {
        address: [one for one in answer if wanted.specifier.contains(one.version, prereleases=True)]
        for address, answer in answers.items()
        if not isinstance(answer, PageFault)
    }
    return Offers(
        files=tuple(one for files in found.values() for one in files),
        counts={address: len(files) for address, files in found.items()},
        faults={address: why for address, why in answers.items() if isinstance(why, PageFault)},
    )


def choose(
    offers: Offers,
    machine: TargetMachine,
    wanted: Requirement,
    retry_policy: RetryPolicy = RETRY_POLICY,
) -> Choice:
    """Take the newest wheel that fits; METADATA is read of those alone that may.

    Args:
        offers: from `ask_indexes`.
        machine: that it is to fit.
        wanted: as for `ask_indexes`.
        retry_policy: how long to go on trying, for each wheel.
    """
    chooser = _Chooser(machine, wanted, retry_policy)
    wheels = [one for one in offers.files if one.is_wheel]
    judged = [judge(one, machine, WheelFacts(), wanted) for one in wheels]
    # As installers choose: the highest version and build tag, then the tag that fits best.
    ordered = sorted(judged, key=lambda one: one.rank)
    ordered = sorted(ordered, key=_release_and_build, reverse=True)
    taken, read = chooser.first_that_fits(ordered)
    ordered = [read.get(one.offer.url, one) for one in ordered]
    sdists = [one for one in offers.files if not one.is_wheel]
    newer = [one for one in ordered if taken and one.offer.version > taken.offer.version]
    nearest = None if taken else chooser.nearest(ordered)
    return Choice(
        taken=taken and replace(taken, offer=with_hash(taken.offer)),
        nearest=nearest,
        rivals=_rivals(taken, ordered) if taken else (),
        newer=chooser.nearest(newer),
        others=len(judged),
        sdist=max(sdists, key=lambda one: one.version, default=None),
        is_cut=taken is None and len(read) < sum(one.fits for one in judged),
    )


def _rivals(taken: Judgement, ordered: Iterable[Judgement]) -> tuple[Offer, ...]:
    """Wheels of one index that `==` lets installers take instead: PEP 440, local versions."""
    same = SpecifierSet(f"=={taken.offer.version}")
    before = itertools.takewhile(lambda one: one.offer.url != taken.offer.url, ordered)
    return tuple(
        one.offer
        for one in before
        if one.offer.index == taken.offer.index
        and same.contains(one.offer.version, prereleases=True)
        and not any(reason.kind in _INSTALLERS_SEE for reason in one.reasons)
    )


def _release_and_build(one: Judgement) -> tuple[Version, tuple[()] | tuple[int, str]]:
    _, version, build, _ = parse_wheel_filename(one.offer.name)
    return version, build


@dataclass(frozen=True)
class _Chooser:
    machine: TargetMachine
    wanted: Requirement
    retry_policy: RetryPolicy

    def first_that_fits(
        self, ordered: Sequence[Judgement]
    ) -> tuple[Judgement | None, dict[str, Judgement]]:
        """The first that nothing speaks against, and all whose METADATA was read for it."""
        read: dict[str, Judgement] = {}
        left = [one.offer for one in ordered if one.fits][:_MOST_READ]
        size = 1  # most often the newest fits; where it doesn't, many may not
        while left:
            batch, left = left[:size], left[size:]
            found = run_all([partial(self._read, one) for one in batch], Stop())
            read |= {one.offer.url: one for one in found}
            if taken := next((one for one in found if one.fits), None):
                return taken, read
            size = _AT_ONCE
        return None, read

    def nearest(self, ordered: Sequence[Judgement]) -> Judgement | None:
        """The one with the least against it, all of that."""
        against = [one for one in ordered if not one.fits]  # the others weren't read any more
        for _ in range(_MOST_NEAREST):
            found = min(against, key=lambda one: one.weight, default=None)
            if found is None or found.is_whole:
                return found
            # What it requires may speak against it too.
            against[against.index(found)] = self._read(found.offer)
        return min((one for one in against if one.is_whole), key=lambda one: one.weight)

    def _read(self, offer: Offer) -> Judgement:
        attempts = Attempts(self.retry_policy)
        statement = read_parameters(offer, attempts)
        attempts.reset_count()
        try:
            facts = WheelFacts(metadata=read_metadata(offer, attempts), statement=statement)
        except UnreadMetadataError as problem:
            facts = WheelFacts(
                unread=str(problem), is_unusable=problem.is_unusable, statement=statement
            )
        return judge(offer, self.machine, facts, self.wanted)
