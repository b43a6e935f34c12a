"""Times, sizes, shares and counts as a person reads them: the one place for each."""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
_MINUTE = 60  # seconds
_HOUR = 3600  # seconds


def show_time(seconds: float) -> str:
    """Seconds as `0 s`, `0.02 s`, `12.3 s`, `4:10` (minutes) or `1:02:03`."""
    if not seconds:
        return "0 s"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s"
    whole = round(seconds)
    minutes = f"{whole % _HOUR // _MINUTE:02}:{whole % _MINUTE:02}"
    return f"{whole // _HOUR}:{minutes}" if whole >= _HOUR else minutes.removeprefix("0")


def show_size(size: int) -> str:
    """Bytes as `3.8 GiB`, `512.0 MiB`, `1.0 KiB` or `17 bytes`."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return plural(size, "byte")


def show_share(part: float) -> str:
    """A share of 0 to 1 as `61 %`; one that is small but there is `<1 %`."""
    percent = f"{part:.0%}".replace("%", " %")
    return "<1 %" if part > 0 and percent == "0 %" else percent


def plural(count: int, noun: str) -> str:
    """A count with its noun: `1 wheel`, `2 wheels`, `0 libraries`, `1,234 bytes`."""
    if count == 1:
        return f"1 {noun}"
    takes_ies = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{count:,} {f'{noun[:-1]}ies' if takes_ies else f'{noun}s'}"
