"""The lines to type: pip's and uv's, for the wheel that was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.fetch.urls import without_credentials

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packaging.requirements import Requirement

    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.pick.choice import Choice, Offers
    from cuwheel.pick.fit import Judgement
    from cuwheel.pypi.offers import Offer


def is_known_by_version(choice: Choice, offers: Offers, configured: Collection[str]) -> bool:
    """Whether installers take the chosen wheel where only its version is named.

    Args:
        choice: with a wheel that fits.
        offers: what the indexes answered.
        configured: those that installers ask on this machine by themselves.
    """
    if choice.taken is None or choice.rivals:
        return False
    offer = choice.taken.offer
    lacking = {one for one, why in offers.faults.items() if why.kind != "unasked"}
    return offer.is_in_index and {*configured} - lacking == {offer.index}


def requirement_of(offer: Offer, wanted: Requirement, *, by_version: bool) -> str:
    """What an installer needs to take this very wheel.

    Args:
        offer: the wheel.
        wanted: its project, with extras.
        by_version: its version is enough: `is_known_by_version`.
    """
    extras = ",".join(sorted(wanted.extras))
    named = f"{wanted.name}[{extras}]" if extras else wanted.name
    if by_version:
        return f"{named}=={offer.version}"
    url = without_credentials(offer.url)
    return f"{named} @ {url}" + f"#sha256={offer.sha256}" * bool(offer.sha256)


def commands_of(
    taken: Judgement, wanted: Requirement, installer: Installer, *, by_version: bool
) -> Mapping[str, str]:
    """The line for each installer, by its name; empty where it can't install there.

    Args:
        taken: the wheel.
        wanted: its project, with extras.
        installer: of the environment.
        by_version: as for `requirement_of`.
    """
    words = (*taken.needs, requirement_of(taken.offer, wanted, by_version=by_version))
    both = {"pip": replace(installer, has_pip=True), "uv": replace(installer, has_pip=False)}
    return {name: one.install(*words) for name, one in both.items()}
