"""What a compile cache did in one build, from what it left in the folder for logs and counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuwheel import limits
from cuwheel.system.regular_files import read_regular

if TYPE_CHECKING:
    from pathlib import Path

CCACHE_LOG = "ccache.log"

# Of ccache's statistics, those that say what came of a call, and those that something went wrong:
# ccache's manual, "Cache statistics". The others say how it came about.
_HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})
_MISSES = frozenset({"cache_miss"})
_FAULTS = frozenset(
    (
        *("compiler_check_failed", "could_not_find_compiler", "error_hashing_extra_file"),
        *("internal_error", "missing_cache_file", "modified_input_file"),
        *("remote_storage_error", "remote_storage_timeout"),
    )
)


@dataclass(frozen=True, kw_only=True)
class CacheStatistics:
    """What a compile cache did in one build.

    Attributes:
        hits: compiles, or with sccache parts of compiles, that were not done.
        misses: those that were done and kept.
        uncached: calls that it left to the compiler.
        errors: things that it couldn't do.
    """

    hits: int = 0
    misses: int = 0
    uncached: int = 0
    errors: int = 0

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return self.hits + self.misses + self.uncached

    def __add__(self, other: CacheStatistics) -> CacheStatistics:
        return CacheStatistics(
            hits=self.hits + other.hits,
            misses=self.misses + other.misses,
            uncached=self.uncached + other.uncached,
            errors=self.errors + other.errors,
        )


def read_statistics(events: Path) -> CacheStatistics:
    """What the compile cache did in a build; nothing where none ran.

    Args:
        events: the build's folder for logs and counts.
    """
    servers = (_sccache_statistics(path) for path in sorted(events.glob("sccache-*.json")))
    return sum(servers, _ccache_statistics(events / CCACHE_LOG))


def _ccache_statistics(log: Path) -> CacheStatistics:
    """Of a statistics log: for each call a line `# file`, then what happened, a word a line."""
    try:
        said = read_regular(log, limit=limits.CACHE_LOG).decode(errors="replace")
    except OSError:
        return CacheStatistics()
    calls = [set(call.split("\n")[1:]) for call in said.split("# ")[1:]]
    hits = sum(bool(call & _HITS) for call in calls)
    misses = sum(bool(call & _MISSES) for call in calls)
    return CacheStatistics(
        hits=hits,
        misses=misses,
        uncached=len(calls) - hits - misses,
        errors=sum(len(call & _FAULTS) for call in calls),
    )


def _sccache_statistics(path: Path) -> CacheStatistics:
    try:
        stats = json.loads(read_regular(path, limit=limits.CACHE_LOG))["stats"]

        def count(name: str) -> int:
            value = stats.get(name, 0)
            return sum(value["counts"].values()) if isinstance(value, dict) else int(value)

        failed = ("cache_errors", "cache_write_errors", "cache_read_errors")
        return CacheStatistics(
            hits=count("cache_hits"),
            misses=count("cache_misses"),
            uncached=count("requests_not_cacheable"),
            errors=sum(map(count, failed)),
        )
    # Of a server that died while it answered, or of a package that writes such files.
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return CacheStatistics(errors=1)
