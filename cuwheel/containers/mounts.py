"""What of this machine a container has: folders at the paths that they have here, and variables."""

from __future__ import annotations

import csv
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuwheel.containers.image import IMAGE_VARIABLE
from cuwheel.errors import UsageError
from cuwheel.fetch.urls import is_local, local_path
from cuwheel.paths import ROOT, default_cache, given_path, project_roots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cuwheel.containers.image import Image


# Where packages come from and how they are reached, for pip, uv, requests and git.
_OF_NETWORK = re.compile(
    r"(PIP|UV)_\w*(INDEX|LINKS|CERT|HTTP|HOST|TLS|RETRIES|TIMEOUT|CONFIG_FILE)\w*"
    r"|SSL_(CERT_FILE|CERT_DIR|CLIENT_CERT)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO"
    r"|(?i:(HTTP|HTTPS|ALL|NO)_PROXY)|CUWHEEL_CONDA_MIRROR|CUWHEEL_SLOW_NETWORK"
)
_ALWAYS = re.compile("COLUMNS|NO_COLOR|GITHUB_ACTIONS|CUWHEEL_COMPILE_CACHE_SIZE")
# Both folders are written.
_CACHE, _COMPILES = "CUWHEEL_CACHE", "CUWHEEL_COMPILE_CACHE"
_MIRROR = "CUWHEEL_MIRROR"


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What a container has of this machine.

    Attributes:
        network: whether it has one.
        read: files and folders that it can read.
        write: folders that it can write.
        passed: variables.
    """

    network: bool
    read: tuple[Path, ...]
    write: tuple[Path, ...]
    passed: Mapping[str, str]

    def options(self, image: Image) -> Iterator[str]:
        """As podman's and docker's `run` take it; variables by name, so that `ps` shows none."""
        for path in self.write:
            yield from ("--mount", _mount(path))
        for path in self.read:
            yield from ("--mount", _mount(path, "readonly"))
        for name in self.passed:
            yield from ("--env", name)
        yield from ("--env", f"{IMAGE_VARIABLE}={image.reference}")


def share(
    environ: Mapping[str, str], *, read: Iterable[Path], write: Iterable[Path], network: bool
) -> Shared:
    """Gather what a build in a container needs.

    Folders that it writes are made here, where they aren't there yet: an engine would make them as
    root, or refuse.

    Args:
        environ: the caller's.
        read: what this command has beside checkout and projects: a source.
        write: the same: its work folder, and where wheels go.
        network: whether it has one. Without, no address of an index or a cache is passed, as it
            can hold a password.
    """
    own = {_CACHE: str(default_cache())}
    if environ.get(_COMPILES):
        own[_COMPILES] = str(given_path(environ[_COMPILES]))
    projects = project_roots()
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
        network=network,
        read=tuple(path for path in readable if path not in written),
        write=tuple(written),
        passed={**others, **own},
    )


def _named_in(values: Iterable[str]) -> Iterator[Path]:
    """The files and folders that variables name, such as a bundle of certificates."""
    for word in (word for value in values for word in value.split()):
        path = local_path(word) if is_local(word) else Path(word)
        if path.is_absolute() and path != Path(os.sep) and path.exists():
            yield path


def _mount(path: Path, *how: str) -> str:
    """The value of `--mount`: comma-separated, quoted as in CSV."""
    if "\n" in str(path):
        raise UsageError(
            f"{str(path)!r} can't be mounted into a container",
            why="its name contains a line break",
            fix="use another folder",
        )
    written = io.StringIO()
    fields = ("type=bind", f"source={path}", f"destination={path}", *how)
    csv.writer(written, lineterminator="").writerow(fields)
    return written.getvalue()
