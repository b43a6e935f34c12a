"""The limit on the work for a log: with more of it, some of its blocks are counted only."""

from __future__ import annotations

# Units are about a tenth of a microsecond. They are counted, not measured: the answer for a log is
# the same on each machine.
HIT = 2  # a text that is found
LINE = 30  # a line with texts of live patterns
MESSAGE = 150  # a line that none before it was alike
SEARCH = 40  # of a pattern in a message
SEARCHED = 16  # characters of a message that are searched for one unit
STRUCTURE = 60  # a line that begins or ends a part
KEPT_CAUSE = 4  # a cause that a success is checked against
ADDRESS = 5  # a hexadecimal number
_START = 15_000_000  # for any log: about 40,000 messages of which no two are alike
_BYTES = 13  # for which one unit is added


class Effort:
    """The work that the reading of a log has taken."""

    def __init__(self) -> None:
        self.spent = 0
        self._read = 0

    def allows(self, size: int) -> bool:
        """Return True if the next block, of a size in bytes, is to be examined."""
        self._read += size
        return self.spent <= _START + self._read // _BYTES
