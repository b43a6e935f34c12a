"""Times, sizes and shares as a person reads them."""

from __future__ import annotations

_MIB = 1 << 20
_GIB = 1 << 30
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
    """Bytes as `3.8 GiB` or `512 MiB`; what is smaller, `0 MiB`, doesn't matter for compilers."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


def show_share(part: float) -> str:
    """A share of 0 to 1 as `61 %`; one that is small but there is `<1 %`."""
    percent = f"{part:.0%}".replace("%", " %")
    return "<1 %" if part > 0 and percent == "0 %" else percent


def plural(count: int, noun: str) -> str:
    """A number with its noun: `1 wheel`, `2 wheels`, `no wheels`, `3 libraries`."""
    if count == 1:
        return f"1 {noun}"
    many = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{count or 'no'} {many}"
