"""Offers of addresses of each kind, from a real server and from folders."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from packaging.version import Version

from cuwheel.base import limits
from cuwheel.base.fetch.indexes.offers import (
    Offer,
    UnreadMetadataError,
    read_metadata,
    read_offers,
)
from cuwheel.base.fetch.retry import Attempts
from cuwheel.base.system.files import sha256_of_file
from cuwheel.build.wheelhouse.folder_index import write_index
from cuwheel.publish.index.site import SiteRequest, write_site
from tests.support.factories import write_wheel
from tests.support.packages.toy_wheel import add_wheel
from tests.support.servers.http import Site, serving

WHEEL = "toy-1.0+cu130-py3-none-any.whl"
QUOTED = WHEEL.replace("+", "%2B")
SHA256 = "ab" * 32


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        yield site


def read(address: str) -> tuple[Offer, ...] | str:
    return read_offers(address, "toy", Attempts())


def only(address: str) -> Offer:
    offers = read(address)
    assert not isinstance(offers, str), offers
    [offer] = offers
    return offer


def test_reads_index_of_json(site: Site) -> None:
    file = {
        "filename": WHEEL,
        "url": f"/f/{QUOTED}",
        "hashes": {"sha256": SHA256},
        "size": 7,
        "requires-python": ">=3.10",
        "core-metadata": {"sha256": "cd" * 32},
    }
    page = {"meta": {"api-version": "1.1"}, "name": "toy", "versions": ["1.0"], "files": [file]}
    site.files["/simple/toy/"] = json.dumps(page).encode()
    site.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}

    wheel = only(site.url("/simple/"))

    assert (wheel.size, wheel.requires_python) == (7, ">=3.10")
    assert (wheel.has_metadata, wheel.metadata_sha256) == (True, "cd" * 32)


def json_page(**fields: object) -> bytes:
    file = {"filename": WHEEL, "url": f"/f/{QUOTED}", "hashes": {}, **fields}
    return json.dumps({"meta": {"api-version": "1.0"}, "name": "toy", "files": [file]}).encode()


@pytest.mark.parametrize(
    ("stated", "sha256"),
    [("AB" * 32, SHA256), ("/tmp/x/deep", ""), ("../..", ""), ("ab" * 31, ""), ("", "")],
)
def test_ignores_malformed_hashes(stated: str, sha256: str, site: Site) -> None:
    site.files["/simple/toy/"] = json_page(hashes={"sha256": stated})
    site.files["/links.html"] = f'<a href="/f/{QUOTED}#sha256={stated}">toy</a>'.encode()
    site.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    of_index = only(site.url("/simple/"))
    site.headers = {"Content-Type": "text/html"}

    assert (of_index.sha256, only(site.url("/links.html")).sha256) == (sha256, sha256)


def test_takes_no_size_below_zero(site: Site) -> None:
    site.files["/simple/toy/"] = json_page(size=-7)
    site.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}

    assert only(site.url("/simple/")).size is None


@pytest.mark.parametrize(
    "name",
    [
        "toy-9.9+cu130-1/../../../../x-py3-none-any.whl",
        "toy-9.9-1\\x-py3-none-any.whl",
        "toy-9.9-1\n-py3-none-any.whl",
        "toy-9.9-1\x1b-py3-none-any.whl",
    ],
)
def test_passes_over_names_that_lead_elsewhere(name: str, site: Site) -> None:
    site.headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    site.files["/simple/toy/"] = json_page(filename=name)
    asset = {"name": name, "browser_download_url": "https://example.org/x"}
    site.files["/release"] = json.dumps({"assets": [asset]}).encode()
    faults = [read(site.url(path)) for path in ("/simple/", "/release")]
    site.headers = {"Content-Type": "text/html"}
    site.files["/links.html"] = f'<a href="/f/{quote(name, safe="")}">toy</a>'.encode()
    faults.append(read(site.url("/links.html")))

    assert faults == ["has no toy"] * 3


@pytest.mark.parametrize("path", ["/simple/toy/", "/find-links.html"])
def test_reads_page_that_links_wheels(path: str, site: Site) -> None:
    other = "other-1.0-py3-none-any.whl"
    page = f'<a href="/f/{QUOTED}#sha256={SHA256}">{WHEEL[:9]}…</a><a href="{other}">{other}</a>'
    site.files[path] = page.encode()

    wheel = only(site.url(path))

    assert (wheel.name, wheel.sha256, wheel.is_in_index) == (WHEEL, SHA256, False)


def test_reads_page_of_a_release(site: Site) -> None:
    page = f'<a href="/o/r/releases/download/v1/{QUOTED}"><span>toy-1.0…</span></a>'
    site.files["/o/r/releases/expanded_assets/v1"] = page.encode()

    wheel = only(site.url("/o/r/releases/tag/v1"))

    assert wheel.url == site.url(f"/o/r/releases/download/v1/{QUOTED}")


@pytest.mark.parametrize("is_list", [True, False])
def test_reads_releases_of_an_api(is_list: bool, site: Site) -> None:  # noqa: FBT001
    asset = {
        "name": WHEEL,
        "size": 7,
        "digest": f"sha256:{SHA256}",
        "browser_download_url": f"https://example.org/{QUOTED}",
    }
    release = {"assets": [asset, {**asset, "name": "notes.txt"}]}
    site.files["/repos/o/r/releases"] = json.dumps([release] if is_list else release).encode()
    site.headers = {"Content-Type": "application/json; charset=utf-8"}

    wheel = only(site.url("/repos/o/r/releases"))

    assert (wheel.name, wheel.sha256, wheel.size) == (WHEEL, SHA256, 7)


def test_follows_list_of_releases_on_its_server_alone(site: Site) -> None:
    site.files["/releases"] = b"[]"
    site.headers = {
        "Content-Type": "application/json",
        "Link": '<http://elsewhere.invalid/releases?page=2>; rel="next"',
    }

    assert read(site.url("/releases")) == "has no toy"


def test_reads_site_by_its_root(tmp_path: Path, site: Site) -> None:
    add_wheel(tmp_path / "dist", "1.0+cu130")
    public = tmp_path / "public"
    write_site(SiteRequest(folders=(tmp_path / "dist",), site=public, cache=tmp_path / "cache"))
    for path in public.rglob("*"):
        if path.is_file():
            name = f"/{path.relative_to(public)}".removesuffix("index.html")
            site.files[name] = path.read_bytes()

    served, local = only(site.url("/")), only(public.as_uri())

    assert served.sha256 == local.sha256 == sha256_of_file(public / "files" / WHEEL)
    assert served.has_metadata
    assert Path(local.url.removeprefix("file://").replace("%2B", "+")).is_file()


def test_reads_folder_with_its_index(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0+cu130")
    write_index(wheel.parent)

    assert only(wheel.parent.as_uri()).sha256 == sha256_of_file(wheel)


def test_reads_wheels_that_an_older_index_lacks(tmp_path: Path) -> None:
    dist = add_wheel(tmp_path / "dist", "1.0+cu130").parent
    write_index(dist)
    add_wheel(dist, "2.0+cu130")

    wheels = read(dist.as_uri())

    assert not isinstance(wheels, str)
    assert {str(wheel.version): bool(wheel.sha256) for wheel in wheels} == {
        "1.0+cu130": True,
        "2.0+cu130": False,
    }


def test_wheel_that_the_index_withdrew_stays_withdrawn(tmp_path: Path) -> None:
    dist = add_wheel(tmp_path / "dist", "1.0+cu130").parent
    write_index(dist)
    page = dist / "simple" / "toy" / "index.html"
    page.write_text(page.read_text().replace("<a ", '<a data-yanked="wrong results" '))

    assert only(dist.as_uri()).yanked == "wrong results"


@pytest.mark.parametrize("content", [b"[{}, 1]", b"nothing", None])
def test_reports_page_without_the_project(content: bytes | None, site: Site) -> None:
    if content:
        site.files["/page"] = content
        site.headers = {"Content-Type": "application/json"}

    assert "has no toy" in str(read(site.url("/page")))


def test_reports_busy_server(site: Site) -> None:
    site.statuses = [503] * 99

    assert "503" in str(read(site.url("/simple/")))


def test_withdraws_wheel_of_unpinned_source(tmp_path: Path) -> None:
    marked = add_wheel(tmp_path / "dist", "1.0+cu130.source.h0123456789ab")
    pinned = add_wheel(tmp_path / "dist", "1.0+cu130")

    wheels = read((tmp_path / "dist").as_uri())

    assert not isinstance(wheels, str)
    assert {wheel.name: wheel.yanked is None for wheel in wheels} == {
        marked.name: False,
        pinned.name: True,
    }


SIZE = 1 << 20  # bytes


@pytest.fixture
def wheel_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    wheel = write_wheel(tmp_path, {"a.bin": bytes(SIZE)}, requires=("torch==2.11.*",))
    with serving(Site(files={"/w.whl": wheel.read_bytes()})) as wheel_site:
        yield wheel_site


def offer(url: str, **facts: object) -> Offer:
    version = Version("1.2.3")
    return Offer(name="w.whl", url=url, index="", version=version, is_wheel=True, **facts)  # type: ignore[arg-type]


def metadata_of(wheel: Offer) -> str:
    return read_metadata(wheel, Attempts())


def test_reads_parts_of_the_wheel(wheel_site: Site) -> None:
    text = metadata_of(offer(wheel_site.url("/w.whl")))

    assert "Requires-Dist: torch==2.11.*" in text
    assert len(wheel_site.asked) == 2
    assert all(span for _, span in wheel_site.asked)


@pytest.mark.parametrize(("promised", "name"), [("", "separate"), ("other", "tiny_cuda")])
def test_reads_separate_file_with_the_right_hash(
    promised: str, name: str, wheel_site: Site
) -> None:
    wheel_site.files["/w.whl.metadata"] = b"Name: separate\n"
    sha256 = hashlib.sha256(promised.encode()).hexdigest() if promised else ""

    text = metadata_of(offer(wheel_site.url("/w.whl"), has_metadata=True, metadata_sha256=sha256))

    assert f"Name: {name}\n" in text


@pytest.mark.parametrize(
    ("behaviour", "why", "is_unusable"),
    [
        ({"knows_range": False}, "can't be read in parts", False),
        ({"statuses": [404]}, "404", True),
        ({"statuses": [410]}, "410", True),
        ({"statuses": [403]}, "403", False),
    ],
)
def test_reports_server_that_refuses(
    behaviour: dict[str, object],
    why: str,
    is_unusable: bool,  # noqa: FBT001 - an expected value
    wheel_site: Site,
) -> None:
    for name, value in behaviour.items():
        setattr(wheel_site, name, value)

    with pytest.raises(UnreadMetadataError, match=why) as caught:
        metadata_of(offer(wheel_site.url("/w.whl")))

    assert caught.value.is_unusable is is_unusable


def test_reports_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(UnreadMetadataError) as caught:
        metadata_of(offer((tmp_path / "w.whl").as_uri()))

    assert caught.value.is_unusable


@pytest.mark.parametrize("length", [0, 1, 100, SIZE])
def test_reports_damaged_wheel(length: int, wheel_site: Site) -> None:
    wheel_site.files["/w.whl"] = wheel_site.files["/w.whl"][:length]

    with pytest.raises(UnreadMetadataError, match="damaged") as caught:
        metadata_of(offer(wheel_site.url("/w.whl")))

    assert caught.value.is_unusable


def test_refuses_too_large_table_of_members(wheel_site: Site) -> None:
    content = bytearray(wheel_site.files["/w.whl"] + bytes(limits.ARCHIVE_TABLE))
    end = content.rindex(b"PK\5\6")
    record = bytes(content[end : end + 22])
    size = limits.ARCHIVE_TABLE + (1 << 16)
    content[end:] = bytes(len(content) - end)
    content += record[:12] + struct.pack("<II", size, len(content) - size) + record[20:]
    wheel_site.files["/w.whl"] = bytes(content)

    with pytest.raises(UnreadMetadataError, match="table of members"):
        metadata_of(offer(wheel_site.url("/w.whl")))
