"""Libraries of the host by section: what differs, and what may have made it so."""

from __future__ import annotations

import struct
from pathlib import Path

from cuwheel.base.system import process
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import compile_library, write_wheel
from tests.support.publish.wheel_pairs import by_member, compare_host


def test_reports_build_id_of_what_was_stripped(tmp_path: Path) -> None:
    mapped = f"-fdebug-prefix-map={tmp_path}=/src"
    result = compare_host(tmp_path, ("-g", "-Wl,--build-id"), ("-g", "-Wl,--build-id", mapped))
    stripped = [tmp_path / f"{number}.so" for number in range(2)]
    for path in stripped:
        process.run(["strip", path], env={"PATH": "/usr/bin:/bin"})
    a, b = (write_wheel(tmp_path / path.stem, {"pkg/lib.so": path}) for path in stripped)

    alone = by_member(compare(a, b))["pkg/lib.so"]

    assert result[".note.gnu.build-id"][0].causes == ("build-id",)
    assert result[".debug_line_str"][0].causes == ("line-information",)
    assert alone.fact.startswith("only the build id differs")
    assert alone.causes == ()


def test_reports_library_without_sections(tmp_path: Path) -> None:
    wheels = []
    for factor in ("7", "8"):
        source = tmp_path / "code.c"
        source.write_text(f"int factor(void) {{ return {factor}; }}")
        library = compile_library(tmp_path / f"{factor}.so", "gcc", source)
        content = bytearray(library.read_bytes())
        struct.pack_into("<Q", content, 40, 0)  # e_shoff
        struct.pack_into("<HHH", content, 58, 0, 0, 0)  # size, number, names
        wheels.append(write_wheel(tmp_path / factor, {"pkg/lib.so": bytes(content)}))

    difference = by_member(compare(*wheels))["pkg/lib.so"]

    assert difference.fact == "its content differs, and it has no sections to compare"
    assert difference.causes == ()


def test_distinguishes_memory_from_content(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("int numbers[4]; int third(void) { return numbers[2]; }")
    paths = [compile_library(tmp_path / "0.so", "gcc", "-fPIC", tmp_path / "code.c")]
    paths.append(tmp_path / "1.so")
    flags = ("--set-section-flags", ".bss=alloc,load,contents")
    process.run(["objcopy", *flags, *paths], env={"PATH": "/usr/bin:/bin"})
    wheels = [write_wheel(tmp_path / path.stem, {"pkg/lib.so": path}) for path in paths]

    facts = [
        difference.fact
        for pair in (wheels, wheels[::-1])
        for difference in compare(*pair).differences
        if difference.section == ".bss"
    ]

    assert facts == [
        "32 reserved bytes; 32 bytes in the second",
        "32 bytes; 32 reserved bytes in the second",
    ]


def test_names_compiler_and_debug_information(tmp_path: Path) -> None:
    library = tmp_path / "0.so"
    result = compare_host(tmp_path, (), ("-g",))
    process.run(
        [
            "objcopy",
            "--update-section",
            f".comment={_comment(tmp_path)}",
            library,
            tmp_path / "2.so",
        ],
        env={"PATH": "/usr/bin:/bin"},
    )
    wheels = [
        write_wheel(tmp_path / name, {"pkg/lib.so": tmp_path / f"{name}.so"}) for name in ("0", "2")
    ]

    compiler = [
        difference
        for difference in compare(*wheels).differences
        if difference.section == ".comment"
    ]

    assert result[".debug_info"][0].causes == ("line-information",)
    assert [one.causes for one in compiler] == [("host-compiler",)]


def _comment(folder: Path) -> Path:
    path = folder / "comment"
    path.write_bytes(b"GCC: (Some Distribution) 99.1.0\0")
    return path


def test_reports_host_code_that_changed(tmp_path: Path) -> None:
    result = compare_host(tmp_path, (), ("-UFACTOR", "-DFACTOR=8"))

    (difference,) = result[".text"]
    assert difference.causes == ()


def test_tables_follow_from_a_longer_path(tmp_path: Path) -> None:
    path = '-UFILE_NAME -DFILE_NAME="/quite/another/folder/of/another/machine/x.c"'

    result = compare_host(tmp_path, (), tuple(path.split()))

    assert ("build-path",) in {one.causes for one in result[".rodata"]}
    assert ("layout",) in {one.causes for output in result.values() for one in output}


def test_calls_of_other_functions_stay_unexplained(tmp_path: Path) -> None:
    code = "int rand(void), getpid(void); int call(void) { return FIRST() - SECOND(); }"
    orders = ("-DFIRST=rand", "-DSECOND=getpid"), ("-DFIRST=getpid", "-DSECOND=rand")

    result = compare_host(tmp_path, *orders, code=code)

    assert () in {one.causes for output in result.values() for one in output}
