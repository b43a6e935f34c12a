"""A machine without a network: mirror a small target elsewhere, carry the folder, build."""

from __future__ import annotations

import base64
import http.server
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from cuwheel.base.paths import ROOT
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.pythons import own_python
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.workspace.job import TargetRoot
from tests.support.engine import PACKAGES
from tests.support.packages.foreign_platform import debian_root
from tests.support.requirements import require
from tests.support.secrets import arguments_with, files_with
from tests.support.toolchains.channel import write_solved_lock, write_source
from tests.support.toolchains.small_toolchain import write_small_lock
from tests.support.toolchains.toolchain_channel import toolchain_specs

pytestmark = pytest.mark.e2e

SECRET = "geheim-4711"
SOURCE = "tiny_capi-1.0.0.tar.gz"
NOWHERE = "http://127.0.0.1:9/simple"
TIME_LIMIT = 600.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Site:
    """A machine that has nothing but Python, a compiler and the mirror's folder."""

    home: Path
    mirror: Path

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script in the mirror's folder; nothing of this environment is left."""
        return subprocess.run(
            ["bash", "-ec", script],
            cwd=self.mirror,
            env={
                "HOME": str(self.home),
                "PATH": os.defpath,
                "COLUMNS": "200",
                "CUWHEEL_CACHE": str(self.home / "cache"),
                "PIP_INDEX_URL": NOWHERE,
                "UV_DEFAULT_INDEX": NOWHERE,
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIME_LIMIT,
        )


@pytest.fixture(scope="module")
def mirror(module_path: Path, shared_cache: Path) -> Path:
    """A mirror of a tiny target, with what it was made from gone."""
    folder = module_path / "mirrored"
    return write_mirror(folder, write_project(folder / "ours"), shared_cache)


@pytest.fixture(scope="module")
def conda_mirror(conda_channel: Path, module_path: Path, shared_cache: Path) -> Path:
    """A mirror of the same target with a conda toolchain, and a Python from there too."""
    folder = module_path / "mirrored-conda"
    project = write_project(folder / "ours")
    mirrors = Mirrors.of({MIRRORS_VARIABLE: conda_channel.as_uri()})
    tag = f"python{own_python().release.replace('.', '')}"
    for name, specs in (("cuda130", toolchain_specs(conda_channel)), (tag, ("python",))):
        source = write_source(project / "envs" / name, *specs)
        write_solved_lock(source, mirrors, shared_cache)
    options, variables = ("--toolchain", "conda"), {MIRRORS_VARIABLE: conda_channel.as_uri()}
    return write_mirror(folder, project, shared_cache, *options, **variables)


def write_mirror(folder: Path, project: Path, cache: Path, *options: str, **variables: str) -> Path:
    """Mirror the project's target, then remove the project."""
    command = ("mirror", "tiny-capi-130", "--to", str(folder / "mirror"), *options)
    done = subprocess.run(
        [sys.executable, "-m", "cuwheel", *command],
        cwd=ROOT,
        env={
            **os.environ,
            "CUWHEEL_PROJECT": str(project),
            "CUWHEEL_CACHE": str(cache),
            "COLUMNS": "200",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    shutil.rmtree(project)
    return folder / "mirror"


def write_project(folder: Path) -> Path:
    """A recipe with a source that can be had, and the toolchain's lock cut to the compiler."""
    for name in ("recipes", "envs/build"):
        (folder / name).mkdir(parents=True)
    source = folder / "tiny_capi-1.0.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        archive.add(PACKAGES / "tiny_capi", "tiny_capi-1.0.0")
    tests = ROOT / "tests" / "project"
    recipe = (tests / "recipes" / "tiny_capi.py").read_text()
    recipe = recipe.replace("http://127.0.0.1:9/tiny_capi-{version}.tar.gz", source.as_uri())
    recipe = recipe.replace('"0" * 64', f'"{sha256_of_file(source)}"')
    (folder / "recipes" / "tiny_capi.py").write_text(recipe)
    shutil.copy(tests / "envs" / "build" / "tiny_capi.lock", folder / "envs" / "build")
    write_small_lock(folder)
    return folder


@pytest.fixture(scope="module")
def arm64_root(shared_cache: Path) -> TargetRoot:
    for part in ("cross-gcc", "qemu"):
        require(part, "that a mirror is enough for a build for arm64")
    return debian_root(shared_cache)


@pytest.fixture(scope="module")
def arm64_mirror(arm64_root: TargetRoot, module_path: Path, shared_cache: Path) -> Path:
    """A mirror of the same target for arm64."""
    folder = module_path / "mirrored-arm64"
    options = ("--platform", "linux_aarch64", "--python", arm64_root.release)
    return write_mirror(folder, write_project(folder / "ours"), shared_cache, *options)


@pytest.fixture
def site(mirror: Path, tmp_path: Path) -> Site:
    return Site(home=tmp_path, mirror=mirror)


@pytest.fixture
def address(mirror: Path) -> Iterator[str]:
    """The mirror over HTTP on loopback."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def commands(mirror: Path) -> str:
    """What README.txt tells to type, with the Python that this test runs in."""
    text = (mirror / "README.txt").read_text()
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return "\n".join(lines).replace("python3 ", f"{Path(sys.executable).resolve()} ")


def run_cut_off(site: Site, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script where there is no network interface but loopback."""
    cut = ("unshare", "--net", "--user", "--map-root-user")
    require("namespaces", "that a mirror is enough for a machine without a network")
    path = site.home / "as-in-readme.sh"
    only_loopback = "import socket; assert [name for _, name in socket.if_nameindex()] == ['lo']"
    path.write_text(f'{sys.executable} -c "{only_loopback}"\n{script}')
    return site.run(" ".join([*cut, "bash", "-e", str(path)]))


def test_builds_without_network(site: Site) -> None:
    done = run_cut_off(site, commands(site.mirror))

    assert done.returncode == 0, done.stdout
    assert len(list((site.home / "cuwheel" / "dist").glob("tiny_capi-1.0.0*.whl"))) == 1


@pytest.mark.nightly
def test_builds_with_conda_toolchain_without_network(conda_mirror: Path, tmp_path: Path) -> None:
    site = Site(home=tmp_path, mirror=conda_mirror)
    script = commands(conda_mirror)

    done = run_cut_off(site, script)

    assert "--toolchain conda" in script
    assert done.returncode == 0, done.stdout
    [statement] = (site.home / "cuwheel" / "dist").glob("tiny_capi-1.0.0*.provenance.json")
    assert "https://conda.anaconda.org/conda-forge/linux-64/cuda-nvcc-13" in statement.read_text()


@pytest.mark.nightly
def test_builds_for_arm64_without_network(
    arm64_mirror: Path, arm64_root: TargetRoot, tmp_path: Path
) -> None:
    site = Site(home=tmp_path, mirror=arm64_mirror)
    script = commands(arm64_mirror).replace("/path/to/root", str(arm64_root.folder))

    done = run_cut_off(site, script)

    assert done.returncode == 0, done.stdout
    assert "run with qemu-aarch64" in done.stdout
    [wheel] = (site.home / "cuwheel" / "dist").glob("tiny_capi-1.0.0*.whl")
    assert wheel.name.endswith("_aarch64.whl")


@pytest.mark.nightly
def test_builds_from_served_mirror(site: Site, address: str) -> None:
    script = commands(site.mirror).replace("file://$PWD", address).replace(" --offline", "")

    done = site.run(script)

    assert done.returncode == 0, done.stdout
    assert len(list((site.home / "cuwheel" / "dist").glob("tiny_capi-1.0.0*.whl"))) == 1


class _Guarded(http.server.SimpleHTTPRequestHandler):
    """Gives a mirror, and the source at an address of its own, to who has the password."""

    def do_GET(self) -> None:
        login = base64.b64encode(f"me:{SECRET}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {login}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.command == "HEAD":
            super().do_HEAD()
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()

    def translate_path(self, path: str) -> str:
        name = path.partition("?")[0]
        [source] = Path(self.directory).glob(f"downloads/*/{SOURCE}")
        if name == f"/source/{SOURCE}":
            return str(source)
        return super().translate_path("/none" if name.endswith(f"/{SOURCE}") else path)


@pytest.fixture
def guarded(mirror: Path) -> Iterator[str]:
    """The mirror, and the source, behind a password: the server's address with it."""
    handler = partial(_Guarded, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:{SECRET}@127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.nightly
def test_password_of_source_and_mirror_is_seen_nowhere(site: Site, guarded: str) -> None:
    project = site.home / "project"
    shutil.copytree(site.mirror / "projects" / "ours", project)
    recipe = project / "recipes" / "tiny_capi.py"
    address = f"{guarded}/source/tiny_capi-{{version}}.tar.gz?token={SECRET}"
    recipe.write_text(re.sub(r"file://[^\"]*", address, recipe.read_text()))
    lines = commands(site.mirror).replace(" --offline", "").splitlines()
    script = "\n".join(line for line in lines if "export" not in line)

    with arguments_with(SECRET) as seen:
        done = site.run(script, CUWHEEL_MIRROR=guarded, CUWHEEL_PROJECT=str(project))

    assert done.returncode == 0, done.stdout
    assert SECRET not in done.stdout
    assert seen == set()
    assert list((site.home / "cuwheel" / "dist").glob(".cuwheel/*.json"))
    assert files_with(SECRET, site.home / "cuwheel") == []


@pytest.mark.nightly
def test_names_what_the_mirror_lacks(site: Site) -> None:
    script = commands(site.mirror).replace("build-tiny-capi-130", "build-causal-conv1d-130")

    done = site.run(script)

    assert done.returncode != 0
    assert "is not in the cache" in done.stdout
    assert "--offline is set" in done.stdout
