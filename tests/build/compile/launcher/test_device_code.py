"""Device code of an earlier compile reused, by the real nvcc behind launcher and gate.

The other host is simulated by the option that nvcc passes on for it, `--unsigned_chars`. With a
cross compiler and a real other platform: tests/e2e/build/test_arm64.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuwheel.base.system.process import Finished
from cuwheel.build.compile.launcher import kept_files
from cuwheel.build.compile.launcher.device_code import DeviceCommand
from tests.support.build.launchers import Bench, make_bench

KERNEL = """
namespace { __device__ float v; }
template <int N> __global__ void k(float *p) { for (int i = 0; i < N; ++i) p[i] = sinf(p[i]) + v; }
void f(float *p) { int unused; k<8><<<1, 1>>>(p); k<99><<<1, 1>>>(p); }
"""
PLAIN_CHAR = "__global__ void k(int *p, char c) { *p = c; }\n"
# How a bool is passed differs between platforms.
BOOL = """
__noinline__ __device__ int g(bool yes, int x) { return yes ? x * x : 1; }
__global__ void k(int *p, int x) { *p = g(x > 3, x); }
"""
COMMAND = ("nvcc", "-c", "-arch=sm_90", "-Xptxas", "-v")
UNSIGNED = ("-Xcudafe", "--unsigned_chars")
HERE = "linux_x86_64"
# Each may change the object, or what the programs write next to it.
OPTIONS = (
    *("-use_fast_math", "-maxrregcount=32", "-Xptxas=-O1", "-rdc=true", "-G", "-ewp", "-O1"),
    *("-lineinfo", "-std=c++20", "-restrict", "-default-stream=per-thread", "-split-compile=2"),
    *("-keep-device-functions", "-rdc=true -dlto", "-Xcicc -opt-fdiv=0", "-DMORE=1"),
    *("-gencode=arch=compute_90,code=compute_90", "-gencode=arch=compute_80,code=sm_80"),
)


@pytest.fixture
def bench(tmp_path: Path, cuda_home: Path) -> Bench:
    return make_bench(tmp_path / "bench", cuda_home)


def sharing(bench: Bench, platform: str = HERE) -> dict[str, str]:
    """Return the variables with which device code is kept and reused."""
    return {
        "CUWHEEL_DEVICE_CODE": str(bench.folder / "device"),
        "CUWHEEL_DEVICE_TOOLS": "tools",
        "CUWHEEL_PLATFORM": platform,
        "TMPDIR": str(bench.folder),
    }


@pytest.fixture
def compile_for(bench: Bench) -> Callable[..., Finished]:
    """Compile `a.cu` to `a.o` for a platform."""

    def compile_file(platform: str, *options: str) -> Finished:
        (bench.source / "a.o").unlink(missing_ok=True)
        bench.log.unlink(missing_ok=True)
        return bench.run(
            *(*COMMAND, "a.cu", "-o", "a.o", *options),
            CUWHEEL_EVENTS=str(bench.log),
            **sharing(bench, platform),
        )

    return compile_file


def content_of(bench: Bench) -> bytes:
    return (bench.source / "a.o").read_bytes()


def names(bench: Bench, kind: str) -> list[str]:
    """Return the programs of the last compile that ran (`tool`) or were skipped (`shared`)."""
    events = map(json.loads, bench.log.read_text().splitlines())
    programs = (event["name"] for event in events if event["kind"] == kind)
    return sorted(name for name in programs if name in {"cicc", "ptxas"})


@pytest.mark.e2e
def test_takes_what_another_platform_made(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    bench.write("a.cu", KERNEL)
    first = compile_for("linux_x86_64")
    content = content_of(bench)

    second = compile_for("linux_aarch64", *UNSIGNED)

    assert (first.status, second.status) == (0, 0)
    assert content_of(bench) == content
    assert names(bench, "shared") == ["cicc", "ptxas"]
    assert names(bench, "tool") == ["cicc"]  # its front end


@pytest.mark.e2e
def test_repeats_messages(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)
    first = compile_for("linux_x86_64")

    second = compile_for("linux_aarch64")

    assert "unused" in first.output
    assert "Compiling entry function" in first.output
    assert sorted(second.output.splitlines()) == sorted(first.output.splitlines())


@pytest.mark.e2e
def test_leaves_no_temporary_file(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)
    before = set(bench.folder.iterdir())

    for platform in ("linux_x86_64", "linux_aarch64"):
        compile_for(platform)

    assert set(bench.folder.iterdir()) - before == {bench.folder / "device", bench.log}


@pytest.mark.e2e
@pytest.mark.parametrize("source", [PLAIN_CHAR, BOOL], ids=["plain char", "bool"])
def test_compiles_where_char_may_make_a_difference(
    bench: Bench, compile_for: Callable[..., Finished], source: str
) -> None:
    bench.write("a.cu", source)
    compile_for("linux_x86_64")

    compile_for("linux_aarch64", *UNSIGNED)

    assert "cicc" not in names(bench, "shared")
    assert names(bench, "tool")[:2] == ["cicc", "cicc"]
    alone = bench.run(*COMMAND, "a.cu", "-o", "b.o", *UNSIGNED)
    assert alone.status == 0
    assert machine_code(bench.source / "a.o") == machine_code(bench.source / "b.o")


def machine_code(path: Path) -> bytes:
    """Return the first fat binary; the name of the object lies before it."""
    content = path.read_bytes()
    start = content.index(b"\x50\xed\x55\xba")
    size = int.from_bytes(content[start + 8 : start + 16], "little")
    return content[start : start + 16 + size]


@pytest.mark.e2e
def test_same_source_runs_no_program(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)
    compile_for(HERE)
    content = content_of(bench)

    compile_for(HERE)

    assert (names(bench, "tool"), names(bench, "shared")) == ([], ["cicc", "ptxas"])
    assert content_of(bench) == content


@pytest.mark.e2e
def test_one_more_arch_runs_its_own_programs(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    more = "-gencode=arch=compute_80,code=sm_80"
    bench.write("a.cu", KERNEL)
    compile_for(HERE)

    compile_for(HERE, more)

    assert (names(bench, "tool"), names(bench, "shared")) == (["cicc", "ptxas"], ["cicc", "ptxas"])
    assert content_of(bench) == fresh(bench, more)


@pytest.mark.e2e
def test_host_code_runs_the_front_end_alone(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    bench.write("a.cu", KERNEL)
    compile_for(HERE)
    bench.write("a.cu", KERNEL + "int of_another_python() { return 13; }\n")

    compile_for(HERE)

    assert (names(bench, "tool"), names(bench, "shared")) == (["cicc"], ["cicc", "ptxas"])
    assert content_of(bench) == fresh(bench)


@pytest.mark.nightly
@pytest.mark.e2e
def test_no_option_gives_a_wrong_object(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL + "#ifdef MORE\n__global__ void more() {}\n#endif\n")
    compile_for(HERE)

    for option in OPTIONS:
        done = compile_for(HERE, *option.split())
        assert (option, done.status) == (option, 0), done.output
        assert (option, content_of(bench)) == (option, fresh(bench, *option.split()))


@pytest.mark.e2e
def test_cubin_without_a_file_is_not_kept(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    bench.write("a.cu", KERNEL)
    command = ("nvcc", "-cubin", "-arch=sm_90", "-Xptxas", "-v", "a.cu", "-o", "/dev/null")
    assert bench.run(*command, **{**sharing(bench), "TMPDIR": "."}).status == 0
    assert not list(bench.source.glob("cuwheel-device*"))

    assert compile_for(HERE).status == 0
    assert content_of(bench) == fresh(bench)


@pytest.mark.e2e
def test_name_of_a_preprocessed_file_is_the_usual_one(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    no_line_markers = ("-Xcompiler", "-P")
    bench.write("a.cu", "__global__ void k(char *p) { *p = *__builtin_FILE(); }\n")

    assert compile_for(HERE, *no_line_markers).status == 0
    assert content_of(bench) == fresh(bench, *no_line_markers)


@pytest.mark.e2e
def test_warns_of_what_is_there(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    warned = KERNEL.replace("int unused;", "int unused; int other;")
    for text in (KERNEL, warned, KERNEL.replace("int unused;", "")):
        bench.write("a.cu", text)
        done = compile_for(HERE)
        assert ('"unused"' in done.output) == ("unused" in text)
        assert ('"other"' in done.output) == ("other" in text)


def fresh(bench: Bench, *options: str) -> bytes:
    """Return the object of the same command without any reuse."""
    place = bench.source / "a.o"
    place.unlink()
    done = bench.run(*COMMAND, "a.cu", "-o", "a.o", *options, TMPDIR=str(bench.folder))
    assert done.status == 0, done.output
    return place.read_bytes()


@pytest.mark.e2e
def test_variable_that_cicc_reads_is_no_hit(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    bench.write("a.cu", KERNEL)
    compile_for(HERE)

    bench.log.unlink()
    bench.run(
        *(*COMMAND, "a.cu", "-o", "a.o"),
        LLVM_OVERRIDE_PRODUCER="other",
        CUWHEEL_EVENTS=str(bench.log),
        **sharing(bench),
    )

    assert names(bench, "shared") == []


@pytest.mark.e2e
def test_two_at_once_give_equal_objects(bench: Bench) -> None:
    bench.write("a.cu", KERNEL)

    def compile_to(output: str) -> bytes:
        done = bench.run(
            *(*COMMAND, "a.cu", "-o", f"{output}/a.o"),
            **sharing(bench),
        )
        assert done.status == 0, done.output
        return machine_code(bench.source / output / "a.o")

    for name in ("one", "two"):
        (bench.source / name).mkdir()
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(compile_to, ("one", "two"))

    assert first == second


@pytest.mark.e2e
def test_compiles_where_nothing_can_be_kept(
    bench: Bench, compile_for: Callable[..., Finished]
) -> None:
    bench.write("a.cu", KERNEL)
    (bench.folder / "device").write_text("no folder")

    assert compile_for(HERE).status == 0
    assert names(bench, "tool") == ["cicc", "ptxas"]


@pytest.mark.parametrize(
    "options",
    [
        *(
            "-olto b.ltoir",
            "-gen-opt-lto -lto",
            "-generate-line-info",
            "-g -O0",
            "-split-compile 2",
        ),
        *("--preinclude /tmp/more.h", "--preinclude more.h", "--preinclude=more.h", "@options"),
        "--gen_module_id_file",
    ],
)
def test_does_not_reuse_what_depends_on_more(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more.h").touch()
    (tmp_path / "a.ii").write_text('# 0 "a.cu"\n')
    plain = ["--orig_src_path_name", "/a.cu", "--frandom-seed", "/a.cu-1", "-o", "a.ptx", "a.ii"]

    assert DeviceCommand("cicc", plain).can_be_reused
    assert not DeviceCommand("cicc", [*options.split(), *plain]).can_be_reused


@pytest.mark.e2e
def test_changed_kernel_is_compiled(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)
    compile_for("linux_x86_64")
    before = content_of(bench)
    bench.write("a.cu", KERNEL.replace("sinf", "cosf"))

    compile_for("linux_aarch64")

    assert names(bench, "shared") == []
    assert content_of(bench) != before


@pytest.mark.e2e
@pytest.mark.parametrize("option", ["-use_fast_math", "-maxrregcount=32"])
def test_other_options_give_other_code(
    bench: Bench, compile_for: Callable[..., Finished], option: str
) -> None:
    bench.write("a.cu", KERNEL)
    compile_for("linux_x86_64")

    compile_for("linux_aarch64", option)

    assert "ptxas" not in names(bench, "shared")


@pytest.mark.e2e
def test_damaged_file_is_compiled_anew(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)
    compile_for("linux_x86_64")
    content = content_of(bench)
    for path in (bench.folder / "device").rglob("*.linux_x86_64"):
        path.write_bytes(path.read_bytes()[:-3] + b"abc")

    done = compile_for("linux_aarch64")

    assert done.status == 0
    assert names(bench, "shared") == []
    assert content_of(bench) == content


def test_fifo_is_no_entry(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "entry")
    writer = os.open(tmp_path / "entry", os.O_RDWR)

    with pytest.raises(ValueError, match="damaged"):
        kept_files.read_parts(str(tmp_path / "entry"))
    os.close(writer)


@pytest.mark.e2e
def test_entry_that_makes_a_compile_fail_costs_a_compile(tmp_path: Path, cuda_home: Path) -> None:
    bench = make_bench(tmp_path / "bench", cuda_home, cache=("/usr/bin/env",))
    bench.write("a.cu", KERNEL)
    command = (*COMMAND, "a.cu", "-o", "a.o")
    bench.run(*command, **sharing(bench))
    for path in (bench.folder / "device").rglob(f"*.{HERE}"):
        parts = kept_files.read_parts(str(path))
        kept_files.keep_parts(str(path), [b""] * len(parts))

    done = bench.run(*command, **sharing(bench))

    assert done.status == 0, done.output
    assert content_of(bench) == fresh(bench)


@pytest.mark.e2e
def test_error_is_printed_once(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)
    compile_for("linux_x86_64")
    bench.write("a.cu", KERNEL.replace("sinf(p[i])", "nothing(p[i])"))

    done = compile_for("linux_aarch64")

    assert done.status != 0
    assert done.output.count('"nothing" is undefined') == 1


@pytest.mark.e2e
def test_debug_code_is_not_shared(bench: Bench, compile_for: Callable[..., Finished]) -> None:
    bench.write("a.cu", KERNEL)

    compile_for("linux_x86_64", "-G")

    assert not (bench.folder / "device").exists()
