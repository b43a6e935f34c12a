"""The package index of a folder of wheels, which real installers read."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cuwheel.base.errors import UsageError, WheelIndexError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.files import sha256_of_file
from cuwheel.base.system.folders.output_folder import MARKER
from cuwheel.build.wheelhouse.folder_index import write_index
from tests.support.packages.toy_wheel import add_wheel
from tests.support.requirements import require
from tests.support.servers.http import running


class Handler(http.server.SimpleHTTPRequestHandler):
    requests: list[str]

    def log_message(self, *_: object) -> None:
        self.requests.append(self.path)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a folder over HTTP on loopback, and the list of requested paths."""
    requests: list[str] = []
    kind = type("Recording", (Handler,), {"requests": requests})
    bound = functools.partial(kind, directory=str(folder))
    with running(http.server.ThreadingHTTPServer(("127.0.0.1", 0), bound)) as address:
        yield address, requests


@pytest.fixture(scope="session")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has pip; virtualenv carries it along, nothing is downloaded."""
    folder = tmp_path_factory.mktemp("pip") / "environment"
    options = ("--quiet", "--no-periodic-update", str(folder))
    env = {"PATH": os.defpath, "HOME": str(folder.parent)}
    process.run([sys.executable, "-m", "virtualenv", *options], env=env)
    return folder / "bin" / "python"


Install = Callable[..., process.Finished]


@pytest.fixture
def pip_install(pip: Path, tmp_path: Path) -> Install:
    """Install with pip from an address into `site`; without arguments the project toy."""
    command = (pip, "-m", "pip", "install", "--no-cache-dir", "--target", tmp_path / "site")
    return functools.partial(run_installer, command)


@pytest.fixture
def uv_install(tmp_path: Path) -> Install:
    """Install with uv from an address into `site`; without arguments the project toy."""
    uv = Path(sys.executable).with_name("uv")
    command = (uv, "pip", "install", "--python", sys.executable, "--no-cache")
    return functools.partial(run_installer, (*command, "--target", tmp_path / "site"))


def run_installer(command: Sequence[str | Path], address: str, *arguments: str) -> process.Finished:
    env = {"PATH": os.defpath, "HOME": "/nonexistent", "PIP_CONFIG_FILE": os.devnull}
    argv = [*command, "--index-url", address, *(arguments or ("toy",))]
    return process.run(argv, env=env, check=False)


@pytest.mark.parametrize(
    ("installer", "path", "version"),
    [
        pytest.param("pip_install", "dist", "1.0", marks=pytest.mark.e2e),
        ("uv_install", "dist", "1.0"),
        ("pip_install", "a/dist", "1.0+cu130torch2.11"),
        ("uv_install", "a/dist", "1.0+cu130torch2.11"),
    ],
)
def test_installs_from_served_folder(
    installer: str, path: str, version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    add_wheel(tmp_path / "www" / path, version)
    write_index(tmp_path / "www" / path)

    with served(tmp_path / "www") as (address, _):
        done = request.getfixturevalue(installer)(f"{address}/{path}/simple/")

    assert version in (tmp_path / "site" / "toy.py").read_text(), done.output


@pytest.mark.parametrize("installer", ["pip_install", "uv_install"])
def test_installs_from_file_address(
    installer: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    add_wheel(tmp_path / "dist")
    address = write_index(tmp_path / "dist").as_uri()

    done = request.getfixturevalue(installer)(address)

    assert (tmp_path / "site" / "toy.py").is_file(), done.output


def test_pip_skips_wheel_for_another_python(tmp_path: Path, pip_install: Install) -> None:
    add_wheel(tmp_path / "dist", "1.0", requires_python=">=3.8")
    add_wheel(tmp_path / "dist", "2.0", requires_python="<3.8")
    write_index(tmp_path / "dist")

    with served(tmp_path / "dist") as (address, requests):
        pip_install(f"{address}/simple/")

    assert "1.0" in (tmp_path / "site" / "toy.py").read_text()
    assert not any("toy-2.0" in path for path in requests)


def test_pip_refuses_wheel_that_was_changed(tmp_path: Path, pip_install: Install) -> None:
    wheel = add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")
    pinned = tmp_path / "pinned.txt"
    pinned.write_text(f"toy==1.0 --hash=sha256:{sha256_of_file(wheel)}\n")

    with served(tmp_path / "dist") as (address, _):
        sound = pip_install(f"{address}/simple/", "--require-hashes", "-r", str(pinned))
        add_wheel(tmp_path / "dist", content="EVIL = True")
        done = pip_install(f"{address}/simple/", "--upgrade", "--force-reinstall", "toy")

    assert sound.status == 0, sound.output
    assert done.status
    assert "DO NOT MATCH THE HASHES" in done.output


def test_uv_resolves_without_downloading_the_wheel(tmp_path: Path, uv_install: Install) -> None:
    add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")

    with served(tmp_path / "dist") as (address, requests):
        uv_install(f"{address}/simple/", "--dry-run", "toy")

    assert "/toy-1.0-py3-none-any.whl.metadata" in requests
    assert "/toy-1.0-py3-none-any.whl" not in requests


def test_names_every_invalid_wheel_and_keeps_the_index(tmp_path: Path) -> None:
    add_wheel(tmp_path)
    page = write_index(tmp_path) / "toy" / "index.html"
    (tmp_path / "toy-3.0-py3-none-any.whl").write_text("not a zip archive")
    (tmp_path / "nonsense.whl").write_text("not a wheel's name")
    add_wheel(tmp_path, "4.0", says="5.0")

    with pytest.raises(WheelIndexError) as caught:
        write_index(tmp_path)

    for name in ("toy-3.0-py3-none-any.whl", "nonsense.whl", "toy-4.0-py3-none-any.whl"):
        assert name in caught.value.why
    assert "toy-1.0" in page.read_text()
    assert "toy-4.0" not in page.read_text()


def test_forgets_wheel_that_is_gone(tmp_path: Path) -> None:
    """With its METADATA, and none that it didn't write."""
    old = add_wheel(tmp_path / "dist", "1.0")
    add_wheel(tmp_path / "dist", "2.0")
    page = write_index(tmp_path / "dist") / "toy" / "index.html"
    others = tmp_path / "dist" / "other-1.0-py3-none-any.whl.metadata"
    others.write_text("mine")
    old.unlink()

    write_index(tmp_path / "dist")

    assert "toy-1.0" not in page.read_text()
    assert not old.with_name(f"{old.name}.metadata").exists()
    assert others.exists()


_READER = """
import pathlib, sys
simple = pathlib.Path(sys.argv[1])
reads = missed = 0
print("reading", flush=True)
while not simple.with_name("stop").exists():
    for page, text in (("index.html", "toy/index.html"), ("toy/index.html", "toy-1.0")):
        try:
            missed += text not in (simple / page).read_text()
        except OSError:
            missed += 1
        reads += 1
print(reads, missed)
"""


def test_reader_misses_nothing_while_it_is_written(tmp_path: Path) -> None:
    """By turns with a wheel more and with one less: each write changes the page."""
    dist, other = tmp_path / "dist", add_wheel(tmp_path / "other", "2.0")
    add_wheel(dist)
    simple = write_index(dist)
    command = [sys.executable, "-I", "-c", _READER, str(simple)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout
        assert reader.stdout.readline() == "reading\n"
        for _ in range(3):
            shutil.copy(other, dist)
            write_index(dist)
            (dist / other.name).unlink()
            write_index(dist)
        (dist / "stop").touch()
        reads, missed = map(int, reader.stdout.readline().split())

    assert reads > 0
    assert missed == 0


def test_leaves_equal_pages_alone_and_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    assert (write_index(tmp_path / "dist") / "index.html").is_file()  # of no wheels
    add_wheel(tmp_path / "dist")
    simple = write_index(tmp_path / "dist")
    before = (simple / "toy" / "index.html").stat().st_ino
    (simple / "toy" / ".index.html.abc.cuwheel-part").touch()
    (simple / ".index.html.abc.cuwheel-part").touch()

    write_index(tmp_path / "dist")

    assert (simple / "toy" / "index.html").stat().st_ino == before
    assert {path.name for path in simple.rglob("*")} == {MARKER, "index.html", "index.json", "toy"}


def test_lets_two_writers_wait_for_each_other(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    failures: list[BaseException] = []

    def write() -> None:
        try:
            write_index(tmp_path / "dist")
        except BaseException as failure:  # noqa: BLE001 - shown in the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    assert (tmp_path / "dist" / "simple" / "toy" / "index.html").is_file()


_INDEX = """
import pathlib, sys
from cuwheel.base import errors
from cuwheel.build.wheelhouse.folder_index import write_index
try:
    write_index(pathlib.Path(sys.argv[1]))
except errors.DiskFullError as error:
    print(error.what)
"""


def test_names_disk_that_is_full(tmp_path: Path) -> None:
    require("namespaces", "the error of an index on a full disk")
    dist = tmp_path / "dist"
    wheel = add_wheel(tmp_path / "other")
    dist.mkdir()

    # The wheel and its metadata fit; the pages don't.
    script = 'mount -t tmpfs -o size=20k none "$0" && cp "$1" "$0" && shift && exec "$@"'
    spaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = process.run(
        [*spaces, dist, wheel, sys.executable, "-c", _INDEX, dist],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.status == 0, done.output
    assert done.output.startswith(f"no space left on the disk of {dist}")


def test_leaves_foreign_folder_next_to_wheels(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist")
    mine = tmp_path / "dist" / "simple" / "toy" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.touch()

    with pytest.raises(UsageError):
        write_index(tmp_path / "dist")

    assert {path for path in (tmp_path / "dist").rglob("*") if path.is_file()} == {wheel, mine}


def test_removes_no_metadata_that_it_did_not_write(tmp_path: Path) -> None:
    gone = add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")
    others = tmp_path / "dist" / "other-1.0-py3-none-any.whl.metadata"
    others.write_text("mine")
    gone.unlink()

    write_index(tmp_path / "dist")

    assert others.exists()
    assert not gone.with_name(f"{gone.name}.metadata").exists()
