"""Names of symbols: as a person would write them, and as the loader hashes them."""

from __future__ import annotations

import re

_NAMED = re.compile(r"_Z(?:T[VIST])?N?[VrK]*[RO]?")

# Lengths of names; and what has digits that are none: substitutions (`S1_`), parameters of
# templates (`T0_`), literals (`Lj8E`), lengths of arrays (`A4_`).
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_NO_NAME = re.compile(r"[ST][0-9A-Z]*_|L[a-z]n?[0-9]+E|A[0-9]+_")


def plain_name(mangled: str) -> str:
    """`c10::Error::what` of `_ZNK3c105Error4whatEv`; what follows the name is left out."""
    start = _NAMED.match(mangled)
    rest, words = mangled[start.end() :] if start else "", []
    while found := re.match(r"(\d+)", rest):
        length = int(found[1])
        words.append(rest[found.end() : found.end() + length])
        rest = rest[found.end() + length :]
    return "::".join(words) or mangled


def has_old_string(mangled: str) -> bool:
    """Whether a C++ name holds `std::string` as it was before C++11: `Ss`.

    Itanium C++ ABI, "Compression": `Ss` is that string alone, outside of names.
    """
    at = 0
    while at < len(mangled):
        if mangled.startswith("Ss", at):
            return True
        if number := _NUMBER.match(mangled, at):
            at = number.end() + int(number[0])
        elif other := _NO_NAME.match(mangled, at):
            at = other.end()
        else:
            at += 1
    return False


def gnu_hash(name: str) -> int:
    """`dl_new_hash` of glibc."""
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value
