"""Plans of shards: every compile once, balanced, agreed upon, and compared with their inputs."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import FileAccessError
from cuwheel.build.compile.cache.compile_cache import CacheProgram, CompileCache
from cuwheel.build.compile.seconds import key_of_compile
from cuwheel.build.pipeline.package_build.dry_run import DryRun, ListedCompile
from cuwheel.build.pipeline.package_build.shard_plan import ShardPlan, ShardRecords, assign, id_of
from cuwheel.build.workspace.records import ShardResult
from tests.support.factories import make_job, make_target, make_workspace

_KEY = {
    "archs": "90",
    "build tag": "1",
    "engine": f"0.1.0 {'a' * 64}",
    "lock build": "a" * 64,
    "source": "a" * 64,
}


def _compile(name: str, **changes: object) -> ListedCompile:
    listed = ListedCompile(
        name="nvcc",
        arguments=("-c", name),
        folder="/cuwheel/source",
        file=f"/cuwheel/source/{name}",
        path=f"/cuwheel/source/{name}",
        output=f"/cuwheel/source/{name}.o",
        archs=("90",),
        variables=(),
    )
    return replace(listed, **changes)  # type: ignore[arg-type]


@pytest.fixture
def compiles() -> list[ListedCompile]:
    return [_compile(f"{number}.cu") for number in range(73)]


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(
        program=CacheProgram(name="sccache"),
        folder=tmp_path / "compiles" / "tiny",
        program_folder=tmp_path,
        socket_folder=tmp_path,
        log_folder=tmp_path,
    )


def _records(cache: CompileCache, folder: Path, **changes: str) -> ShardRecords:
    job = make_job(make_target(), make_workspace(folder))
    return ShardRecords(cache, job, {**_KEY, **changes})


def _result(plan: ShardPlan, shard: int) -> ShardResult:
    return ShardResult(
        shard=shard,
        count=plan.count,
        plan=plan.fingerprint,
        compiled=1,
        hits=0,
        left=1,
        seconds=1.0,
    )


def test_each_compile_has_one_shard_and_shards_differ_by_one(compiles: list[ListedCompile]) -> None:
    planned = assign(compiles, {}, 16)

    assert {each.id for each in planned} == {id_of(each) for each in compiles}
    assert set(Counter(each.shard for each in planned).values()) == {4, 5}


def test_order_of_the_list_makes_no_difference(compiles: list[ListedCompile]) -> None:
    shuffled = random.Random(1).sample(compiles, len(compiles))

    assert assign(shuffled, {}, 7) == assign(compiles, {}, 7)


def test_measured_seconds_balance_the_work(compiles: list[ListedCompile]) -> None:
    source = random.Random(2)
    known = {
        key_of_compile(each.file, each.archs): {"": 5.0, "90": source.uniform(30, 300)}
        for each in compiles
    }

    planned = assign(compiles, known, 8)

    loads: Counter[int] = Counter()
    for each in planned:
        loads[each.shard] += each.seconds  # type: ignore[assignment]
    total = sum(sum(parts.values()) for parts in known.values())
    assert sum(loads.values()) == pytest.approx(total)
    assert max(loads.values()) <= 1.05 * sum(loads.values()) / 8


_ARCHS = ("80", "90", "100", "120")


def _heavy(number: int) -> ListedCompile:
    return _compile(f"heavy-{number}.cu", archs=_ARCHS, is_by_arch=True)


def _seconds_of(*heavy: ListedCompile) -> dict[str, dict[str, float]]:
    parts = {"": 20.0, "80": 60.0, "90": 70.0, "100": 80.0, "120": 90.0}
    return {key_of_compile(each.file, each.archs): parts for each in heavy}


def test_few_long_compiles_are_divided_by_arch() -> None:
    heavy = [_heavy(number) for number in range(4)]

    planned = assign(heavy, _seconds_of(*heavy), 8, by_arch=True)

    assert {(each.id, each.arch) for each in planned} == {
        (id_of(each), arch) for each in heavy for arch in _ARCHS
    }
    loads: Counter[int] = Counter()
    for each in planned:
        loads[each.shard] += each.seconds  # type: ignore[assignment]
    assert len(planned) == 16
    assert max(loads.values()) <= 1.05 * sum(loads.values()) / 8


def test_divides_no_more_compiles_than_shards_need(compiles: list[ListedCompile]) -> None:
    """The last build has to compile the rest of each."""
    known = {key_of_compile(each.file, each.archs): {"90": 4.0} for each in compiles}
    light = [replace(each, is_by_arch=True, archs=_ARCHS) for each in compiles[:9]]

    planned = assign(
        [*compiles, *light, _heavy(1)], known | _seconds_of(_heavy(1)), 4, by_arch=True
    )

    assert {each.file for each in planned if each.arch} == {_heavy(1).file}


@pytest.mark.parametrize(
    ("program", "changes"),
    [("ccache", {}), ("sccache", {"is_by_arch": False})],
    ids=["keeps whole objects", "archs without commands"],
)
def test_divides_only_what_can_be(
    program: str, changes: dict[str, object], cache: CompileCache, tmp_path: Path
) -> None:
    other = replace(cache, program=CacheProgram(name=program))

    plan = _records(other, tmp_path).settle([replace(_heavy(1), **changes)], {}, 4)  # type: ignore[arg-type]

    assert [each.arch for each in plan.compiles] == [""]


def test_a_source_that_is_compiled_twice_counts_twice() -> None:
    compiles = [_compile("a.cu"), _compile("a.cu", arguments=("-DX", "-c", "a.cu"))]

    assert len({each.shard for each in assign([*compiles, *compiles], {}, 2)}) == 2


def test_more_shards_than_compiles_leave_some_without(compiles: list[ListedCompile]) -> None:
    assert len({each.shard for each in assign(compiles[:2], {}, 5)}) == 2


def test_first_plan_holds_when_more_is_known(
    compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    first = _records(cache, tmp_path).settle(compiles, {}, 3)
    known = {key_of_compile(compiles[0].file, ("90",)): {"90": 1e4}}

    second = _records(cache, tmp_path, **{"build tag": "2"}).settle(compiles, known, 3)

    assert second == first
    assert second.fingerprint == first.fingerprint


def test_a_compile_outside_of_the_plan_has_the_same_shard_everywhere(
    compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    plan = _records(cache, tmp_path).settle(compiles, {}, 3)
    new = id_of(_compile("new.cu"))

    assert plan.shard_of_unknown(new) == plan.shard_of_unknown(new)
    assert 1 <= plan.shard_of_unknown(new) <= 3


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"archs": "80 90"}, "archs: 80 90 -> 90"),
        ({"source": "b" * 64}, f"source: the recipe names a different one, {'b' * 12} -> "),
        ({"patch 0001-fix.patch": "b" * 64}, f"patch 0001-fix.patch: {'b' * 12} -> absent"),
        ({"host compiler": "/usr/bin/g++ 11.4.0"}, "host compiler: /usr/bin/g++ 11.4.0 -> absent"),
        ({"engine": f"0.1.0 {'b' * 64}"}, "engine: cuwheel's own code has changed"),
        ({"lock build": "b" * 64}, "lock build: the lock has changed"),
    ],
    ids=["archs", "commit", "patch", "compiler", "launcher", "packages"],
)
def test_names_shards_with_other_inputs(
    changes: dict[str, str],
    difference: str,
    compiles: list[ListedCompile],
    cache: CompileCache,
    tmp_path: Path,
) -> None:
    other = _records(cache, tmp_path, **changes)
    other.save(_result(other.settle(compiles, {}, 3), 2))

    own = _records(cache, tmp_path)
    [line] = own.others()

    assert line.startswith("3 shards with this compile cache, 1 of which has ended, had other")
    assert difference in line
    assert own.own_plans() == []


def test_names_shards_with_other_inputs_that_still_run(
    compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    _records(cache, tmp_path, archs="80").settle(compiles, {}, 3)

    [line] = _records(cache, tmp_path).others()

    assert line.startswith("3 shards with this compile cache, none of which has ended, had other")


def test_names_a_shard_with_another_plan(
    compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    records = _records(cache, tmp_path)
    plan = records.settle(compiles, {}, 3)
    records.save(replace(_result(plan, 2), plan="0" * 12))

    [line] = records.others()

    assert line.startswith(f"shard 2 of 3 followed the plan {'0' * 12}")
    assert records.own_plans() == [(plan, frozenset())]


def test_shards_of_two_counts_have_two_plans(
    compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    """Somebody has run 1/3 and 2/4: the last build names what is missing of each."""
    records = _records(cache, tmp_path)
    three, four = (records.settle(compiles, {}, count) for count in (3, 4))
    records.save(_result(three, 1))
    records.save(_result(four, 2))

    assert records.own_plans() == [(three, frozenset({1})), (four, frozenset({2}))]
    assert not [*records.others()]


def test_knows_shards_that_ended_until_a_build_has_used_them(
    compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    records = _records(cache, tmp_path)
    plan = records.settle(compiles, {}, 3)
    for shard in (1, 3):
        records.save(_result(plan, shard))

    assert records.own_plans() == [(plan, frozenset({1, 3}))]
    records.remove()
    assert records.own_plans() == []


@pytest.mark.parametrize(
    ("inputs", "needed"),
    [
        (("/t/gen.cpp.o",), {"/t/gen", "/t/gen.cpp"}),
        (("/t/gen.cpp.o", "/t/library.a"), set()),
    ],
    ids=["objects", "library"],
)
def test_programs_that_the_build_runs_are_needed(inputs: tuple[str, ...], needed: set[str]) -> None:
    compile_ = _compile("gen.cpp", path="/t/gen.cpp", output="/t/gen.cpp.o")
    programs = {"/t/gen": inputs, "/t/test": ("/t/test.o",)}
    dry = DryRun(compiles=(compile_,), programs=programs, called=("/t/gen",), failure=None)

    assert dry.needed == needed


def _before_archs(compile_: dict[str, Any]) -> dict[str, Any]:
    """A compile in the plan of an older cuwheel."""
    return {name: value for name, value in compile_.items() if name != "arch"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda plan: {**plan, "count": 0},
        lambda plan: {**plan, "count": -3},
        lambda plan: {**plan, "count": 300_000_000},
        lambda plan: {**plan, "count": 4},
        lambda plan: {**plan, "key": {"archs": "80"}},
        lambda plan: {**plan, "compiles": [{**plan["compiles"][0], "shard": 99}]},
        lambda plan: {**plan, "compiles": [_before_archs(plan["compiles"][0])]},
        lambda plan: {**plan, "compiles": [{**plan["compiles"][0], "shard": 0}]},
    ],
)
def test_a_plan_that_cannot_be_is_none(
    damage: Callable[[dict[str, Any]], dict[str, Any]],
    compiles: list[ListedCompile],
    cache: CompileCache,
    tmp_path: Path,
) -> None:
    records = _records(cache, tmp_path)
    plan = records.settle(compiles, {}, 3)
    [file] = tmp_path.rglob("plan.json")
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))

    others = [known for known, _ in records.own_plans()]
    again = records.settle(compiles, {}, 3)

    assert all(1 <= known.count <= 4 for known in others)
    assert all(1 <= each.shard <= 4 for known in others for each in known.compiles)
    assert again == plan


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_refuses_what_is_no_lock(
    kind: str, compiles: list[ListedCompile], cache: CompileCache, tmp_path: Path
) -> None:
    records = _records(cache, tmp_path)
    records.settle(compiles, {}, 3)
    [lock] = tmp_path.rglob("lock")
    lock.unlink()
    victim = tmp_path / "victim"
    make = {"link": lambda: lock.symlink_to(victim), "fifo": lambda: os.mkfifo(lock)}
    make.get(kind, lock.mkdir)()

    with pytest.raises(FileAccessError, match="is not a lock file"):
        records.settle(compiles, {}, 3)

    assert not victim.exists()
