"""What CUWHEEL_CONDA_MIRROR may say, and what is looked for where."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import DownloadError, UsageError
from cuwheel.fetch.mirrors import MIRRORS_VARIABLE, Mirrors
from cuwheel.fetch.retry import RetryPolicy
from cuwheel.fetch.web import read_small
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORGE = "https://conda.anaconda.org/conda-forge"
FILE = "/linux-64/cuda-nvcc-12.2.140-hcdd1206_0.conda"
SHA256 = "5" * 64
HELD = {f"downloads/{SHA256}/a b.tar.gz": {"sha256": SHA256, "size": 3}}


def mirrors(value: str, *, offline: bool = False) -> Mirrors:
    return Mirrors.of({MIRRORS_VARIABLE: value}, offline=offline)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A full mirror."""
    (tmp_path / "mirror.json").write_text(json.dumps({"files": HELD, "targets": {}}))
    return tmp_path


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Site]:
    """A full mirror on a server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    manifest = (folder / "mirror.json").read_bytes()
    with serving(Site(files={"/m/mirror.json": manifest})) as site:
        yield site


@pytest.mark.parametrize("url", [FORGE, FORGE + FILE])
def test_leaves_addresses_alone_without_mirror(url: str) -> None:
    assert mirrors("").url_for(url) == url


@pytest.mark.parametrize(
    "value",
    [
        "https://mirror.invalid/forge",
        "https://mirror.invalid/forge/",
        "conda-forge=https://mirror.invalid/forge",
    ],
    ids=["common", "with slash", "named"],
)
@pytest.mark.parametrize("rest", ["", FILE, "/noarch/repodata.json"])
def test_puts_mirror_in_place_of_channel(value: str, rest: str) -> None:
    assert mirrors(value).url_for(FORGE + rest) == f"https://mirror.invalid/forge{rest}"


def test_leaves_channels_alone_that_have_no_mirror() -> None:
    named = mirrors("nvidia=https://mirror.invalid/nv")

    assert named.url_for(FORGE + FILE) == FORGE + FILE


def test_prefers_named_mirror_to_common_one() -> None:
    both = mirrors("https://mirror.invalid/all conda-forge=https://mirror.invalid/forge")

    assert both.url_for(FORGE + FILE) == f"https://mirror.invalid/forge{FILE}"


@pytest.mark.parametrize(
    "value",
    ["https://mirror.invalid/all", "conda-forge=https://me:geheim@mirror.invalid/x"],
    ids=["common", "with password"],
)
def test_finds_way_back(value: str) -> None:
    chosen = mirrors(value)
    mirror = chosen.url_for(FORGE)

    assert chosen.canonical(mirror.replace("me:geheim@", "") + FILE) == FORGE + FILE


def test_refuses_way_back_to_one_of_two() -> None:
    common = mirrors("https://mirror.invalid/all")
    for name in ("conda-forge", "nvidia"):
        common.url_for(f"https://conda.anaconda.org/{name}")

    with pytest.raises(UsageError, match="nothing tells which channel"):
        common.canonical(f"https://mirror.invalid/all{FILE}")


@pytest.mark.parametrize(
    ("value", "part", "fix"),
    [
        ("/srv/mirror", "is no address", "write file:///srv/mirror"),
        ("file://srv/mirror", "names no folder", "three slashes"),
        ("file:///no/such/folder", "no such folder", "correct the path"),
        ("ftp://me:geheim@mirror.invalid/x", "ftp://mirror.invalid/x", "https://HOST/PATH"),
        ("https://", "can't be read", "https://HOST/PATH"),
        ("https://a.invalid https://b.invalid", "names 2 mirrors", "conda-forge=https://"),
    ],
)
def test_says_what_to_write_instead(value: str, part: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        mirrors(value)

    assert part in caught.value.what
    assert fix in caught.value.fix
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "is_local"),
    [("", False), ("file:///", True), ("file:/// conda-forge=https://a.invalid", False)],
)
def test_is_local_when_no_mirror_takes_a_network(value: str, is_local: bool) -> None:  # noqa: FBT001 - pytest gives it by name
    assert mirrors(value).is_local is is_local


def test_full_mirror_has_wheels(folder: Path) -> None:
    assert mirrors(folder.as_uri()).wheels == str(folder / "wheels")


def test_full_mirror_on_server_has_index(site: Site) -> None:
    assert mirrors(site.url("/m")).wheels == site.url("/m/simple/")


def test_plain_mirror_has_none(tmp_path: Path, site: Site) -> None:
    (tmp_path / "plain").mkdir()
    value = f"{(tmp_path / 'plain').as_uri()} nvidia={site.url('/other')}"

    assert mirrors(value).wheels is None


def test_finds_download(folder: Path) -> None:
    found = mirrors(folder.as_uri()).find(SHA256, "a b.tar.gz")

    assert found
    assert (found.url, found.sha256) == (
        f"{folder.as_uri()}/downloads/{SHA256}/a%20b.tar.gz",
        SHA256,
    )


def test_finds_no_other_download(folder: Path) -> None:
    assert mirrors(folder.as_uri()).find("0" * 64, "a b.tar.gz") is None


def test_asks_server_once(site: Site) -> None:
    for name in ("a", "b"):
        mirrors(site.url("/m")).find(SHA256, name)

    assert site.asked == [("/m/mirror.json", "")]


def test_asks_no_server_offline(site: Site) -> None:
    assert mirrors(site.url("/m"), offline=True).wheels is None
    assert site.asked == []


def test_names_server_that_does_not_answer() -> None:
    with pytest.raises(DownloadError) as caught:
        assert mirrors("http://127.0.0.1:9/gone").wheels

    assert MIRRORS_VARIABLE in caught.value.fix


def test_takes_other_json_for_plain_mirror(tmp_path: Path) -> None:
    (tmp_path / "mirror.json").write_text('["something else"]')

    assert mirrors(tmp_path.as_uri()).wheels is None


@pytest.mark.parametrize(
    "address", ["https://Mirror.EXAMPLE/forge/", "https://mirror.example:443/forge"]
)
def test_knows_its_address_however_it_is_written(address: str) -> None:
    mirrors = Mirrors.of({MIRRORS_VARIABLE: address})
    mirrors.url_for("https://conda.anaconda.org/conda-forge")

    found = mirrors.canonical("https://mirror.example/forge/noarch/toy-1.0-0.conda")

    assert found == "https://conda.anaconda.org/conda-forge/noarch/toy-1.0-0.conda"


def test_gives_up_on_slow_server() -> None:
    """A byte now and then keeps every time-out of a single read from ending it."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"

    def trickle(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        with connected, contextlib.suppress(OSError):
            connected.recv(4096)
            connected.sendall(answer)
            for _ in range(100):
                connected.sendall(b"x")
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=trickle, args=(listening,), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mirror.json"
        with pytest.raises(DownloadError) as caught:
            read_small(url, fix="", retry_policy=RetryPolicy(limit=1.0, attempts=1))

    assert "no answer within 1 seconds" in caught.value.why
