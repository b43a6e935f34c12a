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
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import WheelIndexError
from cuwheel.index.folder_index import write_index
from cuwheel.paths import ROOT
from cuwheel.system import process
from cuwheel.system.files import sha256_of_file
from tests.support.requirements import require
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Handler(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, *_: object) -> None:
        self.asked.append(self.path)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a folder over HTTP on loopback, and the paths that were asked for so far."""
    asked: list[str] = []
    kind = type("Recording", (Handler,), {"asked": asked})
    bound = functools.partial(kind, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), bound) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has pip; virtualenv carries it along, nothing is downloaded."""
    folder = tmp_path_factory.mktemp("pip") / "environment"
    options = ("--quiet", "--no-periodic-update", str(folder))
    env = {"PATH": os.defpath, "HOME": str(folder.parent)}
    process.run([sys.executable, "-m", "virtualenv", *options], env=env)
    return folder / "bin" / "python"


def pip_install(python: Path, address: str, target: Path, *words: str) -> process.Finished:
    return run_installer(
        [python, "-m", "pip", "install", "--no-cache-dir", "--target", target], address, words
    )


def uv_install(address: str, target: Path, *words: str) -> process.Finished:
    uv = Path(sys.executable).with_name("uv")
    python = ("--python", sys.executable, "--no-cache")
    return run_installer([uv, "pip", "install", *python, "--target", target], address, words)


def run_installer(
    command: Sequence[str | Path], address: str, words: Sequence[str]
) -> process.Finished:
    env = {"PATH": os.defpath, "HOME": "/nonexistent", "PIP_CONFIG_FILE": os.devnull}
    return process.run(
        [*command, "--index-url", address, *(words or ("toy",))], env=env, check=False
    )


@pytest.mark.e2e
def test_pip_installs_from_served_folder(tmp_path: Path, pip: Path) -> None:
    add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")

    with served(tmp_path / "dist") as (address, _):
        done = pip_install(pip, f"{address}/simple/", tmp_path / "site")

    assert (tmp_path / "site" / "toy.py").is_file(), done.output


def test_uv_installs_from_served_folder(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")

    with served(tmp_path / "dist") as (address, _):
        done = uv_install(f"{address}/simple/", tmp_path / "site")

    assert (tmp_path / "site" / "toy.py").is_file(), done.output


def test_uv_installs_local_version_from_sub_path(tmp_path: Path) -> None:
    add_wheel(tmp_path / "www" / "a" / "dist", "1.0+cu130torch2.11")
    write_index(tmp_path / "www" / "a" / "dist")

    with served(tmp_path / "www") as (address, _):
        done = uv_install(f"{address}/a/dist/simple/", tmp_path / "site")

    assert "cu130torch2.11" in (tmp_path / "site" / "toy.py").read_text(), done.output


def test_pip_installs_local_version_from_sub_path(tmp_path: Path, pip: Path) -> None:
    add_wheel(tmp_path / "www" / "a" / "dist", "1.0+cu130torch2.11")
    write_index(tmp_path / "www" / "a" / "dist")

    with served(tmp_path / "www") as (address, _):
        done = pip_install(pip, f"{address}/a/dist/simple/", tmp_path / "site")

    assert "cu130torch2.11" in (tmp_path / "site" / "toy.py").read_text(), done.output


def test_pip_installs_from_file_address(tmp_path: Path, pip: Path) -> None:
    add_wheel(tmp_path / "dist")
    address = write_index(tmp_path / "dist").as_uri()

    done = pip_install(pip, address, tmp_path / "site")

    assert (tmp_path / "site" / "toy.py").is_file(), done.output


def test_uv_installs_from_file_address(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    address = write_index(tmp_path / "dist").as_uri()

    done = uv_install(address, tmp_path / "site")

    assert (tmp_path / "site" / "toy.py").is_file(), done.output


def test_pip_skips_wheel_for_another_python(tmp_path: Path, pip: Path) -> None:
    add_wheel(tmp_path / "dist", "1.0", requires_python=">=3.8")
    add_wheel(tmp_path / "dist", "2.0", requires_python="<3.8")
    write_index(tmp_path / "dist")

    with served(tmp_path / "dist") as (address, asked):
        pip_install(pip, f"{address}/simple/", tmp_path / "site")

    assert "1.0" in (tmp_path / "site" / "toy.py").read_text()
    assert not any("toy-2.0" in path for path in asked)


def test_pip_refuses_wheel_that_was_changed(tmp_path: Path, pip: Path) -> None:
    add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")
    add_wheel(tmp_path / "dist", content="EVIL = True")

    with served(tmp_path / "dist") as (address, _):
        done = pip_install(pip, f"{address}/simple/", tmp_path / "site")

    assert done.status
    assert "DO NOT MATCH THE HASHES" in done.output


def test_pip_installs_with_required_hash(tmp_path: Path, pip: Path) -> None:
    wheel = add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")
    pinned = tmp_path / "pinned.txt"
    pinned.write_text(f"toy==1.0 --hash=sha256:{sha256_of_file(wheel)}\n")

    with served(tmp_path / "dist") as (address, _):
        words = ("--require-hashes", "-r", str(pinned))
        done = pip_install(pip, f"{address}/simple/", tmp_path / "site", *words)

    assert done.status == 0, done.output


def test_uv_resolves_without_downloading_the_wheel(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    write_index(tmp_path / "dist")

    with served(tmp_path / "dist") as (address, asked):
        uv_install(f"{address}/simple/", tmp_path / "site", "--dry-run", "toy")

    assert "/toy-1.0-py3-none-any.whl.metadata" in asked
    assert "/toy-1.0-py3-none-any.whl" not in asked


def test_names_every_invalid_wheel(tmp_path: Path) -> None:
    (tmp_path / "toy-3.0-py3-none-any.whl").write_text("not a zip archive")
    (tmp_path / "nonsense.whl").write_text("not a wheel's name")
    add_wheel(tmp_path, "4.0", says="5.0")

    with pytest.raises(WheelIndexError) as caught:
        write_index(tmp_path)

    for name in ("toy-3.0-py3-none-any.whl", "nonsense.whl", "toy-4.0-py3-none-any.whl"):
        assert name in caught.value.why


def test_keeps_index_when_a_wheel_is_invalid(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    page = write_index(tmp_path / "dist") / "toy" / "index.html"
    (tmp_path / "dist" / "nonsense.whl").touch()

    with pytest.raises(WheelIndexError):
        write_index(tmp_path / "dist")

    assert "toy-1.0" in page.read_text()


def test_forgets_wheel_that_is_gone(tmp_path: Path) -> None:
    old = add_wheel(tmp_path / "dist", "1.0")
    add_wheel(tmp_path / "dist", "2.0")
    page = write_index(tmp_path / "dist") / "toy" / "index.html"
    old.unlink()

    write_index(tmp_path / "dist")

    assert "toy-1.0" not in page.read_text()
    assert not old.with_name(f"{old.name}.metadata").exists()


def test_writes_index_of_no_wheels(tmp_path: Path) -> None:
    simple = write_index(tmp_path / "dist")

    assert (simple / "index.html").is_file()


def test_gives_same_pages_twice(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    page = write_index(tmp_path / "dist") / "toy" / "index.html"
    first = page.read_bytes()

    write_index(tmp_path / "dist")

    assert page.read_bytes() == first


def test_leaves_only_pages_in_simple(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")

    simple = write_index(tmp_path / "dist")

    assert {path.name for path in simple.iterdir()} == {"index.html", "index.json", "toy"}


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
    dist, other = tmp_path / "dist", add_wheel(tmp_path / "made", "2.0")
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


def test_leaves_pages_alone_that_stay_as_they_are(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    page = write_index(tmp_path / "dist") / "toy" / "index.html"
    before = page.stat().st_ino

    write_index(tmp_path / "dist")

    assert page.stat().st_ino == before


def test_removes_what_a_killed_writer_left(tmp_path: Path) -> None:
    add_wheel(tmp_path / "dist")
    simple = write_index(tmp_path / "dist")
    (simple / "toy" / ".index.html.abc.cuwheel-part").touch()
    (simple / ".index.html.abc.cuwheel-part").touch()

    write_index(tmp_path / "dist")

    assert {path.name for path in simple.rglob("*")} == {"index.html", "index.json", "toy"}


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
from cuwheel import errors
from cuwheel.index.folder_index import write_index
try:
    write_index(pathlib.Path(sys.argv[1]))
except errors.DiskFullError as error:
    print(error.what)
"""


def test_names_disk_that_is_full(tmp_path: Path) -> None:
    require("namespaces", "what an index says when its disk is full")
    dist = tmp_path / "dist"
    wheel = add_wheel(tmp_path / "made")
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
