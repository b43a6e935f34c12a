"""Statistics of a compile cache in one build, read from its files in the folder for logs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from cuwheel.base import limits
from cuwheel.base.system.regular_files import parse_json, read_regular

CCACHE_LOG = "ccache.log"

# Of ccache's statistics, the results of a call, and the failures: ccache's manual, "Cache
# statistics". The others are details.
_HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})
_MISSES = frozenset({"cache_miss"})
_FAULTS = frozenset(
    (
        *("compiler_check_failed", "could_not_find_compiler", "error_hashing_extra_file"),
        *("internal_error", "missing_cache_file", "modified_input_file"),
        *("remote_storage_error", "remote_storage_timeout"),
    )
)
# Of sccache's statistics
_SCCACHE = {
    "hits": ("cache_hits",),
    "misses": ("cache_misses",),
    "uncached": ("requests_not_cacheable",),
    "errors": ("cache_errors", "cache_write_errors", "cache_read_errors"),
}


def read_statistics(events: Path) -> Counter[str]:
    """Count the `hits`, `misses` and `uncached` calls of a build, and its `errors`."""
    counts = _ccache_statistics(events / CCACHE_LOG)
    for path in events.glob("sccache-*.json"):
        counts += _sccache_statistics(path)
    return counts


def _sccache_statistics(path: Path) -> Counter[str]:
    try:
        stats = parse_json(read_regular(path, limit=limits.CACHE_LOG))["stats"]
        return Counter(
            {
                kind: sum(_number(stats.get(name, 0)) for name in names)
                for kind, names in _SCCACHE.items()
            }
        )
    # Of a server that died while it answered, or of a package that writes such files.
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Counter(errors=1)


def _number(value: Any) -> int:
    return sum(value["counts"].values()) if isinstance(value, dict) else int(value)


def _ccache_statistics(log: Path) -> Counter[str]:
    """Read a statistics log: for each call a line `# file`, then the results, a word a line."""
    try:
        text = read_regular(log, limit=limits.CACHE_LOG).decode(errors="replace")
    except OSError:
        return Counter()
    counts: Counter[str] = Counter()
    for call in text.split("# ")[1:]:
        results = set(call.split("\n")[1:])
        kind = "hits" if results & _HITS else "misses" if results & _MISSES else "uncached"
        counts[kind] += 1
        counts["errors"] += len(results & _FAULTS)
    return counts
