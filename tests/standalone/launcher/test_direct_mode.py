"""Direct mode: what was compiled before with all the same inputs isn't compiled again."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.launchers import make_bench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.launchers import Bench

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

    def made(name: str = "bench", **changes: Any) -> Bench:
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

    return made


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    """One that has compiled `a.cpp` once."""
    bench = make()
    assert compile_cpp(bench) == MISS
    return bench


def compile_cpp(bench: Bench, *options: str, source: str = "a.cpp", **variables: str) -> str:
    """Compile, and say by whom it was done."""
    (bench.source / "a.o").unlink(missing_ok=True)
    words = ("g++", "-Inear", "-Iinclude", "-c", source, "-o", "a.o", *options)
    done = bench.run(*words, **variables)
    assert done.status == 0, done.output
    assert (bench.source / "a.o").stat().st_size > 0
    cached: str = bench.events()[-1]["cached"]
    return cached


def calls(bench: Bench) -> int:
    """How often the cache behind was asked."""
    return len((bench.folder.parent / "calls").read_text())


@pytest.mark.parametrize("words", [("g++", "-c", "a.cpp"), ("nvcc", "-arch=sm_90", "-c", "k.cu")])
def test_second_compile_runs_no_program(words: tuple[str, ...], make: Callable[..., Bench]) -> None:
    bench = make()
    made = [bench.source / name for name in ("a.o", "a.d")]

    def compiled() -> list[bytes]:
        options = ("-Iinclude", "-MD", "-MF", "a.d", "-o", "a.o")
        assert bench.run(*words, *options).status == 0
        content = [path.read_bytes() for path in made]
        for path in made:
            path.unlink()
        return content

    assert compiled() == compiled()
    assert calls(bench) == 1
    assert [event["cached"] for event in bench.events()] == [MISS, HIT]


def test_repeats_what_the_compiler_said(make: Callable[..., Bench]) -> None:
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
    ("name", "text"),
    [
        ("a.cpp", SOURCE.replace("OWN", "OWN + 1")),
        ("include/own.h", "#define OWN 2\n"),
        ("near/own.h", "#define OWN 3\n"),  # found before the one that was included
        ("include/later.h", ""),  # that `__has_include` has asked for
        ("data.inc", "1\n"),
        ("notes", "a file without a suffix may be a header\n"),
    ],
)
def test_compiles_again_where_a_file_is_another(name: str, text: str, bench: Bench) -> None:
    bench.write(name, text)

    assert compile_cpp(bench) == MISS
    assert compile_cpp(bench) == HIT


def test_sees_a_change_within_the_time_of_one_tick(bench: Bench) -> None:
    """Same size, same time stamps as far as a file system can tell."""
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


@pytest.mark.parametrize("option", ["-DMORE", "-O1", "-g"])
def test_compiles_again_for_another_command(option: str, bench: Bench) -> None:
    assert compile_cpp(bench, option) == MISS


@pytest.mark.parametrize(
    ("variables", "by"),
    [
        ({"SOURCE_DATE_EPOCH": "1"}, MISS),
        ({"GCC_COLORS": "error=01;31"}, MISS),
        ({"CUWHEEL_JOBS": "7", "SCCACHE_IDLE_TIMEOUT": "9", "NINJA_STATUS": "x"}, HIT),
    ],
)
def test_variables_count_that_compilers_may_read(
    variables: dict[str, str], by: str, bench: Bench
) -> None:
    assert compile_cpp(bench, **variables) == by


def test_compiles_again_where_the_system_is_another(make: Callable[..., Bench]) -> None:
    bench = make()
    assert compile_cpp(bench) == MISS
    settings = bench.inside.launcher / "settings.py"
    settings.write_text(settings.read_text().replace("'one'", "'two'"))
    shutil.rmtree(settings.parent / "__pycache__")

    assert compile_cpp(bench) == MISS


def test_source_counts_that_is_included(bench: Bench) -> None:
    bench.write("b.cpp", '#include "part.cpp"\n')
    bench.write("part.cpp", "int g;\n")
    assert compile_cpp(bench, source="b.cpp") == MISS

    bench.write("part.cpp", "int h;\n")

    assert compile_cpp(bench, source="b.cpp") == MISS


def test_any_file_counts_that_a_macro_may_name(bench: Bench) -> None:
    bench.write("b.cpp", "#include WHICH\n")
    bench.write("which.py", "int g;\n")
    option = '-DWHICH="which.py"'
    assert compile_cpp(bench, option, source="b.cpp") == MISS

    bench.write("which.py", "int h;\n")

    assert compile_cpp(bench, option, source="b.cpp") == MISS


def test_generated_header_counts(make: Callable[..., Bench]) -> None:
    bench = make()
    made = bench.folder / "tmp" / "cmake" / "include"
    made.mkdir(parents=True)
    (made / "config.h").write_text("#define CONFIG 1\n")
    option = f"-I{made}"
    assert [compile_cpp(bench, option) for _ in range(2)] == [MISS, HIT]

    (made.parent / "parts.h").write_text("#define PARTS 1\n")

    assert compile_cpp(bench, option) == MISS


@pytest.mark.parametrize("option", ["-I{elsewhere}", "-include{elsewhere}/x.h", "-save-temps"])
def test_leaves_what_it_can_not_know_to_the_cache(
    option: str, bench: Bench, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.h").write_text("")
    words = option.format(elsewhere=elsewhere).replace("-include", "-include ").split()

    assert [compile_cpp(bench, *words) for _ in range(2)] == [MISS, MISS]


def test_option_for_the_host_compiler_is_no_folder(make: Callable[..., Bench]) -> None:
    bench = make()
    options = ("-Xcompiler=-fPIC,-fvisibility-inlines-hidden", "-Iinclude", "-o", "k.o")

    for _ in range(2):
        assert bench.run("nvcc", "-arch=sm_90", "-c", "k.cu", *options).status == 0

    assert [event["cached"] for event in bench.events()] == [MISS, HIT]


@pytest.mark.e2e
def test_folder_among_options_for_the_host_compiler_counts(
    make: Callable[..., Bench], tmp_path: Path
) -> None:
    bench = make()
    options = (f"-Xcompiler=-fPIC,-I{tmp_path}", "-Iinclude", "-o", "k.o")

    for _ in range(2):
        assert bench.run("nvcc", "-arch=sm_90", "-c", "k.cu", *options).status == 0

    assert [event["cached"] for event in bench.events()] == [MISS, MISS]


def test_forced_header_beside_the_build_counts(make: Callable[..., Bench]) -> None:
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
    "option",
    [
        "-include{scratch}/x.h",
        "--include-directory={scratch}",
        "-B{scratch}",
        "-Wa,-I{scratch}",
    ],
)
def test_leaves_other_ways_to_include_to_the_cache(option: str, bench: Bench) -> None:
    scratch = bench.folder / "tmp" / "made"
    scratch.mkdir()
    (scratch / "x.h").write_text("")
    words = option.format(scratch=scratch)

    assert [compile_cpp(bench, words) for _ in range(2)] == [MISS, MISS]


@pytest.mark.e2e
@pytest.mark.parametrize("value", ["-fPIC -I{scratch}", '"-I{scratch}"'])
def test_leaves_folders_within_options_for_the_host_compiler_to_the_cache(
    value: str, make: Callable[..., Bench]
) -> None:
    bench = make()
    value = value.format(scratch=bench.folder / "tmp")
    words = ("nvcc", "-arch=sm_90", "-c", "k.cu", "-Iinclude", "-Xcompiler", value, "-o", "k.o")

    for _ in range(2):
        assert bench.run(*words).status == 0

    assert [event["cached"] for event in bench.events()] == [MISS, MISS]


def test_forced_source_counts(bench: Bench) -> None:
    """No directive names a file of its kind."""
    option = ("-include", "pre.cc")
    bench.write("pre.cc", "int g;\n")
    assert [compile_cpp(bench, *option) for _ in range(2)] == [MISS, HIT]

    bench.write("pre.cc", "int h;\n")

    assert compile_cpp(bench, *option) == MISS


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


def test_leaves_a_tree_with_a_large_file_to_the_cache(bench: Bench) -> None:
    with (bench.source / "weights.bin").open("wb") as stream:
        stream.truncate(65 << 20)

    assert [compile_cpp(bench) for _ in range(2)] == [MISS, MISS]


def test_leaves_folders_of_variables_to_the_cache(bench: Bench, tmp_path: Path) -> None:
    assert [compile_cpp(bench, CPATH=str(tmp_path)) for _ in range(2)] == [MISS, MISS]


@pytest.mark.parametrize("text", ['asm(".incbin \\"a.bin\\"");\n', '#include "x.log"\n'])
def test_leaves_packages_alone_that_include_anything(text: str, bench: Bench) -> None:
    bench.write("include/strange.h", text)

    assert [compile_cpp(bench) for _ in range(2)] == [MISS, MISS]


def test_leaves_a_link_to_elsewhere_to_the_cache(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (bench.source / "linked").symlink_to(tmp_path / "elsewhere")

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
