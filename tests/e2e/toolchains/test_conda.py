"""Conda toolchains as a user has them: lock, install, build, repair, audit, import, all for real.

The channel is a folder on this machine, laid out as conda-forge's (support/toolchain_channel.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import zipfile
from pathlib import Path

import pytest

from cuwheel.base.errors import BuildFailedError
from cuwheel.base.formats.binaries.elf import Elf, read_elf
from cuwheel.base.formats.wheel.metadata import is_library
from cuwheel.base.system.process import run
from cuwheel.build.toolchains.conda.lock_file import read_conda_lock
from cuwheel.build.toolchains.conda_layout import compilers_of, sysroot_of
from tests.recipes.test_jaxmg import SOLVERS, write_project
from tests.recipes.test_jaxmg import STANDIN as JAXMG
from tests.support.engine import PACKAGES, Engine
from tests.support.packages.cuda_packages import TRIPLET
from tests.support.requirements import lack
from tests.support.toolchains.conda_user import User, make_user

pytestmark = pytest.mark.e2e

_UNPROVED = "that a build with a conda toolchain takes no file of the machine's C library"
OWN = "https://conda.anaconda.org/conda-forge"
COMPILER = re.compile(r"(.+-)?(gcc|g\+\+|cc|c\+\+)(-[0-9.]+)?")

# What the tests add to a tiny package so that its build tells which compilers it calls, and which
# files the linker opens: the file, a text in it, and what stands there then.
_CMAKE = """
set(CMAKE_VERBOSE_MAKEFILE ON CACHE BOOL "" FORCE)
target_compile_options({name} PRIVATE --verbose)
target_link_options({name} PRIVATE LINKER:--trace)
install(TARGETS {name}"""
TALKATIVE = {
    name: ("CMakeLists.txt", f"\ninstall(TARGETS {name}", _CMAKE.format(name=name))
    for name in ("tiny_skbuild", "tiny_rdc")
} | {
    "tiny_capi": (
        "setup.py",
        'libraries=["cudart"],',
        'libraries=["cudart"], extra_link_args=["-Wl,--trace"],',
    )
}


@pytest.fixture(scope="module")
def user(module_path: Path, whole_conda_channel: Path, shared_cache: Path) -> User:
    return make_user(module_path / "user", whole_conda_channel, shared_cache)


@pytest.fixture(scope="module")
def home(user: User) -> Path:
    """That toolchain."""
    done = user.run("toolchain", "130", "--toolchain", "conda", "--offline")
    return Path(done.output.splitlines()[-1])


@pytest.fixture(scope="module", params=["tiny-skbuild", "tiny-capi", "tiny-rdc"])
def built(request: pytest.FixtureRequest, user: User, module_path: Path) -> Engine:
    """An engine that has built this package with the conda toolchain, smoke test included."""
    folder = module_path / request.param
    engine = user.engine(folder)
    name = request.param.replace("-", "_")
    source = change_package(name, folder, *TALKATIVE[name])
    options = ("--source", str(source), "--toolchain", "conda", "--keep-work")
    done = engine.build(request.param, *options)
    assert done.status == 0, done.output
    return engine


def change_package(package: str, folder: Path, file: str, text: str, becomes: str) -> Path:
    """A copy of a tiny package with another text in one of its files."""
    copy = folder / package
    shutil.copytree(PACKAGES / package, copy)
    content = (copy / file).read_text()
    assert content.count(text) == 1, f"{file} of {package} is another one"
    (copy / file).write_text(content.replace(text, becomes))
    return copy


def log_of(engine: Engine) -> str:
    """All that a build said."""
    [log] = engine.work.glob("*/logs/build.log")
    return log.read_text()


@pytest.fixture(scope="module")
def standin(user: User, module_path: Path) -> Engine:
    """The same for the package with bitsandbytes' build interface, and for bitsandbytes' recipe."""
    engine = user.engine(module_path / "bitsandbytes")
    source = ("--source", str(PACKAGES / "bitsandbytes_standin"))
    done = engine.build("bitsandbytes", *source, "--toolchain", "conda", "--arch", "90")
    assert done.status == 0, done.output
    return engine


@pytest.fixture(scope="module")
def jaxmg(user: User, module_path: Path) -> Engine:
    """The same for the package with jaxmg's build interface, and for jaxmg's recipe."""
    folder = module_path / "jaxmg"
    project = write_project(folder / "project")
    engine = user.engine(folder)
    done = engine.build(
        "jaxmg",
        "--source",
        str(JAXMG),
        "--toolchain",
        "conda",
        CUWHEEL_PROJECT=os.pathsep.join([str(project), str(user.project)]),
    )
    assert done.status == 0, done.output
    return engine


def test_lock_names_the_channel_and_not_the_mirror(user: User) -> None:
    path = user.project / "envs" / "cuda130" / "conda-lock.yml"

    assert {package.channel for package in read_conda_lock(path).packages} == {OWN}
    assert "file:" not in path.read_text()


def test_second_installation_takes_seconds(user: User) -> None:
    started = time.monotonic()

    done = user.run("toolchain", "130", "--toolchain", "conda", "--offline")

    assert done.status == 0, done.output
    assert time.monotonic() - started < 20


def test_repair_drops_what_the_compiler_adds(built: Engine, home: Path, tmp_path: Path) -> None:
    """conda's GCC writes its own `lib` into the rpath of everything that it links."""
    raw = sorted(built.work.glob("*/built/*.whl"))

    before = [elf.search_path for elf in _libraries(raw, tmp_path / "built")]
    after = [elf.search_path for elf in _libraries(built.wheels(), tmp_path / "repaired")]

    assert [ways for ways in before if f"{home}/lib" not in ways] == []
    assert all(after)
    assert [way for ways in after for way in ways if not way.startswith("$ORIGIN")] == []


def test_libraries_take_cuda_from_wheels(built: Engine, tmp_path: Path) -> None:
    libraries = _libraries(built.wheels(), tmp_path)

    assert all("libcudart.so.13" in elf.needed for elf in libraries)


def test_wheel_names_no_folder_of_this_machine(built: Engine, user: User) -> None:
    [wheel] = built.wheels()

    with zipfile.ZipFile(wheel) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    assert [content for content in contents if bytes(user.cache) in content] == []


def test_build_called_only_compilers_of_the_toolchain(built: Engine, home: Path) -> None:
    """By their paths: a plain name would be another one where `PATH` is another.

    They are the launcher's names for them; what these start in the end is the toolchain's.
    """
    # nvcc puts the folder in quotes, not the name; and it names the language as a compiler.
    text = re.sub(r"[\"']|-x +c\+\+", "", log_of(built))

    words = re.split(r"[\s=,;:()]+", text)
    called = {word for word in words if COMPILER.fullmatch(word.rpartition("/")[2])}

    [launcher] = built.work.glob("*/launcher")
    folders = {Path(word).parent for word in called}
    assert folders
    assert {(folder.parent.name, folder.name) for folder in folders} <= {
        ("launcher", "bin"),
        ("launcher", "gated"),
    }
    assert f"/bin/{TRIPLET}-g++" in (launcher / "gated" / "g++").read_text()
    assert (home / "bin" / f"{TRIPLET}-g++").is_file()


def test_linker_opened_only_files_of_the_toolchain(built: Engine, home: Path) -> None:
    """By its own word; GCC's own parts may be the machine's, its C library may not."""
    skip_without_sysroot(home)
    said = [line for line in log_of(built).splitlines() if re.fullmatch(r"/\S+", line)]

    # In a sandbox the toolchain has another name, and so has the folder of links to it.
    paths = [Path(re.sub(r"^/cuwheel/(toolkit|cuda)\b", str(home), line)) for line in said]
    opened = {path.resolve() for path in paths if path.is_file()}

    assert (sysroot_of(home) / "usr" / "lib64" / "libc.so.6").resolve() in opened
    own = (home, built.work, gcc_folder(home))
    assert [path for path in opened if not any(map(path.is_relative_to, own))] == []


@pytest.mark.parametrize(
    ("package", "file"), [("tiny_skbuild", "src/scale.cu"), ("tiny_capi", "src/native.cpp")]
)
def test_headers_of_the_machine_are_not_found(
    package: str, file: str, user: User, home: Path, tmp_path: Path
) -> None:
    engine = user.engine(tmp_path)
    header = header_of_machine(home)
    first = (PACKAGES / package / file).read_text().splitlines()[0]
    source = change_package(package, tmp_path, file, first, f"#include <{header}>\n{first}")

    done = engine.build(package.replace("_", "-"), "--source", str(source), "--toolchain", "conda")

    assert done.status == BuildFailedError.exit_code
    assert f"{header}: No such file or directory" in log_of(engine)


def test_provenance_names_packages_of_the_channel(built: Engine) -> None:
    [path] = built.dist.glob("*.provenance.json")
    definition = json.loads(path.read_text())["predicate"]["buildDefinition"]

    materials = {one["name"]: one for one in definition["resolvedDependencies"]}
    [nvcc] = [one for name, one in materials.items() if "cuda-nvcc-tools" in name]
    assert nvcc["uri"].startswith(f"{OWN}/linux-64/cuda-nvcc-tools-13.0.88")
    assert len(nvcc["digest"]["sha256"]) == 64


def test_standin_of_bitsandbytes_links_what_the_recipe_declares(
    standin: Engine, tmp_path: Path
) -> None:
    [library] = _libraries(standin.wheels(), tmp_path)

    wanted = {"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12"}
    assert [path.name for path in tmp_path.rglob("*.so")] == ["libbitsandbytes_cuda130.so"]
    assert wanted <= set(library.needed)


@pytest.mark.nightly
def test_standin_of_jaxmg_links_what_the_recipe_declares(jaxmg: Engine, tmp_path: Path) -> None:
    libraries = _libraries(jaxmg.wheels(), tmp_path)

    wanted = {"libcusolver.so.12", "libcusolverMg.so.12", "libcupti.so.13"}
    assert len(libraries) == len(SOLVERS)
    assert [elf.needed for elf in libraries if not wanted <= set(elf.needed)] == []
    assert [elf.needed for elf in libraries if "libstdc++.so.6" in elf.needed] == []


def _libraries(wheels: list[Path], folder: Path) -> list[Elf]:
    """The compiled libraries of the only wheel."""
    [wheel] = wheels
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if is_library(name)]
        archive.extractall(folder, names)
    assert names
    libraries = []
    for name in names:
        with (folder / name).open("rb") as stream:
            libraries.append(read_elf(stream))
    return libraries


def skip_without_sysroot(home: Path) -> None:
    """Skip where the channel could make the sysroot of links only."""
    if (sysroot_of(home) / "usr").is_symlink():
        lack("glibc-package", "no dpkg names the files of this machine's C library", _UNPROVED)


def gcc_folder(home: Path) -> Path:
    """Where the machine's GCC has its own parts."""
    said = run([compilers_of(home)[0], "-print-libgcc-file-name"], env={"PATH": os.defpath})
    return Path(said.output.strip()).resolve().parent


def header_of_machine(home: Path) -> str:
    """A header that lies in `/usr/include` and that no sysroot has."""
    skip_without_sysroot(home)
    headers = sysroot_of(home) / "usr" / "include"
    found = (path.name for path in sorted(Path("/usr/include").glob("*.h")))
    header = next((name for name in found if not (headers / name).exists()), "")
    if not header:
        lack("glibc-package", "there are no headers but those of the C library", _UNPROVED)
    return header
