"""The plan of a build in shards: which shard compiles what, and what each has done.

The unit is a compile, or its device code for one arch, where shards can't end together otherwise:
the last build then has to compile the rest of such a compile, its host code.

Shards don't communicate. Each lists all compiles by a dry run, and takes its own by the plan that
the first of them has left next to the compile cache; where they share no disk, each makes the same
plan of the same compiles and the same records of seconds.
"""

from __future__ import annotations

import hashlib
import heapq
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from cuwheel.base.system.files import file_lock, remove_tree, write_atomically
from cuwheel.base.system.quantities import first_of, plural
from cuwheel.build.compile.cache.compile_cache import CompileCache
from cuwheel.build.compile.events import Events
from cuwheel.build.compile.seconds import key_of_compile
from cuwheel.build.pipeline.package_build.dry_run import ListedCompile
from cuwheel.build.pipeline.rebuild_key import changes, digest_of_key, key_of, part_of_build
from cuwheel.build.workspace.job import Job
from cuwheel.build.workspace.records import ShardResult
from cuwheel.build.workspace.request import MOST_SHARDS
from cuwheel.build.workspace.serialization import read_record, to_json

_FOLDER = ".shards"  # next to the folders of recipes: no build sees it
_SECONDS = "seconds.json"
_PLAN = "plan.json"
_SHORT = 12  # characters of a digest
_UNKNOWN = 10.0  # seconds of a compile for one arch where none is known
_EVEN = 1.05  # the longest shard, by the mean, that is even enough
_NOT_OF_COMPILES = ("build tag",)


@dataclass(frozen=True, kw_only=True)
class PlannedCompile:
    """A compile, or its part for one arch, and its shard, from 1 on.

    Attributes:
        id: digest of its command line.
        arch: of the device code, `90`; empty: all, and the object.
    """

    id: str
    file: str
    arch: str
    seconds: float
    shard: int


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """All compiles of a build, each with its shard.

    Attributes:
        key: what decides the objects, by name.

    Raises:
        ValueError: it has shards that can't be.
    """

    key: dict[str, str]
    count: int
    compiles: tuple[PlannedCompile, ...]

    def __post_init__(self) -> None:
        """Check the numbers: a record in a shared folder may be another user's."""
        shards = {each.shard for each in self.compiles}
        if not 1 <= self.count <= MOST_SHARDS or not shards <= {*range(1, self.count + 1)}:
            raise ValueError(f"not a plan of 1 to {MOST_SHARDS} shards")

    @property
    def fingerprint(self) -> str:
        """Digest by which people compare plans."""
        lines = sorted(f"{each.id} {each.shard} {each.arch}" for each in self.compiles)
        text = "\n".join((digest_of_key(self.key), str(self.count), *lines))
        return hashlib.sha256(text.encode()).hexdigest()[:_SHORT]

    def share_of(self, shard: int) -> dict[str, tuple[str, ...]]:
        """Return the compiles of a shard, the longest first, each with its archs; none: whole."""
        own: dict[str, tuple[str, ...]] = {}
        for each in self.compiles:
            if each.shard == shard:
                own[each.id] = (*own.get(each.id, ()), *filter(None, [each.arch]))
        return own

    def shard_of_unknown(self, name: str) -> int:
        """Return the shard of a compile that isn't planned, by its digest."""
        return int(name, 16) % self.count + 1


def seconds_path(folder: Path) -> Path:
    """Return the file with the seconds of a recipe's compiles.

    Args:
        folder: the recipe's compile cache.
    """
    return _records_folder(folder) / _SECONDS


def _records_folder(folder: Path) -> Path:
    return folder.parent / _FOLDER / folder.name


def key_of_compiles(key: Mapping[str, str]) -> dict[str, str]:
    """Return what decides the objects of a build."""
    return {name: key[name] for name in part_of_build(key) if name not in _NOT_OF_COMPILES}


def id_of(compile_: ListedCompile) -> str:
    """Return the digest of a compile: the same on each machine with the same sandbox."""
    parts = (compile_.name, compile_.folder, compile_.file, *compile_.arguments)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def assign(
    compiles: Iterable[ListedCompile],
    known: Mapping[str, Mapping[str, float]],
    count: int,
    *,
    by_arch: bool = False,
) -> tuple[PlannedCompile, ...]:
    """Assign each compile to a shard: the longest first, to the shard with the least work.

    Equal ones follow each other by their digest, so that the order of a list makes no difference.

    Args:
        known: seconds by compile and arch.
        by_arch: the longest compiles may be divided by arch, as few as make the shards even.
    """
    unique = {id_of(compile_): compile_ for compile_ in compiles}
    expected = {name: _expected(unique[name], known) for name in unique}
    longest = sorted(unique, key=lambda name: (-sum(expected[name].values()), name))
    divisible = [name for name in longest if by_arch and unique[name].is_by_arch]
    best: tuple[PlannedCompile, ...] = ()
    shortest = float("inf")
    for number in _numbers_up_to(len(divisible)):
        units = _units(unique, expected, frozenset(divisible[:number]))
        planned, loads = _balance(units, count)
        if max(loads) < shortest:
            shortest, best = max(loads), planned
        if shortest <= _EVEN * statistics.mean(loads):
            break
    return best


def _numbers_up_to(most: int) -> Iterator[int]:
    """Yield 0, 1, 2, 4 and so on, up to the number itself."""
    number = 0
    while number < most:
        yield number
        number = number * 2 or 1
    yield most


def _units(
    compiles: Mapping[str, ListedCompile],
    expected: Mapping[str, Mapping[str, float]],
    divided: frozenset[str],
) -> list[PlannedCompile]:
    """Return compiles and parts of compiles, the longest first, without shards."""
    units = []
    for name, compile_ in compiles.items():
        parts = expected[name]
        whole = {"": sum(parts.values())}
        chosen = {arch: parts[arch] for arch in compile_.archs} if name in divided else whole
        units += [
            PlannedCompile(id=name, file=compile_.file, arch=arch, seconds=seconds, shard=0)
            for arch, seconds in chosen.items()
        ]
    return sorted(units, key=lambda unit: (-unit.seconds, unit.id, unit.arch))


def _balance(
    units: Iterable[PlannedCompile], count: int
) -> tuple[tuple[PlannedCompile, ...], list[float]]:
    """Return the units with their shards, and the seconds of each shard."""
    loads = [(0.0, shard) for shard in range(1, count + 1)]
    planned = []
    for unit in units:
        load, shard = heapq.heappop(loads)
        heapq.heappush(loads, (load + unit.seconds, shard))
        planned.append(replace(unit, shard=shard))
    return tuple(planned), [load for load, _ in loads]


def _expected(
    compile_: ListedCompile, known: Mapping[str, Mapping[str, float]]
) -> Mapping[str, float]:
    """Return the seconds of a compile by arch: measured, else as long as is usual for an arch."""
    archs = compile_.archs or ("",)
    measured = known.get(key_of_compile(compile_.file, compile_.archs), {})
    if not measured and known:
        usual = statistics.median(sum(parts.values()) for parts in known.values()) / len(archs)
    else:
        device = [seconds for arch, seconds in measured.items() if arch]
        usual = statistics.mean(device) if device else _UNKNOWN
    return {**dict.fromkeys(archs, usual), **measured}


class ShardRecords:
    """The records of the shards of one target in a compile cache: plans, and results."""

    def __init__(self, cache: CompileCache, job: Job, key: Mapping[str, str]) -> None:
        # ccache keeps whole objects only.
        self._by_arch = cache.program.name == "sccache"
        self._folder = _records_folder(cache.folder) / job.target.id
        self._key = key_of_compiles(key)

    def _own(self, count: int) -> Path:
        return self._folder / f"{digest_of_key(self._key)[:_SHORT]}-{count}"

    def settle(
        self,
        compiles: Sequence[ListedCompile],
        known: Mapping[str, Mapping[str, float]],
        count: int,
    ) -> ShardPlan:
        """Return the plan of the first shard with these inputs; make it if there is none yet."""
        folder = self._own(count)
        with file_lock(folder / "lock"):
            plan = read_record(folder / _PLAN, ShardPlan)
            if plan is None or (plan.key, plan.count) != (self._key, count):
                planned = assign(compiles, known, count, by_arch=self._by_arch)
                plan = ShardPlan(key=self._key, count=count, compiles=planned)
                write_atomically(folder / _PLAN, to_json(plan))
        return plan

    def save(self, result: ShardResult) -> None:
        """Keep the result of a shard."""
        write_atomically(self._own(result.count) / f"{result.shard}.json", to_json(result))

    def others(self) -> Iterator[str]:
        """Yield a line for each shard that this build, or shard, doesn't go with."""
        for path, plan in self._plans():
            results = _results(path)
            for result in results:
                if result.plan != plan.fingerprint:
                    yield (
                        f"shard {result.shard} of {result.count} followed the plan {result.plan}, "
                        f"and this compile cache has {plan.fingerprint}: it may have compiled what "
                        "others did, and not all of its share"
                    )
            if differences := changes(plan.key, self._key):
                ended = f"{len(results) or 'none'} of which "
                ended += "has ended" if len(results) <= 1 else "have ended"
                yield (
                    f"{plural(plan.count, 'shard')} with this compile cache, {ended}, had other "
                    "inputs, and what they compiled differently isn't used: "
                    f"{first_of(differences, 1)}"
                )

    def own_plans(self) -> list[tuple[ShardPlan, frozenset[int]]]:
        """Return the plans that were made for the same inputs, with the shards that are done."""
        return [
            (
                plan,
                frozenset(each.shard for each in _results(path) if each.plan == plan.fingerprint),
            )
            for path, plan in self._plans()
            if plan.key == self._key
        ]

    def _plans(self) -> Iterator[tuple[Path, ShardPlan]]:
        for path in sorted(self._folder.glob(f"*/{_PLAN}")):
            if plan := read_record(path, ShardPlan):
                yield path.parent, plan

    def remove(self) -> None:
        """Remove the records: a build without shards has used what they are about."""
        remove_tree(self._folder)


def _results(folder: Path) -> list[ShardResult]:
    records = (read_record(path, ShardResult) for path in sorted(folder.glob("[0-9]*.json")))
    return [record for record in records if record]


class ShardedBuild:
    """A build of a target that shards have compiled for; without records it prints nothing."""

    def __init__(self, job: Job, cache: CompileCache) -> None:
        self._console = job.workspace.console
        has_records = (
            bool(cache.program.name) and (_records_folder(cache.folder) / job.target.id).is_dir()
        )
        self._records = ShardRecords(cache, job, key_of(job)) if has_records else None
        self._plans = self._records.own_plans() if self._records else []

    def print_shards(self) -> None:
        """Print which shards are missing, and which had other inputs."""
        for line in self._records.others() if self._records else ():
            self._console.warn(line)
        for plan, done in self._plans:
            missing = [str(shard) for shard in range(1, plan.count + 1) if shard not in done]
            if missing:
                self._console.warn(
                    f"{plural(len(missing), 'shard')} of {plan.count} of the plan "
                    f"{plan.fingerprint} left no record: {first_of(missing, 5)}; this build "
                    "compiles what of it the compile cache lacks"
                )
            else:
                self._console.note(f"all {plan.count} shards of the plan {plan.fingerprint} ended")

    def print_missing(self, events: Events) -> None:
        """Print the compiles that weren't in the compile cache, and end the records."""
        hits, device_runs = events.hits(), events.device_runs()
        for plan, _ in self._plans:
            shards: dict[str, dict[str, int]] = defaultdict(dict)
            for each in plan.compiles:
                shards[each.file][each.arch] = each.shard
            planned = [
                (compile_, arch, shard)
                for compile_ in events.compiles
                for arch, shard in shards.get(compile_.file, {}).items()
            ]
            missing = [
                f"{PurePath(compile_.file).name}{arch and f' for sm_{arch}'} of shard {shard}"
                for compile_, arch, shard in planned
                if ((compile_.id, arch) in device_runs if arch else compile_.id not in hits)
            ]
            named = f": {first_of(missing, 3)}" if missing else ""
            self._console.note(
                f"plan {plan.fingerprint}: of {plural(len(planned), 'unit')} of shards "
                f"{len(missing)} had to be compiled{named}"
            )
        if self._records:
            self._records.remove()
