"""A second machine, with an empty cache of its own, takes its compiles from a remote one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.sandbox.backends import Mount, sandboxed
from tests.support.caching import cache_of, relay_to
from tests.support.launched import LaunchedBench, new_launched, stripped
from tests.support.remote_caches import QUOTED_SECRET, SECRET, offer, remote_of
from tests.support.requirements import require

if TYPE_CHECKING:
    from tests.support.engine import Engine

pytestmark = pytest.mark.e2e


@pytest.fixture(params=["ccache", "sccache"])
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path, cuda_home: Path
) -> LaunchedBench:
    made = new_launched(tmp_path, cache_of(request.param, shared_cache), cuda_home)
    return made.ready(with_remote=True)


def test_a_second_machine_compiles_nothing(bench: LaunchedBench, tmp_path: Path) -> None:
    source = bench.write()
    with offer("redis", tmp_path) as offered, relay_to(offered.remote, bench) as seen:
        bench.compile_cuda(source)
        first, tools = stripped(source), bench.tools()
        second = bench.ready(variables={"CCACHE_DIR": "two", "SCCACHE_DIR": "two"})

        traffic, warnings = seen
        second.compile_cuda(source)
        taken = traffic.hits
        second.compile_cuda(source)

    assert "cicc" in tools
    assert second.tools() == []
    assert stripped(source) == first
    assert taken > 0
    assert traffic.hits == taken  # the second time its own cache had it
    assert (traffic.failures, warnings) == (0, [])


def test_an_unreachable_cache_costs_one_warning(bench: LaunchedBench) -> None:
    source = bench.write()

    with relay_to(remote_of("redis://:geheim@127.0.0.1:1"), bench) as (_, warnings):
        bench.compile_cuda(source)
        bench.compile_cuda(source)

    assert bench.tools() == ["cicc", "cicc", "cudafe++", "g++", "ptxas", "ptxas"]
    assert len(warnings) == 1
    assert "geheim" not in warnings[0]


def test_a_build_takes_its_compiles_and_leaves_no_password(engine: Engine, tmp_path: Path) -> None:
    wheels, outputs = [], []
    with offer("redis", tmp_path) as offered:
        for machine in ("one", "two"):
            own = replace(engine, work=tmp_path / machine / "work", dist=tmp_path / machine)
            local = str(tmp_path / machine / "compiles")
            done = own.build(
                "tiny-capi", CUWHEEL_COMPILE_CACHE=local, CUWHEEL_REMOTE_CACHE=offered.address
            )
            wheels.append([wheel.read_bytes() for wheel in own.wheels()])
            outputs.append(done.output)

    assert "0 of 2 compiles were in it" in outputs[0]
    assert "2 of 2 compiles were in it" in outputs[1]
    assert len(wheels[0]) == 1
    assert wheels[0] == wheels[1]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for secret in (SECRET, QUOTED_SECRET):
        assert not any(secret in output for output in outputs)
        assert not any(secret.encode() in content for content in written)


@pytest.mark.parametrize("kind", ["bubblewrap", "unshare"])
def test_reaches_the_relay_from_a_sandbox_without_network(
    bench: LaunchedBench, kind: str, tmp_path: Path
) -> None:
    part = {"bubblewrap": "bwrap", "unshare": "sandbox"}[kind]
    require(part, "that a build without a network reaches the relay")
    source = bench.write()
    made = {tmp_path, bench.paths.socket_folder}
    folders = {*made, bench.home, bench.home.parents[1], *_of_python()}
    mounts = [Mount(source=path, target=path, kind="write") for path in sorted(folders)]
    mounts += _program_of(bench)

    with offer("redis", tmp_path) as offered, relay_to(offered.remote, bench) as seen:
        prefix = sandboxed(kind, mounts, tmp_path)
        words = bench.cache.supervised(bench.nvcc_words(source), bench.paths, bench.python)
        bench.run_bare([*prefix, *words])

    assert source.with_suffix(".o").exists()
    assert seen[0].misses > 0
    assert seen[1] == []


def _of_python() -> set[Path]:
    return {Path(sys.prefix), Path(sys.base_prefix)}


def _program_of(bench: LaunchedBench) -> list[Mount]:
    """The ccache of the tests has its libraries beside it."""
    program = bench.cache.program
    assert program is not None
    return [Mount(source=program.parent, target=program.parent)]
