"""Mirrors of conda channels: other addresses for them, given in `CUWHEEL_CONDA_MIRROR`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from cuwheel.errors import UsageError
from cuwheel.fetch.urls import checked_mirror, is_local, redact_url

if TYPE_CHECKING:
    from collections.abc import Mapping


MIRRORS_VARIABLE = "CUWHEEL_CONDA_MIRROR"

_NAMED = re.compile(r"([\w.-]+)=(.*)")
# A file of a channel, and before it the channel; conda's platforms are called like this.
_FILE = re.compile(
    r"(?P<channel>.+)(?P<rest>/(noarch|(linux|osx|win|freebsd|emscripten|wasi|zos)-\w+)/[^/]+)"
)
_FORM = (
    f"set {MIRRORS_VARIABLE} to https://HOST/PATH or file:///FOLDER for all channels, or to "
    "`conda-forge=https://HOST/PATH`, several of these separated by spaces"
)


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """What `CUWHEEL_CONDA_MIRROR` says.

    Attributes:
        common: the mirror of each channel that has none of its own; empty for none.
        named: name and mirror of channels.
    """

    common: str = ""
    named: tuple[tuple[str, str], ...] = ()
    _channels: dict[str, set[str]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Mirrors:
        """Read the variable of a process.

        Raises:
            UsageError: it is malformed, or names a folder that isn't there.
        """
        words = environ.get(MIRRORS_VARIABLE, "").split()
        matches = {word: _NAMED.fullmatch(word) for word in words}
        named = tuple((found[1], _checked(found[2])) for found in matches.values() if found)
        common = [_checked(word) for word, found in matches.items() if not found]
        if len(common) > 1:
            raise UsageError(
                f"{MIRRORS_VARIABLE} has {len(common)} mirrors without a channel",
                why=", ".join(map(redact_url, common)),
                fix=_FORM,
            )
        return cls(common="".join(common), named=named)

    def url_for(self, url: str) -> str:
        """Where to read a channel, or a file of one.

        Args:
            url: the channel's own address, or that of a file in one of its platforms' folders.

        Returns:
            The same in the channel's mirror; what was given where it has none.
        """
        channel, rest = _split(url)
        name = urlsplit(channel).path.rpartition("/")[2]
        mirror = dict(self.named).get(name, self.common)
        if not mirror:
            return url
        self._channels.setdefault(redact_url(mirror), set()).add(channel)
        return mirror + rest

    def canonical(self, url: str) -> str:
        """The way back: the channel's own address of what was read from its mirror.

        Args:
            url: an address below one that `url_for` has given for a channel.

        Raises:
            UsageError: one mirror stands for several channels, so that it isn't known which.
        """
        base, rest = _split(redact_url(url))
        channels = self._channels.get(base, set())
        if len(channels) > 1:
            raise UsageError(
                f"it is unknown which channel {redact_url(url)} belongs to",
                why=f"{MIRRORS_VARIABLE} names one mirror for {' and '.join(sorted(channels))}",
                fix=_FORM,
            )
        return next((f"{channel}{rest}" for channel in channels), url)


def _checked(address: str) -> str:
    """An address as libraries write it: its host in small letters, no port where it is the usual.

    Raises:
        UsageError: it isn't one, or its folder isn't there.
    """
    checked = checked_mirror(address, MIRRORS_VARIABLE)
    if is_local(checked):
        return checked
    parts = urlsplit(checked)
    user = "".join(parts.netloc.rpartition("@")[:2])
    usual = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in {None, usual} else ""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit(parts._replace(netloc=f"{user}{host}{port}"))


def _split(url: str) -> tuple[str, str]:
    """A channel's address, and what follows it: empty, or `/<platform>/<file>`."""
    found = _FILE.fullmatch(url)
    return (found["channel"], found["rest"]) if found else (url.rstrip("/"), "")
