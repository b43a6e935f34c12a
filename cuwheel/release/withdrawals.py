"""Wheels of releases that nobody should take any more: the list of the site.

A checkout that has the records of earlier releases alone has no list: the last record has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel.index.site import FILES
from cuwheel.index.yanks import YANKS, called, changed_yanks, read_yanks, write_yanks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cuwheel.release.record import Release


@dataclass(frozen=True, kw_only=True)
class Withdrawals:
    """What is withdrawn, and what is asked for now.

    Attributes:
        site: the folder that is served.
        releases: all there are, the oldest first.
        asked: reasons as `index.yanks.yank` takes them; None: good again.
    """

    site: Path
    releases: Sequence[Release]
    asked: Mapping[str, str | None]

    def after(self) -> dict[str, str]:
        """Reasons by name of wheels of the releases, once that is done.

        Raises:
            UsageError: no release has such a wheel, or the list is damaged.
        """
        yanks = changed_yanks(self._listed(), self._chosen())
        return {name: why for name, why in sorted(yanks.items()) if name in self._released()}

    def write(self, folders: Iterable[Path]) -> None:
        """Do it: in the site, and in those of the folders that have such a wheel.

        Raises:
            UsageError: as for `after`.
            OSError: a list can't be written.
        """
        chosen = self._chosen()
        write_yanks(self.site / FILES, changed_yanks(self._listed(), chosen))
        for folder in folders:
            there = {name: why for name, why in chosen.items() if (folder / name).is_file()}
            write_yanks(folder, changed_yanks(read_yanks(folder), there))

    def _released(self) -> set[str]:
        return {wheel.entry.name for one in self.releases for wheel in one.wheels}

    def _chosen(self) -> dict[str, str | None]:
        return called(self.asked, self._released(), str(self.site))

    def _listed(self) -> dict[str, str]:
        files = self.site / FILES
        if (files / YANKS).is_file() or not self.releases:
            return read_yanks(files)
        return dict(self.releases[-1].withdrawn)
