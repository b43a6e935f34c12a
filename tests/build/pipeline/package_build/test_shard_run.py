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
from cuwheel.build.pipeline.package_build.dry_run import ListedCompile
from cuwheel.build.pipeline.package_build.shard_plan import PlannedCompile, ShardPlan, id_of
from cuwheel.build.pipeline.package_build.shard_run import check_kept, count_hits, own_share
from cuwheel.build.workspace.request import Shard
from tests.support.build.event_lines import compile_line, tool_line, write_log


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


_ARCHS = ("80", "90")
_FILE = "/cuwheel/source/a.cu"


def _planned(*shards: int) -> tuple[ShardPlan, list[ListedCompile]]:
    """One compile, divided among shards; and one that the plan doesn't know."""
    listed = [
        ListedCompile(
            name="nvcc",
            arguments=("-c", file),
            folder="/cuwheel/source",
            file=file,
            path=file,
            output=f"{file}.o",
            archs=_ARCHS,
            variables=("A=1",),
            is_by_arch=True,
        )
        for file in (_FILE, "/cuwheel/source/new.cu")
    ]
    units = tuple(
        PlannedCompile(id=id_of(listed[0]), file=_FILE, arch=arch, seconds=1.0, shard=shard)
        for arch, shard in zip(_ARCHS, shards, strict=True)
    )
    return ShardPlan(key={}, count=2, compiles=units), listed


@pytest.mark.parametrize(
    ("shards", "expected"),
    [((1, 2), ("80",)), ((2, 1), ("90",)), ((1, 1), ()), ((2, 2), None)],
    ids=["first", "second", "whole", "none"],
)
def test_takes_its_archs_of_a_divided_compile(
    shards: tuple[int, int], expected: tuple[str, ...] | None
) -> None:
    plan, listed = _planned(*shards)

    parts, total = own_share(plan, Shard(1, 2), listed)

    assert [part.archs for part in parts if part.compile == listed[0]] == (
        [] if expected is None else [expected]
    )
    assert total == 3
    every, _ = own_share(plan, Shard(2, 2), listed)
    assert sum(part.units for part in (*parts, *every)) == total


@pytest.mark.parametrize(
    ("share", "ran", "hits"),
    [
        (("80",), (), 1),
        (("80",), ("",), 1),  # the front end of the host's compiler, which all archs have in common
        (("80",), ("80",), 0),
        ((), (), 2),
        ((), ("", "90"), 1),
    ],
)
def test_counts_units_that_were_kept(
    share: tuple[str, ...], ran: tuple[str, ...], hits: int, tmp_path: Path
) -> None:
    plan, listed = _planned(1, 2 if share else 1)
    parts, _ = own_share(plan, Shard(1, 2), listed[:1])
    line = compile_line(file=_FILE, archs=_ARCHS, share=share)
    events = read_events(write_log(tmp_path, line, *(tool_line(arch=arch) for arch in ran)))

    assert count_hits(parts, events) == hits


@pytest.mark.parametrize("count", ["cache_write_errors", "requests_not_cacheable"])
def test_names_the_full_disk_of_the_cache(
    count: str, cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is how ccache counts it."""
    monkeypatch.setattr(disks, "free_disk", lambda _: 0)
    _count(cache, **{count: 1})

    with pytest.raises(DiskFullError, match=str(cache.folder)):
        check_kept(cache, cache.log_folder, _events("sccache"), DiskWatch(cache.folder))
