"""The C++ standard that a recipe declares, in the place of an older one on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuwheel.build.compile.launcher.rewrite import Settings, host_command, nvcc_command
from tests.support.build.launchers import make_bench

_STATED = 'static_assert(__cplusplus >= 202002L, "older");\n'


@pytest.fixture
def settings() -> Settings:
    default = Settings()
    default.nvcc, default.host = "/nvcc", {"cc": "/gcc", "cxx": "/g++"}
    default.standard = "20"
    return default


def standards(words: list[str]) -> list[str]:
    return [word for word in words if "-std" in word]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-std=c++17 -c a.cu", ["-std=c++20"]),
        ("--std c++14 -c a.cu", ["--std=c++20"]),
        ("-std=c++23 -c a.cu", ["-std=c++23"]),
        ("-c a.cu", ["-std=c++20"]),
        ("-c a.cpp -Xcompiler -fPIC,-std=gnu++1z", ["-fPIC,-std=gnu++20", "-std=c++20"]),
        ("-c a.c", []),
        ("a.o -o a.so -shared", []),
    ],
)
def test_raises_what_nvcc_gets(text: str, expected: list[str], settings: Settings) -> None:
    assert standards(nvcc_command(text.split(), settings).argv) == expected


@pytest.mark.parametrize(
    ("program", "text", "expected"),
    [
        ("g++", "-std=c++17 -c a.cpp", ["-std=c++20"]),
        ("gcc", "-std=gnu++14 -c a.cpp", ["-std=gnu++20"]),
        ("c++", "-std=c++2b -c a.cc", ["-std=c++2b"]),
        ("gcc", "-c a.cpp", ["-std=gnu++20"]),
        ("gcc", "-std=c11 -c a.c", ["-std=c11"]),
        ("gcc", "-c a.c", []),
        ("g++", "-shared a.o -o a.so", []),
    ],
)
def test_raises_what_gcc_gets(
    program: str, text: str, expected: list[str], settings: Settings
) -> None:
    assert standards(host_command(program, text.split(), settings).argv) == expected


def test_changes_nothing_without_a_declaration(settings: Settings) -> None:
    settings.standard = ""

    assert standards(nvcc_command(["-std=c++17", "-c", "a.cu"], settings).argv) == ["-std=c++17"]
    assert standards(host_command("g++", ["-c", "a.cpp"], settings).argv) == []


def test_compilers_take_the_standard(tmp_path: Path, cuda_home: Path) -> None:
    bench = make_bench(tmp_path / "bench", cuda_home, standard="20")
    bench.write("a.cu", _STATED)
    bench.write("b.cpp", _STATED)

    for words in (("nvcc", "-std=c++17", "-c", "a.cu"), ("g++", "-std=c++17", "-c", "b.cpp")):
        done = bench.run(*words)
        assert done.status == 0, done.output
