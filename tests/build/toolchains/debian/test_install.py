"""Installing Debian packages: over HTTP, through real failures."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import (
    DiskFullError,
    DownloadError,
    HashMismatchError,
    InstallError,
    LockError,
)
from cuwheel.base.fetch.urls import MIRROR_VARIABLE
from cuwheel.base.paths import ROOT
from cuwheel.build.locks.lock_jobs import LockSpec
from cuwheel.build.locks.resolve import verify_locks
from cuwheel.build.toolchains.debian.archives import ARCHIVES_VARIABLE
from cuwheel.build.toolchains.debian.install import downloads_of, unpack_packages
from cuwheel.build.toolchains.debian.lock_file import DebianLock, render_debian_lock
from cuwheel.build.toolchains.from_debian import debian_toolchain
from cuwheel.build.toolchains.store import obtain
from cuwheel.build.workspace.workspace import Workspace
from cuwheel.check.cuda.toolkits import toolkit_by_release
from tests.support.factories import heard, later, make_workspace, noise
from tests.support.requirements import require
from tests.support.servers.http import Site, serving
from tests.support.toolchains.debian_archive import Member, Toy, link, write_pool
from tests.support.waiting import wait_for

MANY = 3000  # files: unpacking takes long enough to be killed in the middle
TOYS = (
    Toy(
        members=(Member(name="./usr/bin/toy", content=b"#!/bin/sh\n", mode=0o755),),
        scripts=(("postinst", "#!/bin/sh\ntouch /ran\n"),),
    ),
    Toy(name="libtoy++", architecture="all", members=(link("./lib/toy", "/usr/bin/toy"),)),
)
HOSTILE = Toy(name="hostile", members=(link("./usr/lib", "../../.."),))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return tmp_path / "pool of toys"


@pytest.fixture
def lock(pool: Path) -> DebianLock:
    return write_pool(pool, *TOYS)


@pytest.fixture
def site(pool: Path, lock: DebianLock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An archive over HTTP with the packages of the lock."""
    [packages] = lock.packages.values()
    files = {f"/debian/{package.path}": (pool / package.path).read_bytes() for package in packages}
    with serving(Site(files=files)) as served:
        monkeypatch.setenv(ARCHIVES_VARIABLE, served.url("/debian"))
        yield served


def put(workspace: Workspace, lock: DebianLock, name: str = "toys", **options: Any) -> Path:
    """Unpack packages as toolchains do: into a folder of the store."""

    def make(folder: Path) -> dict[str, str]:
        arguments = {"machine": "x86_64", "offline": False, "title": "the toys", **options}
        unpack_packages(lock, folder, workspace, **arguments)
        return {}

    return obtain(workspace.cache / "store" / name, make, workspace).folder


def left(workspace: Workspace) -> list[str]:
    """List the store, with unfinished folders and without locks."""
    files = (workspace.cache / "store").glob("*")
    return sorted(path.name for path in files if path.suffix not in {".lock", ".use"})


def test_unpacks_all_packages_and_runs_no_script(
    workspace: Workspace, lock: DebianLock, site: Site
) -> None:
    folder = put(workspace, lock)

    assert (folder / "lib" / "toy").read_bytes() == b"#!/bin/sh\n"
    assert os.access(folder / "usr" / "bin" / "toy", os.X_OK)
    assert len(site.asked) == 2 * len(TOYS)  # each first with HEAD
    assert not [path for path in folder.rglob("*") if path.name in {"postinst", "control"}]
    assert not Path("/ran").exists()


def test_unpacks_from_the_cache_when_offline(
    workspace: Workspace, lock: DebianLock, site: Site
) -> None:
    put(workspace, lock)
    asked = len(site.asked)

    folder = put(later(workspace), lock, "again", offline=True)

    assert (folder / "usr" / "bin" / "toy").is_file()
    assert len(site.asked) == asked


def test_unpacks_from_a_folder_when_offline(
    workspace: Workspace, lock: DebianLock, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARCHIVES_VARIABLE, pool.as_uri())

    folder = put(workspace, lock, offline=True)

    assert (folder / "usr" / "bin" / "toy").is_file()


def test_takes_files_from_the_mirror_first(
    workspace: Workspace,
    lock: DebianLock,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(workspace, lock)
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (workspace.cache / "downloads").rename(mirror / "downloads")
    monkeypatch.setenv(MIRROR_VARIABLE, mirror.as_uri())
    site.files.clear()

    folder = put(later(workspace), lock, "again")

    assert (folder / "usr" / "bin" / "toy").is_file()


def test_goes_on_with_a_download_that_broke_off(
    workspace: Workspace, lock: DebianLock, site: Site
) -> None:
    site.breaks = [100]

    put(workspace, lock)

    assert [span for _, span in site.asked if span] == ["bytes=100-"]


def test_repairs_download_that_was_damaged(
    workspace: Workspace, lock: DebianLock, site: Site
) -> None:
    put(workspace, lock)
    [cached] = workspace.cache.glob("downloads/*/toy_1.0_amd64.deb")
    cached.write_bytes(cached.read_bytes()[:-10])

    put(later(workspace), lock, "again")

    assert "was damaged" in heard(workspace)
    assert site.asked


def _without_machine(lock: DebianLock, _: Site) -> DebianLock:
    return dataclasses.replace(lock, packages={"arm64": lock.packages["amd64"]})


def _gone(lock: DebianLock, site: Site) -> DebianLock:
    site.files.clear()
    return lock


def _replaced(lock: DebianLock, site: Site) -> DebianLock:
    site.files.update({path: content[:-1] + b"x" for path, content in site.files.items()})
    return lock


def _truncated(lock: DebianLock, site: Site) -> DebianLock:
    site.files.update({path: content[:-50] for path, content in site.files.items()})
    return lock


def _grown(lock: DebianLock, site: Site) -> DebianLock:
    site.files.update({path: content + b"x" for path, content in site.files.items()})
    return lock


_FAILURES = {
    "no package for the machine": (_without_machine, LockError, "has no packages for x86_64"),
    "gone": (_gone, DownloadError, "a point release replaces files"),
    "replaced": (_replaced, HashMismatchError, "is not the file that the lock pins"),
    "truncated": (_truncated, HashMismatchError, "is not the file that the lock pins"),
    "grown": (_grown, HashMismatchError, "is larger than"),
}


@pytest.mark.parametrize("kind", _FAILURES)
def test_failed_download_leaves_nothing(
    workspace: Workspace, lock: DebianLock, site: Site, kind: str
) -> None:
    change, error, fact = _FAILURES[kind]

    with pytest.raises(error) as caught:
        put(workspace, change(lock, site))

    assert fact in str(caught.value)
    assert left(workspace) == []


def test_refused_package_leaves_nothing(
    workspace: Workspace, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ARCHIVES_VARIABLE, pool.as_uri())

    with pytest.raises(InstallError, match=r"hostile_1\.0_amd64\.deb is refused"):
        put(workspace, write_pool(pool, *TOYS, HOSTILE))

    assert left(workspace) == []


def test_names_what_offline_lacks(workspace: Workspace, lock: DebianLock, site: Site) -> None:
    with pytest.raises(DownloadError) as caught:
        put(workspace, lock, offline=True)

    assert "--offline is set" in caught.value.why
    assert ARCHIVES_VARIABLE in caught.value.fix
    assert site.asked == []


def test_names_mirror_that_lacks_a_package(
    workspace: Workspace,
    lock: DebianLock,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, tmp_path.as_uri())
    site.files.clear()

    with pytest.raises(DownloadError) as caught:
        put(workspace, lock)

    assert f"the mirror in {MIRROR_VARIABLE} doesn't have everything" in caught.value.fix


def test_names_disk_without_room_for_what_is_unpacked(
    workspace: Workspace, lock: DebianLock, site: Site
) -> None:
    [packages] = lock.packages.values()
    large = tuple(dataclasses.replace(package, size=1 << 50) for package in packages)

    with pytest.raises(DiskFullError, match="not enough space"):
        put(workspace, dataclasses.replace(lock, packages={"amd64": large}))

    assert site.asked == []


def test_downloads_are_those_of_a_mirror(
    workspace: Workspace, lock: DebianLock, site: Site
) -> None:
    [packages] = lock.packages.values()

    downloads = downloads_of(packages, workspace)

    assert [file.sha256 for file, _ in downloads] == [package.sha256 for package in packages]
    assert {find_url() for _, find_url in downloads} == {
        site.url(path.replace("+", "%2B")) for path in site.files
    }


_CHILD = """
import os, sys
from pathlib import Path
from cuwheel.base.errors import CuwheelError
from cuwheel.build.toolchains.debian.lock_file import read_debian_lock
from tests.build.toolchains.debian import test_install as module
from tests.support.factories import make_workspace
pool, cache = map(Path, sys.argv[1:])
workspace = make_workspace(pool.parent, cache=cache)
try:
    module.put(workspace, read_debian_lock(pool / "debian.lock"))
except (CuwheelError, OSError) as error:
    print(type(error).__name__, str(error).splitlines()[0])
else:
    print("installed")
print("left:", module.left(workspace))
"""


@pytest.fixture
def large(pool: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive with a package of many files, for processes of their own."""
    members = (Member(name=f"./many/{number}", content=b"x" * 999) for number in range(MANY))
    return _archive_with(pool, Toy(members=tuple(members)), monkeypatch)


def _archive_with(pool: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Path:
    lock = write_pool(pool, toy)
    (pool / "debian.lock").write_text(render_debian_lock(lock, "a test"))
    monkeypatch.setenv(ARCHIVES_VARIABLE, pool.as_uri())
    return pool


def child(pool: Path, cache: Path) -> tuple[str, ...]:
    return (sys.executable, "-W", "ignore", "-c", _CHILD, str(pool), str(cache))


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_runs_clean_after_being_ended(
    workspace: Workspace, large: Path, number: signal.Signals
) -> None:
    victim = start(*child(large, workspace.cache))
    wait_for(lambda: bool(list(workspace.cache.glob("store/.toys.*/many/9"))))
    victim.send_signal(number)
    victim.communicate()
    remains = left(workspace)

    output, _ = start(*child(large, workspace.cache)).communicate(timeout=120)

    assert bool(remains) == (number == signal.SIGKILL)
    assert output.splitlines() == ["installed", "left: ['toys']"]
    assert len(list((workspace.cache / "store" / "toys" / "many").iterdir())) == MANY


@pytest.mark.e2e
def test_two_at_once_unpack_once(workspace: Workspace, large: Path) -> None:
    first = start(*child(large, workspace.cache))
    wait_for(lambda: bool(list(workspace.cache.glob("store/.toys.*/many/9"))))
    [aside] = workspace.cache.glob("store/.toys.*")
    second = start(*child(large, workspace.cache))

    outputs = [started.communicate(timeout=120)[0] for started in (first, second)]

    assert outputs == ["installed\nleft: ['toys']\n"] * 2
    assert not aside.exists()


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("content", "fact"),
    [(bytes(20 << 20), "no space left"), (noise(3 << 20), "not enough space")],
    ids=["while unpacking", "foreseen"],
)
def test_names_disk_that_is_full(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, fact: str
) -> None:
    """Zeros fill the disk only once they are unpacked, four times as much noise is foreseen."""
    require("namespaces", "the error of an installation on a full disk")
    _archive_with(pool, Toy(members=(Member(name="./big", content=content),)), monkeypatch)

    output = _on_small_disk(tmp_path, "true", child(pool, tmp_path / "small"))

    first, *rest = output.splitlines()
    assert first.startswith(f"DiskFullError error: {fact}")
    assert rest == ["left: []"]


def test_names_store_that_is_read_only(large: Path, tmp_path: Path) -> None:
    require("namespaces", "the error of an installation into a read-only store")
    small = tmp_path / "small"

    output = _on_small_disk(tmp_path, f"mount -o remount,ro '{small}'", child(large, small))

    assert f"Read-only file system: '{small}" in output.splitlines()[0]
    assert output.splitlines()[1:] == ["left: []"]


def _on_small_disk(folder: Path, setup: str, arguments: tuple[str, ...]) -> str:
    """Run a program whose folder `small` is a disk of 8 MiB, and return its output."""
    small = folder / "small"
    small.mkdir()
    inside = f"mount -t tmpfs -o size=8m none '{small}' && {setup} && exec \"$@\""
    return start("unshare", "-rm", "sh", "-c", inside, "sh", *arguments).communicate()[0]


def debian_lock(folder: Path, lock: DebianLock) -> Path:
    path = folder / "debian.lock"
    path.parent.mkdir(parents=True)
    path.write_text(render_debian_lock(lock, "nox -s lock"))
    return path


@pytest.mark.usefixtures("site")
def test_names_compilers_that_packages_lack(
    lock: DebianLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project" / "envs" / "cuda124"
    debian_lock(folder, lock).with_name("pypi.lock").touch()
    monkeypatch.setenv("CUWHEEL_PROJECT", str(tmp_path / "project"))

    with pytest.raises(InstallError, match="no whole compiler") as caught:
        debian_toolchain(toolkit_by_release("12.4"), make_workspace(tmp_path))

    assert "usr/bin/ptxas" in caught.value.why


def test_lock_verify_looks_for_each_package(
    workspace: Workspace, lock: DebianLock, site: Site, tmp_path: Path
) -> None:
    path = debian_lock(tmp_path / "gcc10", lock)
    source = path.with_name("debian.yml")
    job = LockSpec(name="host-compiler:gcc10", source=source, lock=path)

    [files] = verify_locks((job,), workspace)

    assert {file.file_name for file in files} == {Path(name).name for name in site.files}
    site.files.popitem()
    with pytest.raises(DownloadError, match="any more"):
        verify_locks((job,), workspace)
