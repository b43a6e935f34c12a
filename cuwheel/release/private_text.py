"""Text of this machine as others may read it: without its folders, without passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuwheel.fetch.urls import redact_text
from cuwheel.system.output.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class PublicText:
    """Makes text fit to be published.

    Args:
        folders: of this machine, with the name that stands in place of each.
    """

    def __init__(self, folders: Mapping[Path, str]) -> None:
        self._names = {
            str(path): name
            for folder, name in folders.items()
            for path in (folder.resolve(), folder)
            if path.name  # a home may be /
        }
        longest_first = sorted(self._names, key=len, reverse=True)
        # `/home/al` is no part of `/home/alice`.
        found = "|".join(f"{re.escape(path)}(?![\\w+-])" for path in longest_first)
        self._pattern = re.compile(found)

    def of(self, text: str) -> str:
        """A text without folders, without users and passwords of addresses, without controls."""
        shown = redact_text(visible(text))
        return self._pattern.sub(lambda found: self._names[found[0]], shown)
