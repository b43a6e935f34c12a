"""Mounts and variables of a container: folders at the paths that they have on this machine."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuwheel.base.caller import Caller
from cuwheel.base.errors import UsageError
from cuwheel.base.fetch.urls import is_local, local_path
from cuwheel.base.paths import ROOT

# Indexes and network settings of pip, uv, requests and git.
_OF_NETWORK = re.compile(
    r"(PIP|UV)_\w*(INDEX|LINKS|CERT|HTTP|HOST|TLS|RETRIES|TIMEOUT|CONFIG_FILE)\w*"
    r"|SSL_(CERT_FILE|CERT_DIR|CLIENT_CERT)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO"
    r"|(?i:(HTTP|HTTPS|ALL|NO)_PROXY)|CUWHEEL_(CONDA|DEBIAN|REDIST)_MIRROR|CUWHEEL_SLOW_NETWORK"
)
_ALWAYS = re.compile("COLUMNS|NO_COLOR|GITHUB_ACTIONS|CUWHEEL_COMPILE_CACHE_SIZE")
# Both folders are written.
_CACHE, _COMPILES = "CUWHEEL_CACHE", "CUWHEEL_COMPILE_CACHE"
_MIRROR = "CUWHEEL_MIRROR"


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Folders and variables of this machine that a container has."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    passed: Mapping[str, str]

    def mounts(self) -> Iterator[str]:
        """Yield the mounts as options of `run`."""
        for path in self.write:
            yield from ("--mount", _mount(path))
        for path in self.read:
            yield from ("--mount", _mount(path, "readonly"))


def share(caller: Caller, *, read: Iterable[Path], write: Iterable[Path], network: bool) -> Shared:
    """Return the folders and variables for a build in a container.

    Folders that it writes are made here, where they aren't there yet: an engine would make them as
    root, or refuse.

    Args:
        network: without one, no address of an index or a cache is passed, as it can hold a
            password.
    """
    environ = caller.environ
    own = {_CACHE: str(caller.cache)}
    if environ.get(_COMPILES):
        own[_COMPILES] = str(caller.path(environ[_COMPILES]))
    projects = caller.roots
    if outside := [str(root) for root in projects if root != ROOT]:
        own["CUWHEEL_PROJECT"] = os.pathsep.join(outside)
    if environ.get(_MIRROR) and (network or is_local(environ[_MIRROR])):
        own[_MIRROR] = environ[_MIRROR]
    others = {
        name: value
        for name, value in environ.items()
        if _ALWAYS.fullmatch(name) or (network and _OF_NETWORK.fullmatch(name))
    }
    written = dict.fromkeys(
        (*write, Path(own[_CACHE]), *([Path(own[_COMPILES])] if _COMPILES in own else ()))
    )
    for folder in written:
        folder.mkdir(parents=True, exist_ok=True)
    named = _named_in((*others.values(), own.get(_MIRROR, "")))
    readable = dict.fromkeys((ROOT, *projects, *read, *named))
    return Shared(
        read=tuple(path for path in readable if path not in written),
        write=tuple(written),
        passed={**others, **own},
    )


def _named_in(values: Iterable[str]) -> Iterator[Path]:
    """Yield the files and folders that variables name, such as a bundle of certificates."""
    for word in (word for value in values for word in value.split()):
        path = local_path(word) if is_local(word) else Path(word)
        if path.is_absolute() and path != Path(os.sep) and path.exists():
            yield path


def _mount(path: Path, *options: str) -> str:
    """Return the value of `--mount`: comma-separated, quoted as in CSV."""
    if "\n" in str(path):
        raise UsageError(
            f"{str(path)!r} can't be mounted into a container",
            why="its name contains a line break",
            fix="use another folder",
        )
    text = io.StringIO()
    fields = ("type=bind", f"source={path}", f"destination={path}", *options)
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()
