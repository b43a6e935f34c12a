"""Mirrors: other places for what the locks name, given in `CUWHEEL_CONDA_MIRROR`.

A plain mirror stands for a conda channel. A full one, which `nox -s mirror` writes, also holds
wheels and sources; its `mirror.json` tells. Standard library only but for what asks a server:
`cuwheel.bootstrap` reads the variable too.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from cuwheel.errors import CuwheelError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


MIRRORS_VARIABLE = "CUWHEEL_CONDA_MIRROR"
MANIFEST = "mirror.json"
DOWNLOADS = "downloads"  # folders of a full mirror
WHEELS = "wheels"
SIMPLE = "simple"

_ASKING = threading.Lock()
_NAMED = re.compile(r"([\w.-]+)=(.*)")
# A file of a channel, and before it the channel; conda's platforms are called like this.
_FILE = re.compile(
    r"(?P<channel>.+)(?P<rest>/(noarch|(linux|osx|win|freebsd|emscripten|wasi|zos)-\w+)/[^/]+)"
)
_FORM = (
    f"set {MIRRORS_VARIABLE} to https://HOST/PATH or file:///FOLDER for all channels, or to "
    "`conda-forge=https://HOST/PATH`, several of these separated by blanks"
)


@dataclass(frozen=True, kw_only=True)
class Mirrors:
    """What `CUWHEEL_CONDA_MIRROR` says.

    Attributes:
        common: the mirror of each channel that has none of its own; empty for none.
        named: name and mirror of channels.
        offline: ask no server.
    """

    common: str = ""
    named: tuple[tuple[str, str], ...] = ()
    offline: bool = False
    _channels: dict[str, set[str]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str], *, offline: bool = False) -> Mirrors:
        """Read the variable.

        Args:
            environ: of the process.
            offline: ask no server what its mirror holds.

        Raises:
            UsageError: it is malformed, or names a folder that isn't there.
        """
        words = environ.get(MIRRORS_VARIABLE, "").split()
        matches = {word: _NAMED.fullmatch(word) for word in words}
        named = tuple((found[1], _checked(found[2])) for found in matches.values() if found)
        common = [_checked(word) for word, found in matches.items() if not found]
        if len(common) > 1:
            raise UsageError(
                f"{MIRRORS_VARIABLE} names {len(common)} mirrors without saying for which channel",
                why=", ".join(map(_public, common)),
                fix=_FORM,
            )
        return cls(common="".join(common), named=named, offline=offline)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every mirror, in the order in which they are asked."""
        found = (*(address for _, address in self.named), self.common)
        return tuple(dict.fromkeys(filter(None, found)))

    @property
    def is_local(self) -> bool:
        """Whether there are mirrors, and none of them takes a network."""
        return bool(self.addresses) and all(map(_is_file, self.addresses))

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
        self._channels.setdefault(_public(mirror), set()).add(channel)
        return mirror + rest

    def canonical(self, url: str) -> str:
        """The way back: the channel's own address of what was read from its mirror.

        Args:
            url: an address below one that `url_for` has given for a channel.

        Raises:
            UsageError: one mirror stands for several channels, so that nothing tells which.
        """
        place, rest = _split(_public(url))
        channels = self._channels.get(place, set())
        if len(channels) > 1:
            raise UsageError(
                f"nothing tells which channel {_public(url)} is of",
                why=f"{MIRRORS_VARIABLE} names one mirror for {' and '.join(sorted(channels))}",
                fix=_FORM,
            )
        return next((f"{channel}{rest}" for channel in channels), url)

    @property
    def full(self) -> str | None:
        """The address of the first mirror that holds more than conda packages.

        Raises:
            DownloadError: its server doesn't answer.
        """
        return next((mirror for mirror in self.addresses if self._files(mirror)), None)

    @property
    def wheels(self) -> str | None:
        """Where a full mirror has wheels: a folder's path, or the address of a simple index.

        Raises:
            DownloadError: its server doesn't answer.
        """
        if self.full is not None and _is_file(self.full):
            return str(_path(self.full) / WHEELS)
        return self.index

    @property
    def index(self) -> str | None:
        """The address of a full mirror's simple index.

        Raises:
            DownloadError: its server doesn't answer.
        """
        return f"{self.full}/{SIMPLE}/" if self.full else None

    def find(self, folder: str, name: str) -> Mirrored | None:
        """A download in a full mirror.

        Args:
            folder: what the cache calls its folder: the file's SHA-256, or `git-<commit>`.
            name: what the cache calls the file.

        Returns:
            None where no mirror has it.

        Raises:
            DownloadError: a mirror's server doesn't answer.
        """
        path = f"{DOWNLOADS}/{folder}/{name}"
        for mirror in self.addresses:
            if sha256 := self._files(mirror).get(path):
                return Mirrored(url=f"{mirror}/{quote(path)}", sha256=sha256)
        return None

    def _files(self, mirror: str) -> Mapping[str, str]:
        """Path and SHA-256 of all that a full mirror holds; nothing for a plain one."""
        if _is_file(mirror):
            return _read_manifest(_path(mirror) / MANIFEST)
        return {} if self.offline else _manifest_of(mirror)


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """A file in a full mirror: its address, and the SHA-256 that the mirror states."""

    url: str
    sha256: str


def _files_of(manifest: bytes) -> Mapping[str, str]:
    """Path and SHA-256 of the files that a `mirror.json` lists; none where it isn't one."""
    try:
        return {path: facts["sha256"] for path, facts in json.loads(manifest)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _read_manifest(path: Path) -> Mapping[str, str]:
    return _files_of(path.read_bytes()) if path.is_file() else {}


def _manifest_of(mirror: str) -> Mapping[str, str]:
    """What a server's mirror holds, asked once in a run, whatever comes of it.

    Raises:
        DownloadError: it doesn't answer.
    """
    with _ASKING:  # many downloads want to know at once
        answer = _ask_for_manifest(mirror)
    if isinstance(answer, Exception):
        raise answer
    return answer


@functools.cache
def _ask_for_manifest(mirror: str) -> Mapping[str, str] | CuwheelError:
    """What a server's mirror holds, or why that can't be known."""
    from cuwheel.fetch.web import read_small  # noqa: PLC0415 - see the module's own words

    try:
        answer = read_small(f"{mirror}/{MANIFEST}", fix=f"see that {MIRRORS_VARIABLE} is right")
    except CuwheelError as problem:
        return problem
    return _files_of(answer or b"")


def _checked(address: str) -> str:
    """An address without slash at its end.

    Raises:
        UsageError: it isn't one, or its folder isn't there.
    """
    parts = urlsplit(address)
    if not parts.scheme:
        raise UsageError(
            f"{MIRRORS_VARIABLE} holds {address}, which is no address",
            why="it has no https:// or file:// in front",
            fix=f"write {Path(address).expanduser().absolute().as_uri()}",
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path):
        raise UsageError(
            f"{MIRRORS_VARIABLE} holds {address}, which names no folder",
            why=f"behind file:// the name of a host is read, here {parts.netloc or 'none'}",
            fix="write file:/// and the folder's absolute path, three slashes in all",
        )
    if parts.scheme == "file" and not _path(address).is_dir():
        raise UsageError(
            f"{MIRRORS_VARIABLE} names {_path(address)}, and there is no such folder",
            why="a mirror is the folder that `nox -s mirror -- … --to FOLDER` wrote",
            fix="correct the path, or mount what should be there",
        )
    if parts.scheme not in {"file", "http", "https"} or not (parts.path or parts.netloc):
        raise UsageError(
            f"{MIRRORS_VARIABLE} holds {_public(address)}, which can't be read",
            why="http, https and file are known",
            fix=_FORM,
        )
    return _normal(address).rstrip("/")


def _normal(address: str) -> str:
    """As libraries write an address: its host in small letters, no port where it is the usual."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return address
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


def _public(url: str) -> str:
    """An address without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _is_file(address: str) -> bool:
    return urlsplit(address).scheme == "file"


def _path(address: str) -> Path:
    return Path(unquote(urlsplit(address).path))
