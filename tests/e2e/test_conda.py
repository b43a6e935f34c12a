"""Conda toolchains as a user has them: lock, install, build, repair, audit, import, all for real.

The channel is a folder on this machine, laid out as conda-forge's (tests/toolchain_channel.py).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import site
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.condahome import compilers_of, sysroot_of
from cuwheel.condalock import read_conda_lock
from cuwheel.elf import read_elf
from cuwheel.errors import BuildFailedError, DownloadError, InterpreterNotFoundError
from cuwheel.files import sha256_of_file
from cuwheel.mirrors import VARIABLE
from cuwheel.paths import ROOT
from cuwheel.process import run
from cuwheel.pythons import find_python, own_python
from tests.channel import write_source
from tests.cuda_packages import TRIPLET
from tests.engine import PACKAGES, Engine, Outcome
from tests.server import Site, serving
from tests.test_jaxmg import SOLVERS, write_project
from tests.test_jaxmg import STANDIN as JAXMG
from tests.toolchain_channel import toolchain_specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.elf import Elf
    from cuwheel.pythons import Interpreter

pytestmark = pytest.mark.e2e

OWN = "https://conda.anaconda.org/conda-forge"
HOSTILE = "ran-a-program-of-the-caller"
TAG = own_python().release.replace(".", "")
COMPILER = re.compile(r"(.+-)?(gcc|g\+\+|cc|c\+\+)(-[0-9.]+)?")
LIMIT = 60  # seconds for a command that can't reach its channel to say so

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


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody with a project whose toolchain comes from the channel.

    Attributes:
        project: their folder.
        cache: their cache.
        channel: the mirror that they name.
    """

    project: Path
    cache: Path
    channel: str

    def run(self, *words: str) -> Outcome:
        """Run a command of cuwheel."""
        done = subprocess.run(
            [sys.executable, "-m", "cuwheel", *words],
            env={**os.environ, "CUWHEEL_CACHE": str(self.cache), **self.variables},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Outcome(status=done.returncode, output=done.stdout)

    @property
    def variables(self) -> dict[str, str]:
        """What they have set."""
        return {"CUWHEEL_PROJECT": self._projects, VARIABLE: self.channel, "COLUMNS": "200"}

    @property
    def _projects(self) -> str:
        return os.pathsep.join([str(self.project), str(ROOT / "tests" / "project")])

    def engine(self, folder: Path) -> Engine:
        """The engine with their settings, and folders of a test's own."""
        return Engine(
            python=Path(sys.executable),
            cache=self.cache,
            work=folder / "work",
            dist=folder / "dist",
            project=self.project,
            variables=self.variables,
        )


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, conda_channel: Path, shared_cache: Path) -> User:
    """A user who has locked and installed the toolchain."""
    project = tmp_path_factory.mktemp("user")
    write_source(project / "envs" / "cuda130", *toolchain_specs(conda_channel))
    write_source(project / "envs" / f"python{TAG}", "python")
    made = User(project=project, cache=shared_cache, channel=conda_channel.as_uri())
    for words in (
        ("lock", "toolchain:130:conda", f"python:{TAG}"),
        ("lock-check",),
        ("toolchain", "130", "--toolchain", "conda"),
    ):
        done = made.run(*words)
        assert done.status == 0, done.output
    return made


@pytest.fixture(scope="module")
def home(user: User) -> Path:
    """That toolchain."""
    done = user.run("toolchain", "130", "--toolchain", "conda", "--offline")
    return Path(done.output.splitlines()[-1])


@pytest.fixture(scope="module", params=["tiny-skbuild", "tiny-capi", "tiny-rdc"])
def built(
    request: pytest.FixtureRequest, user: User, tmp_path_factory: pytest.TempPathFactory
) -> Engine:
    """An engine that has built this package with the conda toolchain, smoke test included."""
    folder = tmp_path_factory.mktemp(request.param)
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
def standin(user: User, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The same for the package with bitsandbytes' build interface, and for bitsandbytes' recipe."""
    engine = user.engine(tmp_path_factory.mktemp("bitsandbytes"))
    source = ("--source", str(PACKAGES / "bitsandbytes_standin"))
    done = engine.build("bitsandbytes", *source, "--toolchain", "conda", "--arch", "90")
    assert done.status == 0, done.output
    return engine


@pytest.fixture(scope="module")
def jaxmg(user: User, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The same for the package with jaxmg's build interface, and for jaxmg's recipe."""
    folder = tmp_path_factory.mktemp("jaxmg")
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


@pytest.fixture(scope="module")
def system_python() -> Interpreter:
    """A Python of the distribution that extensions can be compiled against."""
    try:
        found = find_python("/usr/bin/python3", os.environ)
    except InterpreterNotFoundError:
        pytest.skip("this machine has no /usr/bin/python3")
    if not found.is_of_system or not (found.include / "Python.h").is_file():
        pytest.skip(f"{found.include} holds no Python.h of the system")
    return found


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
    """By their paths: a plain name would be another one where `PATH` is another."""
    text = re.sub(r"-x +c\+\+", "", log_of(built))  # nvcc names the language so

    words = re.split(r"[\s\"'=,;:()]+", text)
    called = {word for word in words if COMPILER.fullmatch(word.rpartition("/")[2])}

    assert called == {f"{home}/bin/{TRIPLET}-g++"}


def test_linker_opened_only_files_of_the_toolchain(built: Engine, home: Path) -> None:
    """By its own word; GCC's own parts may be the machine's, its C library may not."""
    skip_without_sysroot(home)
    said = [Path(line) for line in log_of(built).splitlines() if re.fullmatch(r"/\S+", line)]

    opened = {path.resolve() for path in said if path.is_file()}

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


def test_standin_of_bitsandbytes_is_built(standin: Engine) -> None:
    [wheel] = standin.wheels()

    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
    assert libraries == ["bitsandbytes/libbitsandbytes_cuda130.so"]


def test_standin_of_bitsandbytes_links_what_the_recipe_declares(
    standin: Engine, tmp_path: Path
) -> None:
    [library] = _libraries(standin.wheels(), tmp_path)

    wanted = {"libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12"}
    assert wanted <= set(library.needed)


def test_standin_of_jaxmg_links_what_the_recipe_declares(jaxmg: Engine, tmp_path: Path) -> None:
    libraries = _libraries(jaxmg.wheels(), tmp_path)

    wanted = {"libcusolver.so.12", "libcusolverMg.so.12", "libcupti.so.13"}
    assert len(libraries) == len(SOLVERS)
    assert [elf.needed for elf in libraries if not wanted <= set(elf.needed)] == []


def test_standin_of_jaxmg_holds_its_cxx_library(jaxmg: Engine, tmp_path: Path) -> None:
    libraries = _libraries(jaxmg.wheels(), tmp_path)

    assert [elf.needed for elf in libraries if "libstdc++.so.6" in elf.needed] == []


def test_python_of_system_is_refused(
    user: User, system_python: Interpreter, tmp_path: Path
) -> None:
    engine, path = user.engine(tmp_path), system_python.path

    done = engine.build("tiny-capi", "--toolchain", "conda", "--python", str(path))

    assert done.status != 0
    assert f"{path} can't be compiled against with a conda toolchain" in done.output
    assert f"-- --python {system_python.release}" in done.output
    assert not list(engine.work.glob("*/logs/build.log"))


@pytest.mark.parametrize("asks", [False, True], ids=["own", "asked for"])
def test_python_of_lock_is_taken_for_that_of_system(
    user: User, system_python: Interpreter, tmp_path: Path, *, asks: bool
) -> None:
    """nox runs with the system's Python, or somebody asks for its release."""
    if system_python.release != own_python().release:
        pytest.skip(f"the engine's packages are not for Python {system_python.release}")
    engine = dataclasses.replace(user.engine(tmp_path), python=system_python.path)
    options = ("--python", system_python.release) if asks else ()

    done = engine.build(
        "tiny-capi",
        *(*options, "--toolchain", "conda", "--keep-work"),
        PYTHONPATH=os.pathsep.join(site.getsitepackages()),
    )

    assert done.status == 0, done.output
    assert f"the headers of {system_python.path} don't go with this toolchain" in done.output
    [record] = engine.work.glob("*/stages/environment.json")
    assert json.loads(record.read_text())["base_python"] == str(own_python().path)


def test_python_of_system_serves_what_needs_no_headers(
    user: User, system_python: Interpreter, tmp_path: Path
) -> None:
    options = ("--toolchain", "conda", "--stage", "preflight")

    done = user.engine(tmp_path).build(
        "tiny-skbuild", *options, "--python", str(system_python.path)
    )

    assert done.status == 0, done.output


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A caller with an older nvcc, a newer GCC and settings of their own; each leaves a trace."""
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    trace = tmp_path / HOSTILE
    versions = {"nvcc": "release 12.1, V12.1.105", "g++": "g++ (GCC) 99.1.0"}
    for name in (*versions, "gcc", "cc", "c++", "ld", "cmake", "ninja", "ptxas", "cicc"):
        program = fakes / name
        said = versions.get(name, "99.1.0")
        program.write_text(f"#!/bin/sh\necho {name} >> {trace}\necho '{said}'\nexit 1\n")
        program.chmod(0o755)
    yield {
        "PATH": f"{fakes}:{os.environ['PATH']}",
        "CC": str(fakes / "gcc"),
        "CXX": str(fakes / "g++"),
        "CUDAHOSTCXX": str(fakes / "g++"),
        "NVCC_CCBIN": str(fakes / "g++"),
        "CUDA_HOME": str(tmp_path / "cuda-12.1"),
        "CUDA_PATH": str(tmp_path / "cuda-12.1"),
        "CUDACXX": str(fakes / "nvcc"),
        "CMAKE_ARGS": f"-DCMAKE_CUDA_COMPILER={fakes / 'nvcc'}",
        "NVCC_PREPEND_FLAGS": "--allow-unsupported-compiler",
        "NVCC_APPEND_FLAGS": "-DHOSTILE",
        "CXXFLAGS": "-DHOSTILE",
        "CPATH": str(fakes),
        "LIBRARY_PATH": str(fakes),
        "CONDA_PREFIX": str(fakes),
    }
    assert not trace.exists(), trace.read_text()


@pytest.mark.parametrize("name", ["tiny-skbuild", "tiny-capi"])
def test_nothing_of_the_callers_gets_in(
    name: str, user: User, hostile: dict[str, str], tmp_path: Path
) -> None:
    """The wheel is the same, byte for byte, and no program of the caller's has run."""
    quiet, loud = user.engine(tmp_path / "quiet"), user.engine(tmp_path / "loud")
    undisturbed = quiet.build(name, "--toolchain", "conda")

    disturbed = loud.build(name, "--toolchain", "conda", **hostile)

    assert (undisturbed.status, disturbed.status) == (0, 0), disturbed.output
    digests = [sha256_of_file(wheel) for wheel in (*quiet.wheels(), *loud.wheels())]
    assert digests[0] == digests[1]


def test_channel_out_of_reach_ends_soon_and_leaves_nothing(
    user: User, tmp_path: Path, shared_cache: Path
) -> None:
    """The best-known command where there is no way to the channel: port 9 takes no connection."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "uv").symlink_to(shared_cache / "uv")
    lost = User(project=user.project, cache=cache, channel="http://127.0.0.1:9/conda-forge")
    started = time.monotonic()

    done = lost.run("toolchain", "122")

    assert time.monotonic() - started < 30
    assert done.status != 0
    assert [way for way in (VARIABLE, "nox -s mirror") if way not in done.output] == []
    left = [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size]
    assert left == []


def test_channel_that_falls_silent_is_given_up(
    user: User, tmp_path: Path, shared_cache: Path
) -> None:
    """It answers HEAD, and then nothing more: some proxies do so."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "uv").symlink_to(shared_cache / "uv")
    started = time.monotonic()

    with serving(Site(is_mute=True)) as mute:
        lost = User(project=user.project, cache=cache, channel=mute.url("/conda-forge"))
        done = lost.run("toolchain", "130", "--toolchain", "conda")

    assert time.monotonic() - started < LIMIT
    assert done.status == DownloadError.exit_code, done.output
    assert [way for way in (VARIABLE, "nox -s mirror") if way not in done.output] == []
    assert [path for path in cache.rglob("*") if path.is_file() and path.stat().st_size] == []


def _libraries(wheels: list[Path], folder: Path) -> list[Elf]:
    """The compiled libraries of the only wheel."""
    [wheel] = wheels
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".so" in name]
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
        pytest.skip("this machine has no dpkg that names the files of its C library")


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
    return header or pytest.skip("this machine has no header beside those of its C library")
