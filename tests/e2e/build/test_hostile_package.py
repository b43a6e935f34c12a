"""A hostile sdist, built by the engine: its setup.py, its hooks and its import try all they can."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.base.paths import ROOT
from tests.build.sandbox.test_backends import processes_with
from tests.support.engine import Engine, Outcome, make_engine
from tests.support.packages.hostile_package import SECRET, Prey, preyed_on, results
from tests.support.requirements import require

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def prey(module_path: Path, shared_cache: Path) -> Iterator[Prey]:
    with preyed_on(module_path, shared_cache / "memory") as made:
        yield made


@pytest.fixture(scope="module")
def engine(module_path: Path, project: Path, shared_cache: Path) -> Engine:
    return make_engine(module_path, project, shared_cache)


@pytest.fixture(scope="module")
def done(prey: Prey, engine: Engine) -> Outcome:
    require("sandbox", "that a hostile package reaches nothing of the machine")
    return engine.build("tiny-capi", "--source", str(prey.sdist()), "--keep-work")


def said(engine: Engine, name: str) -> str:
    [log] = engine.work.glob(f"*/logs/{name}.log")
    return log.read_text(errors="replace")


def test_its_build_ends(done: Outcome, engine: Engine) -> None:
    """No FIFO stops the engine, and what it left isn't taken for anything else."""
    assert done.status == 0, done.output
    assert len(engine.wheels()) == 1


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("log", ["backend", "build", "smoke"])
def test_reaches_nothing(engine: Engine, log: str) -> None:
    """As a metadata hook, as build code, as `__init__` in the load proof."""
    tried = results(said(engine, log))

    assert tried
    assert [one["done"] for one in tried] == [[]] * len(tried)


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize(
    "verb", ["smoke", "profile", pytest.param("verify", marks=pytest.mark.nightly)]
)
def test_reaches_nothing_by_another_verb(verb: str, prey: Prey, engine: Engine) -> None:
    source = prey.folder / "tiny_capi-1.0.0.tar.gz"
    words = ("tiny-capi-130", "--source", source, "--work", engine.work)
    ended = subprocess.run(
        [sys.executable, "-m", "cuwheel", verb, *map(str, words)],
        env=engine.environment(),
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    # The package has replaced the record of its compiles, so there is nothing to report.
    assert ended.returncode == (UsageError.exit_code if verb == "profile" else 0), ended.stdout

    logs = [path for path in engine.work.rglob("logs/*.log") if path.is_file()]
    tried = [one for log in logs for one in results(log.read_text(errors="replace"))]
    assert len(tried) >= (1 if verb == "profile" else 3)  # hook, build and import
    assert [one["done"] for one in tried] == [[]] * len(tried)
    assert list(prey.host.iterdir()) == []


@pytest.mark.usefixtures("done")
def test_leaves_nothing_behind(prey: Prey) -> None:
    assert processes_with(prey.mark) == []
    assert list(prey.host.iterdir()) == []
    assert prey.host.stat().st_mode & 0o777 == 0o777


def test_secret_is_in_no_log(done: Outcome, engine: Engine) -> None:
    logs = [path for path in engine.work.rglob("logs/*") if path.is_file()]

    assert SECRET not in done.output
    assert [path.name for path in logs if SECRET in path.read_text(errors="replace")] == []


def test_next_build_is_as_ever(done: Outcome, engine: Engine) -> None:
    """Its work folder can be removed, and the shared folders hold nothing to wait at."""
    assert done.status == 0

    again = engine.build("tiny-capi", "--no-cache", "--replace")

    assert again.status == 0, again.output
    assert [path for path in engine.cache.glob("memory/**/*") if path.is_fifo()] == []
    assert [path for path in engine.cache.glob("compiles/**/fifo") if path.is_fifo()] == []
