"""What the launcher makes of a command line, word by word; test_launch.py runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cuwheel.build.compile.launcher.rewrite import Refusal, Settings, host_command, nvcc_command

GATED = "/launcher/gated/g++"
PACKAGES = "/env/lib/python3.11/site-packages"
# Options that make builds differ
DROPPED = (
    *("-lineinfo", "--generate-line-info", "-t4", "-t 4", "-t=4", "--threads 0", "--threads=4"),
    *("-split-compile 2", "-split-compile=0", "--split-compile=0", "--split-compile-extended 2"),
    *("-split-compile-extended=2", "-jobserver", "--jobserver", "-frandom-seed=one"),
    "--frandom-seed one",
)
OTHERS = ("-G", "-g", "-time x", "-target-dir t", "-arch=all-major", "-tx", "-L/env/lib/python3.11")
HOST_COMPILERS = ("g++", "/launcher/bin/g++", "/usr/bin/g++", "/usr/bin/c++")
INCLUDES = ("-I{}", "-I {}", "-I={}", "-isystem {}", "--include-path={}")


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    default = Settings()
    default.nvcc = "/view/nvcc"
    default.host = {"cc": "/launcher/gated/gcc", "cxx": GATED}
    default.standins = {"g++": GATED, "/launcher/bin/g++": GATED, "/usr/bin/g++": GATED}
    default.standins |= {"gcc": "/launcher/gated/gcc", "/usr/bin/gcc": "/launcher/gated/gcc"}
    default.moves = ((PACKAGES, "/cuwheel/packages"),)
    default.flags = ("path", "seed", "objtemp")
    return default


def nvcc(text: str, settings: Settings) -> list[str]:
    """What nvcc gets for these arguments."""
    return nvcc_command(text.split(), settings).argv[1:]


def host(text: str, settings: Settings) -> list[str]:
    return host_command("g++", text.split(), settings).argv[1:]


def seed_of(words: list[str]) -> str:
    [seed] = [word for word in words if word.startswith("-frandom-seed=")]
    return seed


def test_takes_variables_in(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", '-Da -Db="x y"')
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Dc -lineinfo")

    words = nvcc("-Dm", settings)

    assert words[:4] == ["-Da", '-Db="x y"', "-Dm", "-Dc"]
    assert words[4:] == ["-ccbin", GATED]
    assert nvcc("-Dm", settings) == ["-Dm", "-ccbin", GATED], "variables are taken in once"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"-Da {text} -Db", "-Da -Db") for text in DROPPED),
        *((text, text) for text in OTHERS),
        # A cache knows these in one word only.
        ("-Xptxas -v -Xptxas=-O3", "-Xptxas=-v -Xptxas=-O3"),
        ("--ptxas-options -v", "--ptxas-options=-v"),
        *((form.format(PACKAGES), form.format("/cuwheel/packages")) for form in INCLUDES),
        (f"-I{PACKAGES}/torch/include", "-I/cuwheel/packages/torch/include"),
        (f"-I{PACKAGES}-2", f"-I{PACKAGES}-2"),
    ],
)
def test_rewrites_options(text: str, expected: str, settings: Settings) -> None:
    assert nvcc(text, settings) == [*expected.split(), "-ccbin", GATED]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"-ccbin {name}", f"-ccbin {GATED}") for name in HOST_COMPILERS),
        *((f"-ccbin={name}", f"-ccbin={GATED}") for name in HOST_COMPILERS),
        ("--compiler-bindir g++", f"--compiler-bindir {GATED}"),
        ("-ccbin /usr/bin/", "-ccbin /launcher/gated/gcc"),
        ("-ccbin /opt/clang++", "-ccbin /opt/clang++"),
    ],
)
def test_gates_host_compiler_by_any_name(text: str, expected: str, settings: Settings) -> None:
    assert nvcc(text, settings) == expected.split()


def test_drops_what_an_option_file_holds(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "options").write_text("-lineinfo -Da")

    assert nvcc(f"--options-file {tmp_path / 'options'}", settings)[0] == "-Da"


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("-c a.cu -lineinfo --generate-line-info -lineinfo", ("--generate-line-info", "-lineinfo")),
        ("-c a.cu -t4 -frandom-seed=one", ()),
    ],
)
def test_lists_removed_options(text: str, removed: tuple[str, ...], settings: Settings) -> None:
    assert nvcc_command(text.split(), settings).dropped == removed


@pytest.mark.parametrize(
    "text",
    [
        "-arch=native",
        "-arch native",
        "--gpu-architecture=native",
        "-gencode arch=native,code=native",
        "--generate-code=arch=native,code=native",
        "-Xcompiler -march=native",
        "-Xcompiler=-O3,-mtune=native",
        "--compiler-options=-mcpu=native",
        "-march=native",
    ],
)
def test_refuses_code_for_this_machine(text: str, settings: Settings) -> None:
    with pytest.raises(Refusal) as caught:
        nvcc(f"-c a.cu {text}", settings)

    what, why, fix = str(caught.value).splitlines()
    assert what == f"cuwheel: refused {text}"
    assert why.startswith("cuwheel: because  it compiles for the CPU of the build machine")
    assert fix.startswith("cuwheel: to fix   give the package the target's archs")


def test_refuses_host_options_in_one_word(settings: Settings) -> None:
    with pytest.raises(Refusal):
        nvcc_command(["-c", "a.cu", "-Xcompiler", "-O3 -march=native"], settings)


@pytest.mark.parametrize("option", ["-march=native", "-mtune=native", "-mcpu=native"])
def test_refuses_code_for_this_processor(option: str, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "options").write_text(option)

    for words in (option, f"@{tmp_path / 'options'}"):
        with pytest.raises(Refusal):
            host(f"-c a.c {words}", settings)


def test_takes_no_value_for_an_option(settings: Settings) -> None:
    """Packages put their flags into macros, to report them."""
    words = ["-c", "a.cc", "-D", "-march=native", '-DFLAGS="-march=native"']

    assert host_command("g++", words, settings).argv[1:6] == words


def test_seeds_with_source(settings: Settings) -> None:
    words = nvcc("-c sub/a.cu", settings)

    path = f"{Path.cwd()}/sub/a.cu"
    assert seed_of(words).startswith(f"-frandom-seed={path}-")
    assert words[-2:] == ["-Xcudafe", f"--orig_src_path_name={path}"]
    assert "-objtemp" in words


@pytest.mark.parametrize("command", [nvcc, host])
@pytest.mark.parametrize("other", ["sub/a.cpp", "a.cpp -DV=2", "a.cpp -U V", "a.cpp -D V"])
def test_seeds_of_two_objects_differ(
    command: Callable[[str, Settings], list[str]], other: str, settings: Settings
) -> None:
    """A source is compiled twice for one library, with other macros: else their names collide."""
    words = [command(f"-c {text}", settings) for text in ("a.cpp", other)]

    assert seed_of(words[0]) != seed_of(words[1])


@pytest.mark.parametrize("command", [nvcc, host])
def test_seed_is_the_same_for_every_python(
    command: Callable[[str, Settings], list[str]], settings: Settings
) -> None:
    more = ("", " -I/python3.11 -o build311/a.o", " -isystem /python3.12 -o build312/a.o")

    words = [command(f"-c a.cpp{text}", settings) for text in more]

    assert len({seed_of(each) for each in words}) == 1


def test_seed_is_the_same_in_every_folder(settings: Settings, tmp_path: Path) -> None:
    seeds = set()
    for folder in (tmp_path / "a", tmp_path / "deeper" / "b"):
        settings.maps = ((str(folder), "/cuwheel/source"),)
        seeds.add(seed_of(nvcc(f'-c {folder}/a.cu -DAT="{folder}"', settings)))

    assert len(seeds) == 1


def test_longest_folder_names_source(settings: Settings) -> None:
    settings.maps = (("/w", "/cuwheel/tmp"), ("/w/tree", "/cuwheel/source"))

    assert nvcc_command(["-c", "/w/tree/a.cu"], settings).source == "/cuwheel/source/a.cu"


def test_several_sources_keep_their_own_paths(settings: Settings) -> None:
    """With one path for all, their names would collide."""
    words = nvcc("-dc a.cu b.cu", settings)

    assert seed_of(words)
    assert "-Xcudafe" not in words


def test_adds_only_what_nvcc_has(settings: Settings) -> None:
    settings.flags = ()

    assert nvcc("-c a.cu", settings) == ["-c", "a.cu", "-ccbin", GATED]


@pytest.mark.parametrize("form", ["-I{}", "-isystem{}", "-iquote {}", "-idirafter {}"])
def test_moves_headers_for_gcc(form: str, settings: Settings) -> None:
    words = host(f"-c a.c {form.format(f'{PACKAGES}/x')}", settings)

    expected = form.format("/cuwheel/packages/x").split()
    assert words[2:][: len(expected)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "-c a.cu -arch=sm_90 -odir x",
        "--compile -gencode=arch=compute_90,code=[sm_90,compute_90] a.cu",
        "-dc a.cu -arch compute_90 -code=sm_90",
        "-dw a.cu --gpu-architecture=sm_90",
    ],
)
def test_knows_a_compile(text: str, settings: Settings) -> None:
    command = nvcc_command(text.split(), settings)

    assert (command.source, command.archs) == (f"{Path.cwd()}/a.cu", ("90",))


@pytest.mark.parametrize(
    ("text", "archs"),
    [
        ("-arch=sm_100f", ("100f",)),
        ("-gencode arch=compute_80,code=sm_86 -arch=sm_90a", ("80", "86", "90a")),
        ("-arch=all-major", ()),
        ("-arch=lto_90", ("90",)),
        ("-arch", ()),
    ],
)
def test_reads_archs(text: str, archs: tuple[str, ...], settings: Settings) -> None:
    assert nvcc_command(["-c", "a.cu", *text.split()], settings).archs == archs


@pytest.mark.parametrize(
    ("text", "by_arch"),
    [
        ("a.cu -gencode=arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a", "yes"),
        ("a.cu -gencode=arch=compute_80,code=sm_80 -gencode arch=compute_80,code=sm_86", "no"),
        ("a.cu -gencode=arch=compute_80,code=sm_80 -arch=sm_90", "no"),
        ("a.cu -arch=sm_90", "no"),
        ("a.cpp -gencode=arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90", "no"),
    ],
)
def test_knows_whether_each_arch_has_its_own_commands(
    text: str, by_arch: str, settings: Settings
) -> None:
    assert nvcc_command(["-c", *text.split()], settings).is_by_arch == (by_arch == "yes")


@pytest.mark.parametrize(
    "text",
    [
        *("-c a.cu b.cu", "-o x a.cu", "-ptx a.cu", "-c a.cu --dryrun", "-E a.cu", "-M a.cu"),
        *("-dlink a.o", "-lib a.o", "--version", "-x cu -c -", ""),
    ],
)
def test_hands_through_what_is_no_compile(text: str, settings: Settings) -> None:
    command = nvcc_command(text.split(), settings)

    assert not command.source
    assert command.argv[1 : 1 + len(text.split())] == text.split()


@pytest.mark.parametrize(
    "text", ["a.o -o x", "-E a.c", "-S a.c", "-c -", "-c a.c b.c", "-c a.c -M"]
)
def test_hands_through_what_is_no_compile_of_gcc(text: str, settings: Settings) -> None:
    command = host_command("gcc", text.split(), settings)

    assert not command.source
    assert command.argv[: 1 + len(text.split())] == ["/launcher/gated/gcc", *text.split()]


def test_leaves_list_of_objects_in_its_file(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a.o b.o")

    assert host(f"-shared @{tmp_path / 'objects'}", settings)[1] == f"@{tmp_path / 'objects'}"


def test_sees_compile_in_response_file(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("-c 'a.cc' -o a.o")

    command = host_command("c++", [f"@{tmp_path / 'words'}"], settings)

    assert (command.source, command.output) == (f"{Path.cwd()}/a.cc", "a.o")


@pytest.mark.parametrize("form", ["-o x.o", "-o=x.o", "--output-file x.o", "--output-file=x.o"])
def test_knows_object(form: str, settings: Settings) -> None:
    assert nvcc_command(["-c", "a.cu", *form.split()], settings).output == "x.o"


@pytest.mark.parametrize("is_moved", [True, False])
@pytest.mark.parametrize(
    ("word", "moved"),
    [
        (f"-L{PACKAGES}/torch/lib", "-L/cuwheel/packages/torch/lib"),
        (f"{PACKAGES}/torch/lib/libc10.so", "/cuwheel/packages/torch/lib/libc10.so"),
        (f"-L{PACKAGES}-of-others", f"-L{PACKAGES}-of-others"),
        ("-lc10", "-lc10"),
    ],
)
def test_links_with_libraries_of_another_machine(
    word: str, moved: str, settings: Settings, *, is_moved: bool
) -> None:
    settings.moves_libraries = is_moved

    for command in (host, nvcc):
        assert command(f"-shared a.o {word}", settings)[2] == (moved if is_moved else word)
