"""How two pieces of data differ: in texts, and in the bytes between them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from cuwheel.system.quantities import plural
from cuwheel.verify.compare.differences import Difference
from cuwheel.verify.compare.text_causes import causes_of_pairs, differing_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cuwheel.verify.compare.differences import CauseKey, Location


# Printable characters, and the zeros behind them. That at least one zero has to be there is no part
# of the pattern: it would be tried again from each character of a long run.
_RUN = re.compile(rb"([\t\n\r\x20-\x7e]{4,})\0*")
_SHOWN = 120  # characters of a text
_UNKNOWN_SHOWN = 20  # texts of one location that differ for no known cause


class BlobChange(NamedTuple):
    """How data changed.

    Attributes:
        pairs: texts that differ, the first of either being empty where only one has it.
        is_all: whether nothing but these texts differs.
    """

    pairs: list[tuple[str, str]]
    is_all: bool


def change_of_data(a: bytes, b: bytes) -> BlobChange:
    """Compare data that may hold texts, and differs."""
    pairs = differing_pairs(_texts(a), _texts(b))
    return BlobChange(pairs, bool(pairs) and _rest(a) == _rest(b))


def texts_in(data: bytes) -> Iterator[re.Match[bytes]]:
    """Texts that a compiler left, printable and ended by a zero or by the end of the data.

    Each is group 1 of its match; all zeros behind it belong to the match.
    """
    for found in _RUN.finditer(data):
        if found.end() > found.end(1) or found.end() == len(data):
            yield found


def pair_differences(
    pairs: Iterable[tuple[str, str]], location: Location, noun: str
) -> Iterator[Difference]:
    """Differences of texts.

    Those that known causes explain are reported as one for each set of causes: a module id is in
    hundreds of names; the others one by one, up to a number that a person would still read.

    Args:
        pairs: from `differing_pairs`.
        location: where they are.
        noun: what they are, `line`.
    """
    groups: dict[tuple[CauseKey, ...], list[tuple[str, str]]] = {}
    for pair in pairs:
        groups.setdefault(causes_of_pairs([pair]), []).append(pair)
    unknown = groups.pop((), [])
    for causes, group in groups.items():
        fact = f"a {noun} differs"
        if len(group) > 1:
            fact = f"{plural(len(group), noun)} differ, the first of them shown"
        yield _pair_difference(group[0], location, fact, causes)
    for pair in unknown[:_UNKNOWN_SHOWN]:
        yield _pair_difference(pair, location, f"a {noun} differs", ())
    if len(unknown) > _UNKNOWN_SHOWN:
        fact = f"{plural(len(unknown) - _UNKNOWN_SHOWN, noun)} more"
        yield Difference(location=location, fact=fact)


def _pair_difference(
    pair: tuple[str, str], location: Location, fact: str, causes: tuple[CauseKey, ...]
) -> Difference:
    a, b = map(quoted_bytes, pair)
    return Difference(location=location, fact=fact, a=a, b=b, causes=causes)


def count_differing(a: bytes, b: bytes) -> int:
    """Bytes that differ; for unequal lengths, with those that only one has."""
    return sum(x != y for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))


def quoted_bytes(text: str) -> str:
    """A text of a file, short and on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _texts(data: bytes) -> list[str]:
    return [found[1].decode("ascii") for found in texts_in(data)]


def _rest(data: bytes) -> bytes:
    """What lies between the texts; zeros behind one end and pad it, all others are data."""
    pieces, offset = [], 0
    for found in texts_in(data):
        pieces.append(data[offset : found.start()])
        offset = found.end()
    return b"".join([*pieces, data[offset:]])
