"""Check that the statement next to a wheel is about its bytes; `attest` checks signatures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.errors import PolicyError
from cuwheel.base.fetch.indexes.offers import Offer
from cuwheel.base.fetch.indexes.pages import PageFault, beside, read_page
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import redact_url
from cuwheel.base.formats.wheel.provenance import PREDICATE_TYPE
from cuwheel.base.formats.wheel.publication import STATEMENT
from cuwheel.base.system.files import checked_sha256
from cuwheel.base.system.regular_files import parse_json


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
    """Return the statement next to a wheel; None: there is none."""
    answer = read_page(beside(offer.url, STATEMENT), attempts, "application/json")
    if not isinstance(answer, PageFault):
        return answer.content
    if answer.kind == "missing":
        return None
    raise PolicyError(
        f"the statement beside {offer.name} couldn't be downloaded",
        why=f"{redact_url(offer.url)}{STATEMENT}: {answer}",
        fix="try again later, or use another index; without the statement it isn't known "
        "whether the wheel is the one that was built",
    )


def stated_sha256(content: bytes | None) -> str:
    """Return the SHA-256 that a statement is about; empty without one."""
    try:
        stated = parse_json(content or b"")["subject"][0]["digest"]["sha256"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return checked_sha256(str(stated))


def check_statement(
    wheel: Path, sha256: str, content: bytes | None, *, is_required: bool
) -> CheckedStatement | None:
    """Check that a statement is about a wheel's bytes.

    No other place refuses a wheel for its statement.

    Args:
        content: the statement; None: there is none.

    Raises:
        PolicyError: there is none and there has to be, it can't be read, or it is about
            other bytes.
    """
    if content is None:
        if is_required:
            raise PolicyError(
                f"{wheel.name} has no statement beside it",
                why=f"{wheel.name}{STATEMENT} does not exist, and --require-statement requires it",
                fix="use a wheel that is published with its provenance",
            )
        return None
    try:
        stated = parse_json(content)
        [subject] = stated["subject"]
        about = str(subject["digest"]["sha256"]).lower()
        predicate, kind = stated["predicate"], str(stated["predicateType"])
        builder = str(predicate["runDetails"]["builder"]["id"])
        archs = tuple(map(str, predicate["buildDefinition"]["externalParameters"].get("archs", ())))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise PolicyError(
            f"the statement beside {wheel.name} can't be read",
            why=f"it is not an in-toto statement about one file: {type(problem).__name__}",
            fix="download the wheel and its statement again",
        ) from problem
    if about != sha256 or kind != PREDICATE_TYPE:
        raise PolicyError(
            f"the statement beside {wheel.name} is not about this wheel",
            why=f"the wheel's SHA-256 is {sha256}, the statement is about {about}"
            if about != sha256
            else f"its predicate is {kind}, not {PREDICATE_TYPE}",
            fix="don't install it: one of the two was changed; ask the publisher",
        )
    return CheckedStatement(builder=builder, archs=archs)
