from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.errors import PreflightError, UsageError
from cuwheel.base.paths import ROOT
from cuwheel.base.system.process import run
from cuwheel.build.compile.cache.compile_cache import (
    CacheProgram,
    check_compile_cache,
    check_usable,
    choose_compile_cache,
    choose_program,
)
from cuwheel.build.compile.launcher import cache_server
from cuwheel.build.workspace.job import Job
from tests.support.build.compile_caches import SCCACHE_FOLDER, Bench, cache_of, processes_of
from tests.support.factories import heard, make_job, make_target, make_workspace, noise
from tests.support.waiting import wait_for

_REMOTE = "file:/nowhere/at/all"
_SOURCE = "#include <string>\nstd::string name() { return __FILE__; }\n"


@pytest.fixture(params=["ccache", "sccache"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, shared_cache: Path) -> Bench:
    cache = cache_of(request.param, shared_cache)
    return Bench(folder=tmp_path, program=cache, python=Path(sys.executable)).set_up()


ccache = pytest.mark.parametrize("bench", ["ccache"], indirect=True)
sccache = pytest.mark.parametrize("bench", ["sccache"], indirect=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "tree" / "name.cpp"
    path.parent.mkdir()
    path.write_text(_SOURCE)
    return path


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """Make a program that prints a version."""

    def make(version_line: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / "ccache"
        path.write_text(f"#!/bin/sh\necho '{version_line}'\n")
        path.chmod(0o755)
        return path

    return make


def test_gives_the_same_object_without_compiling(bench: Bench, source: Path) -> None:
    bench.compile(source)
    first = source.with_suffix(".o").read_bytes()
    bench.take_statistics()

    bench.compile(source)

    statistics = bench.take_statistics()
    assert (statistics["hits"], statistics["misses"], statistics["errors"]) == (1, 0, 0)
    assert source.with_suffix(".o").read_bytes() == first


def test_takes_what_a_machine_with_another_clock_has_kept(bench: Bench, source: Path) -> None:
    """Sources and the first machine's entries have times a day ahead of the second's clock."""
    header = source.with_name("name.hpp")
    header.write_text("const int number = 1;\n")
    source.write_text(f'#include "name.hpp"\n{_SOURCE}')
    ahead = time.time() + 86_400
    for path in (header, source):
        os.utime(path, (ahead, ahead))
    bench.compile(source)
    for path in bench.cache.folder.rglob("*"):
        os.utime(path, (ahead, ahead))
    bench.take_statistics()

    bench.compile(source)

    statistics = bench.take_statistics()
    assert (statistics["hits"], statistics["misses"]) == (1, 0)


def test_compiles_when_the_source_changed(bench: Bench, source: Path) -> None:
    bench.compile(source)
    source.write_text(_SOURCE.replace("__FILE__", "__FILE__ + 1"))
    bench.take_statistics()

    bench.compile(source)

    assert bench.take_statistics()["misses"] == 1


@ccache
def test_compiles_anew_for_another_ccache_fingerprint(bench: Bench, source: Path) -> None:
    bench.compile(source)
    bench.take_statistics()

    bench.changed(fingerprint="two").compile(source)

    assert bench.take_statistics()["misses"] == 1


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

    assert bench.take_statistics()["misses"] == 1


def test_ignores_settings_of_users_machines_and_packages(bench: Bench, source: Path) -> None:
    home = bench.folder / "home" / ".config"
    for folder in (home / "ccache", bench.folder, source.parent):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ccache.conf").write_text("disable = true\n")
    (home / "sccache").mkdir()
    unreachable = '[cache.redis]\nendpoint = "redis://127.0.0.1:1"\n'
    (home / "sccache" / "config").write_text(unreachable)

    bench.compile(source)
    bench.compile(source)

    statistics = bench.take_statistics()
    assert (statistics["hits"], statistics["misses"]) == (1, 1)


@ccache
@pytest.mark.e2e
def test_keeps_a_compile_while_its_header_is_linked(bench: Bench, source: Path) -> None:
    header = source.with_name("name.hpp")
    header.write_text("const int number = 1;\n")
    source.write_text(f'#include "name.hpp"\n{_SOURCE}')
    # What an installer of another build does while the compiler runs.
    shim = source.parent / "g++"
    shim.write_text(f'#!/bin/sh\nln -f {header} {header}.$$\nexec /usr/bin/g++ "$@"\n')
    shim.chmod(0o755)
    time.sleep(2.1)  # ccache trusts no date of the last two seconds

    bench.compile(source, compiler=str(shim))

    assert bench.take_statistics()["misses"] == 1


@ccache
def test_limits_the_size_of_ccache(bench: Bench) -> None:
    small = bench.changed(program=_sized(bench.program, 3 << 20))

    output = small.run([*small.cache.prefix, "--show-config"]).output

    assert "(environment) max_size = 3.0 MiB" in output


@sccache
def test_limits_the_size_of_sccache(bench: Bench) -> None:
    small = bench.changed(program=_sized(bench.program, 1 << 20))
    for number in range(3):
        path = small.folder / f"random{number}.c"
        path.write_text(f'const char text{number}[] = "{noise(400_000, number).hex()}";\n')
        small.compile(path, compiler="/usr/bin/gcc")

    kept = sum(path.stat().st_size for path in small.cache.folder.rglob("*") if path.is_file())
    assert 0 < kept < 1 << 20


def _sized(cache: CacheProgram, size: int) -> CacheProgram:
    return replace(cache, size=size)


@pytest.mark.parametrize(
    ("line", "with_remote", "name", "version"),
    [
        ("ccache version 4.14.2\nFeatures: redis+unix-storage", True, "ccache", "4.14.2"),
        ("ccache version 4.14.2\nFeatures: file-storage", False, "ccache", "4.14.2"),
        ("ccache version 4.14.2\nFeatures: file-storage", True, "sccache", "0.16.0"),
        ("ccache version 4.9.1", False, "sccache", "0.16.0"),
    ],
)
def test_chooses_a_new_ccache_that_reaches_the_relay(
    program: Callable[..., Path], line: str, name: str, version: str, *, with_remote: bool
) -> None:
    path = f"{program(line).parent}:/usr/bin:/bin"

    chosen = choose_program({"PATH": path}, sccache_folder=SCCACHE_FOLDER, with_remote=with_remote)

    assert (chosen.name, chosen.version) == (name, version)


def test_does_without_where_there_is_neither(tmp_path: Path) -> None:
    assert choose_program({"PATH": ""}, sccache_folder=tmp_path).name == ""


def test_refuses_all_wrong_settings_at_once(program: Callable[..., Path]) -> None:
    old = program("ccache version 4.7.5")
    environ = {"CUWHEEL_CCACHE": str(old), "CUWHEEL_COMPILE_CACHE_SIZE": "much"}

    with pytest.raises(UsageError) as caught:
        choose_program(environ)

    assert "needs 4.13 or newer" in caught.value.why
    assert "CUWHEEL_COMPILE_CACHE_SIZE is not a size: much" in caught.value.why


@pytest.mark.parametrize(
    ("text", "size"),
    [("", 10 << 30), ("500M", 500 << 20), ("2 GiB", 2 << 30), ("1TB", 1 << 40)],
)
def test_reads_sizes(text: str, size: int, tmp_path: Path) -> None:
    environ = {"PATH": "", "CUWHEEL_COMPILE_CACHE_SIZE": text}

    assert choose_program(environ, sccache_folder=tmp_path).size == size


@sccache
@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("ls {sockets}; exit 7", "sccache.sock\n"),
        (
            "rm -r events; exit 7",
            "cuwheel: warning: sccache's statistics could not be saved\n",
        ),
    ],
)
def test_passes_on_the_status_and_ends_the_server(bench: Bench, script: str, output: str) -> None:
    script = script.format(sockets=bench.cache.socket_folder)

    done = bench.run(["sh", "-c", script], check=False)

    assert (done.status, done.output) == (7, output)
    assert not processes_of(bench)


@sccache
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ends_the_server_with_a_build_that_is_ended(
    bench: Bench, source: Path, number: int
) -> None:
    words = bench.cache.supervised(["sleep", "60"], bench.python)
    child = subprocess.Popen(words, env=bench.environment, start_new_session=True)
    wait_for((bench.cache.socket_folder / "sccache.sock").exists)

    if number == signal.SIGKILL:  # of the whole group
        os.killpg(child.pid, number)
        child.wait()
    else:
        child.send_signal(number)
        assert child.wait(20) == 128 + number

    wait_for(lambda: not processes_of(bench))
    bench.take_statistics()
    bench.compile(source)  # over the socket that was left
    assert bench.take_statistics()["misses"] == 1


@sccache
def test_builds_without_a_server_that_doesnt_start(bench: Bench) -> None:
    (bench.cache.program_folder / "sccache").write_text("#!/bin/sh\nexit 1\n")

    done = bench.run(["sh", "-c", "echo off: $CUWHEEL_NO_COMPILE_CACHE"])

    warning = "cuwheel: warning: sccache doesn't start, so everything is compiled\n"
    assert done.output == f"{warning}off: 1\n"


@pytest.mark.e2e
def test_waits_for_no_answer_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "sccache"
    client.write_text("#!/bin/sh\necho part\nexec sleep 30\n")
    client.chmod(0o755)
    monkeypatch.setattr(cache_server, "_REPLY_LIMIT", 2.0)
    before = time.monotonic()

    output = cache_server.request(str(client))

    assert output == ""
    assert time.monotonic() - before < 20


@sccache
def test_drops_the_flag_that_sccache_loses_objects_with(bench: Bench) -> None:
    assert bench.program.nvcc_flags(("seed", "objtemp", "path")) == ("seed", "path")
    assert CacheProgram(name="ccache").nvcc_flags(("objtemp",)) == ("objtemp",)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(make_target(), make_workspace(tmp_path))


def test_keeps_compiles_in_the_callers_folder(job: Job, tmp_path: Path) -> None:
    chosen = choose_compile_cache(
        job, tmp_path, {"PATH": "", "CUWHEEL_COMPILE_CACHE": f"{tmp_path}/fast"}
    )

    assert chosen.program.name == "sccache"
    assert chosen.folder == tmp_path / "fast" / job.target.recipe.name
    assert (chosen.program_folder / "sccache").exists()
    assert heard(job.workspace) == ""


def test_source_that_was_given_has_a_cache_of_its_own(tmp_path: Path) -> None:
    """It could leave wrong objects to the recipe's own source."""
    source_target = make_target(source_override=tmp_path)

    chosen = choose_compile_cache(
        make_job(source_target, make_workspace(tmp_path)), tmp_path, {"PATH": ""}
    )

    assert chosen.folder.name == f"{source_target.recipe.name}.source"


def test_goes_without_a_folder_that_cant_be_used(job: Job, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ = {"PATH": "", "CUWHEEL_COMPILE_CACHE": f"{tmp_path}/file/compiles"}

    chosen = choose_compile_cache(job, tmp_path, {**environ, "CUWHEEL_REMOTE_CACHE": _REMOTE})

    assert (chosen.program.name, chosen.remote, chosen.prefix) == ("", None, ())
    assert "can't be used, so everything is compiled: Not a directory" in heard(job.workspace)


def test_shard_is_refused_before_the_build_where_nothing_is_kept(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUWHEEL_COMPILE_CACHE", str(tmp_path / "compiles"))
    check_usable(job)
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUWHEEL_COMPILE_CACHE", f"{tmp_path}/file/compiles")

    with pytest.raises(PreflightError, match="a shard needs a compile cache") as caught:
        check_usable(job)

    assert caught.value.why.endswith("can't be used: Not a directory")


def test_uses_no_cache_with_no_cache(tmp_path: Path) -> None:
    job = make_job(make_target(), make_workspace(tmp_path), no_cache=True)

    chosen = choose_compile_cache(job, tmp_path, {"CUWHEEL_REMOTE_CACHE": _REMOTE})

    assert (chosen.program.name, chosen.remote) == ("", None)


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("CUWHEEL_REMOTE_CACHE", "memcached://box", "its scheme is memcached"),
        ("CUWHEEL_DIRECT_MODE", "no", "CUWHEEL_DIRECT_MODE has to be on or off, not no"),
    ],
)
def test_reports_problems_before_the_build(
    job: Job, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, part: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(UsageError) as caught:
        check_compile_cache(job)

    assert part in f"{caught.value.what} {caught.value.why}"


@pytest.mark.parametrize(("value", "expected"), [("", True), ("on", True), ("off", False)])
def test_direct_mode_is_on_unless_it_is_off(
    *, value: str, expected: bool, job: Job, tmp_path: Path
) -> None:
    chosen = choose_compile_cache(job, tmp_path, {"PATH": "", "CUWHEEL_DIRECT_MODE": value})

    assert chosen.has_direct_mode == expected


def test_serves_the_remote_cache_while_the_block_lasts(job: Job, tmp_path: Path) -> None:
    environ = {"PATH": "", "CUWHEEL_REMOTE_CACHE": f"file:{tmp_path}/shared"}
    chosen = choose_compile_cache(job, tmp_path, environ)

    with chosen.remote_served(job.workspace, "one"):
        assert (tmp_path / "relay.sock").is_socket()

    assert not (tmp_path / "relay.sock").exists()


def test_loads_no_library_without_a_remote_cache() -> None:
    code = (
        "import sys, cuwheel.__main__, cuwheel.build.pipeline.stages.build\n"
        "print(sorted({'obstore', 'redis'} & sys.modules.keys()))"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}

    done = run([sys.executable, "-c", code], env=env)

    assert done.output == "[]\n"
