"""Direct mode: what was compiled before with all the same inputs isn't compiled again."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.build.launchers import Bench, make_bench

HIT, MISS = "direct mode", "ccache"
# Counts, then compiles.
CACHE = '#!/bin/sh\necho >> "$(dirname "$0")/calls"\nexec "$@"\n'
SOURCE = """\
#include "own.h"
#if __has_include("later.h")
#include "later.h"
#endif
int f() { return OWN; }
"""
KERNEL = '#include "own.h"\n__global__ void k(int *p) { *p = OWN; }\n'
SYSTEM = ("/usr/include", "/usr/lib/gcc")


@pytest.fixture
def make(tmp_path: Path, cuda_home: Path) -> Callable[..., Bench]:
    """Give a bench with direct mode, and a cache behind it that only counts."""

    def files(name: str = "bench", **changes: Any) -> Bench:
        program = tmp_path / "ccache"
        program.write_text(CACHE)
        program.chmod(0o755)
        folder = tmp_path / name
        settings = {
            "cache": (str(program),),
            "objects": str(tmp_path / "objects"),
            "identity": "one",
            "pinned": (str(cuda_home), *SYSTEM),
            "tree": str(folder / "source"),
            "scratch": (str(folder / "tmp"),),
            **changes,
        }
        bench = make_bench(folder, cuda_home, **settings)
        bench.write("include/own.h", "#define OWN 1\n")
        bench.write("a.cpp", SOURCE)
        bench.write("k.cu", KERNEL)
        return bench

    return files


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    """One that has compiled `a.cpp` once."""
    bench = make()
    assert compile_cpp(bench) == MISS
    return bench


def compile_cpp(bench: Bench, *options: str, source: str = "a.cpp", **variables: str) -> str:
    """Compile, and return the cache that did it."""
    (bench.source / "a.o").unlink(missing_ok=True)
    words = ("g++", "-Inear", "-Iinclude", "-c", source, "-o", "a.o", *options)
    done = bench.run(*words, **variables)
    assert done.status == 0, done.output
    assert (bench.source / "a.o").stat().st_size > 0
    cached: str = bench.events()[-1]["cached"]
    return cached


def calls(bench: Bench) -> int:
    """Return the number of calls of the cache."""
    return len((bench.folder.parent / "calls").read_text())


@pytest.mark.parametrize("words", [("g++", "-c", "a.cpp"), ("nvcc", "-arch=sm_90", "-c", "k.cu")])
def test_second_compile_runs_no_program(words: tuple[str, ...], make: Callable[..., Bench]) -> None:
    bench = make()
    files = [bench.source / name for name in ("a.o", "a.d")]

    def compiled() -> list[bytes]:
        options = ("-Iinclude", "-MD", "-MF", "a.d", "-o", "a.o")
        assert bench.run(*words, *options).status == 0
        content = [path.read_bytes() for path in files]
        for path in files:
            path.unlink()
        return content

    assert compiled() == compiled()
    assert calls(bench) == 1
    assert [event["cached"] for event in bench.events()] == [MISS, HIT]


def test_repeats_the_compilers_messages(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.write("w.cpp", "int f() { int unused; return 1; }\n")
    words = ("g++", "-Wall", "-c", "w.cpp", "-o", "w.o")

    first, second = bench.run(*words), bench.run(*words)

    assert "unused variable" in first.output
    assert second.output == first.output
    assert calls(bench) == 1


def test_looks_at_what_may_be_included_and_at_nothing_else(bench: Bench) -> None:
    bench.write("other.cpp", "int g;\n")
    bench.write("setup.py", "# include this\n")
    bench.write("build/other.o", "object")
    shutil.rmtree(bench.folder / "tmp")
    (bench.folder / "tmp").mkdir()

    assert compile_cpp(bench) == HIT


@pytest.mark.parametrize(
    ("before", "words", "changed"),
    [
        ({}, "", {"a.cpp": SOURCE.replace("OWN", "OWN + 1")}),
        ({}, "", {"include/own.h": "#define OWN 2\n"}),
        # Found before the one that was included
        ({}, "", {"near/own.h": "#define OWN 3\n"}),
        # Named by `__has_include`
        ({}, "", {"include/later.h": ""}),
        ({}, "", {"data.inc": "1\n"}),
        ({}, "", {"notes": "a file without a suffix may be a header\n"}),
        # A source that is included; any file that a macro may name
        ({"a.cpp": '#include "part.cpp"\n', "part.cpp": "int g;\n"}, "", {"part.cpp": "int h;\n"}),
        ({"a.cpp": "#include WHICH\n", "w.py": "int g;\n"}, '-DWHICH="w.py"', {"w.py": "int h;\n"}),
        # A generated header, next to another
        (
            {"../tmp/cmake/include/config.h": "int g;\n"},
            "-I{scratch}/cmake/include",
            {"../tmp/cmake/parts.h": "int h;\n"},
        ),
        # No directive names a file of its kind.
        ({"pre.cc": "int g;\n"}, "-include pre.cc", {"pre.cc": "int h;\n"}),
    ],
)
def test_compiles_again_where_a_file_is_another(
    before: dict[str, str], words: str, changed: dict[str, str], make: Callable[..., Bench]
) -> None:
    bench = make()
    options = words.format(scratch=bench.folder / "tmp").split()
    for name, text in before.items():
        bench.write(name, text)
    assert [compile_cpp(bench, *options) for _ in range(2)] == [MISS, HIT]

    for name, text in changed.items():
        bench.write(name, text)

    assert [compile_cpp(bench, *options) for _ in range(2)] == [MISS, HIT]


def test_sees_a_change_within_the_time_of_one_tick(bench: Bench) -> None:
    """Same size, same time stamps within the file system's precision."""
    for number in range(2, 6):
        bench.write("include/own.h", f"#define OWN {number}\n")
        assert compile_cpp(bench) == MISS


def test_sees_a_change_that_hides_its_time(bench: Bench) -> None:
    path = bench.source / "include/own.h"
    time.sleep(1.1)
    assert compile_cpp(bench) == HIT
    before = path.stat()
    path.write_text("#define OWN 7\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert compile_cpp(bench) == MISS


@pytest.mark.parametrize(
    ("option", "variables", "by"),
    [
        ("-DMORE", {}, MISS),
        ("-O1", {}, MISS),
        ("-g", {}, MISS),
        ("", {"SOURCE_DATE_EPOCH": "1"}, MISS),
        ("", {"GCC_COLORS": "error=01;31"}, MISS),
        ("", {"CUWHEEL_JOBS": "7", "SCCACHE_IDLE_TIMEOUT": "9", "NINJA_STATUS": "x"}, HIT),
    ],
)
def test_looks_at_options_and_variables_that_compilers_read(
    option: str, variables: dict[str, str], by: str, bench: Bench
) -> None:
    assert compile_cpp(bench, *option.split(), **variables) == by


def test_compiles_again_where_the_system_is_another(make: Callable[..., Bench]) -> None:
    bench = make()
    assert compile_cpp(bench) == MISS
    settings = bench.inside.launcher / "settings.py"
    settings.write_text(settings.read_text().replace("'one'", "'two'"))
    shutil.rmtree(settings.parent / "__pycache__")

    assert compile_cpp(bench) == MISS


def test_forced_header_next_to_the_build_counts(make: Callable[..., Bench]) -> None:
    bench = make()
    built = bench.folder / "tmp" / "cmake"
    built.mkdir()
    words = ("sh", "-c", f"cd {built} && g++ -include forced.h -c {bench.source}/a.cpp -o a.o")
    bench.write("a.cpp", "int f() { return FORCED; }\n")

    for number in (1, 1, 2):
        (built / "forced.h").write_text(f"#define FORCED {number}\n")
        assert bench.run(*words).status == 0

    assert [event["cached"] for event in bench.events()] == [MISS, HIT, MISS]


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ("-I{elsewhere}", {}),
        ("-include {elsewhere}/x.h", {}),
        ("-save-temps", {}),
        ("", {"CPATH": "{elsewhere}"}),
        # Other ways to include
        ("-include{scratch}/x.h", {}),
        ("--include-directory={scratch}", {}),
        ("-B{scratch}", {}),
        ("-Wa,-I{scratch}", {}),
    ],
)
def test_leaves_what_it_can_not_know_to_the_cache(
    words: str, variables: dict[str, str], bench: Bench, tmp_path: Path
) -> None:
    folders = {"elsewhere": tmp_path / "elsewhere", "scratch": bench.folder / "tmp" / "made"}
    for folder in folders.values():
        folder.mkdir()
        (folder / "x.h").write_text("")
    options = words.format_map(folders).split()
    env = {name: text.format_map(folders) for name, text in variables.items()}

    assert [compile_cpp(bench, *options, **env) for _ in range(2)] == [MISS, MISS]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("option", "second"),
    [
        ("-Xcompiler=-fPIC,-fvisibility-inlines-hidden", HIT),
        ("-Xcompiler=-fPIC,-I{elsewhere}", MISS),
        ("-Xcompiler=-fPIC -I{scratch}", MISS),
        ('-Xcompiler="-I{scratch}"', MISS),
    ],
)
def test_finds_folders_among_options_for_the_host_compiler(
    option: str, second: str, make: Callable[..., Bench], tmp_path: Path
) -> None:
    bench = make()
    word = option.format(elsewhere=tmp_path, scratch=bench.folder / "tmp")
    words = ("nvcc", "-arch=sm_90", "-c", "k.cu", "-Iinclude", word, "-o", "k.o")

    for _ in range(2):
        assert bench.run(*words).status == 0

    assert [event["cached"] for event in bench.events()] == [MISS, second]


def test_link_that_leads_elsewhere_now_counts(bench: Bench) -> None:
    for name in ("one", "two"):
        bench.write(f"{name}/config.h", "")
    link = bench.source / "config"
    link.symlink_to("one")
    assert [compile_cpp(bench, "-Iconfig") for _ in range(2)] == [MISS, HIT]
    link.unlink()

    link.symlink_to("two")

    assert compile_cpp(bench, "-Iconfig") == MISS


def test_keeps_nothing_where_a_header_was_made_meanwhile(
    make: Callable[..., Bench], tmp_path: Path
) -> None:
    bench = make()
    making = f'#!/bin/sh\necho > {bench.source}/include/made.h\nexec "$@"\n'
    (tmp_path / "ccache").write_text(making)

    assert compile_cpp(bench) == MISS

    assert not (tmp_path / "objects").exists()


def add_large_file(bench: Bench) -> None:
    with (bench.source / "weights.bin").open("wb") as stream:
        stream.truncate(65 << 20)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(add_large_file, id="a large file"),
        pytest.param(
            lambda bench: bench.write("include/x.h", 'asm(".incbin \\"a.bin\\"");\n'), id="incbin"
        ),
        pytest.param(lambda bench: bench.write("include/x.h", '#include "x.log"\n'), id="a log"),
        pytest.param(
            lambda bench: (bench.source / "linked").symlink_to("/var"), id="a link to elsewhere"
        ),
    ],
)
def test_leaves_packages_to_the_cache_of_which_not_all_is_known(
    change: Callable[[Bench], object], bench: Bench
) -> None:
    change(bench)

    assert [compile_cpp(bench) for _ in range(2)] == [MISS, MISS]


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-7], lambda text: text + b"x", lambda _: b""]
)
def test_compiles_again_where_an_object_is_damaged(
    damage: Callable[[bytes], bytes], bench: Bench, tmp_path: Path
) -> None:
    [kept] = (tmp_path / "objects").glob("*/*")
    kept.write_bytes(damage(kept.read_bytes()))

    assert compile_cpp(bench) == MISS
    assert compile_cpp(bench) == HIT


def test_folder_that_can_not_be_written_stops_nothing(make: Callable[..., Bench]) -> None:
    bench = make(objects="/proc/nowhere")

    assert [compile_cpp(bench) for _ in range(2)] == [MISS, MISS]


def test_failed_compile_is_not_kept(make: Callable[..., Bench], tmp_path: Path) -> None:
    bench = make()
    bench.write("a.cpp", "int f() { return }\n")

    statuses = [bench.run("g++", "-c", "a.cpp", "-o", "a.o").status for _ in range(2)]

    assert statuses == [1, 1]
    assert not (tmp_path / "objects").exists()


def test_other_name_of_an_old_object_keeps_its_content(bench: Bench) -> None:
    old, other = bench.source / "a.o", bench.source / "kept.o"
    old.write_bytes(b"old")
    other.hardlink_to(old)
    words = ("g++", "-Inear", "-Iinclude", "-c", "a.cpp", "-o", "a.o")

    assert bench.run(*words).status == 0

    assert bench.events()[-1]["cached"] == HIT
    assert other.read_bytes() == b"old"
    assert old.read_bytes() != b"old"
