"""A second machine, with an empty cache of its own, takes its compiles from a remote one."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.compile_cache.backends import RELAY_SOCKET
from cuwheel.build.compile_cache.relay import Traffic, relaying
from cuwheel.build.compile_cache.remote import remote_from
from cuwheel.build.compile_cache.storage import open_storage
from cuwheel.build.sandbox.backends import Mount, choose_sandbox, sandboxed
from tests.support.blob_server import Blobs, keeping
from tests.support.caching import cache_of
from tests.support.launched import LaunchedBench, new_launched, stripped
from tests.support.redis_server import redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e


@pytest.fixture(params=["ccache", "sccache"])
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path, cuda_home: Path
) -> LaunchedBench:
    made = new_launched(tmp_path, cache_of(request.param, shared_cache), cuda_home)
    return made.ready(with_remote=True)


@contextlib.contextmanager
def relay_to(address: str, bench: LaunchedBench) -> Iterator[tuple[Traffic, list[str]]]:
    remote = remote_from({"CUWHEEL_REMOTE_CACHE": address})
    assert remote is not None
    warnings: list[str] = []
    path = bench.places.sockets / RELAY_SOCKET
    with relaying(remote, open_storage(remote), path, warnings.append) as traffic:
        yield traffic, warnings


@pytest.fixture(params=["redis", "http", "file"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "redis":
        with redis_server(tmp_path, password="geheim") as port:
            yield f"redis://:geheim@127.0.0.1:{port}/1"
    elif request.param == "http":
        with keeping(Blobs(login="me:geheim")) as blobs:
            yield f"http://me:geheim@127.0.0.1:{blobs.port}/cache"
    else:
        yield f"file:{tmp_path}/shared"


def test_a_second_machine_compiles_nothing(bench: LaunchedBench, address: str) -> None:
    source = bench.write()
    with relay_to(address, bench):
        bench.compile_cuda(source)
    first, tools = stripped(source), bench.tools()
    second = bench.ready(variables={"CCACHE_DIR": "two", "SCCACHE_DIR": "two"})

    with relay_to(address, second) as (traffic, warnings):
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

    with relay_to("redis://:geheim@127.0.0.1:1", bench) as (_, warnings):
        bench.compile_cuda(source)
        bench.compile_cuda(source)

    assert bench.tools() == ["cicc", "cicc", "cudafe++", "g++", "ptxas", "ptxas"]
    assert len(warnings) == 1
    assert "geheim" not in warnings[0]


@pytest.mark.parametrize("kind", ["bubblewrap", "unshare"])
def test_reaches_the_relay_from_a_sandbox_without_network(
    bench: LaunchedBench, kind: str, tmp_path: Path
) -> None:
    if choose_sandbox(kind) != kind:
        pytest.skip(f"this machine has no {kind}")
    source = bench.write()
    folders = {tmp_path, bench.places.sockets, bench.home, bench.home.parents[1], *_of_python()}
    places = [Mount(source=path, target=path, kind="write") for path in sorted(folders)]
    places += _program_of(bench)

    with redis_server(tmp_path) as port, relay_to(f"redis://127.0.0.1:{port}", bench) as seen:
        prefix = sandboxed(kind, places, tmp_path)
        words = bench.cache.supervised(bench.nvcc_words(source), bench.places, bench.python)
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
