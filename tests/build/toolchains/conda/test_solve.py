"""The conda solver on real channels: a folder, and the same over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuwheel.base.errors import DownloadError, LockError, UsageError
from cuwheel.build.toolchains.conda.environment_file import read_source
from cuwheel.build.toolchains.conda.lock_file import CondaLock
from cuwheel.build.toolchains.conda.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.build.toolchains.conda.solve import solve
from tests.support.factories import make_workspace
from tests.support.servers.http import Site, serving
from tests.support.toolchains.channel import (
    SYSTEM,
    Package,
    toy_packages,
    write_channel,
    write_lock,
    write_source,
)

OWN = "https://conda.anaconda.org/conda-forge"
NO_GPU = {name: version for name, version in SYSTEM.items() if name != "__cuda"}


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small packages; those that depend on the system do so as conda-forge's do."""
    now = int(time.time() * 1000)
    packages = (
        *toy_packages(),
        Package(name="fresh", version="1.0"),
        Package(name="fresh", version="2.0", timestamp=now),
        Package(name="cuda-version", version="13.0", constrains=("__cuda >=13",)),
        Package(name="modern", depends=("__glibc >=2.28",)),
        Package(name="either", build="cuda_0", depends=("__cuda",)),
        Package(name="either", build="cpu_0", version="0.9"),
        Package(name="picky", depends=("toy-data >=2",)),
    )
    return write_channel(tmp_path_factory.mktemp("channel"), packages)


@pytest.fixture
def site(channel: Path) -> Iterator[Site]:
    """The channel at /conda-forge of a server."""
    files = {f"/conda-forge/{p.relative_to(channel)}": p.read_bytes() for p in channel.glob("*/*")}
    with serving(Site(files=files)) as served:
        yield served


def mirrored(address: str) -> Mirrors:
    return Mirrors.of({MIRRORS_VARIABLE: address})


def solved(
    folder: Path,
    mirrors: Mirrors,
    *specs: str,
    system: dict[str, str] = SYSTEM,
    cooldown: int = 7,
) -> CondaLock:
    source = read_source(write_source(folder / "env", *specs, system=system))
    return solve(source, mirrors, make_workspace(folder), cooldown=cooldown)


def builds(lock: CondaLock) -> list[str]:
    return [f"{package.name} {package.version} {package.build}" for package in lock.packages]


def test_takes_what_packages_need(tmp_path: Path, channel: Path) -> None:
    lock = solved(tmp_path, mirrored(channel.as_uri()), "toy ==1.0")

    assert builds(lock) == ["toy 1.0 test_0", "toy-data 1.0 test_0"]


def test_states_address_hashes_and_size_of_each_file(tmp_path: Path, channel: Path) -> None:
    [package] = solved(tmp_path, mirrored(channel.as_uri()), "toy-data").packages

    index = json.loads((channel / "noarch" / "repodata.json").read_text())
    record = index["packages.conda"][package.file_name]
    stated = (package.sha256, package.md5, package.size)
    assert stated == (record["sha256"], record["md5"], record["size"])
    assert package.url == f"{OWN}/noarch/toy-data-1.0-test_0.conda"


def test_folder_and_server_give_the_same_lock(tmp_path: Path, channel: Path, site: Site) -> None:
    of_folder = solved(tmp_path / "one", mirrored(channel.as_uri()), "toy", "either")

    of_server = solved(tmp_path / "two", mirrored(site.url("/conda-forge")), "toy", "either")

    assert of_server.packages == of_folder.packages


@pytest.mark.parametrize("is_remote", [False, True], ids=["folder", "server"])
def test_lock_doesnt_show_the_mirror(
    tmp_path: Path, channel: Path, site: Site, *, is_remote: bool
) -> None:
    address = site.url("/conda-forge") if is_remote else channel.as_uri()
    path = tmp_path / "conda-lock.yml"

    write_lock(path, solved(tmp_path, mirrored(address), "toy"))

    text = path.read_text()
    assert [word for word in ("127.0.0.1", "file:", str(channel)) if word in text] == []


def test_mirror_may_ask_for_a_password(tmp_path: Path, site: Site) -> None:
    site.password = "Basic dXNlcjpzZWNyZXQ="  # user:secret

    lock = solved(tmp_path, mirrored(site.url("/conda-forge", "user:secret@")), "toy")

    assert "secret" not in repr(lock)
    assert len(lock.packages) == 2


def test_channel_may_be_an_address(tmp_path: Path, site: Site) -> None:
    own = site.url("/conda-forge")
    source = read_source(write_source(tmp_path, "toy-data", channels=(own,)))

    lock = solve(source, Mirrors.of({}), make_workspace(tmp_path), cooldown=7)

    assert [package.channel for package in lock.packages] == [own]


@pytest.mark.parametrize("override", ["", "11.0", "13.3"], ids=["none", "old GPU", "GPU"])
@pytest.mark.parametrize(
    ("system", "specs", "chosen"),
    [
        (
            SYSTEM,
            ("cuda-version ==13.0", "either"),
            ["cuda-version 13.0 test_0", "either 1.0 cuda_0"],
        ),
        (NO_GPU, ("either",), ["either 0.9 cpu_0"]),
        (SYSTEM, ("modern",), ["modern 1.0 test_0"]),
    ],
    ids=["with GPU", "without", "glibc"],
)
def test_gpu_and_libc_of_this_machine_dont_matter(  # noqa: PLR0913 - fixtures and a table
    tmp_path: Path,
    channel: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    override: str,
    system: dict[str, str],
    specs: tuple[str, ...],
    chosen: list[str],
) -> None:
    """conda's and rattler's own variables for the machine; an empty one means none."""
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", override)
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.5")

    lock = solved(tmp_path, mirrored(channel.as_uri()), *specs, system=system)

    assert builds(lock) == chosen


@pytest.mark.parametrize(
    ("name", "version", "spec"), [("__glibc", "2.17", "modern"), ("__cuda", "12.4", "cuda-version")]
)
def test_refuses_package_that_system_is_too_old_for(
    name: str, version: str, spec: str, tmp_path: Path, channel: Path
) -> None:
    old = {**SYSTEM, name: version}

    with pytest.raises(LockError, match="could not be solved") as caught:
        solved(tmp_path, mirrored(channel.as_uri()), spec, system=old)

    assert name in caught.value.why


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("toy ==7.0", "toy"),
        ("nowhere", "nowhere"),
        ("picky", "picky"),
        ("fresh ==2.0", "cutoff"),  # it is younger than the cooldown
        ("toy ==1.0 another_1", "another_1"),
        ("elsewhere::toy ==1.0", "toy"),
        ("toy 1.*.*.a", ""),
    ],
)
def test_names_what_cant_be_satisfied(tmp_path: Path, channel: Path, spec: str, word: str) -> None:
    with pytest.raises(LockError, match=r"env/environment\.yml could not be solved") as caught:
        solved(tmp_path, mirrored(channel.as_uri()), spec)

    assert word in caught.value.why


@pytest.mark.parametrize(("cooldown", "version"), [(7, "1.0"), (0, "2.0")])
def test_leaves_out_what_is_younger_than_cooldown(
    tmp_path: Path, channel: Path, cooldown: int, version: str
) -> None:
    lock = solved(tmp_path, mirrored(channel.as_uri()), "fresh", cooldown=cooldown)

    assert builds(lock) == [f"fresh {version} test_0"]


def test_takes_file_that_index_knows_by_md5_only(tmp_path: Path) -> None:
    folder = write_channel(tmp_path / "channel", toy_packages())
    index = folder / "noarch" / "repodata.json"
    content = json.loads(index.read_text())
    for record in content["packages.conda"].values():
        del record["sha256"]
    index.write_text(json.dumps(content))

    [package] = solved(tmp_path, mirrored(folder.as_uri()), "toy-data").packages

    assert (package.sha256, len(package.md5)) == ("", 32)


def test_names_ways_out_when_channel_is_out_of_reach(tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        solved(tmp_path, mirrored("http://127.0.0.1:9/conda-forge"), "toy")

    assert "127.0.0.1:9" in caught.value.what
    assert "CUWHEEL_CONDA_MIRROR" in caught.value.fix
    assert "HTTPS_PROXY" in caught.value.fix


def test_ends_when_channel_answers_and_then_is_silent(tmp_path: Path) -> None:
    """A proxy may do so: rattler itself would wait for minutes."""
    source = read_source(write_source(tmp_path / "env", "toy"))
    started = time.monotonic()

    with serving(Site(is_mute=True)) as site, pytest.raises(DownloadError) as caught:
        solve(source, mirrored(site.url("/c")), make_workspace(tmp_path), cooldown=7, limit=1.0)

    assert time.monotonic() - started < 5
    assert "more than 1 seconds" in caught.value.why
    assert "CUWHEEL_CONDA_MIRROR" in caught.value.fix


def test_names_channel_that_isnt_there(tmp_path: Path, site: Site) -> None:
    with pytest.raises(DownloadError) as caught:
        solved(tmp_path, mirrored(site.url("/conda-forges")), "toy")

    assert "it has no noarch/repodata.json" in caught.value.why


def test_names_index_that_is_broken(tmp_path: Path, site: Site) -> None:
    site.files["/conda-forge/linux-64/repodata.json"] = b"<html>a portal</html>"

    with pytest.raises(DownloadError, match="can't be read"):
        solved(tmp_path, mirrored(site.url("/conda-forge")), "toy")


def test_refuses_one_mirror_of_two_channels(tmp_path: Path, channel: Path) -> None:
    source = read_source(write_source(tmp_path, "toy", channels=("conda-forge", "bioconda")))

    with pytest.raises(UsageError, match="one mirror for several channels"):
        solve(source, mirrored(channel.as_uri()), make_workspace(tmp_path), cooldown=7)
