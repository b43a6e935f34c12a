"""How two PTX texts differ: version, variables, functions, debug information."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cuwheel.system.quantities import plural
from cuwheel.verify.compare.bytes import pair_differences, quoted_bytes
from cuwheel.verify.compare.differences import Difference
from cuwheel.verify.compare.text_causes import causes_of_pairs, differing_pairs, stable_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.binaries.ptx import Ptx
    from cuwheel.verify.compare.differences import CauseKey, Location


# `.b8 name[12] = {78, 111, …}`: how PTX writes a text (PTX ISA, "Initializers").
_BYTES = re.compile(r"\.b8\s+([\w$]+)\[\d+\]\s*=\s*\{(\d+(?:\s*,\s*\d+)*)\}")
# Numbers as PTX writes them (PTX ISA, "Constants"), and not the ones in a register's name.
_NUMBER = re.compile(r"(?<![\w%$.])(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|-?\d+)(?![\w.])")
_RELEASE = re.compile(r"^(?:\.version\b|//)")


def compare_ptx(a: Ptx, b: Ptx, location: Location) -> Iterator[Difference]:
    """Every difference between two PTX texts."""
    found = [*_compare_rest(a, b, location), *_compare_functions(a, b, location)]
    yield from found
    if a.debug != b.debug:
        fact = f"only the {'first' if a.debug else 'second'} has lines for the debugger"
        yield Difference(
            location=replace(location, part=".loc"),
            fact="lines for the debugger differ" if a.debug and b.debug else fact,
            causes=("line-information",),
        )
    elif not found:
        yield Difference(
            location=location, fact="only the order of functions or empty lines differ"
        )


def _compare_rest(a: Ptx, b: Ptx, location: Location) -> Iterator[Difference]:
    pairs = differing_pairs(map(_readable, a.rest), map(_readable, b.rest))
    for one in pair_differences(pairs, location, "line"):
        is_release = _RELEASE.match(one.a) and _RELEASE.match(one.b) and not one.causes
        yield replace(one, causes=("cuda-compiler",)) if is_release else one


def _readable(line: str) -> str:
    """A line whose numbers are a text, with that text."""

    def text(found: re.Match[str]) -> str:
        codes = [int(number) & 0xFF for number in found[2].split(",")]
        return f".b8 {found[1]} = {bytes(codes).rstrip(bytes(1)).decode('ascii', 'replace')!r}"

    return _BYTES.sub(text, line)


def _compare_functions(a: Ptx, b: Ptx, location: Location) -> Iterator[Difference]:
    named_a, named_b = (
        {stable_name(name): (name, lines) for name, lines in one.functions.items()}
        for one in (a, b)
    )
    for key in {**named_a, **named_b}:
        one, other = named_a.get(key), named_b.get(key)
        name = (one or other or (key, ()))[0]
        at = replace(location, part=".entry", kernel=name)
        if one is None or other is None:
            which = "first" if one else "second"
            yield Difference(location=at, fact=f"only the {which} has this function")
        elif one[1] != other[1]:
            yield _function_difference(one[1], other[1], at)


def _function_difference(a: tuple[str, ...], b: tuple[str, ...], location: Location) -> Difference:
    pairs = differing_pairs(a, b)
    causes: tuple[CauseKey, ...] = causes_of_pairs(pairs)
    if not pairs:
        return Difference(location=location, fact="its lines are in another order")
    fact = f"{plural(len(pairs), 'line')} differ"
    if [_NUMBER.sub("0", line) for line in a] == [_NUMBER.sub("0", line) for line in b]:
        fact += ", only in constants"
    one, other = pairs[0]
    return Difference(
        location=location, fact=fact, a=quoted_bytes(one), b=quoted_bytes(other), causes=causes
    )
