"""What the launcher makes of a command line, word by word; test_launch.py runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.standalone.launcher.rewrite import Refusal, Settings, host_command, nvcc_command

if TYPE_CHECKING:
    from collections.abc import Callable

GATED = "/launcher/gated/g++"


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    made = Settings()
    made.nvcc = "/view/nvcc"
    made.host = {"cc": "/launcher/gated/gcc", "cxx": GATED}
    made.standins = {"g++": GATED, "/launcher/bin/g++": GATED, "/usr/bin/g++": GATED}
    made.standins |= {"gcc": "/launcher/gated/gcc", "/usr/bin/gcc": "/launcher/gated/gcc"}
    made.moves = (("/env/lib/python3.11/site-packages", "/cuwheel/packages"),)
    made.flags = ("path", "seed", "objtemp")
    return made


def nvcc(text: str, settings: Settings) -> list[str]:
    """What nvcc gets for these arguments."""
    return nvcc_command(text.split(), settings).words[1:]


def host(text: str, settings: Settings) -> list[str]:
    return host_command("g++", text.split(), settings).words[1:]


def seed_of(words: list[str]) -> str:
    [found] = [word for word in words if word.startswith("-frandom-seed=")]
    return found


def test_takes_variables_in(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", '-Da -Db="x y"')
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Dc -lineinfo")

    words = nvcc("-Dm", settings)

    assert words[:4] == ["-Da", '-Db="x y"', "-Dm", "-Dc"]
    assert words[4:] == ["-ccbin", GATED]


def test_variables_are_taken_in_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-Dc")

    nvcc("-Dm", settings)

    assert "-Dc" not in nvcc("-Dm", settings)


@pytest.mark.parametrize(
    "text",
    [
        "-lineinfo",
        "--generate-line-info",
        "-t4",
        "-t 4",
        "-t=4",
        "--threads 0",
        "--threads=4",
        "-split-compile 2",
        "-split-compile=0",
        "--split-compile=0",
        "--split-compile-extended 2",
        "-split-compile-extended=2",
        "-jobserver",
        "--jobserver",
        "-frandom-seed=one",
        "--frandom-seed one",
    ],
)
def test_drops_what_makes_builds_differ(text: str, settings: Settings) -> None:
    assert nvcc(f"-Da {text} -Db", settings) == ["-Da", "-Db", "-ccbin", GATED]


@pytest.mark.parametrize("text", ["-G", "-g", "-time x", "-target-dir t", "-arch=all-major", "-tx"])
def test_keeps_other_options(text: str, settings: Settings) -> None:
    assert nvcc(text, settings)[: len(text.split())] == text.split()


def test_drops_what_an_option_file_holds(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "options").write_text("-lineinfo -Da")

    assert nvcc(f"--options-file {tmp_path / 'options'}", settings)[0] == "-Da"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("-c a.cu -lineinfo --generate-line-info -lineinfo", ("--generate-line-info", "-lineinfo")),
        ("-c a.cu -t4 -frandom-seed=one", ()),
    ],
)
def test_tells_of_what_somebody_may_miss(
    text: str, told: tuple[str, ...], settings: Settings
) -> None:
    assert nvcc_command(text.split(), settings).dropped == told


@pytest.mark.parametrize("name", ["-Xptxas", "--ptxas-options"])
def test_joins_options_of_ptxas(name: str, settings: Settings) -> None:
    assert nvcc(f"{name} -v {name}=-O3", settings)[:2] == [f"{name}=-v", f"{name}=-O3"]


@pytest.mark.parametrize("form", ["-ccbin {}", "-ccbin={}", "--compiler-bindir {}"])
@pytest.mark.parametrize("name", ["g++", "/launcher/bin/g++", "/usr/bin/g++", "/usr/bin/c++"])
def test_gates_host_compiler_by_any_name(form: str, name: str, settings: Settings) -> None:
    assert nvcc(form.format(name), settings) == form.format(GATED).split()


def test_gates_host_compiler_given_as_folder(settings: Settings) -> None:
    assert nvcc("-ccbin /usr/bin/", settings) == ["-ccbin", "/launcher/gated/gcc"]


def test_leaves_another_host_compiler(settings: Settings) -> None:
    assert nvcc("-ccbin /opt/clang++", settings) == ["-ccbin", "/opt/clang++"]


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
    """Packages put their flags into macros, to tell of them."""
    words = ["-c", "a.cc", "-D", "-march=native", '-DFLAGS="-march=native"']

    assert host_command("g++", words, settings).words[1:6] == words


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

    assert len({seed_of(one) for one in words}) == 1


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


@pytest.mark.parametrize("form", ["-I{}", "-I {}", "-I={}", "-isystem {}", "--include-path={}"])
@pytest.mark.parametrize("path", ["", "/torch/include"])
def test_moves_headers_of_packages(form: str, path: str, settings: Settings) -> None:
    text = form.format(f"/env/lib/python3.11/site-packages{path}")

    words = nvcc(f"{text} -Db", settings)

    assert words[: words.index("-Db")] == form.format(f"/cuwheel/packages{path}").split()


@pytest.mark.parametrize("form", ["-I{}", "-isystem{}", "-iquote {}", "-idirafter {}"])
def test_moves_headers_for_gcc(form: str, settings: Settings) -> None:
    text = form.format("/env/lib/python3.11/site-packages/x")

    assert host(f"-c a.c {text}", settings)[2:][: len(text.split())] == (
        text.replace("/env/lib/python3.11/site-packages", "/cuwheel/packages").split()
    )


@pytest.mark.parametrize("word", ["-I/env/lib/python3.11/site-packages-2", "-L/env/lib/python3.11"])
def test_leaves_other_folders(word: str, settings: Settings) -> None:
    assert word in nvcc(f"-c a.cu {word}", settings)


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
    "text",
    [
        "-c a.cu b.cu",
        "-o x a.cu",
        "-ptx a.cu",
        "-c a.cu --dryrun",
        "-E a.cu",
        "-M a.cu",
        "-dlink a.o",
        "-lib a.o",
        "--version",
        "-x cu -c -",
        "",
    ],
)
def test_hands_through_what_is_no_compile(text: str, settings: Settings) -> None:
    command = nvcc_command(text.split(), settings)

    assert not command.source
    assert command.words[1 : 1 + len(text.split())] == text.split()


@pytest.mark.parametrize(
    "text", ["a.o -o x", "-E a.c", "-S a.c", "-c -", "-c a.c b.c", "-c a.c -M"]
)
def test_hands_through_what_is_no_compile_of_gcc(text: str, settings: Settings) -> None:
    command = host_command("gcc", text.split(), settings)

    assert not command.source
    assert command.words[: 1 + len(text.split())] == ["/launcher/gated/gcc", *text.split()]


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


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("-L/env/lib/python3.11/site-packages/torch/lib", "-L/cuwheel/packages/torch/lib"),
        ("/env/lib/python3.11/site-packages/torch/lib/libc10.so", None),
        ("-L/env/lib/python3.11/site-packages-of-others", None),
        ("-lc10", None),
    ],
)
def test_links_with_libraries_of_another_machine(
    given: str, wanted: str | None, settings: Settings
) -> None:
    wanted = wanted or given.replace("/env/lib/python3.11/site-packages/", "/cuwheel/packages/")
    settings.moves_libraries = True

    assert host(f"-shared a.o {given}", settings)[2] == wanted
    assert nvcc(f"-shared a.o {given}", settings)[2] == wanted


def test_links_with_own_libraries_where_they_are(settings: Settings) -> None:
    word = "-L/env/lib/python3.11/site-packages/torch/lib"

    assert host(f"-shared a.o {word}", settings)[2] == word
