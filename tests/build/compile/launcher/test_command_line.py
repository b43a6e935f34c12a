"""What nvcc and GCC take for options, values and sources, held against the programs themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.base.system.process import run
from cuwheel.build.compile.launcher.command_line import (
    NVCC_VALUES,
    Word,
    host_sources,
    nvcc_sources,
    read_host,
    read_nvcc,
    split,
    with_host_files,
    with_nvcc_files,
)

# `--output-file <file>      (-o)`; in the place of <file> there may be {a|b}, [a,b] or `entry,...`
_OPTION = re.compile(r"^(--\S+)( \S.*?)?\s+\(?(-[^)\s]+)\)?\s*$", re.MULTILINE)
# Its help doesn't show the value of these, or doesn't name them.
_HIDDEN = {"-Xcudafe", "-nvvmdir", "--qpp-config", "-qpp-config", "--dependency-output", "-MF"}


def dryrun(home: Path, folder: Path, *words: str, **variables: str) -> list[str]:
    """The macros that nvcc hands to the host compiler, as it spells them; or why it doesn't."""
    (folder / "a.cu").touch()
    nvcc = [str(home / "bin" / "nvcc"), "--dryrun", "-arch=sm_90", "-c", "a.cu"]
    env = {"PATH": "/usr/bin:/bin", **variables}
    done = run([*nvcc, *words], env=env, cwd=folder, check=False)
    lines = [line for line in done.output.splitlines() if " -E " in line]
    assert lines, done.output
    return re.findall(r'-D "((?:[^"\\]|\\.)*)"', lines[0])


def test_knows_every_option_with_a_value(cuda_home: Path) -> None:
    text = run([cuda_home / "bin" / "nvcc", "--help"], env={}).output

    listed = {name for match in _OPTION.finditer(text) if match[2] for name in (match[1], match[3])}

    assert len(listed) > 100
    assert listed == NVCC_VALUES - _HIDDEN


@pytest.mark.parametrize(
    "text",
    [
        '-DV="a b" -DW',
        '-DV="a b"c -DW=""',
        "-DV='x'",
        "-DV=1\t-DW=2  -DZ=3 ",
        r"-DV=a,b\,c",
        "  ",
    ],
)
def test_splits_variable_as_nvcc_does(text: str, cuda_home: Path, tmp_path: Path) -> None:
    commands = dryrun(cuda_home, tmp_path, NVCC_APPEND_FLAGS=text)

    assert dryrun(cuda_home, tmp_path, *split(text, '"', verbatim=True)) == commands


@pytest.mark.parametrize(
    "text",
    [
        '-DV="a b" "-DW=c d"\n-D"Z=e f"',
        r"-DV=a\ b -DW=\\\"x\\\" -DZ=\"y\"",
        "-DV='x' -DW=\n-D\nZ=4",
        '-DV="1,2"',
        r"-DV=\"1,2\" -DW=\\y -DZ=\\\\z",
        "",
        '-optf other -DW="a b"',
    ],
)
def test_reads_option_file_as_nvcc_does(text: str, cuda_home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("-DV=1\r\n-DZ=3")
    file = tmp_path / "options"
    file.write_text(text.replace("other", str(tmp_path / "other")))

    words = with_nvcc_files([f"--options-file={file}"])

    assert dryrun(cuda_home, tmp_path, *words) == dryrun(cuda_home, tmp_path, "-optf", str(file))
    assert not any("optf" in word for word in words)


def test_reads_several_option_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"-D{name}")

    words = with_nvcc_files(["-optf", f"{tmp_path / 'a'},{tmp_path / 'b'}", "x.cu"])

    assert words == ["-Da", "-Db", "x.cu"]


@pytest.mark.parametrize(
    "text", ['one \'two  three\' "four \\" five"', r"a\ b 'c\'d' \\e", "'' x\ty\n", "plain"]
)
def test_reads_response_file_as_gcc_does(text: str, tmp_path: Path) -> None:
    """GCC's own reader is in its driver: `-###` prints what a linker would be given."""
    file = tmp_path / "words"
    file.write_text(text)
    gcc = ["gcc", "-###", "-nostdlib", "-Wl,--start"]
    env = {"PATH": "/usr/bin:/bin"}

    words = with_host_files([f"@{file}"])

    commands = [
        run([*gcc, *more], env=env, check=False).output.splitlines()[-1]
        for more in ([f"@{file}"], words)
    ]
    assert commands[0] == commands[1]


@pytest.mark.parametrize("read", [with_nvcc_files, with_host_files])
def test_leaves_missing_file_to_compiler(
    read: Callable[[list[str]], list[str]], tmp_path: Path
) -> None:
    words = [f"-optf={tmp_path}/lost", f"@{tmp_path}/lost"]

    assert read(words) == words


def test_file_that_names_itself_ends(tmp_path: Path) -> None:
    file = tmp_path / "self"
    file.write_text(f"-optf {file} @{file}")

    assert f"@{file}" in with_nvcc_files(["-optf", str(file)])
    assert f"@{file}" in with_host_files([f"@{file}"])


@pytest.mark.parametrize(
    ("words", "sources"),
    [
        ("-c a.cu -o x.cu", ["a.cu"]),
        ("-c a.cu -MF b.cpp -MT c.cu -MD", ["a.cu"]),
        ("-include pre.cu -c a.cpp", ["a.cpp"]),
        ("-c a.cu --output-file=b.cu -odir d.cu", ["a.cu"]),
        ("-c -x cu part.inc", ["part.inc"]),
        ("-c part.inc -x=cu", ["part.inc"]),
        ("--x cu -c -", ["-"]),
        ("-c -dlto a.cu", ["a.cu"]),
        ("-c -extra-device-vectorization a.cu", ["a.cu"]),
        ("-Xcompiler -fPIC,b.cpp a.cu b.c c.cc d.cxx", ["a.cu", "b.c", "c.cc", "d.cxx"]),
        ("-shared a.o -o b.so -L/x -lz", []),
        ("--version", []),
        ("-c ta.cu -t4 -t 4", ["ta.cu"]),
    ],
)
def test_finds_sources_of_nvcc(words: str, sources: list[str]) -> None:
    assert nvcc_sources(read_nvcc(words.split())) == sources


@pytest.mark.parametrize(
    ("words", "sources"),
    [
        ("-c a.c -o b.c -MF d.cpp", ["a.c"]),
        ("-c -xc++ part.inc", ["part.inc"]),
        ("a.o -x c part.inc -x none b.o c.S", ["part.inc", "c.S"]),
        ("-x c -", ["-"]),
        ("-isystem x.c -include y.c -dumpbase z.c a.cpp", ["a.cpp"]),
        ("-shared a.o -o b.so", []),
        ("-E -", []),
    ],
)
def test_finds_sources_of_gcc(words: str, sources: list[str]) -> None:
    assert host_sources(read_host(words.split())) == sources


@pytest.mark.parametrize("read", [read_nvcc, read_host])
@pytest.mark.parametrize(
    "words", ["-I/x a.cu -o", "-I", "-D V=1 -DW -isystem /y -isystem=/z -t4 -x", "- -", "a=b c"]
)
def test_loses_no_word(read: Callable[[list[str]], list[Word]], words: str) -> None:
    given_words = words.split()

    assert [part for word in read(given_words) for part in word.words] == given_words
