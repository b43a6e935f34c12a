"""URLs: local ones, display without secrets; the mirror that `CUWHEEL_MIRROR` names.

Standard library only: `cuwheel.bootstrap` needs it before any package is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from cuwheel.base.errors import UsageError

MIRROR_VARIABLE = "CUWHEEL_MIRROR"
WHEELS_PAGE = "wheels.html"
# All before the last `@` of a host: a password may hold another one.
USER_INFO = re.compile(r"//[^/\s'\"\\]+@")


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL, also of one with a malformed host."""
    try:
        return urlsplit(url)
    except ValueError:
        scheme, _, rest = url.partition("//")
        host, slash, path = rest.partition("/")
        return SplitResult(scheme.rstrip(":"), host, slash + path, "", "")


def check_url(address: str, named: str) -> None:
    """Raise UsageError for a URL without a readable host or port.

    Args:
        named: the option or variable that holds it.
    """
    try:
        _ = urlsplit(address).port
    except ValueError:  # its text may quote a password
        raise UsageError(
            f"{named} is {redact_url(address)}, which is not a URL",
            why="its host or port is malformed",
            fix="write https://HOST:PORT/PATH; an IPv6 address is in brackets: http://[::1]:8080/",
        ) from None


def is_local(url: str) -> bool:
    """Return True if a URL is of this machine's file system."""
    return split_url(url).scheme == "file"


def is_web(text: str) -> bool:
    """Return True for an address of a server, where a path is possible too."""
    return text.lower().startswith(("http://", "https://"))


def local_path(url: str) -> Path:
    """Return the path that a `file:` URL names."""
    return Path(unquote(split_url(url).path))


def redact_url(url: str) -> str:
    """Return a URL without what may be secret: user, password and query.

    The one way in which URLs are shown and recorded; it takes malformed ones too, such as
    `me:secret@host/path`.
    """
    start, slashes, rest = url.partition("//")
    if not slashes:
        start, rest = "", url
    host, slash, path = rest.partition("/")
    path, mark, fragment = path.partition("#")
    shown = f"{host.rpartition('@')[2].partition('?')[0]}{slash}{path.partition('?')[0]}"
    return f"{start}{slashes}{shown}{mark}{fragment}"


def redact_text(text: str) -> str:
    """Return a program's output or a message without the users and passwords of URLs in it."""
    return USER_INFO.sub("//", text)


def without_credentials(url: str) -> str:
    """Return the URL without user and password, where a program gets them in another way."""
    parts = split_url(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def credentials_of(url: str) -> tuple[str, str]:
    """Return user and password of a URL, decoded; empty where it has none."""
    user, _, password = split_url(url).netloc.rpartition("@")[0].partition(":")
    return unquote(user), unquote(password)


def checked_mirror(address: str, variable: str) -> str:
    """Return the address of a mirror, without slash at its end; raises UsageError."""
    check_url(address, variable)
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


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Mirror of the cache's downloads that `nox -s mirror` wrote, on a disk or a server.

    Its address is http, https or file, without slash at its end.
    """

    address: str

    @property
    def wheels(self) -> str:
        """Address of the page that links all its wheels, for pip's and uv's `--find-links`."""
        return f"{self.address}/{WHEELS_PAGE}"

    def url_of(self, folder: str, name: str) -> str:
        """Return a download's address, by its folder in the cache (SHA-256, or `git-<commit>`)."""
        return f"{self.address}/downloads/{folder}/{quote(name)}"


def configured_mirror(environ: Mapping[str, str], *, offline: bool) -> Mirror | None:
    """Return the mirror; None where there is none, or `offline` forbids it; raises UsageError."""
    value = environ.get(MIRROR_VARIABLE, "").strip()
    if not value:
        return None
    address = checked_mirror(value, MIRROR_VARIABLE)
    return Mirror(address=address) if is_local(address) or not offline else None
