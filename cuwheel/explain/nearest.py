"""Which known cause a failure resembles that no pattern fits: a guess, and shown as one.

The words of its first lines are compared with those of each cause's examples and title. A word
counts the more, the fewer causes have it: inverse document frequency, and the cosine of the
angle between the two (Salton and McGill, Introduction to Modern Information Retrieval, 1983).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuwheel.explain.catalogue import FailureCause

# Names, options and words; a path falls into its parts, versions and addresses are left out.
_WORD = re.compile(r"[A-Za-z][A-Za-z_+]{2,}(?:\d{1,2}(?![\d.]))?")
_LEAST = 0.12  # cosine; below it the words in common are those of any failure
_FEWEST = 2  # words in common; one alone says little, however rare it is
_LONGEST = 400  # characters of a line that are compared


class Nearest:
    """The causes of a catalogue as words; made once for many logs."""

    def __init__(self, causes: Mapping[str, FailureCause]) -> None:
        counts = {slug: _counted([one.title, *one.examples]) for slug, one in causes.items()}
        shares = Counter(word for words in counts.values() for word in words)
        self._weights = {word: math.log(len(counts) / share) for word, share in shares.items()}
        self._vectors = {slug: self._vector(words) for slug, words in counts.items()}

    def cause(self, lines: Iterable[str]) -> str:
        """The slug of the cause with the most words in common; empty: none has enough."""
        asked = self._vector(_counted(line[:_LONGEST] for line in lines))
        found = {
            slug: sum(asked[word] * vector[word] for word in common)
            for slug, vector in self._vectors.items()
            if len(common := asked.keys() & vector.keys()) >= _FEWEST
        }
        best = max(found, key=lambda slug: found[slug], default="")
        return best if found.get(best, 0) >= _LEAST else ""

    def _vector(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Of length 1; a word that stands in it often counts a little more."""
        vector = {
            word: (1 + math.log(count)) * self._weights[word]
            for word, count in counts.items()
            if word in self._weights
        }
        length = math.hypot(*vector.values()) or 1
        return {word: weight / length for word, weight in vector.items()}


def _counted(lines: Iterable[str]) -> Counter[str]:
    return Counter(word.lower() for line in lines for word in _WORD.findall(line))
