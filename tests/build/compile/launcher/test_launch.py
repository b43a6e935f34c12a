"""The compiler launcher in front of the real nvcc and GCC, by all the names that builds call."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuwheel.build.compile.memory_gate import event_log
from tests.support.build.launchers import Bench, make_bench
from tests.support.requirements import require
from tests.support.waiting import wait_for

KERNEL = """
namespace { __device__ int v; __global__ void k(int *p) { *p = v + N; }
struct At { At() { k<<<1, 1>>>(nullptr); } } at; }
const char *NAME() { return __FILE__; }
"""
# Names of all that a path may hold and that means something to a shell or to nvcc's lists.
ODD = 'it\'s a, b; (c) & "ü"'
# Modules that take as long to import as the launcher itself.
SLOW = {"collections", "contextlib", "dataclasses", "enum", "functools", "json", "pathlib", "re"}
SLOW |= {"shlex", "shutil", "signal", "subprocess", "typing"}


@pytest.fixture(scope="module")
def bench(module_path: Path, cuda_home: Path) -> Bench:
    """A bench with its source in a folder with an odd name."""
    return make_bench(module_path / "bench", cuda_home, source=module_path / ODD)


@pytest.fixture
def standin(tmp_path: Path, cuda_home: Path) -> Callable[..., Bench]:
    """Return a function that makes a bench with a shell script for a C compiler."""

    def make(script: str, **settings: Any) -> Bench:
        program = tmp_path / "compiler"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        bench = make_bench(tmp_path / "bench", cuda_home, cc=program, **settings)
        bench.write("a.c", "int a;\n")
        return bench

    return make


@pytest.mark.e2e
def test_compiles_where_every_name_is_odd(bench: Bench) -> None:
    source = bench.write(f"{ODD}.cu", KERNEL)

    done = bench.run("nvcc", "-c", "-arch=sm_90", "-DN=1", "-DNAME=f", source, "-o", "odd.o")

    assert done.status == 0, done.output
    content = (bench.source / "odd.o").read_bytes()
    assert f"/cuwheel/source/{ODD}.cu".encode() in content
    assert str(bench.source).encode() not in content
    event = bench.events()[-1]
    assert (event["name"], event["file"]) == ("nvcc", f"/cuwheel/source/{ODD}.cu")
    assert (event["archs"], event["status"], event["cached"]) == (["90"], 0, "")
    assert event["start"] < event["end"] <= time.time()


@pytest.mark.e2e
def test_number_of_jobs_changes_no_byte(bench: Bench) -> None:
    bench.write("a.cu", KERNEL)
    archs = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ("80", "90", "100")]

    def compiled(jobs: str) -> bytes:
        log = str(bench.log)
        words = ("nvcc", "-DN=1", "-DNAME=f", "-c", "a.cu", "-o", "a.o", *archs)
        done = bench.run(*words, CUWHEEL_JOBS=jobs, CUWHEEL_EVENTS=log)
        assert done.status == 0, done.output
        return (bench.source / "a.o").read_bytes()

    assert compiled("1") == compiled("3")
    lines = [json.loads(line) for line in bench.log.read_text().splitlines()]
    first, second, third = (line for line in lines[len(lines) // 2 :] if line["name"] == "cicc")
    assert max(second["asked"], third["asked"]) < first["end"]


@pytest.mark.e2e
def test_objects_of_one_source_and_of_one_name_link(bench: Bench) -> None:
    """Seeds and paths that are equal by mistake collide: in nvlink, or in the host's linker."""
    for place in ("one/k.cu", "two/k.cu"):
        bench.write(place, KERNEL)
    compiles = [
        f"-dc -arch=sm_90 -DN={number} -DNAME={name} {source} -o {name}.o"
        for number, name, source in (
            (1, "first", "one/k.cu"),
            (2, "second", "one/k.cu"),
            (2, "third", "two/k.cu"),
        )
    ]

    for text in (*compiles, "-shared -arch=sm_90 first.o second.o third.o -o all.so"):
        words = [*text.split(), "-Xcompiler=-fPIC"]
        done = bench.run("nvcc", *words)
        assert done.status == 0, done.output


@pytest.mark.e2e
def test_hands_through_all_that_is_no_compile(bench: Bench) -> None:
    """Among it what a makefile without objects does, at one go."""
    bench.write("a.cu", "__device__ int a() { return 1; }\n")
    bench.write("b.cu", "__global__ void b(int *p) { *p = 1; }\nint main() {}\n")
    before = len(bench.events())
    every = (
        ("nvcc --version", "release 13.0"),
        ("nvcc -E a.cu", "return 1"),
        ("nvcc -arch=sm_90 -ptx a.cu -o a.ptx", ""),
        ("nvcc -arch=sm_90 -dc a.cu b.cu -odir .", ""),
        ("nvcc -arch=sm_90 -dlink a.o b.o -o linked.o", ""),
        ("nvcc -lib a.o b.o -o all.a", ""),
        ("nvcc -arch=sm_90 a.o b.o -o program", ""),
        ("g++ --version", "Free Software Foundation"),
        ("gcc -print-prog-name=cc1", "cc1"),
        ("c++ -r a.o b.o -o both.o", ""),
    )

    for text, message in every:
        done = bench.run(*text.split())
        assert done.status == 0, (text, done.output)
        assert message in done.output, text

    assert len(bench.events()) == before
    outputs = ("a.ptx", "linked.o", "all.a", "program", "both.o")
    assert [name for name in outputs if not (bench.source / name).exists()] == []


@pytest.mark.parametrize("name", ["gcc", "cc", "g++", "c++"])
def test_replaces_the_host_compiler(name: str, bench: Bench) -> None:
    source = bench.write(
        "h.cpp" if "+" in name else "h.c", "const char *f() { return __FILE__; }\n"
    )

    done = bench.run(name, "-c", source, "-o", "h.o")

    assert done.status == 0, done.output
    assert b"/cuwheel/source/h.c" in (bench.source / "h.o").read_bytes()
    assert bench.events()[-1]["name"] == ("g++" if "+" in name else "gcc")


def test_reads_source_from_standard_input(bench: Bench) -> None:
    """Configure scripts do."""
    done = bench.run("sh", "-c", "echo 'int main() {}' | cc -x c - -o from-input && ./from-input")

    assert (done.status, done.output) == (0, "")


def test_passes_on_end_of_reader(bench: Bench) -> None:
    """Python ignores SIGPIPE; a compiler without a reader has to end by it."""
    done = bench.run("bash", "-c", "nvcc --help | head -n 1; echo ${PIPESTATUS[0]}")

    assert done.output.strip() in {"141", "0"}
    assert "Broken pipe" not in done.output


def test_refusal_is_printed_and_ends_with_2(bench: Bench) -> None:
    bench.write("r.c", "int r;\n")

    done = bench.run("cc", "-c", "-march=native", "r.c", "-o", "refused.o")

    assert done.status == 2
    assert done.output.startswith("cuwheel: refused -march=native\ncuwheel: because ")
    assert not (bench.source / "refused.o").exists()


def test_cmake_finds_native_code_impossible(bench: Bench, tmp_path: Path) -> None:
    require("cmake", "that CMake's own check finds native code impossible")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(flags CXX)\n"
        "include(CheckCXXCompilerFlag)\n"
        "check_cxx_compiler_flag(-march=native NATIVE)\n"
        "check_cxx_compiler_flag(-march=x86-64-v2 PLAIN)\n"
        'message(STATUS "native=${NATIVE} plain=${PLAIN}")\n',
    )

    variables = {"CXX": str(bench.inside.programs / "c++")}
    done = bench.run("cmake", "-S", tmp_path, "-B", tmp_path / "made", **variables)

    assert "-- native= plain=1\n" in done.output


def test_reports_a_missing_compiler(bench: Bench) -> None:
    lost = make_bench(bench.folder / "lost", bench.inside.toolkit, nvcc="/nowhere/nvcc")
    lost.write("a.cu", "")

    for words in (("-c", "a.cu"), ("--version",)):
        done = lost.run("nvcc", *words)
        assert done.status == 127
        assert done.output.splitlines()[:2] == [
            "cuwheel: /nowhere/nvcc can't be started",
            "cuwheel: because  No such file or directory",
        ]


@pytest.mark.parametrize(("script", "status"), [("kill -9 $$", 137), ("exit 3", 3)])
def test_gives_status_on(script: str, status: int, standin: Callable[..., Bench]) -> None:
    bench = standin(script)

    done = bench.run("cc", "-c", "a.c", "-o", "a.o")

    assert done.status == status
    assert bench.events()[0]["status"] == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_passes_signals_on(number: int, standin: Callable[..., Bench]) -> None:
    """To the launcher alone, as make does it: nothing may go on behind its back."""
    bench = standin("echo $$ > pid; exec sleep 300")
    with subprocess.Popen([bench.inside.programs / "cc", "-c", "a.c"], cwd=bench.source) as running:
        path = bench.source / "pid"
        wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
        pid = path.read_text().strip()

        running.send_signal(number)

        assert running.wait(timeout=20) == 128 + number
    assert not Path(f"/proc/{pid}").exists()
    assert bench.events()[0]["status"] == 128 + number


GOOD = 'while [ "$1" ]; do [ "$1" = -o ] && echo object > "$2"; shift; done'


@pytest.mark.parametrize("cache", ["exit 1", "exit 0", "kill -9 $$", None])
def test_does_without_a_broken_cache(
    cache: str | None, standin: Callable[..., Bench], tmp_path: Path
) -> None:
    program = tmp_path / "ccache"
    if cache:
        program.write_text(f"#!/bin/sh\n{cache}\n")
        program.chmod(0o755)
    bench = standin(GOOD, cache=(str(program),))

    done = bench.run("cc", "-c", "a.c", "-o", "a.o")

    assert done.status == 0, done.output
    assert (bench.source / "a.o").read_text() == "object\n"
    assert [event["cached"] for event in bench.events()] == [""]


@pytest.mark.parametrize(("off", "cached"), [("", "ccache"), ("1", "")])
def test_uses_cache_unless_it_is_off(
    off: str, cached: str, standin: Callable[..., Bench], tmp_path: Path
) -> None:
    program = tmp_path / "ccache"
    program.write_text('#!/bin/sh\n"$@"\n')
    program.chmod(0o755)
    bench = standin(GOOD, cache=(str(program),))

    done = bench.run("cc", "-c", "a.c", "-o", "a.o", CUWHEEL_NO_COMPILE_CACHE=off)

    assert done.status == 0, done.output
    assert [event["cached"] for event in bench.events()] == [cached]


@pytest.mark.parametrize("off", ["", "1"])
def test_a_share_makes_no_object(off: str, standin: Callable[..., Bench], tmp_path: Path) -> None:
    """The cache gets nvcc's stand-in for shares; without a cache nothing runs."""
    program = tmp_path / "sccache"
    program.write_text('#!/bin/sh\necho "$1 $CUWHEEL_ONLY_ARCHS"\n')
    program.chmod(0o755)
    bench = standin(GOOD, cache=(str(program),))
    bench.write("a.cu", "int a;\n")

    variables = {"CUWHEEL_ONLY_ARCHS": "80 90a", "CUWHEEL_NO_COMPILE_CACHE": off}
    done = bench.run("nvcc", "-c", "-arch=sm_90", "a.cu", "-o", "a.o", **variables)

    assert done.status == 0, done.output
    assert done.output == ("" if off else f"{bench.inside.nvcc_of_shares} 80 90a\n")
    assert not (bench.source / "a.o").exists()
    assert [event["share"] for event in bench.events()] == [["80", "90a"]]


def test_passes_the_compile_to_the_gate(standin: Callable[..., Bench]) -> None:
    bench = standin('echo "$CUWHEEL_COMPILE" "$CUWHEEL_FILE" >> log')

    bench.run("cc", "-c", "a.c")

    [event] = bench.events()
    assert (bench.source / "log").read_text().split() == [event["id"], "/cuwheel/source/a.c"]


def test_a_log_that_cannot_be_written_stops_nothing(standin: Callable[..., Bench]) -> None:
    bench = standin("exit 0", events="/nowhere/events.jsonl")

    assert bench.run("cc", "-c", "a.c").status == 0


@pytest.mark.parametrize(
    "text", ['"quoted" \\ back', "tab\tline\n\x00\x7f", "ü \U0001f600", "\udcff"]
)
def test_log_is_json_for_every_name(text: str, tmp_path: Path) -> None:
    fields: dict[str, object] = {"file": text, "archs": (text, "90"), "start": 1.5, "status": 3}

    event_log.append(str(tmp_path / "log"), fields)

    [line] = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line) == {**fields, "archs": [text, "90"]}


def test_starts_with_few_modules(bench: Bench) -> None:
    """Each costs time, and this runs for every file: what is here was measured (docs/adr/0015)."""
    code = (
        f"import sys; sys.path.insert(0, {str(bench.inside.launcher)!r}); "
        "from cuwheel.build.compile.launcher import launch; import settings; print(*sys.modules)"
    )
    python = [str(bench.inside.python), "-ISB", "-c", code]

    loaded = set(subprocess.run(python, capture_output=True, text=True, check=True).stdout.split())

    assert "cuwheel.build.compile.launcher.launch" in loaded
    assert loaded & SLOW == set()
