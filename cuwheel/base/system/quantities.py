"""Times, sizes, shares, counts and lists, formatted for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
_MINUTE = 60  # seconds
_NAMED = 1.0  # seconds; shorter stages aren't named
_HOUR = 3600  # seconds
_SHIFTS = {"k": 10, "m": 20, "g": 30, "t": 40}
_SIZE = re.compile(r"(\d+)\s*([kmgt])(?:i?b)?", re.IGNORECASE)


def show_time(seconds: float) -> str:
    """Return seconds as `0 s`, `0.02 s`, `12.3 s`, `4:10` (minutes) or `1:02:03`."""
    if not seconds:
        return "0 s"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    whole = round(seconds)
    minutes = f"{whole % _HOUR // _MINUTE:02}:{whole % _MINUTE:02}"
    return f"{whole // _HOUR}:{minutes}" if whole >= _HOUR else minutes.removeprefix("0")


def describe_durations(durations: Mapping[str, float]) -> str:
    """Return `1:15: build 1:10, smoke 5.0 s`: the total, then the stages of a second or more."""
    long = {name: seconds for name, seconds in durations.items() if seconds >= _NAMED}
    total = show_time(sum(durations.values()))
    stages = ", ".join(f"{name} {show_time(seconds)}" for name, seconds in long.items())
    return f"{total}: {stages}" if stages else total


def show_size(size: int) -> str:
    """Return bytes as `3.8 GiB`, `512.0 MiB`, `1.0 KiB` or `17 bytes`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return plural(size, "byte")


def read_size(text: str) -> int | None:
    """Return the bytes of `500M`, `20G` or `1 TiB`, powers of 1024; None for anything else.

    The unit is required: a bare number is bytes for one program and gigabytes for another.
    """
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) << _SHIFTS[match[2].lower()] if match else None


def show_share(part: float) -> str:
    """Return a share of 0 to 1 as `61 %`; a small one is `<1 %`."""
    percent = f"{part:.0%}".replace("%", " %")
    return "<1 %" if part > 0 and percent == "0 %" else percent


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 wheel`, `2 wheels`, `0 libraries`, `1,234 bytes`."""
    if count == 1:
        return f"1 {noun}"
    takes_ies = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{count:,} {f'{noun[:-1]}ies' if takes_ies else f'{noun}s'}"


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first of some texts, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more
