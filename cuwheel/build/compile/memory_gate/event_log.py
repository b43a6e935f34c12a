"""The event log: one line of JSON for each compile and each of its programs."""

from __future__ import annotations

import os

_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')  # codes that JSON takes as they are


def append(path: str, fields: dict[str, object]) -> None:
    """Add a line, in one write, so that lines of two processes never mix; nothing without a path.

    A log that can't be written is no reason for a compile to fail.
    """
    if not path:
        return
    line = ", ".join(f"{_quoted(name)}: {_json(value)}" for name, value in fields.items())
    try:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.write(log, f"{{{line}}}\n".encode("ascii"))
        os.close(log)
    except OSError:
        pass


def _json(value: object) -> str:
    """Return what json.dumps gives; the module takes longer to import than all else here."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_json, value))}]"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _quoted(text: str) -> str:
    """Return a JSON string in ASCII, also for file names that are no text."""
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2])
    plain = (
        f"\\u{high:02x}{low:02x}" if high or low not in _PLAIN else chr(low) for high, low in pairs
    )
    return f'"{"".join(plain)}"'
