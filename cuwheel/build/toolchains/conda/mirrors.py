"""Mirrors of conda channels: other addresses for them, from `CUWHEEL_CONDA_MIRROR`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import checked_mirror, is_local, redact_url

MIRRORS_VARIABLE = "CUWHEEL_CONDA_MIRROR"

_NAMED = re.compile(r"([\w.-]+)=(.*)")
# A file of a channel, after the channel and one of conda's platforms.
_FILE = re.compile(
    r"(?P<channel>.+)(?P<rest>/(noarch|(linux|osx|win|freebsd|emscripten|wasi|zos)-\w+)/[^/]+)"
)
_FORM = (
    f"set {MIRRORS_VARIABLE} to https://HOST/PATH or file:///FOLDER for all channels, or to "
    "`conda-forge=https://HOST/PATH`, several of these separated by spaces"
)


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """The mirrors in `CUWHEEL_CONDA_MIRROR`.

    Attributes:
        common: the mirror of each channel that has none of its own; empty for none.
        named: the mirrors of single channels.
    """

    common: str = ""
    named: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Mirrors:
        """Read the variable of a process.

        Raises:
            UsageError: it is malformed, or names a folder that doesn't exist.
        """
        named, common = [], []
        for text in environ.get(MIRRORS_VARIABLE, "").split():
            if match := _NAMED.fullmatch(text):
                named.append((match[1], _checked(match[2])))
            else:
                common.append(_checked(text))
        if len(common) > 1:
            raise UsageError(
                f"{MIRRORS_VARIABLE} has {len(common)} mirrors without a channel",
                why=", ".join(map(redact_url, common)),
                fix=_FORM,
            )
        return cls(common="".join(common), named=tuple(named))

    def url_for(self, url: str) -> str:
        """Return the mirror's address of a channel or of its file; unchanged without mirror."""
        channel, rest = _split(url)
        name = urlsplit(channel).path.rpartition("/")[2]
        mirror = dict(self.named).get(name, self.common)
        return mirror + rest if mirror else url


def _checked(address: str) -> str:
    """Return an address with its host in lower case and no default port."""
    checked = checked_mirror(address, MIRRORS_VARIABLE)
    if is_local(checked):
        return checked
    parts = urlsplit(checked)
    user = "".join(parts.netloc.rpartition("@")[:2])
    default = {"http": 80, "https": 443}[parts.scheme]
    port = f":{parts.port}" if parts.port not in {None, default} else ""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return urlunsplit(parts._replace(netloc=f"{user}{host}{port}"))


def _split(url: str) -> tuple[str, str]:
    """Return a channel's address, and what follows it: empty, or `/<platform>/<file>`."""
    match = _FILE.fullmatch(url)
    return (match["channel"], match["rest"]) if match else (url.rstrip("/"), "")
