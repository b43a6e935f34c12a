"""A shard whose compile cache has kept nothing has failed, though its compiles haven't."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.errors import DiskFullError, FileAccessError
from cuwheel.base.system import disks
from cuwheel.base.system.disks import DiskWatch
from cuwheel.build.compile.cache.compile_cache import CacheProgram, CompileCache
from cuwheel.build.compile.events import DIRECT_MODE, Compile, Events, read_events
from cuwheel.build.pipeline.package_build.shard_run import check_kept


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(
        program=CacheProgram(name="sccache"),
        folder=tmp_path,
        program_folder=tmp_path,
        socket_folder=tmp_path,
        log_folder=tmp_path,
    )


def _events(cached: str) -> Events:
    compile_ = Compile(
        id="1", name="nvcc", file="a.cu", archs=(), start=0.0, end=1.0, status=0, cached=cached
    )
    return replace(read_events(Path(os.devnull)), compiles=(compile_,))


def _count(cache: CompileCache, **counts: int) -> None:
    (cache.log_folder / "sccache-1.json").write_text(json.dumps({"stats": counts}))


def test_accepts_what_was_kept_or_found(cache: CompileCache) -> None:
    check_kept(cache, cache.log_folder, _events(DIRECT_MODE), DiskWatch(cache.folder))
    _count(cache, cache_misses=1, requests_not_cacheable=1)

    check_kept(cache, cache.log_folder, _events("sccache"), DiskWatch(cache.folder))


def test_refuses_a_cache_that_did_nothing_or_failed(cache: CompileCache) -> None:
    for counts, why in (({}, "1 time"), ({"cache_misses": 3, "cache_write_errors": 2}, "2 times")):
        _count(cache, **counts)

        with pytest.raises(FileAccessError, match="hasn't kept all") as caught:
            check_kept(cache, cache.log_folder, _events("sccache"), DiskWatch(cache.folder))

        assert caught.value.why == f"sccache failed {why}"


@pytest.mark.parametrize("count", ["cache_write_errors", "requests_not_cacheable"])
def test_names_the_full_disk_of_the_cache(
    count: str, cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is how ccache counts it."""
    monkeypatch.setattr(disks, "free_disk", lambda _: 0)
    _count(cache, **{count: 1})

    with pytest.raises(DiskFullError, match=str(cache.folder)):
        check_kept(cache, cache.log_folder, _events("sccache"), DiskWatch(cache.folder))
