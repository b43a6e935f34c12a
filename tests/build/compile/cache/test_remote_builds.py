"""Real compiles that one machine leaves in a remote cache and another one takes from it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.build.compile_caches import Bench, cache_of, relay_to
from tests.support.servers.blobs import Blobs, serve_blobs
from tests.support.servers.remote_caches import KINDS, offer, remote_of

_OTHER_MACHINE = {"CCACHE_DIR": "two", "SCCACHE_DIR": "two"}


@pytest.fixture(params=["ccache", "sccache"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path) -> Bench:
    cache = cache_of(request.param, shared_cache)
    return Bench(
        folder=tmp_path, program=cache, python=Path(sys.executable), with_remote=True
    ).set_up()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "name.cpp"
    path.write_text("const char* name() { return __FILE__; }\n")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_another_machine_compiles_nothing(
    kind: str, bench: Bench, source: Path, tmp_path: Path
) -> None:
    with offer(kind, tmp_path) as offered, relay_to(offered.remote, bench) as (relay, warnings):
        bench.compile(source)
        first = source.with_suffix(".o").read_bytes()
        bench.take_statistics()

        bench.changed(variables=_OTHER_MACHINE).compile(source)

    statistics = bench.take_statistics()
    assert (statistics["hits"], statistics["misses"], statistics["errors"]) == (1, 0, 0)
    assert source.with_suffix(".o").read_bytes() == first
    assert relay.hits > 0
    assert warnings == []


def test_compiles_where_each_answer_is_a_page_to_log_in(bench: Bench, source: Path) -> None:
    """A proxy may redirect to one, with status 200."""
    page = Blobs(files={"/": b"<html>log in</html>"})
    with serve_blobs(page) as other, serve_blobs(Blobs()) as blobs:
        blobs.moved = f"http://127.0.0.1:{other.port}/"
        with relay_to(remote_of(blobs.url), bench) as (relay, _):
            bench.compile(source)

    assert relay.hits > 0
    assert bench.take_statistics()["hits"] == 0
    assert source.with_suffix(".o").read_bytes().startswith(b"\x7fELF")
