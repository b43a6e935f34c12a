"""Names of symbols: as a person would write them, and as the loader hashes them."""

from __future__ import annotations

import re

_NAMED = re.compile(r"_Z(?:T[VIST])?N?[VrK]*[RO]?")


def plain_name(mangled: str) -> str:
    """`c10::Error::what` of `_ZNK3c105Error4whatEv`; what follows the name is left out."""
    start = _NAMED.match(mangled)
    rest, words = mangled[start.end() :] if start else "", []
    while found := re.match(r"(\d+)", rest):
        length = int(found[1])
        words.append(rest[found.end() : found.end() + length])
        rest = rest[found.end() + length :]
    return "::".join(words) or mangled


def gnu_hash(name: str) -> int:
    """`dl_new_hash` of glibc."""
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value
