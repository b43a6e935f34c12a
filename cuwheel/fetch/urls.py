"""Addresses: which are of this machine, how they are shown, whether a setting holds one.

Standard library only: `cuwheel.bootstrap` needs it before any package is there.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from cuwheel.errors import UsageError


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


def checked_mirror(address: str, variable: str) -> str:
    """The address of a mirror, without slash at its end.

    Args:
        address: what a person has set.
        variable: where, for messages.

    Raises:
        UsageError: it isn't one, or its folder isn't there.
    """
    parts = urlsplit(address)
    if not parts.scheme:
        raise UsageError(
            f"{variable} holds {address}, which is no address",
            why="it has no https:// or file:// in front",
            fix=f"write {Path(address).expanduser().absolute().as_uri()}",
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path):
        raise UsageError(
            f"{variable} holds {address}, which names no folder",
            why=f"behind file:// the name of a host is read, here {parts.netloc or 'none'}",
            fix="write file:/// and the folder's absolute path, three slashes in all",
        )
    if parts.scheme == "file" and not local_path(address).is_dir():
        raise UsageError(
            f"{variable} names {local_path(address)}, and there is no such folder",
            why="a mirror is a folder that is there, or the address of a server",
            fix="correct the path, or mount what should be there",
        )
    if parts.scheme not in {"file", "http", "https"} or not (parts.path or parts.netloc):
        raise UsageError(
            f"{variable} holds {redact_url(address)}, which can't be read",
            why="http, https and file are known",
            fix="write https://HOST/PATH or file:///FOLDER",
        )
    return address.rstrip("/")
