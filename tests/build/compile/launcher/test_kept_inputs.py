"""What differs from the nearest earlier compile, by the real launcher and host compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.compile.events import InputsNoted, read_events
from tests.support.build.launchers import Bench, make_bench

MADE_OF = (("compiler", "of device code", "one"), ("Python", "3.12.1", ""))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return ready(tmp_path, MADE_OF)


def ready(folder: Path, made_of: tuple[tuple[str, str, str], ...]) -> Bench:
    name = f"bench-{made_of[0][2]}-{made_of[1][1]}"
    bench = make_bench(
        folder / name,
        folder,  # a toolkit without programs
        source=folder / "source",
        inputs=str(folder / "inputs"),
        made_of=made_of,
        events=str(folder / name / "events.jsonl"),
    )
    bench.write("a.cpp", '#include "a.h"\nint f() { return N; }\n')
    return bench


def compile_file(bench: Bench, *options: str, **variables: str) -> InputsNoted:
    """Compile `a.cpp`; return what was noted."""
    bench.log.unlink(missing_ok=True)
    words = ("-c", "a.cpp", "-o", "a.o", "-MD", "-MF", "a.d", *options)
    done = bench.run("g++", *words, CUWHEEL_EVENTS=str(bench.log), **variables)
    assert done.status == 0, done.output
    [noted] = read_events(bench.log).inputs.values()
    return noted


def test_first_compile_has_no_other(bench: Bench) -> None:
    bench.write("a.h", "#define N 1\n")

    assert compile_file(bench) == InputsNoted(known=False, differences=(), count=0)


@pytest.mark.parametrize(
    ("options", "variables", "header", "difference"),
    [
        (("-O2",), {}, 1, "flag added -O2"),
        (("-I", "more"), {}, 1, "flag added -I more"),
        ((), {"CPLUS_INCLUDE_PATH": ""}, 1, "variable added CPLUS_INCLUDE_PATH"),
        ((), {"LC_ALL": "C"}, 1, "variable changed LC_ALL"),
        ((), {}, 2, "header changed a.h"),
    ],
)
def test_names_what_differs(
    bench: Bench, options: tuple[str, ...], variables: dict[str, str], header: int, difference: str
) -> None:
    bench.write("a.h", "#define N 1\n")
    compile_file(bench)
    bench.write("a.h", f"#define N {header}\n")

    noted = compile_file(bench, *options, **variables)

    assert noted == InputsNoted(known=True, differences=(difference,), count=1)


@pytest.mark.parametrize(
    ("made_of", "differences"),
    [
        ((("compiler", "of device code", "two"), MADE_OF[1]), ("compiler changed of device code",)),
        ((MADE_OF[0], ("Python", "3.13.0", "")), ("Python added 3.13.0", "Python removed 3.12.1")),
    ],
)
def test_names_what_all_compiles_share(
    tmp_path: Path,
    bench: Bench,
    made_of: tuple[tuple[str, str, str], ...],
    differences: tuple[str, ...],
) -> None:
    bench.write("a.h", "#define N 1\n")
    compile_file(bench)

    noted = compile_file(ready(tmp_path, made_of))

    assert noted.differences[: len(differences)] == differences


def test_names_archs_where_names_hold_them(bench: Bench) -> None:
    """Found by the path of a header; g++ itself has no archs."""
    header = "include/cub/util_namespace.cuh"
    bench.write("a.h", f'#define N 1\n#include "{header}"\n')
    bench.write(header, "\n")
    compile_file(bench)
    bench.write("a.h", "#define N 1\n")

    differences = compile_file(bench).differences

    assert differences == ("archs removed ", "header changed a.h", f"header removed {header}")


def test_compares_with_the_nearest(bench: Bench) -> None:
    bench.write("a.h", "#define N 1\n")
    for options in (("-O2", "-g"), ("-O1",), ("-O3", "-g", "-fPIC")):
        compile_file(bench, *options)

    assert compile_file(bench, "-O2").differences == ("flag removed -g",)


def test_keeps_a_limited_number_and_reads_no_damage(bench: Bench, tmp_path: Path) -> None:
    bench.write("a.h", "#define N 1\n")
    for number in range(10):
        compile_file(bench, f"-DNUMBER={number}")
    records = [path for path in (tmp_path / "inputs").rglob("*") if path.is_file()]
    for path in records:
        path.write_bytes(b"damaged")

    assert len(records) == 8
    assert not compile_file(bench).known
