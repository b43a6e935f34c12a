"""The lines to type: pip's and uv's, for the wheel that was chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.fetch.urls import without_credentials

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packaging.requirements import Requirement

    from cuwheel.diagnose.rules.installer import Installer
    from cuwheel.pick.fit import Judgement
    from cuwheel.pypi.offers import Offer


def requirement_of(offer: Offer, wanted: Requirement, configured: Collection[str]) -> str:
    """What an installer needs to take this very wheel.

    Args:
        offer: the wheel.
        wanted: its project, with extras.
        configured: the indexes that installers ask on this machine by themselves.
    """
    extras = ",".join(sorted(wanted.extras))
    named = f"{wanted.name}[{extras}]" if extras else wanted.name
    if offer.is_in_index and offer.index in configured:
        return f"{named}=={offer.version}"
    url = without_credentials(offer.url)
    return f"{named} @ {url}" + f"#sha256={offer.sha256}" * bool(offer.sha256)


def commands_of(
    taken: Judgement, wanted: Requirement, installer: Installer, configured: Collection[str]
) -> Mapping[str, str]:
    """The line for each installer, by its name; empty where it can't install there.

    Args:
        taken: the wheel.
        wanted: its project, with extras.
        installer: of the environment.
        configured: as for `requirement_of`.
    """
    words = (*taken.needs, requirement_of(taken.offer, wanted, configured))
    both = {"pip": replace(installer, has_pip=True), "uv": replace(installer, has_pip=False)}
    return {name: one.install(*words) for name, one in both.items()}
