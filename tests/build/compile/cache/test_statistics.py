from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cuwheel.build.compile.cache.statistics import read_statistics


def test_counts_nothing_where_no_cache_ran(tmp_path: Path) -> None:
    assert not read_statistics(tmp_path)


def test_counts_calls_of_ccache(tmp_path: Path) -> None:
    calls = [
        "# a.cu\npreprocessed_cache_hit\nlocal_storage_hit\n",
        "# b.cu\ncache_miss\nlocal_storage_miss\nremote_storage_error\n",
        "# c.o\ncalled_for_link\n",
    ]
    (tmp_path / "ccache.log").write_text("".join(calls))

    expected = Counter(hits=1, misses=1, uncached=1, errors=1)
    assert read_statistics(tmp_path) == expected


def test_adds_what_servers_of_sccache_counted(tmp_path: Path) -> None:
    stats = {
        "cache_hits": {"counts": {"CUDA": 2, "PTX": 1}},
        "cache_misses": {"counts": {"CUDA": 4}},
        "requests_not_cacheable": 3,
        "cache_write_errors": 1,
    }
    for number in range(2):
        (tmp_path / f"sccache-{number}.json").write_text(json.dumps({"stats": stats}))

    expected = Counter(hits=6, misses=8, uncached=6, errors=2)
    assert read_statistics(tmp_path) == expected


@pytest.mark.parametrize("text", ["", "{", "{}"])
def test_takes_a_server_that_died_for_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "sccache-1.json").write_text(text)

    assert read_statistics(tmp_path) == Counter(errors=1)
