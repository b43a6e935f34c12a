"""A whole build, killed where it is about to change a file: at each such place, in turn.

`nox -s tests-e2e` kills at a few of them that lie evenly apart, `nox -s tests-nightly` at all, in
parts that can run beside each other: `nox -s tests-nightly -- -k each_change --dist load`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import remove_tree, sha256_of_file
from tests.support.engine import PACKAGES, TIME_LIMIT, Engine, make_engine
from tests.support.machines.leftovers import belongs_to

# Hash of the wheel, what is left behind a build, how many changes it makes.
Reference = tuple[str, frozenset[str], int]

_NAME = "tiny-capi"
_SHARED = ("downloads", "environments", "toolchains", "uv")  # of the cache: large, made before
_FEW = 4  # points of a run of `tests-e2e`
_PARTS = 16  # of all points
_VARIES = 10  # changes that one build may make more than another, as programs end sooner or later
_ENDS_WITHIN = 20.0  # seconds after a kill for all that the engine started


@dataclass(frozen=True, kw_only=True)
class Killed:
    """What became of builds that were killed and run again.

    Attributes:
        points: how many.
        faults: what was wrong behind the second run, by point.
    """

    points: int
    faults: dict[int, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        told = "".join(f"\n  {point}: {'; '.join(what)}" for point, what in self.faults.items())
        return f"killed at {self.points} file changes, {len(self.faults)} of them with faults{told}"


@dataclass(frozen=True, kw_only=True)
class Build:
    """A build that can be killed: in folders of its own, with all that is large made before."""

    engine: Engine
    folder: Path

    def run(self, point: int = 0) -> tuple[int, str]:
        """Run it to its end, or to a point; its status, and what it said."""
        words = ["build", f"{_NAME}-130", "--source", str(PACKAGES / "tiny_capi")]
        folders = ["--work", str(self.engine.work), "--dist", str(self.engine.dist)]
        driver = [
            "-m",
            "tests.support.machines.kill_points",
            str(point),
            str(self.folder / "changes"),
        ]
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        own = {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(
            [str(self.engine.python), *driver, *words, *folders],
            env=self.engine.environment(**own),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as child:
            try:
                said, _ = child.communicate(timeout=TIME_LIMIT)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        return child.returncode, said

    def changes(self) -> list[str]:
        """What the last run that wasn't killed changed, in order."""
        return (self.folder / "changes").read_text().splitlines()

    def left(self) -> frozenset[str]:
        """All that is there, but for what is shared, and what the compile cache counts."""
        own = (self.engine.work, self.engine.dist, *self._own_caches())
        return frozenset(
            str(path.relative_to(self.folder)) for top in own for path in top.rglob("*")
        )

    def _own_caches(self) -> Iterator[Path]:
        without = (*_SHARED, "compiles", "memory")
        for path in self.engine.cache.iterdir():
            if path.name not in without:
                yield path

    def clear(self) -> None:
        """Begin anew: without what a build leaves, but with its caches."""
        for folder in (self.engine.work, self.engine.dist, self.folder / "tmp"):
            remove_tree(folder)


@pytest.fixture(scope="module")
def build(module_path: Path, project: Path, cuda_home: Path, shared_cache: Path) -> Build:
    """One whose toolchain and environment are in the cache."""
    assert cuda_home.is_dir()
    cache = module_path / "cache"
    cache.mkdir()
    for name in _SHARED:
        (shared_cache / name).mkdir(exist_ok=True)
        (cache / name).symlink_to(shared_cache / name)
    engine = make_engine(module_path, project, cache)
    return Build(engine=engine, folder=module_path)


def kill_at(points: Iterable[int], build: Build, reference: Reference) -> Killed:
    """Kill a build at each point, run it again, and compare with one that was left in peace."""
    wheel, left, changes = reference
    faults, count = {}, 0
    for point in points:
        count += 1
        build.clear()
        status, said = build.run(point)
        is_behind_end = status == 0 and point > changes - _VARIES
        is_as_it_should = is_behind_end or status == -signal.SIGKILL
        found = [] if is_as_it_should else [f"wasn't killed: {status}: {said[-500:]}"]
        found += [f"goes on: {command}" for command in processes_left(build.folder)]
        status, said = build.run()
        found += _compare(build, wheel, left) if status == 0 else [f"ends with {said[-500:]}"]
        if found:
            faults[point] = found
    return Killed(points=count, faults=faults)


def _compare(build: Build, wheel: str, left: frozenset[str]) -> list[str]:
    found = {sha256_of_file(path) for path in build.engine.wheels()}
    now = build.left()
    return [
        *([] if found == {wheel} else [f"wheels {sorted(found)}"]),
        *(f"left {name}" for name in sorted(now - left)),
        *(f"lacks {name}" for name in sorted(left - now)),
    ]


def processes_left(folder: Path) -> list[str]:
    """What still runs of a killed build, after it had time to end."""
    deadline = time.monotonic() + _ENDS_WITHIN
    while True:
        found = [one for one in psutil.process_iter() if belongs_to(one, str(folder))]
        if not found or time.monotonic() > deadline:
            return [one.name() for one in found]
        time.sleep(0.1)


@pytest.fixture(scope="module")
def reference(build: Build) -> Reference:
    """Of a build that was left in peace, with caches that are filled."""
    status, said = build.run()  # fills the caches
    assert status == 0, said
    build.clear()
    status, said = build.run()
    assert status == 0, said
    [wheel] = build.engine.wheels()
    return sha256_of_file(wheel), build.left(), len(build.changes())


@pytest.mark.e2e
def test_build_survives_a_kill_at_a_few_changes(build: Build, reference: Reference) -> None:
    step = reference[2] // _FEW

    killed = kill_at(range(step, reference[2] + 1, step), build, reference)

    assert not killed.faults, killed


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(1, _PARTS + 1))
def test_build_survives_a_kill_at_each_change(
    build: Build, reference: Reference, part: int, record_property: Callable[[str, object], None]
) -> None:
    killed = kill_at(range(part, reference[2] + 1, _PARTS), build, reference)

    record_property("points", killed.points)  # of a report that --junit-xml writes
    assert not killed.faults, killed
