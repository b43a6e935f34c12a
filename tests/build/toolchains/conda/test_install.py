"""Installing conda packages: from real channels, through real failures."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cuwheel.base.errors import DownloadError, HashMismatchError, InstallError
from cuwheel.base.paths import ROOT
from cuwheel.base.system import process
from cuwheel.base.system.files import new_folder, remove_leftovers
from cuwheel.build.toolchains.conda.environment_file import read_source
from cuwheel.build.toolchains.conda.install import fetch_packages, install_packages
from cuwheel.build.toolchains.conda.lock_file import CondaPackage
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.toolchains.conda.solve import solve
from cuwheel.build.workspace.workspace import Workspace
from tests.support.factories import heard, make_workspace, noise
from tests.support.requirements import require
from tests.support.servers.http import Site, serving
from tests.support.toolchains.channel import (
    PREFIX,
    Copy,
    Package,
    Text,
    toy_packages,
    write_channel,
    write_source,
)
from tests.support.waiting import wait_for

MANY = 2000  # files: to unpack and link them takes long enough to be killed in the middle


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = Text(content="#!/bin/sh\ntouch $PREFIX/ran\n", executable=True)
    packages = (
        *toy_packages(),
        Package(name="scripted", files={"bin/.scripted-post-link.sh": script}),
        Package(name="many", files={f"many/{n}": Text(content=f"{n}\n" * 99) for n in range(MANY)}),
    )
    return write_channel(tmp_path_factory.mktemp("channel"), packages)


@pytest.fixture
def site(channel: Path) -> Iterator[Site]:
    files = {f"/{path.relative_to(channel)}": path.read_bytes() for path in channel.glob("*/*")}
    with serving(Site(files=files)) as served:
        yield served


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make_workspace(tmp_path)


@pytest.fixture
def toy(channel: Path, tmp_path: Path) -> tuple[CondaPackage, ...]:
    """`toy` and what it needs, as a lock has them."""
    return locked(channel, tmp_path, "toy")


def locked(channel: Path, folder: Path, *specs: str) -> tuple[CondaPackage, ...]:
    source = read_source(write_source(folder / "env", *specs))
    return solve(source, mirror(channel.as_uri()), make_workspace(folder), cooldown=7).packages


def mirror(address: str) -> Mirrors:
    return Mirrors.of({MIRRORS_VARIABLE: address})


def put(
    workspace: Workspace,
    packages: tuple[CondaPackage, ...],
    address: str,
    name: str = "prefix",
    *,
    offline: bool = False,
) -> Path:
    """Install packages as the stages do: under another name first."""
    final = workspace.cache / "store" / name
    with new_folder(final) as aside:
        install_packages(
            packages,
            aside,
            final,
            mirror(address),
            workspace,
            offline=offline,
            title="the packages of the test",
        )
    return final


def left(workspace: Workspace) -> list[str]:
    """List the store, with unfinished folders."""
    return sorted(path.name for path in (workspace.cache / "store").glob("*"))


def test_installs_every_file(
    workspace: Workspace, toy: tuple[CondaPackage, ...], channel: Path
) -> None:
    """The folder is made under another name: its files get the later one, at the same length."""
    prefix = put(workspace, toy, channel.as_uri())

    assert (prefix / "share" / "toy" / "data").read_text() == "words\n" * 1000
    assert (prefix / "share" / "toy" / "empty").read_bytes() == b""
    assert (prefix / "lib" / "libtoy.so").readlink() == Path("libtoy.so.1")
    output = process.run([prefix / "bin" / "toy"], env={}).output
    assert output.strip() == f"{prefix}/share/toy"
    content = (prefix / "lib" / "libtoy.so.1").read_bytes()
    padding = b"\0" * (len(PREFIX) - len(str(prefix)))
    assert content == b"\x7fELF" + bytes(prefix / "lib") + padding + b"\0the end"


def test_runs_no_script_of_a_package(workspace: Workspace, channel: Path, tmp_path: Path) -> None:
    prefix = put(workspace, locked(channel, tmp_path, "scripted"), channel.as_uri())

    assert (prefix / "bin" / ".scripted-post-link.sh").is_file()
    assert not list(tmp_path.rglob("ran"))


def test_two_installations_share_no_file(
    workspace: Workspace, toy: tuple[CondaPackage, ...], channel: Path
) -> None:
    first = put(workspace, toy, channel.as_uri(), "first")

    second = put(workspace, toy, channel.as_uri(), "second")

    assert str(second) in (second / "bin" / "toy").read_text()
    assert str(first) in (first / "bin" / "toy").read_text()
    data = Path("share") / "toy" / "data"
    assert (second / data).read_bytes() == (first / data).read_bytes()
    assert (second / data).stat().st_nlink == (first / data).stat().st_nlink == 1


def test_installs_from_its_cache_when_offline(
    workspace: Workspace, toy: tuple[CondaPackage, ...], site: Site
) -> None:
    put(workspace, toy, site.url(""), "first")
    site.files.clear()

    prefix = put(workspace, toy, site.url(""), "second", offline=True)

    assert len(site.asked) == 2
    assert (prefix / "bin" / "toy").is_file()


def test_takes_package_known_by_md5_only(
    workspace: Workspace, toy: tuple[CondaPackage, ...], channel: Path
) -> None:
    known_by_md5 = tuple(dataclasses.replace(package, sha256="") for package in toy)

    prefix = put(workspace, known_by_md5, channel.as_uri())

    assert (prefix / "bin" / "toy").is_file()


@pytest.mark.parametrize(
    "changes",
    [{"sha256": "0" * 64}, {"sha256": "", "md5": "0" * 32}],
    ids=["sha256", "md5"],
)
def test_refuses_file_with_another_hash(
    workspace: Workspace, toy: tuple[CondaPackage, ...], channel: Path, changes: dict[str, str]
) -> None:
    wrong = tuple(dataclasses.replace(package, **changes) for package in toy)  # type: ignore[arg-type]

    with pytest.raises(HashMismatchError) as caught:
        put(workspace, wrong, channel.as_uri())

    assert ("recipe" in str(caught.value), "lock" in str(caught.value)) == (False, True)
    assert left(workspace) == []


def test_goes_on_with_a_download_that_broke_off(
    workspace: Workspace, toy: tuple[CondaPackage, ...], site: Site
) -> None:
    site.breaks = [300]

    put(workspace, toy, site.url(""))

    assert [span for _, span in site.asked if span] == ["bytes=300-"]


def test_names_file_that_channel_hasnt(
    workspace: Workspace, toy: tuple[CondaPackage, ...], site: Site
) -> None:
    del site.files["/linux-64/toy-1.0-test_0.conda"]

    with pytest.raises(DownloadError, match=r"toy-1\.0-test_0\.conda"):
        put(workspace, toy, site.url(""))

    assert left(workspace) == []


def test_names_channel_out_of_reach_and_the_ways_out(
    workspace: Workspace, toy: tuple[CondaPackage, ...]
) -> None:
    with pytest.raises(DownloadError) as caught:
        put(workspace, toy, "http://127.0.0.1:9")

    assert "http://127.0.0.1:9" in caught.value.why
    assert [way for way in (MIRRORS_VARIABLE, "nox -s mirror") if way not in caught.value.fix] == []
    assert left(workspace) == []


def test_reports_what_offline_lacks(
    workspace: Workspace, toy: tuple[CondaPackage, ...], site: Site
) -> None:
    with pytest.raises(DownloadError, match=r"could not be downloaded|not in the cache") as caught:
        put(workspace, toy, site.url(""), offline=True)

    assert "--offline" in str(caught.value)
    assert site.asked == []


def test_names_file_that_is_no_package(workspace: Workspace, tmp_path: Path) -> None:
    channel = write_channel(tmp_path / "channel", toy_packages())
    (channel / "noarch" / "toy-data-1.0-test_0.conda").write_bytes(b"a portal's page")
    [package] = locked(channel, tmp_path, "toy-data")
    forged = dataclasses.replace(package, sha256="", md5="5ce2ae0af6a94d2b6a8c5d0a3d2a9b0d", size=0)
    with suppress(HashMismatchError):
        put(workspace, (forged,), channel.as_uri())
    [aside] = workspace.cache.rglob("*.wrong-hash-*")
    known = dataclasses.replace(package, sha256=_sha256(aside), size=0)

    with pytest.raises(InstallError, match="could not be installed") as caught:
        put(workspace, (known,), channel.as_uri())

    assert "toy-data" in caught.value.why
    assert left(workspace) == []


def test_unpacks_again_what_was_damaged(
    workspace: Workspace, toy: tuple[CondaPackage, ...], channel: Path
) -> None:
    put(workspace, toy, channel.as_uri(), "first")
    [kept] = workspace.cache.glob("conda/*/share/toy/data")
    kept.write_text("damaged\n")

    second = put(workspace, toy, channel.as_uri(), "second")

    assert (second / "share" / "toy" / "data").read_text() == "words\n" * 1000
    assert "damaged" in heard(workspace)


def test_distinguishes_packages_with_one_name(workspace: Workspace, tmp_path: Path) -> None:
    """Two channels may hold other files under the same name, version and build."""
    contents = ("one", "two")
    prefixes = []
    for content in contents:
        files = {"data": Text(content=content)}
        channel = write_channel(tmp_path / content, [Package(name="same", files=files)])
        packages = locked(channel, tmp_path / f"{content}-lock", "same")
        prefixes.append(put(workspace, packages, channel.as_uri(), content))

    assert tuple((prefix / "data").read_text() for prefix in prefixes) == contents


def test_gives_files_in_their_order(
    workspace: Workspace, toy: tuple[CondaPackage, ...], channel: Path
) -> None:
    files = fetch_packages(toy, mirror(channel.as_uri()), workspace, offline=False, title="toys")

    assert [file.name for file in files] == [package.file_name for package in toy]


_CHILD = """
import os, sys
from pathlib import Path
from cuwheel.base.errors import CuwheelError
from tests.build.toolchains.conda import test_install as module
from tests.support.factories import make_workspace
channel, folder, cache, name, spec = sys.argv[1:]
workspace = make_workspace(Path(folder), cache=Path(cache))
try:
    lock = module.locked(Path(channel), Path(folder), spec)
    module.put(workspace, lock, Path(channel).as_uri(), name)
except CuwheelError as error:
    print(type(error).__name__, error.what)
else:
    print("installed")
print("left:", module.left(workspace))
"""


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(word) for word in words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def child(*arguments: object) -> tuple[object, ...]:
    return (sys.executable, "-W", "ignore", "-c", _CHILD, *arguments)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "spot", ["conda/.*/many/9", "store/.prefix.*/many/9"], ids=["unpacking", "linking"]
)
def test_runs_clean_after_being_killed(
    workspace: Workspace, channel: Path, tmp_path: Path, spot: str
) -> None:
    arguments = child(channel, tmp_path / "run", workspace.cache, "prefix", "many")
    victim = start(*arguments)
    wait_for(lambda: bool(list(workspace.cache.glob(spot))))
    helpers = psutil.Process(victim.pid).children(recursive=True)
    victim.kill()
    victim.communicate()

    # At once: helpers of the victim may still run.
    remove_leftovers(workspace.cache / "store" / "prefix")  # as the store does under its lock
    output, _ = start(*arguments).communicate(timeout=120)

    assert output.splitlines() == ["installed", "left: ['prefix']"]
    installed = list((workspace.cache / "store" / "prefix" / "many").iterdir())
    assert len(installed) == MANY
    assert all(path.stat().st_size for path in installed)
    assert not [path for path in (workspace.cache / "conda").glob(".*") if path.is_dir()]
    wait_for(lambda: not any(helper.is_running() for helper in helpers))


@pytest.mark.e2e
def test_two_at_once_share_one_cache(workspace: Workspace, channel: Path, tmp_path: Path) -> None:
    names = ("first", "second")
    children = [
        start(*child(channel, tmp_path / name, workspace.cache, name, "many")) for name in names
    ]

    outputs = [started.communicate(timeout=120)[0] for started in children]

    assert [output.splitlines()[0] for output in outputs] == ["installed", "installed"]
    counts = [len(list((workspace.cache / "store" / name / "many").iterdir())) for name in names]
    assert counts == [MANY, MANY]


@pytest.mark.parametrize(
    ("size", "content"),
    [("1m", noise(4 << 20)), ("8m", bytes(20 << 20)), ("11m", noise(4 << 20))],
    ids=["downloading", "unpacking", "known before"],
)
def test_names_disk_that_is_full(tmp_path: Path, size: str, content: bytes) -> None:
    """Noise fills the disk as a download, zeros only once they are unpacked.

    The last one would fit, but not with what unpacking may take: three times the download.
    """
    require("namespaces", "the error of an installation on a full disk")
    big = tmp_path / "big"
    big.write_bytes(content)
    channel = _channel_with(tmp_path, big, knows_size=size == "11m")
    small = tmp_path / "small"
    small.mkdir()
    inside = f'mount -t tmpfs -o size={size} none {small} && exec "$@"'
    arguments = child(channel, tmp_path / "run", small, "prefix", "big")

    output, _ = start("unshare", "-rm", "sh", "-c", inside, "sh", *arguments).communicate()

    first, *rest = output.splitlines()
    assert first.startswith("DiskFullError")
    assert str(small) in first
    assert rest == ["left: []"]


def _channel_with(folder: Path, big: Path, *, knows_size: bool) -> Path:
    """A channel with one package; without its size in the index nothing can be foreseen."""
    package = Package(name="big", files={"share/big": Copy(source=big)})
    channel = write_channel(folder / "channel", [package])
    index = channel / "linux-64" / "repodata.json"
    if not knows_size:
        lines = index.read_text().splitlines()
        index.write_text("\n".join(line for line in lines if '"size"' not in line))
    return channel


def _sha256(path: Path) -> str:
    return process.run(["sha256sum", path], env={"PATH": os.environ["PATH"]}).output.split()[0]


def test_distinguishes_program_that_cant_start_from_damage(
    workspace: Workspace,
    toy: tuple[CondaPackage, ...],
    channel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named rattler\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(InstallError) as caught:
        put(workspace, toy, channel.as_uri())

    assert caught.value.why == "No module named rattler"
    assert "damaged" not in heard(workspace)
