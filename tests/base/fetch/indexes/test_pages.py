"""Rules for the addresses that a page may name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.indexes.indexes import find_releases, find_sdist, find_wheels
from cuwheel.base.fetch.indexes.offers import read_offers
from cuwheel.base.fetch.indexes.pages import (
    PageFault,
    beside,
    link_fault,
    read_page,
    with_credentials,
)
from cuwheel.base.fetch.retry import Attempts, RetryPolicy
from tests.support.factories import write_wheel
from tests.support.servers.http import Site, serving

HTTPS = "https://index.example/simple/"
WHEEL = "toy-1.0-py3-none-any.whl"
SHORT = RetryPolicy(attempts=1, limit=3.0)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuwheel.base.fetch.retry.RETRY_POLICY", SHORT)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as site:
        yield site


@pytest.mark.parametrize(
    "url",
    [
        f"file:///srv/{WHEEL}",
        "file:///dev/zero",
        f"file://host/srv/{WHEEL}",
        f"http://index.example/{WHEEL}",
        f"ftp://index.example/{WHEEL}",
        f"data:,{WHEEL}",
        f"javascript:{WHEEL}",
        f"git+https://index.example/{WHEEL}",
        f"\\\\host\\share\\{WHEEL}",
        f"https://index.example/files/..%2f{WHEEL}",
        f"https://index.example/files%2F{WHEEL}",
        f"https://index.example/%2e%2e/{WHEEL}",
        f"https://index.example/a%5c{WHEEL}",
        f"https://index.example/a%00/{WHEEL}",
        f"https://index.example:port/{WHEEL}",
        f"https://[index/{WHEEL}",
        f"https:///{WHEEL}",
        f"//index.example/{WHEEL}",
        "",
    ],
)
def test_server_leads_to_nothing_but_its_own_kind(url: str) -> None:
    assert link_fault(url, HTTPS)


@pytest.mark.parametrize(
    ("url", "index"),
    [
        (f"https://files.example/a/b+c/{WHEEL}#sha256=00", HTTPS),
        (f"http://files.example/{WHEEL}", "http://index.example/simple/"),
        (f"https://files.example/{WHEEL}", "http://index.example/simple/"),
        (f"https://git.example/group%2Ftoy/{WHEEL}", "https://git.example/group%2Ftoy/simple/"),
        (f"https://files.example/{WHEEL}", "file:///srv/simple/"),
        ("https://files.example/torch-2.11.0%2Bcu130-cp312-cp312-linux_x86_64.whl", HTTPS),
    ],
)
def test_server_leads_to_files_as_servers_do(url: str, index: str) -> None:
    assert not link_fault(url, index)


@pytest.mark.parametrize("variable", ["PIP_TRUSTED_HOST", "UV_INSECURE_HOST"])
def test_user_may_trust_host_without_https(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "other.example files.example")

    assert not link_fault(f"http://files.example/{WHEEL}", HTTPS)
    assert link_fault(f"http://index.example/{WHEEL}", HTTPS)


def test_folder_leads_to_its_own_files_alone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("simple", "cu130/simple", "files"):
        (site / name).mkdir(parents=True)
    (site / "out.whl").symlink_to("/etc/hostname")
    own = (site / "files" / WHEEL).as_uri()

    for index in (site, site / "simple", site / "cu130" / "simple"):
        assert not link_fault(own, index.as_uri())
        for outside in (tmp_path / WHEEL, site / "out.whl", site / ".." / WHEEL):
            assert link_fault(outside.absolute().as_uri(), index.as_uri())
    assert link_fault(own, (tmp_path / "site" / "files" / "x").as_uri() + "/simple/")


def test_credentials_go_to_their_own_host_alone() -> None:
    index = "https://me:secret@index.example/simple/"

    assert "secret" in with_credentials(f"https://index.example/{WHEEL}", index)
    for other in ("https://index.example:8443", "http://index.example", "https://evil.example"):
        assert "secret" not in with_credentials(f"{other}/{WHEEL}", index)


def test_suffix_is_added_to_the_path() -> None:
    assert beside("https://a.example/x.whl?y=/../z#sha256=0", ".metadata") == (
        "https://a.example/x.whl.metadata"
    )


_PAGES = {
    "link": "<a href='{file}'>{name}</a>",
    "base": "<base href='file:///srv/'><a href='{name}'>{name}</a>",
    "fifo": "<a href='{fifo}'>{name}</a>",
    "device": "<a href='file:///dev/zero#/{name}'>{name}</a>",
}
_JSON = (
    '{{"meta": {{"api-version": "1.0"}}, "name": "toy", "files": '
    '[{{"filename": "{name}", "url": "{file}", "hashes": {{}}}}]}}'
)
_RELEASE = '[{{"assets": [{{"name": "{name}", "browser_download_url": "{file}"}}]}}]'


@pytest.mark.parametrize("page", [*_PAGES.values(), _JSON, _RELEASE], ids=[*_PAGES, "json", "api"])
def test_page_on_server_offers_no_file_of_this_machine(
    tmp_path: Path, site: Site, page: str
) -> None:
    wheel = write_wheel(tmp_path, {"toy.py": b""}, name="toy", version="1.0", tag="py3-none-any")
    fifo = tmp_path / "fifo" / WHEEL
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    text = page.format(name=WHEEL, file=wheel.as_uri(), fifo=fifo.as_uri()).encode()
    is_json = text.startswith((b"{", b"["))
    kind = "application/vnd.pypi.simple.v1+json" if text.startswith(b"{") else "application/json"
    site.headers = {"Content-Type": kind if is_json else "text/html"}
    site.files = {"/simple/toy/": text, "/releases": text}
    address = site.url("/releases" if text.startswith(b"[") else "/simple/")

    offered = read_offers(address, "toy", Attempts())

    assert isinstance(offered, PageFault)
    assert offered.kind == "unreadable"


def test_finds_no_file_of_this_machine_on_a_server(tmp_path: Path, site: Site) -> None:
    name = "toy-1.0.tar.gz"
    (tmp_path / name).write_bytes(b"")
    links = [f"<a href='{(tmp_path / file).as_uri()}'>{file}</a>" for file in (name, WHEEL)]
    site.files = {"/simple/toy/": "".join(links).encode()}
    options: dict[str, Any] = {"indexes": [site.url("/simple/")]}

    with pytest.raises(DownloadError, match="toy"):
        find_wheels("toy", **options)
    with pytest.raises(DownloadError, match="toy"):
        find_releases("toy", **options)
    with pytest.raises(DownloadError, match="toy") as caught:
        find_sdist("toy", "1.0", "0" * 64, **options)
    assert "file:" in caught.value.why


def test_folder_offers_no_link_out_of_itself(tmp_path: Path) -> None:
    wheels, own = tmp_path / "wheels", tmp_path / "own"
    for folder in (wheels, own):
        folder.mkdir()
    wheel = write_wheel(own, {"toy.py": b""}, name="toy", version="1.0", tag="py3-none-any")
    (wheels / wheel.name).symlink_to(wheel)

    assert isinstance(read_offers(wheels.as_uri(), "toy", Attempts()), PageFault)
    assert not isinstance(read_offers(own.as_uri(), "toy", Attempts()), PageFault)


@pytest.mark.parametrize("target", ["file:///etc/hostname", "/again", "ftp://127.0.0.1/x", "//"])
def test_redirect_leads_nowhere_else(site: Site, target: str) -> None:
    site.moved = {"/again": target, "/x": target}

    assert isinstance(read_page(site.url("/x"), Attempts(), "*/*"), PageFault)


def test_page_that_is_a_fifo_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "simple" / "toy").mkdir(parents=True)
    os.mkfifo(tmp_path / "simple" / "toy" / "index.html")
    ended = threading.Event()

    def read() -> None:
        read_offers((tmp_path / "simple").as_uri(), "toy", Attempts())
        ended.set()

    threading.Thread(target=read, daemon=True).start()

    assert ended.wait(20)
