"""One wheel in several shards: the bytes of one piece, whatever happens to a shard."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from cuwheel.base.errors import BuildFailedError, DiskFullError
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.compile.cache.compile_cache import FOLDER_VARIABLE
from tests.support.engine import PACKAGES, Engine, finish, make_engine
from tests.support.packages.many_kernels import with_kernels
from tests.support.requirements import require
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture
def engine(tmp_path: Path, project: Path, shared_cache: Path) -> Engine:
    """The engine with a compile cache of the test's own."""
    engine = make_engine(tmp_path, project, shared_cache)
    return replace(engine, variables={FOLDER_VARIABLE: str(tmp_path / "compiles")})


def _in_one_piece(engine: Engine, name: str, *options: str) -> str:
    """Build in other folders, without a compile cache; return the wheel's SHA-256."""
    other = replace(engine, work=engine.work / "whole", dist=engine.dist / "whole")
    done = other.build(name, *options, "--no-cache")
    assert done.status == 0, done.output
    [wheel] = other.wheels()
    return sha256_of_file(wheel)


def test_shards_give_the_bytes_of_one_piece(engine: Engine, tmp_path: Path) -> None:
    """Shard 3 is killed and run again; two builds then take the objects at once."""
    name = "tiny-capi"
    source = ("--source", str(with_kernels("tiny_capi", tmp_path)))
    with engine.start(name, *source, "--shard", "3/3") as killed:
        wait_for(lambda: any(engine.work.glob("*/events/events.jsonl")))
        killed.send_signal(signal.SIGKILL)
    with (
        engine.start(name, *source, "--shard", "1/3") as first,
        engine.start(name, *source, "--shard", "2/3") as second,
        engine.start(name, *source, "--shard", "3/3") as third,
    ):
        shards = [finish(child) for child in (first, second, third)]

    with engine.start(name, *source) as one, engine.start(name, *source) as other:
        last = [finish(one), finish(other)]

    assert [done.status for done in (*shards, *last)] == [0] * 5, shards + last
    assert all(", left 4 to the others; plan " in done.output for done in shards)
    said = "".join(done.output for done in last)
    assert "all 3 shards of the plan" in said
    assert "of 6 units of shards 0 had to be compiled" in said
    [wheel] = engine.wheels()
    assert sha256_of_file(wheel) == _in_one_piece(engine, name, *source)


def test_a_file_is_divided_by_arch(engine: Engine) -> None:
    """Of its two archs the last build finds one; the shard of the other never ran."""
    name, archs = "tiny-capi", ("--arch", "80", "--arch", "90")
    shards = [engine.build(name, *archs, "--shard", f"{number}/3") for number in (1, 2)]

    last = engine.build(name, *archs)

    assert [done.status for done in (*shards, last)] == [0] * 3, [*shards, last]
    assert all("compiled 1 unit in " in done.output for done in shards)
    assert all(", left 2 to the others; plan " in done.output for done in shards)
    assert (
        "left no record: 3; this build compiles what of it the compile cache lacks" in last.output
    )
    assert "of 3 units of shards 1 had to be compiled: add.cu for sm_90 of shard 3" in last.output
    [wheel] = engine.wheels()
    assert sha256_of_file(wheel) == _in_one_piece(engine, name, *archs)


@pytest.mark.nightly
def test_missing_shard_is_compiled_and_named(engine: Engine, tmp_path: Path) -> None:
    """One of the sources is written by a program of the build, and it links one with CUDA code."""
    name = "tiny-skbuild"
    folder = with_kernels("tiny_skbuild", tmp_path, generated=True)
    source = ("--source", str(folder), "--arch", "90")
    with (
        engine.start(name, *source, "--shard", "1/3") as first,
        engine.start(name, *source, "--shard", "3/3") as third,
    ):
        shards = [finish(child) for child in (first, third)]

    last = engine.build(name, *source)

    assert [done.status for done in (*shards, last)] == [0] * 3, [*shards, last]
    assert (
        "left no record: 2; this build compiles what of it the compile cache lacks" in last.output
    )
    assert "of 7 units of shards 2 had to be compiled: " in last.output
    assert last.output.count(".cu of shard 2") == 2
    [wheel] = engine.wheels()
    assert sha256_of_file(wheel) == _in_one_piece(engine, name, *source)


@pytest.mark.parametrize(
    ("options", "place"),
    [((), "1/1"), (("--arch", "80", "--arch", "90"), "2/3")],
    ids=["whole", "one arch"],
)
def test_file_that_does_not_compile_fails_its_shard(
    options: tuple[str, ...], place: str, engine: Engine, tmp_path: Path
) -> None:
    source = shutil.copytree(PACKAGES / "tiny_capi", tmp_path / "source")
    with (source / "src/add.cu").open("a") as stream:
        stream.write(
            "\n#if __CUDA_ARCH__ == 800 || !defined(__CUDA_ARCH__)\n#error not yet\n#endif\n"
        )

    done = engine.build("tiny-capi", "--source", str(source), *options, "--shard", place)

    assert done.status == BuildFailedError.exit_code, done.output
    assert "a file of this shard doesn't compile" in done.output
    assert "#error not yet" in done.output
    assert engine.wheels() == []


def test_full_disk_of_the_compile_cache_fails_the_shard(engine: Engine, tmp_path: Path) -> None:
    """The compiles succeed: without the error, the array job would have ended well."""
    require("namespaces", "the error of a shard with a full compile cache")
    compiles = tmp_path / "compiles"
    compiles.mkdir()
    script = f'mount -t tmpfs -o size=64k tmpfs {compiles} && exec "$@"'
    unshare = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh")
    source = with_kernels("tiny_capi", tmp_path)

    done = replace(engine, within=unshare).build(
        "tiny-capi", "--source", str(source), "--shard", "1/1"
    )

    assert done.status == DiskFullError.exit_code, done.output
    assert f"no space left on the disk of {compiles}" in done.output
    assert "compiled 6 units" not in done.output


@pytest.mark.nightly
def test_shards_of_other_inputs_are_named_and_no_object_of_theirs_is_used(
    engine: Engine, tmp_path: Path
) -> None:
    """One is of another commit, one for other archs; the cache then forgets a right one's."""
    name = "tiny-capi"
    folder = with_kernels("tiny_capi", tmp_path)
    source, kernel = ("--source", str(folder)), folder / "src/kernel_0.cu"
    text = kernel.read_text()
    kernel.write_text(text.replace("= 0;", "= 99;"))
    shards = [engine.build(name, *source, "--arch", "90", "--shard", "1/1")]
    kernel.write_text(text)
    shards.append(engine.build(name, *source, "--arch", "80", "--shard", "1/1"))
    shards.append(engine.build(name, *source, "--arch", "90", "--shard", "1/1"))
    for kept in (tmp_path / "compiles").glob(f"{name}.source/*cache"):
        shutil.rmtree(kept)
    shutil.rmtree(tmp_path / "compiles" / f"{name}.source" / "direct")

    last = engine.build(name, *source, "--arch", "90")

    assert [done.status for done in (*shards, last)] == [0] * 4, [*shards, last]
    assert last.output.count("1 of which has ended, had other inputs") == 2
    assert "archs: 80 -> 90" in last.output
    assert "has different content" in last.output
    assert "of 6 units of shards 6 had to be compiled: " in last.output
    [wheel] = engine.wheels()
    assert sha256_of_file(wheel) == _in_one_piece(engine, name, *source, "--arch", "90")
