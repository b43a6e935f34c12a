"""Whether the statement beside a wheel is about these very bytes. Signatures: the room `attest`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.errors import WheelStatementError
from cuwheel.fetch.urls import redact_url
from cuwheel.pypi.pages import PageFault, read_page
from cuwheel.system.files import checked_sha256
from cuwheel.wheel.provenance import PREDICATE_TYPE
from cuwheel.wheel.publication import STATEMENT

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.fetch.retry import Attempts
    from cuwheel.pypi.offers import Offer


@dataclass(frozen=True, kw_only=True)
class CheckedStatement:
    """What a wheel's statement says of it.

    Attributes:
        builder: who built it, as the statement names it; nobody vouches for that.
        archs: compute capabilities that were asked for.
    """

    builder: str
    archs: tuple[str, ...]


def fetch_statement(offer: Offer, attempts: Attempts) -> bytes | None:
    """The statement beside a wheel; None: there is none.

    Raises:
        WheelStatementError: whether there is one can't be found out.
    """
    answer = read_page(f"{offer.url}{STATEMENT}", attempts, "application/json")
    if not isinstance(answer, PageFault):
        return answer.content
    if answer.kind == "missing":
        return None
    raise WheelStatementError(
        f"the statement beside {offer.name} couldn't be downloaded",
        why=f"{redact_url(offer.url)}{STATEMENT}: {answer}",
        fix="try again later, or use another index; without the statement it isn't known "
        "whether the wheel is the one that was built",
    )


def stated_sha256(content: bytes | None) -> str:
    """The SHA-256 that a statement is about; empty where there is none."""
    try:
        stated = json.loads(content or b"")["subject"][0]["digest"]["sha256"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return checked_sha256(str(stated))


def check_statement(
    wheel: Path, sha256: str, content: bytes | None, *, is_required: bool
) -> CheckedStatement | None:
    """See that a statement is about a wheel's bytes.

    This is the one place where a wheel is refused for what is said, or isn't said, of it.

    Args:
        wheel: the file, of which only the name counts.
        sha256: of it.
        content: the statement; None: there is none.
        is_required: a wheel without statement is refused.

    Raises:
        WheelStatementError: there is none and there has to be, it can't be read, or it is about
            other bytes.
    """
    if content is None:
        if is_required:
            raise WheelStatementError(
                f"{wheel.name} has no statement beside it",
                why=f"{wheel.name}{STATEMENT} does not exist, and --require-statement requires it",
                fix="use a wheel that is published with its provenance",
            )
        return None
    try:
        stated = json.loads(content)
        [subject] = stated["subject"]
        about = str(subject["digest"]["sha256"]).lower()
        predicate, kind = stated["predicate"], str(stated["predicateType"])
        builder = str(predicate["runDetails"]["builder"]["id"])
        archs = predicate["buildDefinition"]["externalParameters"].get("archs", ())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise WheelStatementError(
            f"the statement beside {wheel.name} can't be read",
            why=f"it is not an in-toto statement about one file: {type(problem).__name__}",
            fix="download the wheel and its statement again",
        ) from problem
    if about != sha256 or kind != PREDICATE_TYPE:
        raise WheelStatementError(
            f"the statement beside {wheel.name} is not about this wheel",
            why=f"the wheel's SHA-256 is {sha256}, the statement is about {about}"
            if about != sha256
            else f"its predicate is {kind}, not {PREDICATE_TYPE}",
            fix="don't install it: one of the two was changed; ask the publisher",
        )
    return CheckedStatement(builder=builder, archs=tuple(map(str, archs)))
