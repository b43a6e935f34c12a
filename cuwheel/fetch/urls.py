"""Addresses: which are of this machine, and how they are shown. Standard library only."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit


def is_local(url: str) -> bool:
    """Whether an address is of this machine's file system: no network is needed for it."""
    return urlsplit(url).scheme == "file"


def local_path(url: str) -> Path:
    """The file or folder that a `file:` address names."""
    return Path(unquote(urlsplit(url).path))


def redact_url(url: str) -> str:
    """An address without what may be secret: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
