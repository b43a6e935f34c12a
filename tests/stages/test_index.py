from __future__ import annotations

import contextlib
import functools
import http.server
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import StageOrderError, WheelIndexError
from cuwheel.paths import ROOT
from cuwheel.stages.index import index
from cuwheel.system import process
from cuwheel.system.files import sha256_of_file
from cuwheel.wheel.archive import pack
from cuwheel.wheel.index import write_index
from cuwheel.workspace.records import Audit, RepairedWheel
from tests.support.factories import EPOCH, heard, make_job, make_target, make_workspace
from tests.support.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cuwheel.workspace.workspace import Workspace


def add_wheel(
    dist: Path,
    version: str = "1.0",
    *,
    requires_python: str = "",
    says: str = "",
    content: str = "",
) -> Path:
    """A pure wheel `toy`; `says` is the version in its METADATA where that is another."""
    folder = dist.parent / f"toy-{version}-{len(content)}"
    dist_info = folder / f"toy-{version}.dist-info"
    dist_info.mkdir(parents=True)
    dist.mkdir(exist_ok=True)
    python = f"Requires-Python: {requires_python}\n" * bool(requires_python)
    (folder / "toy.py").write_text(f"VERSION = {version!r}\n{content}")
    (dist_info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    (dist_info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: toy\nVersion: {says or version}\n{python}\nText.\n"
    )
    path = dist / f"toy-{version}-py3-none-any.whl"
    pack(folder, path, epoch=EPOCH)
    return path


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
        thread = threading.Thread(target=server.serve_forever)
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

    assert {path.name for path in simple.iterdir()} == {"index.html", "toy"}


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


def save_repaired(workspace: Workspace, wheel: Path, audited: str = "") -> str:
    """Leave in the work folder what the stages before the index leave."""
    sha256 = sha256_of_file(wheel)
    repaired = RepairedWheel(
        path=wheel,
        sha256=sha256,
        size=wheel.stat().st_size,
        platform_tag="any",
        external=(),
        requires=(),
        tools=(),
    )
    workspace.save("repair", repaired)
    workspace.save("audit", Audit(sha256=audited or sha256, archs=(), ptx_archs=(), suppliers=()))
    (workspace.work / "provenance.json").write_text(f'{{"subject": "{sha256}"}}')
    return sha256


def test_publishes_wheel_and_provenance(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    published = index(make_job(make_target(), workspace))

    assert sha256_of_file(published.wheel) == sha256
    assert sha256 in published.provenance.read_text()
    assert published.provenance.name == "toy-1.0-py3-none-any.whl.provenance.json"
    assert sha256 in (published.index / "toy" / "index.html").read_text()


def test_says_when_a_rebuild_replaces_other_content(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    add_wheel(workspace.dist, content="OLD = True")
    sha256 = save_repaired(workspace, add_wheel(tmp_path / "repaired"))

    published = index(make_job(make_target(), workspace))

    assert sha256_of_file(published.wheel) == sha256
    assert "is replaced" in heard(workspace)


def test_removes_copy_of_a_killed_run(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    workspace.dist.mkdir()
    (workspace.dist / ".toy-1.0-py3-none-any.whl.abc.cuwheel-part").touch()

    index(make_job(make_target(), workspace))

    assert not list(workspace.dist.glob(".*-part"))


def test_publishes_again_what_is_published(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    published = index(make_job(make_target(), workspace))
    save_repaired(workspace, published.wheel)
    (workspace.work / "provenance.json").unlink()

    again = index(make_job(make_target(), workspace))

    assert again == published


def test_refuses_wheel_that_was_not_audited(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"), audited="0" * 64)

    with pytest.raises(WheelIndexError, match="not the wheel that was audited"):
        index(make_job(make_target(), workspace))

    assert not list(workspace.dist.glob("*"))


def test_refuses_wheel_with_provenance_of_another(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    save_repaired(workspace, add_wheel(tmp_path / "repaired"))
    (workspace.work / "provenance.json").write_text('{"subject": "of another wheel"}')

    with pytest.raises(StageOrderError, match=r"no provenance\.json of this wheel"):
        index(make_job(make_target(), workspace))


_INDEX = """
import pathlib, sys
from cuwheel import errors
from cuwheel.wheel.index import write_index
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
