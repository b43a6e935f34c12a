from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.build.compile_cache.backends import CompileCache, choose_cache
from cuwheel.errors import UsageError
from cuwheel.standalone.launcher import cache_server
from tests.support.caching import SCCACHE_FOLDER, Bench, cache_of, processes_of
from tests.support.factories import noise
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCE = "#include <string>\nstd::string name() { return __FILE__; }\n"


@pytest.fixture(params=["ccache", "sccache"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path) -> Bench:
    cache = cache_of(request.param, shared_cache)
    return Bench(folder=tmp_path, cache=cache, python=Path(sys.executable)).set_up()


@pytest.fixture
def ccache_bench(tmp_path: Path, shared_cache: Path) -> Bench:
    cache = cache_of("ccache", shared_cache)
    return Bench(folder=tmp_path, cache=cache, python=Path(sys.executable)).set_up()


@pytest.fixture
def sccache_bench(tmp_path: Path, shared_cache: Path) -> Bench:
    cache = cache_of("sccache", shared_cache)
    return Bench(folder=tmp_path, cache=cache, python=Path(sys.executable)).set_up()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tree" / "name.cpp"
    path.parent.mkdir()
    path.write_text(_SOURCE)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """A program that says a version."""

    def make(says: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / "ccache"
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)
        return path

    return make


def test_gives_the_same_object_without_compiling(bench: Bench, source: Path) -> None:
    bench.compile(source)
    first = source.with_suffix(".o").read_bytes()
    bench.take_statistics()

    bench.compile(source)

    statistics = bench.take_statistics()
    assert (statistics.hits, statistics.misses, statistics.errors) == (1, 0, 0)
    assert source.with_suffix(".o").read_bytes() == first


def test_compiles_when_the_source_changed(bench: Bench, source: Path) -> None:
    bench.compile(source)
    source.write_text(_SOURCE.replace("__FILE__", "__FILE__ + 1"))
    bench.take_statistics()

    bench.compile(source)

    assert bench.take_statistics().misses == 1


def test_compiles_anew_for_another_ccache_fingerprint(ccache_bench: Bench, source: Path) -> None:
    ccache_bench.compile(source)
    ccache_bench.take_statistics()

    ccache_bench.changed(fingerprint="two").compile(source)

    assert ccache_bench.take_statistics().misses == 1


def test_compiles_anew_when_the_text_of_a_compiler_changed(bench: Bench, source: Path) -> None:
    shim = source.parent / "g++"

    def compile_with(fingerprint: str) -> None:
        shim.write_text(f'#!/bin/sh\n# {fingerprint}\nexec /usr/bin/g++ "$@"\n')
        shim.chmod(0o755)
        os.utime(shim, (1, 1))
        bench.changed(fingerprint=fingerprint).compile(source, compiler=str(shim))

    compile_with("one")
    bench.take_statistics()

    compile_with("two")

    assert bench.take_statistics().misses == 1


def test_ignores_settings_of_users_machines_and_packages(bench: Bench, source: Path) -> None:
    home = bench.folder / "home" / ".config"
    for folder in (home / "ccache", bench.folder, source.parent):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ccache.conf").write_text("disable = true\n")
    (home / "sccache").mkdir()
    nobody = '[cache.redis]\nendpoint = "redis://127.0.0.1:1"\n'
    (home / "sccache" / "config").write_text(nobody)

    bench.compile(source)
    bench.compile(source)

    statistics = bench.take_statistics()
    assert (statistics.hits, statistics.misses) == (1, 1)


def test_keeps_a_compile_whose_header_is_linked_meanwhile(
    ccache_bench: Bench, source: Path
) -> None:
    header = source.with_name("name.hpp")
    header.write_text("const int number = 1;\n")
    source.write_text(f'#include "name.hpp"\n{_SOURCE}')
    # What an installer of another build does while the compiler runs.
    shim = source.parent / "g++"
    shim.write_text(f'#!/bin/sh\nln -f {header} {header}.$$\nexec /usr/bin/g++ "$@"\n')
    shim.chmod(0o755)
    time.sleep(2.1)  # ccache trusts no date of the last two seconds

    ccache_bench.compile(source, compiler=str(shim))

    assert ccache_bench.take_statistics().misses == 1


def test_limits_the_size_of_ccache(ccache_bench: Bench) -> None:
    small = ccache_bench.changed(cache=_sized(ccache_bench.cache, 3 << 20))

    said = small.run([*small.cache.prefix(small.paths), "--show-config"]).output

    assert "(environment) max_size = 3.0 MiB" in said


def test_limits_the_size_of_sccache(sccache_bench: Bench) -> None:
    small = sccache_bench.changed(cache=_sized(sccache_bench.cache, 1 << 20))
    for number in range(3):
        path = small.folder / f"random{number}.c"
        path.write_text(f'const char text{number}[] = "{noise(400_000, number).hex()}";\n')
        small.compile(path, compiler="/usr/bin/gcc")

    kept = sum(
        path.stat().st_size for path in small.paths.cache_folder.rglob("*") if path.is_file()
    )
    assert 0 < kept < 1 << 20


def _sized(cache: CompileCache, size: int) -> CompileCache:
    return replace(cache, size=size)


def test_names_the_newest_that_it_finds(program: Callable[..., Path]) -> None:
    found = program("ccache version 4.14.2\nFeatures: redis+unix-storage")

    cache = choose_cache({"PATH": str(found.parent)})

    assert (cache.name, cache.program, cache.version) == ("ccache", found, "4.14.2")


def test_passes_over_an_old_ccache(program: Callable[..., Path]) -> None:
    old = program("ccache version 4.9.1")

    cache = choose_cache({"PATH": f"{old.parent}:/usr/bin:/bin"}, sccache_folder=SCCACHE_FOLDER)

    assert (cache.name, cache.version) == ("sccache", "0.16.0")


def test_passes_over_a_ccache_that_cant_reach_the_relay(program: Callable[..., Path]) -> None:
    local = program("ccache version 4.14.2\nFeatures: file-storage")

    cache = choose_cache(
        {"PATH": str(local.parent)}, sccache_folder=SCCACHE_FOLDER, with_remote=True
    )

    assert cache.name == "sccache"


def test_does_without_where_there_is_neither(tmp_path: Path) -> None:
    cache = choose_cache({"PATH": ""}, sccache_folder=tmp_path)

    assert cache.name == ""
    assert cache.prefix(Bench(folder=tmp_path, cache=cache, python=tmp_path).paths) == ()


def test_refuses_all_wrong_settings_at_once(program: Callable[..., Path]) -> None:
    old = program("ccache version 4.7.5")
    asked = {"CUWHEEL_CCACHE": str(old), "CUWHEEL_COMPILE_CACHE_SIZE": "much"}

    with pytest.raises(UsageError) as caught:
        choose_cache(asked)

    assert "needs 4.13 or newer" in caught.value.why
    assert "CUWHEEL_COMPILE_CACHE_SIZE is not a size: much" in caught.value.why


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 10 << 30), ("500M", 500 << 20), ("2 GiB", 2 << 30), ("1TB", 1 << 40)],
)
def test_reads_sizes(text: str, size: int, tmp_path: Path) -> None:
    asked = {"PATH": "", "CUWHEEL_COMPILE_CACHE_SIZE": text}

    assert choose_cache(asked, sccache_folder=tmp_path).size == size


def test_passes_on_the_status_and_ends_the_server(sccache_bench: Bench) -> None:
    sockets = sccache_bench.paths.socket_folder

    done = sccache_bench.run(["sh", "-c", f"ls {sockets}; exit 7"], check=False)

    assert done.status == 7
    assert done.output == "sccache.sock\n"
    assert not processes_of(sccache_bench)


def test_ends_the_server_with_a_build_that_is_ended(sccache_bench: Bench) -> None:
    words = sccache_bench.cache.supervised(
        ["sleep", "60"], sccache_bench.paths, sccache_bench.python
    )
    child = subprocess.Popen(words, env=sccache_bench.environment)
    wait_for((sccache_bench.paths.socket_folder / "sccache.sock").exists)

    child.send_signal(signal.SIGTERM)

    assert child.wait(20) == 128 + signal.SIGTERM
    assert not processes_of(sccache_bench)


def test_leaves_nothing_when_the_group_is_killed(sccache_bench: Bench, source: Path) -> None:
    words = sccache_bench.cache.supervised(
        ["sleep", "60"], sccache_bench.paths, sccache_bench.python
    )
    child = subprocess.Popen(words, env=sccache_bench.environment, start_new_session=True)
    wait_for((sccache_bench.paths.socket_folder / "sccache.sock").exists)

    os.killpg(child.pid, signal.SIGKILL)
    child.wait()

    wait_for(lambda: not processes_of(sccache_bench))
    sccache_bench.compile(source)  # over the socket that was left
    assert sccache_bench.take_statistics().misses == 1


def test_builds_without_a_server_that_doesnt_start(sccache_bench: Bench) -> None:
    program = sccache_bench.paths.program_folder / "sccache"
    program.write_text("#!/bin/sh\nexit 1\n")

    done = sccache_bench.run(["sh", "-c", "echo off: $CUWHEEL_NO_COMPILE_CACHE"])

    warning = "cuwheel: warning: sccache doesn't start, so everything is compiled\n"
    assert done.output == f"{warning}off: 1\n"


def test_ends_the_server_though_its_counts_cant_be_kept(sccache_bench: Bench) -> None:
    done = sccache_bench.run(["sh", "-c", "rm -r events; exit 7"], check=False)

    assert done.status == 7
    assert done.output == "cuwheel: warning: sccache's statistics could not be saved\n"
    assert not processes_of(sccache_bench)


def test_waits_for_no_answer_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "sccache"
    client.write_text("#!/bin/sh\necho part\nexec sleep 30\n")
    client.chmod(0o755)
    monkeypatch.setattr(cache_server, "_ANSWER_LIMIT", 2.0)
    before = time.monotonic()

    said = cache_server.ask(str(client))

    assert said == "part\n"
    assert time.monotonic() - before < 20


def test_drops_the_flag_that_sccache_loses_objects_with(sccache_bench: Bench) -> None:
    assert sccache_bench.cache.nvcc_flags(("seed", "objtemp", "path")) == ("seed", "path")
    assert CompileCache(name="ccache").nvcc_flags(("objtemp",)) == ("objtemp",)
