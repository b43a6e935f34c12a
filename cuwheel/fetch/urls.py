"""Addresses: which are of this machine, how they are shown, whether a setting holds one.

Standard library only: `cuwheel.bootstrap` needs it before any package is there.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from cuwheel.errors import UsageError

_USER_INFO = re.compile(r"//[^/\s@'\"]+@")


def is_local(url: str) -> bool:
    """Whether an address is of this machine's file system: no network is needed for it."""
    return urlsplit(url).scheme == "file"


def local_path(url: str) -> Path:
    """The file or folder that a `file:` address names."""
    return Path(unquote(urlsplit(url).path))


def redact_url(url: str) -> str:
    """An address without what may be secret: user, password and query.

    It is the one way in which addresses are shown and written down; also what was only meant as one
    is, such as `me:secret@host/path`.
    """
    start, slashes, rest = url.partition("//")
    if not slashes:
        start, rest = "", url
    host, slash, path = rest.partition("/")
    path, mark, fragment = path.partition("#")
    shown = f"{host.rpartition('@')[2].partition('?')[0]}{slash}{path.partition('?')[0]}"
    return f"{start}{slashes}{shown}{mark}{fragment}"


def redact_text(text: str) -> str:
    """A program's or a library's words without the users and passwords of addresses in them."""
    return _USER_INFO.sub("//", text)


def without_credentials(url: str) -> str:
    """The same address without user and password, where a program gets them in another way."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def credentials_of(url: str) -> tuple[str, str]:
    """User and password in an address, decoded; empty where it has none."""
    user, _, password = urlsplit(url).netloc.rpartition("@")[0].partition(":")
    return unquote(user), unquote(password)


def checked_mirror(address: str, variable: str) -> str:
    """The address of a mirror, without slash at its end.

    Args:
        address: what a person has set.
        variable: where, for messages.

    Raises:
        UsageError: it isn't one, or its folder isn't there.
    """
    parts, shown = urlsplit(address), redact_url(address)
    if not parts.scheme:
        raise UsageError(
            f"{variable} is {shown}, which is not a URL",
            why="it doesn't start with https:// or file://",
            fix=f"write {Path(shown).expanduser().absolute().as_uri()}",
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path):
        raise UsageError(
            f"{variable} is {shown}, which is not the URL of a folder",
            why="after file:// comes a host name, here "
            f"{parts.netloc.rpartition('@')[2] or 'none'}",
            fix="write file:/// and the folder's absolute path, three slashes in all",
        )
    if parts.scheme == "file" and not local_path(address).is_dir():
        raise UsageError(
            f"{variable} names {local_path(address)}, which is not an existing folder",
            why="a mirror is an existing folder or the URL of a server",
            fix="correct the path, or mount the folder",
        )
    if parts.scheme not in {"file", "http", "https"} or not (parts.path or parts.netloc):
        raise UsageError(
            f"{variable} is {shown}, which is not supported",
            why="supported schemes are http, https and file",
            fix="write https://HOST/PATH or file:///FOLDER",
        )
    return address.rstrip("/")
