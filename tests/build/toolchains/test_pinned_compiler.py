"""Host compilers from Debian packages, as they are installed: real ones of Debian 11 and 12."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import pytest

from cuwheel.base.errors import CommandFailedError, LockError, ToolchainError
from cuwheel.base.formats.binaries.elf import Elf, read_elf
from cuwheel.base.system.process import run
from cuwheel.base.system.versions import version_key
from cuwheel.build.toolchains.host_compiler import compiler_lock
from cuwheel.build.toolchains.pinned_compiler import add_compiler
from cuwheel.build.workspace.records import Toolchain
from tests.support.factories import make_workspace
from tests.support.requirements import require

_SOURCE = """\
#include <stdexcept>
#include <string>
extern "C" int length(const char *text) {
    if (!text) throw std::runtime_error("nothing");
    return std::string(text).size();
}
"""
_CUDA = """\
__global__ void fill(int *a) { *a = 1; }
extern "C" void go(int *a) { fill<<<1, 1>>>(a); }
"""
NAMES = ("gcc10", "gcc12")


@pytest.fixture
def home(cuda_home: Path) -> Toolchain:
    return Toolchain(
        home=cuda_home, version="13.0.88", provider="pypi", fingerprint="f" * 64, pinned=True
    )


@pytest.fixture(params=NAMES)
def toolchain(
    request: pytest.FixtureRequest, home: Toolchain, shared_cache: Path, tmp_path: Path
) -> Toolchain:
    """The small CUDA 13.0 with each of the pinned compilers."""
    require("debian-archive", "that compilers from Debian packages work")
    workspace = make_workspace(tmp_path, cache=shared_cache)
    return add_compiler(home, request.param, workspace, offline=False, reads_all=False)


def compile_library(toolchain: Toolchain, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "length.cpp").write_text(_SOURCE)
    library = folder / "liblength.so"
    argv: list[str | Path] = ["-O2", "-shared", "-fPIC", folder / "length.cpp", "-o", library]
    # No PATH: nothing of the machine is found.
    run([toolchain.cxx or "", *argv], env={"TMPDIR": str(folder)})
    return library


def elf_of(library: Path) -> Elf:
    with library.open("rb") as stream:
        return read_elf(stream)


def test_compiles_without_the_machine(toolchain: Toolchain, tmp_path: Path) -> None:
    library = compile_library(toolchain, tmp_path)

    needed = {version for _, version in elf_of(library).versions}
    assert max(version_key(v.removeprefix("GLIBC_")) for v in needed if "GLIBC_" in v) <= (2, 17)
    assert any(version.startswith("GLIBCXX_") for version in needed)


def test_programs_run_with_their_own_loader(toolchain: Toolchain) -> None:
    assert toolchain.compiler
    output = run([toolchain.compiler / "gcc", "-print-prog-name=cc1plus"], env={}).output.strip()

    shown = run([_loader(toolchain), "--list", output], env={}).output

    libraries = [line.split("=>")[1].split()[0] for line in shown.splitlines() if "=>" in line]
    assert libraries
    assert all(library.startswith(str(toolchain.compiler)) for library in libraries)


def _loader(toolchain: Toolchain) -> Path:
    assert toolchain.compiler
    return next((toolchain.compiler / "root").glob("lib*/ld-linux-*"))


def test_nvcc_takes_it(toolchain: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "fill.cu").write_text(_CUDA)
    library = tmp_path / "libfill.so"
    nvcc = toolchain.home / "bin" / "nvcc"
    argv: list[str | Path] = ["-ccbin", toolchain.cxx or "", "-arch=sm_90", "-cudart=shared"]
    argv += ["-shared", "-Xcompiler=-fPIC", tmp_path / "fill.cu", "-o", library]

    run([nvcc, *argv], env={"PATH": os.defpath, "TMPDIR": str(tmp_path)})

    assert "libcudart.so.13" in elf_of(library).needed


def test_python_headers_of_the_system_are_found(toolchain: Toolchain) -> None:
    assert toolchain.libraries
    links = [*(toolchain.libraries.parents[1] / "include").glob("*-linux-gnu/python3.*")]

    assert {str(link.readlink()) for link in links} >= {
        f"/usr/include/{toolchain.libraries.name}/python3.11"
    }


@pytest.mark.parametrize(
    "words",
    [
        ("-L{libraries}", "-I/usr/include"),
        ("-L", "{libraries}", "-isystem", "/usr/include"),
        ("-isystem/usr/include/", "-L/lib/{triplet}", "-L/usr/local/lib"),
        ("-I/usr/include/{triplet}", "-idirafter", "/usr/include", "-L/usr/lib/"),
        ("-Wl,-L/usr/lib/{triplet}", "-B/usr/lib/{triplet}", "-B", "/usr/bin"),
    ],
)
def test_takes_nothing_of_the_machine(
    toolchain: Toolchain, words: tuple[str, ...], tmp_path: Path
) -> None:
    """Extensions for a system's Python are linked with `-L` and the folder of its libraries."""
    assert toolchain.compiler
    assert toolchain.libraries
    triplet = toolchain.libraries.name
    source, library = tmp_path / "two words.c", tmp_path / "sine.so"
    source.write_text("#include <math.h>\ndouble f(double x) { return sin(x); }\n")
    folders = [word.format(libraries=f"/usr/lib/{triplet}", triplet=triplet) for word in words]

    argv: list[str | Path] = ["-H", "-shared", "-fPIC", source, *folders, "-lm", "-Wl,--trace"]
    named = {"CPATH": "/usr/include", "LIBRARY_PATH": f"/usr/lib/{triplet}"}
    env = {"TMPDIR": str(tmp_path), **named}
    done = run([toolchain.compiler / "gcc", *argv, "-o", library], env=env)

    lines = [line.lstrip(". ") for line in done.output.splitlines()]
    opened = [line for line in lines if line.startswith("/")]
    assert any("math.h" in line for line in opened)
    assert any("libm" in line for line in opened)
    assert all(line.startswith((str(toolchain.compiler), str(tmp_path))) for line in opened)


@pytest.mark.parametrize("word", ["@{file}", "-Wl,@{file}", "-Wl,-O1,-L/usr/lib"])
def test_refuses_what_it_cannot_redirect(toolchain: Toolchain, word: str, tmp_path: Path) -> None:
    assert toolchain.compiler
    file = tmp_path / "options"
    file.write_text("-O1\n-L/usr/lib/x86_64-linux-gnu -lm\n")

    with pytest.raises(CommandFailedError) as caught:
        run([toolchain.compiler / "gcc", word.format(file=file)], env={"TMPDIR": str(tmp_path)})

    assert "doesn't read the machine's folders" in "\n".join(caught.value.tail)


def test_takes_files_of_options(toolchain: Toolchain, tmp_path: Path) -> None:
    assert toolchain.compiler
    (tmp_path / "empty.c").touch()
    options = tmp_path / "options"
    options.write_text(f"-c {tmp_path}/empty.c -I/usr/include/python3.11\n-o {tmp_path}/empty.o")

    run([toolchain.compiler / "gcc", f"@{options}"], env={"TMPDIR": str(tmp_path)})

    assert (tmp_path / "empty.o").is_file()


def test_takes_headers_of_a_python_in_usr_local(toolchain: Toolchain, tmp_path: Path) -> None:
    """As in images of Python: only the folders of a system are those of the root."""
    assert toolchain.compiler
    (tmp_path / "empty.c").touch()
    folder = "/usr/local/include/python3.12"

    argv: list[str | Path] = ["-v", "-c", tmp_path / "empty.c", f"-I{folder}", "-o"]
    shown = run(
        [toolchain.compiler / "gcc", *argv, tmp_path / "empty.o"], env={"TMPDIR": str(tmp_path)}
    )

    assert f'ignoring nonexistent directory "{folder}"' in shown.output


def test_compiles_other_character_sets(toolchain: Toolchain, tmp_path: Path) -> None:
    assert toolchain.compiler
    (tmp_path / "latin.c").write_bytes('const char *s = "\xe9";'.encode("latin-1"))
    argv: list[str | Path] = ["-finput-charset=ISO-8859-1", "-S", tmp_path / "latin.c", "-o"]

    run([toolchain.compiler / "gcc", *argv, tmp_path / "latin.s"], env={"TMPDIR": str(tmp_path)})

    assert "\\303\\251" in (tmp_path / "latin.s").read_text()


def test_passes_each_word_on(toolchain: Toolchain, tmp_path: Path) -> None:
    words = ("", "a b", "it's", "$HOME", '-DX="y z"', "*", "new\nline", "-I/usr/include/python3.11")
    assert toolchain.compiler
    wrapper = (toolchain.compiler / "gcc").read_text()
    name = re.search(r"/usr/bin/([\w.-]+-gcc-\d+)", wrapper)
    assert name
    for path, text in (
        (tmp_path / "gcc", wrapper),
        (tmp_path / "root" / "usr" / "bin" / name[1], '#!/bin/sh\nprintf "%s\\0" "$@"\n'),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    done = run([tmp_path / "gcc", *words], env={})

    assert done.output.split("\0")[2:-1] == list(words)


def test_statement_names_each_package(toolchain: Toolchain) -> None:
    names = {name for name, *_ in toolchain.packages}

    assert {"Debian package libc6-dev", "Debian package binutils"} <= names


@pytest.mark.e2e
def test_same_toolchain_from_either_cache(
    home: Toolchain, shared_cache: Path, tmp_path: Path
) -> None:
    """The path of the cache gets into programs, but not into what identifies them."""
    require("debian-archive", "that compilers from Debian packages work")
    (tmp_path / "downloads").symlink_to(shared_cache / "downloads")
    of_cache = [
        add_compiler(
            home, "gcc10", make_workspace(tmp_path, cache=cache), offline=False, reads_all=False
        )
        for cache in (shared_cache, tmp_path)
    ]

    assert of_cache[0].fingerprint == of_cache[1].fingerprint
    libraries = [
        compile_library(toolchain, tmp_path / str(number))
        for number, toolchain in enumerate(of_cache)
    ]
    assert libraries[0].read_bytes() == libraries[1].read_bytes()


def test_refuses_one_that_nvcc_rejects(home: Toolchain, shared_cache: Path, tmp_path: Path) -> None:
    """CUDA 11.8 takes GCC up to 11."""
    require("debian-archive", "that compilers from Debian packages work")
    header = tmp_path / "home" / "include" / "crt" / "host_config.h"
    header.parent.mkdir(parents=True)
    header.write_text("#if __GNUC__ > 11\n#error\n#endif\n")
    older = dataclasses.replace(home, home=tmp_path / "home", version="11.8.89")
    workspace = make_workspace(tmp_path, cache=shared_cache)

    with pytest.raises(ToolchainError) as caught:
        add_compiler(older, "gcc12", workspace, offline=False, reads_all=False)

    assert "GCC up to 11" in caught.value.why
    assert "--host-compiler gcc10" in caught.value.fix


def test_names_the_missing_lock(tmp_path: Path) -> None:
    with pytest.raises(LockError) as caught:
        compiler_lock("gcc99", make_workspace(tmp_path))

    assert caught.value.fix == "nox -s lock -- host-compiler:gcc99"
