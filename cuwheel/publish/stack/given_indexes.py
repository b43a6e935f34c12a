"""The caller's own indexes, of any form, for what the packages of a stack require."""

from __future__ import annotations

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.indexes.offers import Offer, read_offers, with_hash
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.fetch.urls import is_local, redact_url


class GivenIndexes:
    """Places that `--index` and requirement files name: the first that has a project counts.

    Each project is looked for once, and none after a place that didn't answer.

    Args:
        joined: configured indexes of which all count, the main one first: a project that more than
            this one have gets the files of all.
    """

    def __init__(self, addresses: tuple[str, ...], joined: tuple[str, ...] = ()) -> None:
        self._addresses = tuple(dict.fromkeys(addresses))
        self._joined = joined
        self.files: dict[str, tuple[Offer, ...]] = {}
        self.fault: DownloadError | None = None

    def find(self, project: str) -> tuple[Offer, ...]:
        """Return the files of a project, with hashes; empty: no place has it.

        Raises:
            DownloadError: a place didn't answer, so that it isn't known whether it has the project.
        """
        if self.fault:
            raise self.fault
        if project not in self.files:
            self.files[project] = self._find(project)
        return self.files[project]

    def _find(self, project: str) -> tuple[Offer, ...]:
        for address in self._addresses:
            if files := self._read(address, project):
                return files
        pages = [self._read(address, project) for address in self._joined[1:]]
        if not any(pages):
            return ()
        pages.insert(0, self._read(self._joined[0], project))
        return tuple({offer.name: offer for page in reversed(pages) for offer in page}.values())

    def _read(self, address: str, project: str) -> tuple[Offer, ...]:
        answer = read_offers(address, project, Attempts())
        if isinstance(answer, tuple):
            return tuple(map(with_hash, answer))
        if answer.kind != "missing" and not is_local(address):
            self.fault = DownloadError(
                f"{project} can't be looked up",
                why=f"{redact_url(address)} {answer}",
                fix="see that this index can be reached, or leave it out: without its answer "
                "another index's file of that name could be taken for its own",
            )
            raise self.fault
        return ()
