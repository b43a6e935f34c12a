"""The limit on the work for a log: with more of it, some of its parts are counted only."""

from __future__ import annotations

# Units are about a tenth of a microsecond. They are counted, not measured: the answer for a log is
# the same on each machine.
# Lines of more texts than a tool's messages have take more of them: those of 2,000 characters full
# of the catalogue's texts 100,000 each.
HIT = 1.5  # a text that is found
LINE = 30  # a line with texts of live patterns
MESSAGE = 300  # a line that none before it was alike
TEXT = 5  # of such a line
TRIED = 16  # a pattern of a line
OTHERS = 11  # the search for the other texts of a pattern
SEARCH = 18  # of a pattern in a message
FIRST = 8_000  # of a pattern that was not searched for before
CHARACTER = 0.65  # of a message that is searched
LATE = 55  # a line that may report a failure
STRUCTURE = 120  # a line that begins or ends a part
KEPT_CAUSE = 4  # a cause that a success is checked against
ADDRESS = 5  # a hexadecimal number
_START = 20_000_000  # for any log: about 10,000 messages of a compiler of which no two are alike
_BYTES = 20  # for which one unit is added
_END = 5_000_000  # for the end of a log, if its other parts took too many
_LONGEST_END = 1 << 18  # bytes


class Effort:
    """The work that the reading of a log has taken."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._read = 0
        self._examined = 0

    def allows(self, size: int) -> bool:
        """Return True if the next part, of a size in bytes, is to be examined."""
        self._read += size
        is_allowed = self.spent <= _START + self._read / _BYTES
        if is_allowed:
            self._examined += size
        return is_allowed

    @property
    def end(self) -> int:
        """Bytes at the log's end that are examined in any case, if they are like those before."""
        return int(min(_LONGEST_END, _END * self._examined / max(self.spent, 1)))
