"""The plan of a build in shards: which shard compiles which file, and what each has done.

Shards don't communicate. Each lists all compiles by a dry run, and takes its own by the plan that
the first of them has left next to the compile cache; where they share no disk, each makes the same
plan of the same compiles and the same records of seconds.
"""

from __future__ import annotations

import hashlib
import heapq
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_NOT_OF_COMPILES = ("build tag",)


@dataclass(frozen=True, kw_only=True)
class PlannedCompile:
    """A compile and its shard, from 1 on.

    Attributes:
        id: digest of its command line.
    """

    id: str
    file: str
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
        lines = sorted(f"{each.id} {each.shard}" for each in self.compiles)
        text = "\n".join((digest_of_key(self.key), str(self.count), *lines))
        return hashlib.sha256(text.encode()).hexdigest()[:_SHORT]

    def shard_of(self, compile_: ListedCompile) -> int:
        """Return the shard of a compile; one that the plan doesn't know gets one by its digest."""
        name = id_of(compile_)
        known = (each.shard for each in self.compiles if each.id == name)
        return next(known, int(name, 16) % self.count + 1)


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
    compiles: Iterable[ListedCompile], known: Mapping[str, float], count: int
) -> tuple[PlannedCompile, ...]:
    """Assign each compile to a shard: the longest first, to the shard with the least work.

    Equal ones follow each other by their digest, so that the order of a list makes no difference.
    """
    unique = {id_of(compile_): compile_ for compile_ in compiles}
    seconds = {name: _expected(unique[name], known) for name in unique}
    loads = [(0.0, shard) for shard in range(1, count + 1)]
    planned = []
    for name in sorted(unique, key=lambda name: (-seconds[name], name)):
        load, shard = heapq.heappop(loads)
        heapq.heappush(loads, (load + seconds[name], shard))
        planned.append(
            PlannedCompile(id=name, file=unique[name].file, seconds=seconds[name], shard=shard)
        )
    return tuple(planned)


def _expected(compile_: ListedCompile, known: Mapping[str, float]) -> float:
    """Return the seconds of a compile: measured, else the median of all, else by its archs."""
    usual = statistics.median(known.values()) if known else _UNKNOWN * max(len(compile_.archs), 1)
    return known.get(key_of_compile(compile_.file, compile_.archs), usual)


class ShardRecords:
    """The records of the shards of one target in a compile cache: plans, and results."""

    def __init__(self, cache: CompileCache, job: Job, key: Mapping[str, str]) -> None:
        self._folder = _records_folder(cache.folder) / job.target.id
        self._key = key_of_compiles(key)

    def _own(self, count: int) -> Path:
        return self._folder / f"{digest_of_key(self._key)[:_SHORT]}-{count}"

    def settle(
        self, compiles: Sequence[ListedCompile], known: dict[str, float], count: int
    ) -> ShardPlan:
        """Return the plan of the first shard with these inputs; make it if there is none yet."""
        folder = self._own(count)
        with file_lock(folder / "lock"):
            plan = read_record(folder / _PLAN, ShardPlan)
            if plan is None or (plan.key, plan.count) != (self._key, count):
                planned = assign(compiles, known, count)
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
        hits = events.hits()
        for plan, _ in self._plans:
            shards = {each.file: each.shard for each in plan.compiles}
            planned = [each for each in events.compiles if each.file in shards]
            missing = [
                f"{PurePath(each.file).name} of shard {shards[each.file]}"
                for each in planned
                if each.id not in hits
            ]
            named = f": {first_of(missing, 3)}" if missing else ""
            self._console.note(
                f"plan {plan.fingerprint}: of {plural(len(planned), 'file')} of shards "
                f"{len(missing)} had to be compiled{named}"
            )
        if self._records:
            self._records.remove()
