from __future__ import annotations

import struct
import time
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from zlib_ng import zlib_ng

from cuwheel.errors import UnsafeArchiveError
from cuwheel.system import process
from cuwheel.verify.compare.wheel import compare
from tests.support.factories import compile_library, write_wheel
from tests.support.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuwheel.verify.compare.differences import Comparison, Difference

_TEXT = b"".join(b"line %d of a text that packs well\n" % number for number in range(400))
_SYMTAB, _RELA, _DYNSYM = 2, 4, 11  # kinds of ELF sections
_INFO = "tiny_cuda-1.2.3.dist-info"


def _rewrite(
    wheel: Path,
    folder: Path,
    change: Callable[[zipfile.ZipInfo], object] = repr,
    *,
    level: int = 6,
    **archive: Any,
) -> Path:
    """The same wheel with something changed in the archive."""
    folder.mkdir(exist_ok=True)
    path = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(path, "w", compresslevel=level) as new:
        entries = archive.get("order", list)(old.infolist())
        new.comment = archive.get("comment", b"")
        for entry in entries:
            content = old.read(entry.filename)
            entry.compress_type = zipfile.ZIP_DEFLATED
            change(entry)
            new.writestr(entry, content, compresslevel=level)
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    made = write_wheel(tmp_path / "made", {"pkg/data.txt": _TEXT, "pkg/__init__.py": b"X = 1\n"})
    return _rewrite(made, tmp_path / "first")


def _only(comparison: Comparison) -> Difference:
    (difference,) = comparison.differences
    return difference


def _members(comparison: Comparison) -> dict[str, Difference]:
    return {one.location.member: one for one in comparison.differences}


def test_calls_equal_wheels_the_same(wheel: Path) -> None:
    comparison = compare(wheel, wheel)

    assert comparison.is_same
    assert comparison.differences == ()


def test_names_times(wheel: Path, tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.date_time = (2026, 11, 21, 12, 0, 2)

    difference = _only(compare(wheel, _rewrite(wheel, tmp_path / "b", change)))

    assert difference.causes == ("member-times",)
    assert (difference.a, difference.b) == ("1980-01-01 00:00:00", "2026-11-21 12:00:02")


def test_names_modes(wheel: Path, tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.external_attr = 0o600 << 16

    difference = _only(compare(wheel, _rewrite(wheel, tmp_path / "b", change)))

    assert difference.causes == ("member-modes",)
    assert (difference.a, difference.b) == ("?rw-r--r--", "?rw-------")


def test_names_order(wheel: Path, tmp_path: Path) -> None:
    other = _rewrite(wheel, tmp_path / "b", order=lambda entries: entries[::-1])

    difference = _only(compare(wheel, other))

    assert difference.causes == ("member-order",)
    assert (difference.a, difference.b) == ("pkg/data.txt", f"{_INFO}/RECORD")


def test_names_comment(wheel: Path, tmp_path: Path) -> None:
    difference = _only(compare(wheel, _rewrite(wheel, tmp_path / "b", comment=b"by hand")))

    assert (difference.fact, difference.b) == ("the archive's comment differs", "by hand")
    assert difference.causes == ()


def test_names_level_of_compression(wheel: Path, tmp_path: Path) -> None:
    difference = _only(compare(wheel, _rewrite(wheel, tmp_path / "b", level=1)))

    assert difference.causes == ("deflate-level",)
    assert difference.a.startswith("level 6")
    assert difference.b.startswith("level 1")


def test_names_other_zlib(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zipfile.zlib", zlib_ng)
    other = _rewrite(wheel, tmp_path / "b")

    difference = _only(compare(wheel, other))

    assert difference.causes == ("deflate",)
    assert difference.b == "unknown level or zlib"


def test_tells_stored_from_deflated(wheel: Path, tmp_path: Path) -> None:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.compress_type = zipfile.ZIP_STORED

    difference = _only(compare(wheel, _rewrite(wheel, tmp_path / "b", change)))

    assert (difference.a, difference.b) == ("deflated", "stored")


def test_shows_line_of_text_and_lets_record_follow(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {"pkg/__init__.py": b"X = 1\nY = 2\n"})
    b = write_wheel(tmp_path / "b", {"pkg/__init__.py": b"X = 1\nY = 3\n"})

    comparison = compare(a, b)

    found = _members(comparison)
    assert (found["pkg/__init__.py"].a, found["pkg/__init__.py"].b) == ("Y = 2", "Y = 3")
    assert found["pkg/__init__.py"].causes == ()
    assert found[f"{_INFO}/RECORD"].causes == ("record",)
    assert len(comparison.unexplained) == 1


def test_tells_record_that_differs_by_itself(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / wheel.name, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            is_record = entry.filename.endswith("RECORD")
            new.writestr(entry, content.replace(b",6\n", b",7\n") if is_record else content)

    difference = _only(compare(wheel, tmp_path / wheel.name))

    assert difference.fact == "another row of pkg/__init__.py, which doesn't differ"
    assert difference.causes == ()


def test_tells_record_that_is_no_table(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tmp_path / wheel.name, "w") as new:
        for entry in old.infolist():
            is_record = entry.filename.endswith("RECORD")
            unending = b'"' + b"a row that never ends,\n" * 10_000
            new.writestr(entry, unending if is_record else old.read(entry))

    difference = _members(compare(wheel, tmp_path / wheel.name))[f"{_INFO}/RECORD"]

    assert difference.fact.startswith("it differs, and can't be read as rows")
    assert difference.causes == ()


def test_names_generator(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {})
    b = _rewrite(a, tmp_path / "b")
    with zipfile.ZipFile(a) as old, zipfile.ZipFile(b, "w") as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry).replace(b"Generator: test", b"Generator: test 2"))

    difference = _members(compare(a, b))[f"{_INFO}/WHEEL"]

    assert difference.causes == ("wheel-generator",)
    assert difference.b == "Generator: test 2"


def test_tells_member_of_one_wheel(tmp_path: Path) -> None:
    a = write_wheel(tmp_path / "a", {"pkg/a.py": b""})
    b = write_wheel(tmp_path / "b", {"pkg/b.py": b""})

    found = _members(compare(a, b))

    assert found["pkg/a.py"].fact == "only the first wheel has it"
    assert found["pkg/b.py"].fact == "only the second wheel has it"


def test_compares_thousands_of_members(tmp_path: Path) -> None:
    files = {f"pkg/{number}.py": b"" for number in range(3000)}
    wheels = [write_wheel(tmp_path / str(year), files, year=year) for year in (1980, 1981)]
    started = time.process_time()

    difference = _only(compare(*wheels))

    assert difference.causes == ("member-times",)
    assert time.process_time() - started < 2


def test_refuses_what_is_no_wheel(wheel: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.whl"
    other.write_bytes(b"PK")

    with pytest.raises(UnsafeArchiveError):
        compare(wheel, other)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b"\xff\0\0\0\1", b"\xff\0\1\0\0"),
        (b"\xffone text\0another\0", b"\xffanother\0one text\0"),
        (b"\xff/a/x.cu\0\1\0\0\0", b"\xff/b/x.cu\0\0\0\1\0"),
    ],
    ids=["zeros", "order", "number"],
)
def test_tells_data_that_differs_in_place_alone(tmp_path: Path, a: bytes, b: bytes) -> None:
    wheels = [
        write_wheel(tmp_path / name, {"pkg/x.bin": data})
        for name, data in zip("ab", (a, b), strict=True)
    ]

    found = [one for one in compare(*wheels).differences if one.location.member == "pkg/x.bin"]

    assert found[-1].fact.endswith("bytes differ")
    assert found[-1].causes == ()


@pytest.mark.parametrize("name", ["pkg/data.bin", "pkg/lib.so"])
def test_takes_long_run_of_letters_in_stride(tmp_path: Path, name: str) -> None:
    """What a tool embeds has no zero behind it, and may be megabytes long."""
    wheels = []
    for letter in "ab":
        content: Path | bytes = letter.encode() * 30_000 + b"\xff"
        if name.endswith(".so"):
            source = tmp_path / "run.s"
            source.write_text(f'.section .rodata\n.fill 30000, 1, 65\n.ascii "\\377{letter}"\n')
            content = compile_library(tmp_path / f"{letter}.so", "gcc", source)
        wheels.append(write_wheel(tmp_path / letter, {name: content}))
    started = time.process_time()

    found = _members(compare(*wheels))

    assert name in found
    assert time.process_time() - started < 5


_HOST = """
#include <stdio.h>
#include <stdlib.h>
int choose(int n) { switch (n) { case 0: return 3; case 1: return 1; case 2: return 4;
  case 3: return 1; case 4: return 5; case 5: return 9; default: return rand(); } }
const char *names[] = {"one of them", "another one", FILE_NAME, "the last one"};
int fail(int n) { fprintf(stderr, "%s failed in %s\\n", names[n & 3], FILE_NAME); return FACTOR; }
int call(int n) { return fail(n) + choose(n); }
"""


_CALLS = """
int puts(const char *), rand(void), getpid(void);
int NAME(int n) { return n + 1; }
int call(int n) { return FIRST() + SECOND() + NAME(n) + puts("text"); }
"""


def _compare_host(
    tmp_path: Path, *flags: tuple[str, ...], code: str = _HOST
) -> dict[str, list[Difference]]:
    """What two libraries of one source and other flags differ in, by section."""
    source = tmp_path / "host.c"
    source.write_text(code)
    wheels = []
    for number, own in enumerate(flags):
        known = ('-DFILE_NAME="/a/x.c"', "-DFACTOR=7")
        library = compile_library(
            tmp_path / f"{number}.so", "gcc", "-fPIC", "-O1", *known, *own, source
        )
        wheels.append(write_wheel(tmp_path / str(number), {"pkg/lib.so": library}))
    found: dict[str, list[Difference]] = {}
    for one in compare(*wheels).differences:
        if one.location.member == "pkg/lib.so":
            found.setdefault(one.location.section, []).append(one)
    return found


def test_proves_that_addresses_follow_from_longer_path(tmp_path: Path) -> None:
    path = '-UFILE_NAME -DFILE_NAME="/quite/another/folder/of/another/machine/x.c"'

    found = _compare_host(tmp_path, (), tuple(path.split()))

    causes = {
        section: {key for one in told for key in one.causes} for section, told in found.items()
    }
    assert causes[".rodata"] == {"build-path"}
    assert causes[".note.gnu.build-id"] == {"build-id"}
    assert ".text" not in causes
    assert all(one.causes for told in found.values() for one in told)


def test_lets_no_constant_pass_for_address(tmp_path: Path) -> None:
    longer_by_one = ("-UFILE_NAME", '-DFILE_NAME="/ab/x.c"')

    found = _compare_host(tmp_path, (), (*longer_by_one, "-UFACTOR", "-DFACTOR=8"))

    assert found[".text"][0].causes == ()
    assert found[".rodata"][0].causes == ("build-path",)


def test_follows_calls_that_were_sorted_anew(tmp_path: Path) -> None:
    name = "-DNAME=__cudaRegisterLinkedBinary_{}_4_r_cu_go".format
    calls = ("-DFIRST=rand", "-DSECOND=getpid")

    found = _compare_host(
        tmp_path, (name("13714a58"), *calls), (name("bbaba8ea"), *calls), code=_CALLS
    )

    assert found[".dynstr"][0].causes == ("module-path",)
    assert found[".gnu.hash"][0].causes == ("layout",)
    assert ".text" not in found


# GNU ld sorts slots by name, so that the code differs; gold by their first use, and it doesn't.
@pytest.mark.parametrize(
    ("linker", "fact"),
    [
        ("bfd", "host code"),
        ("gold", "host code calls other functions of other libraries"),
    ],
)
def test_tells_call_of_another_function(tmp_path: Path, linker: str, fact: str) -> None:
    if linker == "gold":
        require("gold", "how differences of code that gold linked are named")
    orders = ("-DFIRST=rand", "-DSECOND=getpid"), ("-DFIRST=getpid", "-DSECOND=rand")
    flags = (("-DNAME=f", f"-fuse-ld={linker}", *order) for order in orders)

    found = _compare_host(tmp_path, *flags, code=_CALLS)

    (difference,) = found[".text"]
    assert difference.fact.partition(":")[0] == fact
    assert difference.causes == ()


def test_names_function_of_host_that_changed(tmp_path: Path) -> None:
    found = _compare_host(tmp_path, (), ("-UFACTOR", "-DFACTOR=8"))

    (difference,) = found[".text"]
    assert difference.fact.endswith("differ, in fail")
    assert difference.causes == ()


def test_tells_numbers_in_another_order(tmp_path: Path) -> None:
    code = "const int known[] = {FIRST, SECOND, 7};"

    found = _compare_host(
        tmp_path, ("-DFIRST=1", "-DSECOND=0"), ("-DFIRST=0", "-DSECOND=1"), code=code
    )

    assert [one.fact for one in found[".rodata"]] == ["2 of 12 bytes differ"]


def test_tells_build_id_of_what_was_stripped(tmp_path: Path) -> None:
    mapped = f"-fdebug-prefix-map={tmp_path}=/src"
    found = _compare_host(tmp_path, ("-g", "-Wl,--build-id"), ("-g", "-Wl,--build-id", mapped))
    stripped = [tmp_path / f"{number}.so" for number in range(2)]
    for path in stripped:
        process.run(["strip", path], env={"PATH": "/usr/bin:/bin"})
    a, b = (write_wheel(tmp_path / path.stem, {"pkg/lib.so": path}) for path in stripped)

    alone = _members(compare(a, b))["pkg/lib.so"]

    assert found[".note.gnu.build-id"][0].causes == ("build-id",)
    assert found[".debug_line_str"][0].causes == ("line-information",)
    assert alone.fact.startswith("only the build id differs")
    assert alone.causes == ()


def test_tells_library_without_sections(tmp_path: Path) -> None:
    wheels = []
    for factor in ("7", "8"):
        source = tmp_path / "code.c"
        source.write_text(f"int factor(void) {{ return {factor}; }}")
        library = compile_library(tmp_path / f"{factor}.so", "gcc", source)
        content = bytearray(library.read_bytes())
        struct.pack_into("<Q", content, 40, 0)  # e_shoff
        struct.pack_into("<HHH", content, 58, 0, 0, 0)  # size, number, names
        wheels.append(write_wheel(tmp_path / factor, {"pkg/lib.so": bytes(content)}))

    difference = _members(compare(*wheels))["pkg/lib.so"]

    assert difference.fact == "its content differs, and it has no sections to compare"
    assert difference.causes == ()


def test_tells_memory_from_content(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("int numbers[4]; int third(void) { return numbers[2]; }")
    paths = [compile_library(tmp_path / "0.so", "gcc", "-fPIC", tmp_path / "code.c")]
    paths.append(tmp_path / "1.so")
    flags = ("--set-section-flags", ".bss=alloc,load,contents")
    process.run(["objcopy", *flags, *paths], env={"PATH": "/usr/bin:/bin"})
    wheels = [write_wheel(tmp_path / path.stem, {"pkg/lib.so": path}) for path in paths]

    facts = [
        one.fact
        for pair in (wheels, wheels[::-1])
        for one in compare(*pair).differences
        if one.location.section == ".bss"
    ]

    assert facts == [
        "only in the first it merely reserves memory",
        "only in the second it merely reserves memory",
    ]


@pytest.mark.parametrize("kind", [_SYMTAB, _RELA, _DYNSYM])
def test_tells_library_whose_tables_refer_nowhere(tmp_path: Path, kind: int) -> None:
    wheels = []
    for factor in ("7", "8"):
        source = tmp_path / "host.c"
        source.write_text(_HOST)
        flags = ("-fPIC", "-O1", '-DFILE_NAME="x.c"', f"-DFACTOR={factor}")
        library = compile_library(tmp_path / f"{factor}.so", "gcc", *flags, source)
        library.write_bytes(_without_links(library.read_bytes(), kind))
        wheels.append(write_wheel(tmp_path / factor, {"pkg/lib.so": library}))

    difference = _members(compare(*wheels))["pkg/lib.so"]

    assert difference.fact == "its content differs, and can't be read: it has no section 9999"
    assert difference.causes == ()


def _without_links(content: bytes, kind: int) -> bytes:
    """A library whose sections of a kind refer to a section that isn't there."""
    changed = bytearray(content)
    (table,), (count,) = (
        struct.unpack_from("<Q", content, 40),
        struct.unpack_from("<H", content, 60),
    )
    for header in range(table, table + 64 * count, 64):
        if struct.unpack_from("<I", content, header + 4) == (kind,):
            struct.pack_into("<I", changed, header + 40, 9999)
    return bytes(changed)


def test_names_compiler_and_debug_information(tmp_path: Path) -> None:
    library = tmp_path / "0.so"
    found = _compare_host(tmp_path, (), ("-g",))
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

    compiler = [one for one in compare(*wheels).differences if one.location.section == ".comment"]

    assert found[".debug_info"][0].causes == ("line-information",)
    assert [one.causes for one in compiler] == [("host-compiler",)]


def _comment(folder: Path) -> Path:
    path = folder / "comment"
    path.write_bytes(b"GCC: (Some Distribution) 99.1.0\0")
    return path
