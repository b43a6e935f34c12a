"""What the provenance beside a wheel says of it: archs, PTX, CUDA release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuwheel.pypi.pages import read_page
from cuwheel.wheel.provenance import BUILD_TYPE
from cuwheel.wheel.publication import STATEMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuwheel.fetch.retry import Attempts
    from cuwheel.pypi.offers import Offer


def read_parameters(offer: Offer, attempts: Attempts) -> Mapping[str, object] | None:
    """The parameters of the build that a wheel's statement names; None: there is none for it.

    One about other bytes than those that the index names counts as none, and so does another
    builder's, whose parameters mean something else.

    Args:
        offer: the wheel.
        attempts: at asking.
    """
    answer = read_page(f"{offer.url}{STATEMENT}", attempts, "application/json")
    if isinstance(answer, str):
        return None
    try:
        content = answer.json()
        [subject] = content["subject"]
        definition = content["predicate"]["buildDefinition"]
        parameters = definition["externalParameters"]
        is_ours = definition["buildType"] == BUILD_TYPE  # which says what the parameters mean
        is_of_it = offer.sha256 in {"", str(subject["digest"]["sha256"]).lower()}
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return parameters if is_ours and is_of_it and isinstance(parameters, dict) else None
