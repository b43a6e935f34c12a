"""Conda toolchains as a user has them: lock, install, build, repair, audit, import, all for real.

The channel is a folder on this machine, laid out as conda-forge's (tests/toolchain_channel.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.condalock import read_conda_lock
from cuwheel.elf import read_elf
from cuwheel.files import sha256_of_file
from cuwheel.mirrors import VARIABLE
from cuwheel.paths import ROOT
from tests.channel import write_source
from tests.cuda_packages import TRIPLET
from tests.engine import PACKAGES, Engine, Outcome
from tests.toolchain_channel import toolchain_specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuwheel.elf import Elf

pytestmark = pytest.mark.e2e

OWN = "https://conda.anaconda.org/conda-forge"
HOSTILE = "ran-a-program-of-the-caller"


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
    made = User(project=project, cache=shared_cache, channel=conda_channel.as_uri())
    for words in (
        ("lock", "toolchain:130:conda"),
        ("lock-check",),
        ("toolchain", "130", "--toolchain", "conda"),
    ):
        done = made.run(*words)
        assert done.status == 0, done.output
    return made


@pytest.fixture(scope="module", params=["tiny-skbuild", "tiny-capi", "tiny-rdc"])
def built(
    request: pytest.FixtureRequest, user: User, tmp_path_factory: pytest.TempPathFactory
) -> Engine:
    """An engine that has built this package with the conda toolchain, smoke test included."""
    engine = user.engine(tmp_path_factory.mktemp(request.param))
    done = engine.build(request.param, "--toolchain", "conda", "--keep-work")
    assert done.status == 0, done.output
    return engine


@pytest.fixture(scope="module")
def standin(user: User, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The same for the package with bitsandbytes' build interface, and for bitsandbytes' recipe."""
    engine = user.engine(tmp_path_factory.mktemp("bitsandbytes"))
    source = ("--source", str(PACKAGES / "bitsandbytes_standin"))
    done = engine.build("bitsandbytes", *source, "--toolchain", "conda", "--arch", "90")
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


def test_repair_drops_what_the_compiler_adds(built: Engine, user: User, tmp_path: Path) -> None:
    """conda's GCC writes its own `lib` into the rpath of everything that it links."""
    raw = sorted(built.work.glob("*/built/*.whl"))

    before = [elf.search_path for elf in _libraries(raw, tmp_path / "built")]
    after = [elf.search_path for elf in _libraries(built.wheels(), tmp_path / "repaired")]

    assert all(way.startswith(str(user.cache)) for ways in before for way in ways[-1:])
    assert all(way.startswith("$ORIGIN") for ways in after for way in ways)


def test_libraries_take_cuda_from_wheels(built: Engine, tmp_path: Path) -> None:
    libraries = _libraries(built.wheels(), tmp_path)

    assert all("libcudart.so.13" in elf.needed for elf in libraries)


def test_wheel_names_no_folder_of_this_machine(built: Engine, user: User) -> None:
    [wheel] = built.wheels()

    with zipfile.ZipFile(wheel) as archive:
        contents = [archive.read(name) for name in archive.namelist()]
    assert [content for content in contents if bytes(user.cache) in content] == []


def test_build_called_only_compilers_of_the_toolchain(built: Engine) -> None:
    [log] = built.work.glob("*/logs/build.log")
    text = log.read_text()

    assert f"{TRIPLET}-g" in text
    machines = ("/usr/bin/g++", "/usr/bin/gcc", "/usr/bin/c++", "/usr/bin/cc", "/usr/local")
    assert [compiler for compiler in machines if compiler in text] == []


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
