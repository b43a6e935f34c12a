"""Scripts that a foreign interpreter runs by path: standard library, Python 3.9, nothing of ours.

Called by `build` (launcher, memory gate, namespaces), `smoke` and `diagnose` (probes), `attest`
(signing, with the packages of its environment). Face: `script`, which gives the path of one.
Scripts import nothing of ours but each other.
"""

from __future__ import annotations

from pathlib import Path


def script(name: str) -> Path:
    """The path of one of these scripts: `launcher/launch.py`."""
    return Path(__file__).parent / name
