"""PyTorch's index of each CUDA line: the wheels `2.14.0+cu126` at `…/whl/cu126/torch/`.

The public index has each release for one CUDA; the others are at PyTorch's own (pytorch.org, "Get
Started"). Its address comes from a variable; without one uv uses the one that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LINES_VARIABLE = "CUWHEEL_TORCH_INDEX"  # `https://HOST/whl`, without a line's name

_LINE = re.compile(r"cu(\d\d)(\d)")
_BARE = re.compile(r"^([\w.-]+)==([\w.]+\+cu\d{3})(?: ;[^\\\n]*)?$", re.MULTILINE)
_PINS = re.compile(r"^([\w.-]+)==[\w.]+\+(cu\d{3})\b", re.MULTILINE)


def line_of(version: str) -> str:
    """Return the CUDA line of a version, `cu126` of `2.14.0+cu126`; empty: it names none."""
    local = version.partition("+")[2]
    return local if _LINE.fullmatch(local) else ""


def cuda_of_line(line: str) -> str:
    """Return the CUDA release of a line, `12.6` of `cu126`."""
    return _LINE.sub(r"\1.\2", line)


def line_index(line: str, environ: Mapping[str, str]) -> str:
    """Return the address of a line's index; empty where no variable names it."""
    base = environ.get(LINES_VARIABLE, "").rstrip("/")
    return f"{base}/{line}" if base else ""


def with_lines(
    requirements: str, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return uv's options and variables with which it finds the pins of CUDA lines.

    Only these packages come from there, whatever else a line's index holds: a project's page is to
    uv a list of links.

    Args:
        requirements: requirements or a lock, one a line.
    """
    pins = dict.fromkeys(_PINS.findall(requirements))
    if not pins:
        return (), environ
    addresses = [(name, line_index(line, environ)) for name, line in pins]
    if not all(address for _, address in addresses):
        # Its pages state no dates, so a cooldown would leave nothing of them.
        dates = (f"{name}=false" for name, _ in pins)
        options = [word for date in dates for word in ("--exclude-newer-package", date)]
        return ("--torch-backend", next(line for _, line in pins), *options), environ
    links = [f"{address}/{name}/" for name, address in addresses]
    links += filter(None, [environ.get("UV_FIND_LINKS", "")])
    return (), {**environ, "UV_FIND_LINKS": ",".join(links)}


def with_hashes(lock: str, environ: Mapping[str, str]) -> str:
    """Return a lock with the hashes of the pins of CUDA lines: uv writes none of a list of links.

    Raises DownloadError where an index can't be read.
    """
    if not _BARE.search(lock):
        return lock
    # Most locks hold no such pin: they needn't load its reader.
    from cuwheel.base.fetch.indexes.indexes import find_wheels  # noqa: PLC0415

    def complete(pin: re.Match[str]) -> str:
        address = line_index(line_of(pin[2]), environ)
        wheels = find_wheels(pin[1], indexes=(address,)) if address else ()
        hashes = sorted({wheel.sha256 for wheel in wheels if str(wheel.version) == pin[2]} - {""})
        return pin[0] + "".join(f" \\\n    --hash=sha256:{digest}" for digest in hashes)

    return _BARE.sub(complete, lock)
