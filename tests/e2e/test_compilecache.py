"""The compile caches with the real nvcc, launcher and gate."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from cuwheel.build.compile_cache.backends import CompileCache
from cuwheel.system.process import run
from tests.support.caching import cache_of, processes_of
from tests.support.launched import LaunchedBench, new_launched, stripped
from tests.support.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from cuwheel.system.process import Finished

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


@pytest.fixture
def plain(bench: LaunchedBench) -> bytes:
    """The object of the usual source, compiled without a cache, as the linker leaves it."""
    source = bench.write()
    bench.ready(cache=CompileCache()).compile_cuda(source)
    bench.launch_ready()
    bench.take_events()
    return stripped(source)


def test_gives_the_bytes_that_no_cache_gives(bench: LaunchedBench, plain: bytes) -> None:
    source = bench.write()
    bench.compile_cuda(source)
    cold, tools = stripped(source), bench.tools()

    bench.compile_cuda(source)

    assert tools == _ALL
    assert bench.tools() == []
    assert cold == stripped(source) == plain


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
        bench.compile_cuda(source, "-rdc=true")

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
def test_compiles_anew(bench: LaunchedBench, change: dict[str, Any]) -> None:
    source = bench.write()
    bench.compile_cuda(source)
    bench.take_events()

    bench.ready(**change).compile_cuda(source)

    assert "cudafe++" in bench.tools()


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
        assert "unused" in bench.compile_cuda(source).output

    assert "cicc" in bench.tools()


def test_takes_no_old_object_for_a_new_one(bench: LaunchedBench) -> None:
    """sccache leaves none with `-objtemp`, which the launcher doesn't give it; a package may."""
    source = bench.write()
    words = bench.nvcc_words(source, "-objtemp")
    source.with_suffix(".o").write_text("old")

    bench.run(words)

    assert source.with_suffix(".o").read_bytes().startswith(b"\x7fELF")


def test_hits_though_an_unused_folder_is_searched(bench: LaunchedBench) -> None:
    source = bench.write()
    bench.compile_cuda(source)
    bench.take_events()

    bench.compile_cuda(source, "-I/usr/include/another/python")

    assert bench.tools() == []


def test_joins_words_that_sccache_would_trip_over(bench: LaunchedBench) -> None:
    source = bench.write()
    options = ("--diag-suppress", "20012", "-std", "c++17", "-Xptxas", "-v")
    bench.compile_cuda(source, *options)
    bench.take_events()

    bench.compile_cuda(source, *options)

    assert bench.tools() == []


def test_serves_two_builds_at_once(bench: LaunchedBench) -> None:
    both = [bench.ready(folder=bench.folder / name) for name in ("one", "two")]  # each its server
    shared = {"CCACHE_DIR": str(bench.folder / "c"), "SCCACHE_DIR": str(bench.folder / "c")}
    sources = [one.write(f"{number}.cu", number) for one in both for number in range(2)]

    def build(one: LaunchedBench) -> list[Finished]:
        own = [source for source in sources if source.is_relative_to(one.folder)]
        return [replace(one, variables=shared).compile_cuda(source) for source in own]

    with ThreadPoolExecutor(2) as pool:
        done = [finished for built in pool.map(build, both) for finished in built]

    assert [finished.output for finished in done] == [""] * 4
    for one in both:
        one.take_events()
        build(one)
        assert one.tools() == []


def test_stays_usable_after_a_kill(bench: LaunchedBench, plain: bytes) -> None:
    source = bench.write()
    for delay in (0.3, 0.8, 1.3, 1.8):
        words = bench.cache.supervised(bench.nvcc_words(source), bench.paths, bench.python)
        child = subprocess.Popen(words, env=bench.environment, start_new_session=True)
        time.sleep(delay)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()

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
    cache = bench.paths.cache_folder
    words = bench.cache.supervised(bench.nvcc_words(source), bench.paths, bench.python)
    script = f'mount -t tmpfs -o {mount} none "$0" && exec "$@"'
    require("namespaces", "that compiles succeed where their cache is full or read-only")

    run([*_OWN_MOUNTS, "sh", "-c", script, cache, *words], env=bench.environment)

    assert stripped(source) == plain


def test_compiles_though_the_server_dies(
    tmp_path: Path, shared_cache: Path, cuda_home: Path
) -> None:
    bench = new_launched(tmp_path, cache_of("sccache", shared_cache), cuda_home)
    source = bench.write()
    words = [sys.executable, "-c", _KILL_AND_GO_ON, str(bench.paths.program_folder / "sccache")]

    bench.run([*words, *bench.nvcc_words(source)])

    assert source.with_suffix(".o").exists()
    assert processes_of(bench) == []
