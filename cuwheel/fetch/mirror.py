"""The mirror that `CUWHEEL_MIRROR` names: what `nox -s mirror` wrote, on a disk or on a server.

It has the cache's layout, `downloads/<hash>/<name>`, and a page that links its wheels. Standard
library only: `cuwheel.bootstrap` reads the variable before any package is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from cuwheel.fetch.urls import checked_mirror, is_local

if TYPE_CHECKING:
    from collections.abc import Mapping


MIRROR_VARIABLE = "CUWHEEL_MIRROR"
WHEELS_PAGE = "wheels.html"


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """A mirror; its address is http, https or file, without slash at its end."""

    address: str

    @property
    def wheels(self) -> str:
        """The address of the page that links all its wheels, for pip's and uv's `--find-links`."""
        return f"{self.address}/{WHEELS_PAGE}"

    def url_of(self, folder: str, name: str) -> str:
        """Where it has a download, if it has it.

        Args:
            folder: what the cache calls the download's folder: its SHA-256, or `git-<commit>`.
            name: what the cache calls the file.
        """
        return f"{self.address}/downloads/{folder}/{quote(name)}"


def configured_mirror(environ: Mapping[str, str], *, offline: bool) -> Mirror | None:
    """The mirror that may be used; None where there is none, or it takes a network that mustn't be.

    Args:
        environ: of the process.
        offline: use no network; a folder is none.

    Raises:
        UsageError: the variable is malformed, or names a folder that isn't there.
    """
    given = environ.get(MIRROR_VARIABLE, "").strip()
    if not given:
        return None
    address = checked_mirror(given, MIRROR_VARIABLE)
    return Mirror(address=address) if is_local(address) or not offline else None
