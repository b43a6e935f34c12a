from __future__ import annotations

import time
from pathlib import Path

import pytest

from cuwheel.publish.rebuild.compare.texts import (
    causes_of_options,
    causes_of_texts,
    differing_pairs,
    stable_name,
)
from cuwheel.publish.rebuild.compare.wheel import compare
from tests.support.factories import compile_library, write_wheel
from tests.support.publish.wheel_pairs import by_member


@pytest.mark.parametrize(
    ("a", "b", "causes"),
    [
        (
            "tmpxft_00007d97_00000000-6_a.compute_90.cudafe1.cpp",
            "tmpxft_00007e97_00000000-6_a.compute_90.cudafe1.cpp",
            ("temporary-name",),
        ),
        (
            "_GLOBAL__sub_I_tmpxft_0000042d_00000000_6_ne.cudafe1.cpp",
            "_GLOBAL__sub_I_tmpxft_0000042f_00000000_6_ne.cudafe1.cpp",
            ("temporary-name",),
        ),
        (
            "_ZN33_GLOBAL__N__bbaba8ea_4_t_cu_stamp6hiddenEPf",
            "_ZN33_GLOBAL__N__2a2297f5_4_t_cu_stamp6hiddenEPf",
            ("module-path",),
        ),
        (
            "__nv_static_30__680031cb_5_rn_cu_46086d7e_892__Z4bumpPi",
            "__nv_static_31__680031cb_5_rn_cu_46086d7e_1892__Z4bumpPi",
            ("module-process",),
        ),
        (
            "_ZZ57__cudaRegisterLinkedBinary_f8c82de5_6_ops_cu_59df9d05_603E3__p",
            "_ZZ57__cudaRegisterLinkedBinary_f8c82de5_6_ops_cu_9f1c524b_598E3__p",
            ("module-process",),
        ),
        (
            "_ZN4cuda3std3__442_GLOBAL__N__f8c82de5_6_ops_cu_59df9d05_6036ignoreE",
            "_ZN4cuda3std3__442_GLOBAL__N__f8c82de5_6_ops_cu_9f1c524b_5986ignoreE",
            ("module-process",),
        ),
        (
            "_ZZ72__device_stub__ZN43_GLOBAL__N__b09631ab_5_ne_cu_9698c85e_319776hiddenEPfPfE3__f",
            "_ZZ71__device_stub__ZN42_GLOBAL__N__3d0fb561_5_ne_cu_55668b93_10836hiddenEPfPfE3__f",
            ("module-path", "module-process"),
        ),
        ("Nov 21 2026", "Dec  1 2027", ("build-time",)),
        ("built at 23:08:03", "built at 00:00:00", ("build-time",)),
        ("2026-11-21T23:08:03Z", "2026-11-22T00:00:00Z", ("build-time",)),
        ("/home/me/a.cu:12", "/src/csrc/a.cu:12", ("build-path",)),
        ("a.cu", "/src/a.cu", ("build-path",)),
        ("../csrc/a.cu", "/src/csrc/a.cu", ("build-path",)),
        ("/a/b.cu 12:00:01", "/c/b.cu 12:00:02", ("build-time", "build-path")),
    ],
)
def test_names_cause(a: str, b: str, causes: tuple[str, ...]) -> None:
    assert causes_of_texts(a, b) == causes


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("version 1.2", "version 1.3"),
        ("km/h", "m/h"),
        ("/src/a.cu", "/src/b.cu"),
        ("/src/a.cu version 1", "/build/a.cu version 2"),
        ("_ZN33_GLOBAL__N__bbaba8ea_4_t_cu_stamp6hiddenEPf",
         "_ZN33_GLOBAL__N__2a2297f5_4_t_cu_stamp6hiddenEPd"),
        ("https://a.invalid/x", "https://b.invalid/x"),
        ("", "Nov 21 2026"),
    ],
)  # fmt: skip
def test_guesses_nothing(a: str, b: str) -> None:
    assert causes_of_texts(a, b) == ()


@pytest.mark.parametrize(
    ("a", "b", "causes"),
    [
        ("-arch sm_80 -m 64", "-O 1 -arch sm_80 -m 64", ("ptxas-options",)),
        ("-m 64 -split-compile 2", "-m 64 -split-compile 4", ("split-compile",)),
        ("-arch sm_80", "-lineinfo  -arch sm_80", ("line-information",)),
        ("-L /a/lib/stubs,/a/lib -m 64", "-L /b/lib/stubs,/b/lib -m 64", ("build-path",)),
        ("-split-compile=2 -O1", "-O2", ("split-compile", "ptxas-options")),
    ],
)
def test_distinguishes_options(a: str, b: str, causes: tuple[str, ...]) -> None:
    assert causes_of_options(a, b) == causes


def test_pairs_texts_by_what_a_cause_leaves() -> None:
    a = ["same", "/a/x.cu", "/a/y.cu", "old"]
    b = ["/b/y.cu", "new", "same", "/b/x.cu"]

    pairs = differing_pairs(a, b)

    assert sorted(pairs) == [("/a/x.cu", "/b/x.cu"), ("/a/y.cu", "/b/y.cu"), ("old", "new")]


@pytest.mark.parametrize(
    "text",
    ["9" * 5000 + "_GLOBAL__N__00000000_4_t_cu_x", "_00000000_" + "9" * 5000 + "_a", "def ", ""],
)
def test_bears_any_text(text: str) -> None:
    assert isinstance(stable_name(text), str)
    assert causes_of_texts(text, text + "x") == ()


def test_keeps_name_that_holds_no_module_id() -> None:
    assert stable_name("_Z6scaledIdEvPT_S0_") == "_Z6scaledIdEvPT_S0_"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (b"\xff\0\0\0\1", b"\xff\0\1\0\0"),
        (b"\xffone text\0another\0", b"\xffanother\0one text\0"),
        (b"\xff/a/x.cu\0\1\0\0\0", b"\xff/b/x.cu\0\0\0\1\0"),
    ],
    ids=["zeros", "order", "number"],
)
def test_reports_data_that_differs_in_place_alone(tmp_path: Path, a: bytes, b: bytes) -> None:
    wheels = [
        write_wheel(tmp_path / name, {"pkg/x.bin": data})
        for name, data in zip("ab", (a, b), strict=True)
    ]

    result = [
        difference
        for difference in compare(*wheels).differences
        if difference.member == "pkg/x.bin"
    ]

    assert result[-1].fact.endswith("bytes differ")
    assert result[-1].causes == ()


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

    result = by_member(compare(*wheels))

    assert name in result
    assert time.process_time() - started < 5
