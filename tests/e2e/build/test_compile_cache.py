"""The compile caches with the real nvcc, launcher and gate."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cuwheel.base.system.process import Finished, run
from cuwheel.build.compile.cache.compile_cache import CacheProgram
from cuwheel.build.compile.events import read_events
from tests.support.build.compile_caches import cache_of, processes_of
from tests.support.build.launched_compiles import LaunchedBench, new_launched, stripped
from tests.support.requirements import require
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

_OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount")
_KILL_AND_GO_ON = """
import os, pathlib, signal, sys
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        if str((entry / "exe").readlink()) == sys.argv[1]:
            os.kill(int(entry.name), signal.SIGKILL)
    except OSError:
        pass
os.execv(sys.argv[2], sys.argv[2:])
"""
_ALL = ["cicc", "cicc", "cudafe++", "g++", "ptxas", "ptxas"]


@pytest.fixture(params=["ccache", "sccache"])
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path, cuda_home: Path
) -> LaunchedBench:
    return new_launched(tmp_path, cache_of(request.param, shared_cache), cuda_home)


class Compiled(NamedTuple):
    """The usual source, compiled once under a cache: what ran for it, and the object it gave."""

    bench: LaunchedBench
    source: Path
    tools: list[str]
    cold: bytes


@pytest.fixture(scope="module", params=["ccache", "sccache"])
def compiled_once(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shared_cache: Path,
    cuda_home: Path,
) -> Compiled:
    folder = tmp_path_factory.mktemp(request.param)
    bench = new_launched(folder, cache_of(request.param, shared_cache), cuda_home)
    source = bench.write()
    bench.compile_cuda(source)
    return Compiled(bench, source, bench.tools(), stripped(source))


@pytest.fixture
def compiled(compiled_once: Compiled) -> Compiled:
    """With the launcher as it was then."""
    compiled_once.bench.launch_ready()
    compiled_once.bench.take_events()
    return compiled_once


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, cuda_home: Path) -> bytes:
    """The object of the usual source, compiled without a cache, as the linker leaves it."""
    bench = new_launched(tmp_path_factory.mktemp("plain"), CacheProgram(), cuda_home)
    source = bench.write()
    bench.compile_cuda(source)
    return stripped(source)


def test_gives_the_bytes_that_no_cache_gives(compiled: Compiled, plain: bytes) -> None:
    compiled.bench.compile_cuda(compiled.source)

    assert compiled.tools == _ALL
    assert compiled.bench.tools() == []
    assert compiled.cold == stripped(compiled.source) == plain


def test_compiles_for_archs_at_once_with_the_same_bytes(bench: LaunchedBench, plain: bytes) -> None:
    source = bench.write()
    bench.ready(variables={"CUWHEEL_JOBS": "2"}).compile_cuda(source)
    first, second = (tool for tool in bench.take_events().tools if tool.name == "cicc")
    cold = stripped(source)

    bench.ready(variables={"CUWHEEL_JOBS": "1"}).compile_cuda(source)

    assert second.asked < first.end
    assert bench.tools() == []
    assert cold == stripped(source) == plain


def test_gives_rdc_objects_that_link(bench: LaunchedBench) -> None:
    source = bench.write()

    for _ in range(2):
        bench.compile_cuda(source, "-rdc=true", archs=("80",))

    linked = source.with_suffix(".dlink.o")
    bench.run(
        [bench.nvcc, "-dlink", "-arch=sm_80", str(source.with_suffix(".o")), "-o", str(linked)]
    )
    assert linked.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "another"},
        {"variables": {"CUWHEEL_EPOCH": "1600000000", "SOURCE_DATE_EPOCH": "1600000000"}},
    ],
)
def test_compiles_anew(compiled: Compiled, change: dict[str, Any]) -> None:
    compiled.bench.ready(**change).compile_cuda(compiled.source)

    assert "cudafe++" in compiled.bench.tools()


@pytest.mark.parametrize("text", ["#include <nowhere.h>\n", "__global__ void f() { g(); }\n"])
def test_tells_an_error_once(bench: LaunchedBench, text: str) -> None:
    source = bench.write()
    source.write_text(text)

    done = bench.run(bench.nvcc_words(source, archs=("80",)), check=False)

    assert done.status != 0
    assert done.output.count("error: ") == 1


def test_shows_what_a_compile_says_under_the_cache(bench: LaunchedBench) -> None:
    source = bench.write()
    source.write_text("__global__ void f() { int unused; }\n")

    for _ in range(2):
        assert "unused" in bench.compile_cuda(source, archs=("80",)).output

    assert "cicc" in bench.tools()


def test_takes_no_old_object_for_a_new_one(bench: LaunchedBench) -> None:
    """sccache leaves none with `-objtemp`, which the launcher doesn't give it; a package may."""
    source = bench.write()
    words = bench.nvcc_words(source, "-objtemp", archs=("80",))
    source.with_suffix(".o").write_text("old")

    bench.run(words)

    assert source.with_suffix(".o").read_bytes().startswith(b"\x7fELF")


def test_hits_though_an_unused_folder_is_searched(compiled: Compiled) -> None:
    compiled.bench.compile_cuda(compiled.source, "-I/usr/include/another/python")

    assert compiled.bench.tools() == []


def test_joins_words_that_sccache_would_trip_over(bench: LaunchedBench) -> None:
    source = bench.write()
    options = ("--diag-suppress", "20012", "-std", "c++17", "-Xptxas", "-v")
    bench.compile_cuda(source, *options, archs=("80",))
    bench.take_events()

    bench.compile_cuda(source, *options, archs=("80",))

    assert bench.tools() == []


def test_serves_two_builds_at_once(bench: LaunchedBench) -> None:
    both = [bench.ready(folder=bench.folder / name) for name in ("one", "two")]  # each its server
    shared = {"CCACHE_DIR": str(bench.folder / "c"), "SCCACHE_DIR": str(bench.folder / "c")}
    sources = [one.write(f"{number}.cu", number) for one in both for number in range(2)]

    def build(one: LaunchedBench) -> list[Finished]:
        own = [source for source in sources if source.is_relative_to(one.folder)]
        using = replace(one, variables=shared)
        return [using.compile_cuda(source, archs=("80",)) for source in own]

    with ThreadPoolExecutor(2) as pool:
        done = [finished for built in pool.map(build, both) for finished in built]

    assert [finished.output for finished in done] == [""] * 4
    for one in both:
        one.take_events()
        build(one)
        assert one.tools() == []


def _has_gone_on(child: subprocess.Popen[bytes], bench: LaunchedBench, ended: int) -> bool:
    """Whether so many tools have ended; with sccache those of an earlier try may not run again."""
    return len(read_events(bench.events_log).tools) >= ended or child.poll() is not None


def test_stays_usable_after_a_kill(bench: LaunchedBench, plain: bytes) -> None:
    source = bench.write()
    for ended in (0, 1, 3, len(_ALL)):  # so many tools when the kill comes
        words = bench.cache.supervised(bench.nvcc_words(source), bench.python)
        child = subprocess.Popen(words, env=bench.environment, start_new_session=True)
        wait_for(partial(_has_gone_on, child, bench, ended))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        bench.take_events()

    bench.compile_cuda(source)
    bench.take_events()
    bench.compile_cuda(source)

    assert bench.tools() == []
    assert stripped(source) == plain


@pytest.mark.parametrize("mount", ["size=64k", "ro"])
def test_compiles_where_the_cache_is_full_or_read_only(
    bench: LaunchedBench, plain: bytes, mount: str
) -> None:
    source = bench.write()
    cache = bench.cache.folder
    words = bench.cache.supervised(bench.nvcc_words(source), bench.python)
    script = f'mount -t tmpfs -o {mount} none "$0" && exec "$@"'
    require("namespaces", "that compiles succeed where their cache is full or read-only")

    run([*_OWN_MOUNTS, "sh", "-c", script, cache, *words], env=bench.environment)

    assert stripped(source) == plain


def test_compiles_though_the_server_dies(
    tmp_path: Path, shared_cache: Path, cuda_home: Path
) -> None:
    bench = new_launched(tmp_path, cache_of("sccache", shared_cache), cuda_home)
    source = bench.write()
    words = [sys.executable, "-c", _KILL_AND_GO_ON, str(bench.cache.program_folder / "sccache")]

    bench.run([*words, *bench.nvcc_words(source)])

    assert source.with_suffix(".o").exists()
    assert processes_of(bench) == []
