"""The search of a block's lines for all texts of the catalogue, part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from cuwheel.check.explain.lines import CHARACTERS

Part = tuple[int, int, int]  # its start, its end and the limit before which its texts begin
Hits = list[tuple[int, int, int]]  # each: the text's index, its start and its end
_PART = 1 << 15  # bytes searched at once: a hit takes 150 bytes, and there may be one at each third
_AHEAD = 1  # parts that are searched while one is examined


class Search:
    """A search for texts in lower case."""

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode() for text in texts]
        self._longest = max(map(len, encoded), default=0)
        self._automaton = BytesAhoCorasick(
            encoded,
            matchkind=MatchKind.Standard,
            implementation=Implementation.ContiguousNFA,  # as fast as a DFA, and built sooner
        )

    def hits(self, text: bytes) -> Hits:
        """Return all places of the texts, in the order of their ends."""
        return self._automaton.find_matches_as_indexes(text, overlapping=True)

    def parts(self, block: bytes) -> Iterator[Part]:
        """Yield the parts of a block that are searched."""
        return parts(block, self._longest)

    def in_parts(
        self, chosen: Iterable[tuple[bytes, Part]], searcher: Executor
    ) -> Iterator[tuple[int, Hits]]:
        """Yield the start and the hits of parts of a block, in lower case.

        Hits are relative to their part's start.

        Args:
            chosen: the block and a part of it, each time.
        """
        searching: deque[tuple[int, Future[Hits]]] = deque()
        for block, (start, end, limit) in chosen:
            future = searcher.submit(self._hits_before, block[start:end], limit - start)
            searching.append((start, future))
            if len(searching) > _AHEAD:
                first, done = searching.popleft()
                yield first, done.result()
        for first, done in searching:
            yield first, done.result()

    def _hits_before(self, text: bytes, limit: int) -> Hits:
        hits = self.hits(text)
        return hits if limit == len(text) else [hit for hit in hits if hit[1] < limit]


def parts(block: bytes, longest: int) -> Iterator[Part]:
    """Yield ranges of a block that are searched: of a long line its start alone.

    Args:
        longest: bytes of a text that may begin in the last byte that is read.
    """
    start = at = 0
    size = len(block)
    while at < size:
        end = block.rfind(b"\n", at, at + CHARACTERS + 1)
        if end < 0 and at + CHARACTERS < size:
            limit = at + CHARACTERS
            end = block.find(b"\n", limit)
            end = size if end < 0 else end
            yield start, min(limit + longest - 1, end), limit
            start = at = end + 1
            continue
        at = size if end < 0 else end + 1
        if at - start >= _PART:
            yield start, at, at
            start = at
    if start < size:
        yield start, size, size
