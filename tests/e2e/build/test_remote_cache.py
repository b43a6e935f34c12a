"""A second machine, with an empty cache of its own, takes its compiles from a remote one."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.errors import CacheEntryError
from cuwheel.base.formats.signing_keys import make_signing_key
from cuwheel.build.compile.cache.signed import Maker, seal
from cuwheel.build.sandbox.backends import sandboxed
from cuwheel.build.sandbox.mounts import Mount
from tests.support.build.compile_caches import cache_of, relay_to
from tests.support.build.launched_compiles import LaunchedBench, new_launched
from tests.support.engine import Engine, Outcome
from tests.support.requirements import require
from tests.support.servers.remote_caches import QUOTED_SECRET, SECRET, offer

pytestmark = pytest.mark.e2e


@pytest.fixture(params=["ccache", "sccache"])
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path, cuda_home: Path
) -> LaunchedBench:
    made = new_launched(tmp_path, cache_of(request.param, shared_cache), cuda_home)
    return made.ready(with_remote=True)


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


def test_a_build_takes_signed_entries_and_ends_at_a_wrong_one(
    engine: Engine, tmp_path: Path
) -> None:
    """A whole package by three machines: the maker, a reader, and one that compiles all again."""
    key, shared = make_signing_key(tmp_path / "key.pem"), tmp_path / "shared"
    trusts = {"CUWHEEL_REMOTE_CACHE_KEYS": key.public.word}
    settings = {
        "maker": {"CUWHEEL_REMOTE_CACHE_SIGN": str(tmp_path / "key.pem")},
        "reader": {**trusts, "CUWHEEL_REMOTE_CACHE_SAMPLE": "0"},
        "again": {**trusts, "CUWHEEL_REMOTE_CACHE_SAMPLE": "1"},
    }

    def build(machine: str) -> tuple[Outcome, list[bytes]]:
        own = replace(engine, work=tmp_path / machine / "work", dist=tmp_path / machine)
        local = {"CUWHEEL_COMPILE_CACHE": str(tmp_path / machine / "compiles")}
        remote = {"CUWHEEL_REMOTE_CACHE": f"file:{shared}"}
        done = own.build("tiny-capi", **local, **remote, **settings[machine])
        return done, [wheel.read_bytes() for wheel in own.wheels()]

    made, taken = build("maker"), build("reader")
    entries = {path: path.read_bytes() for path in shared.iterdir()}
    for path, entry in entries.items():
        _, line, _, value = entry.split(b"\n", 3)
        statement = json.loads(line)
        maker = Maker(compiler=statement["compiler"], program=statement["program"])
        path.write_bytes(seal(path.name, value + b"x", maker, key))
    wrong = build("again")

    assert made[0].status == 0, made[0].output
    assert "2 of 2 compiles were in it" in taken[0].output
    assert made[1] == taken[1]
    assert (wrong[0].status, wrong[1]) == (CacheEntryError.exit_code, [])
    assert any(path.name in wrong[0].output for path in entries)


@pytest.mark.parametrize("kind", ["bubblewrap", "unshare"])
def test_reaches_the_relay_from_a_sandbox_without_network(
    bench: LaunchedBench, kind: str, tmp_path: Path
) -> None:
    part = {"bubblewrap": "bwrap", "unshare": "sandbox"}[kind]
    require(part, "that a build without a network reaches the relay")
    source = bench.write()
    made = {tmp_path, bench.cache.socket_folder}
    folders = {*made, bench.home, bench.home.parents[1], *_of_python()}
    mounts = [Mount(source=path, target=path, kind="write") for path in sorted(folders)]
    mounts += _program_of(bench)

    with offer("redis", tmp_path) as offered, relay_to(offered.remote, bench) as seen:
        prefix = sandboxed(kind, mounts, tmp_path)
        words = bench.cache.supervised(bench.nvcc_words(source), bench.python)
        bench.run_bare([*prefix, *words])

    assert source.with_suffix(".o").exists()
    relay, warnings = seen
    assert relay.requests > 0
    assert warnings == []


def _of_python() -> set[Path]:
    return {Path(sys.prefix), Path(sys.base_prefix)}


def _program_of(bench: LaunchedBench) -> list[Mount]:
    """The ccache of the tests has its libraries beside it."""
    program = bench.program.path
    assert program is not None
    return [Mount(source=program.parent, target=program.parent)]
