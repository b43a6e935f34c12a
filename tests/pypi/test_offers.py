"""What addresses of each kind offer, from a real server and from folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from cuwheel.fetch.retry import Attempts
from cuwheel.index.folder_index import write_index
from cuwheel.index.site import SiteRequest, write_site
from cuwheel.pypi.offers import Offer, read_offers, with_hash
from cuwheel.system.files import sha256_of_file
from tests.support.factories import HASTY
from tests.support.server import Site, serving
from tests.support.toy_wheel import add_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

WHEEL = "toy-1.0+cu130-py3-none-any.whl"
QUOTED = WHEEL.replace("+", "%2B")
SHA256 = "ab" * 32


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(Site()) as site:
        yield site


def read(address: str) -> tuple[Offer, ...] | str:
    return read_offers(address, "toy", Attempts(HASTY))


def only(address: str) -> Offer:
    found = read(address)
    assert not isinstance(found, str), found
    [offer] = found
    return offer


def test_reads_index(site: Site) -> None:
    page = f'<a href="/f/{QUOTED}#sha256={SHA256}" data-yanked="bad">{WHEEL}</a> <a href="x">x</a>'
    site.files["/simple/toy/"] = page.encode()

    found = only(site.url("/simple/"))

    assert (found.name, found.url) == (WHEEL, site.url(f"/f/{QUOTED}"))
    assert (found.sha256, found.yanked, found.is_in_index) == (SHA256, "bad", True)


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

    found = only(site.url("/simple/"))

    assert (found.size, found.requires_python) == (7, ">=3.10")
    assert (found.has_metadata, found.metadata_sha256) == (True, "cd" * 32)


def json_page(**fields: object) -> bytes:
    file = {"filename": WHEEL, "url": f"/f/{QUOTED}", "hashes": {}, **fields}
    return json.dumps({"meta": {"api-version": "1.0"}, "name": "toy", "files": [file]}).encode()


@pytest.mark.parametrize(
    ("stated", "sha256"),
    [("AB" * 32, SHA256), ("/tmp/x/deep", ""), ("../..", ""), ("ab" * 31, ""), ("", "")],
)
def test_takes_hashes_alone_for_hashes(stated: str, sha256: str, site: Site) -> None:
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
    said = [read(site.url(path)) for path in ("/simple/", "/release")]
    site.headers = {"Content-Type": "text/html"}
    site.files["/links.html"] = f'<a href="/f/{quote(name, safe="")}">toy</a>'.encode()
    said.append(read(site.url("/links.html")))

    assert said == ["has no toy"] * 3


@pytest.mark.parametrize("path", ["/simple/toy/", "/find-links.html"])
def test_reads_page_that_links_wheels(path: str, site: Site) -> None:
    other = "other-1.0-py3-none-any.whl"
    page = f'<a href="/f/{QUOTED}#sha256={SHA256}">{WHEEL[:9]}…</a><a href="{other}">{other}</a>'
    site.files[path] = page.encode()

    found = only(site.url(path))

    assert (found.name, found.sha256, found.is_in_index) == (WHEEL, SHA256, False)


def test_reads_page_of_a_release(site: Site) -> None:
    page = f'<a href="/o/r/releases/download/v1/{QUOTED}"><span>toy-1.0…</span></a>'
    site.files["/o/r/releases/expanded_assets/v1"] = page.encode()

    found = only(site.url("/o/r/releases/tag/v1"))

    assert found.url == site.url(f"/o/r/releases/download/v1/{QUOTED}")


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

    found = only(site.url("/repos/o/r/releases"))

    assert (found.name, found.sha256, found.size) == (WHEEL, SHA256, 7)


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
    write_site(
        SiteRequest(
            folders=(tmp_path / "dist",),
            site=public,
            base_url="",
            address="",
            cache=tmp_path / "cache",
        )
    )
    for path in public.rglob("*"):
        if path.is_file():
            name = f"/{path.relative_to(public)}".removesuffix("index.html")
            site.files[name] = path.read_bytes()

    served, local = only(site.url("/")), only(public.as_uri())

    assert served.sha256 == local.sha256 == sha256_of_file(public / "files" / WHEEL)
    assert served.has_metadata
    assert Path(local.url.removeprefix("file://").replace("%2B", "+")).is_file()


def test_reads_folder_of_wheels(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0+cu130")

    found = only(wheel.parent.as_uri())

    assert found.sha256 == ""
    assert with_hash(found).sha256 == sha256_of_file(wheel)


def test_reads_folder_with_its_index(tmp_path: Path) -> None:
    wheel = add_wheel(tmp_path / "dist", "1.0+cu130")
    write_index(wheel.parent)

    assert only(wheel.parent.as_uri()).sha256 == sha256_of_file(wheel)


def test_reads_wheels_that_an_older_index_beside_them_lacks(tmp_path: Path) -> None:
    dist = add_wheel(tmp_path / "dist", "1.0+cu130").parent
    write_index(dist)
    newer = add_wheel(dist, "2.0+cu130")

    found = read(dist.as_uri())

    assert not isinstance(found, str)
    assert {str(one.version): bool(one.sha256) for one in found} == {
        "1.0+cu130": True,
        "2.0+cu130": False,
    }
    assert newer.name in {one.name for one in found}


def test_wheel_that_the_index_beside_it_withdrew_stays_withdrawn(tmp_path: Path) -> None:
    dist = add_wheel(tmp_path / "dist", "1.0+cu130").parent
    write_index(dist)
    page = dist / "simple" / "toy" / "index.html"
    page.write_text(page.read_text().replace("<a ", '<a data-yanked="wrong results" '))

    assert only(dist.as_uri()).yanked == "wrong results"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[{}, 1]", "has no toy"), (b"nothing", "has no toy"), (None, "has no toy")],
)
def test_says_why_it_has_nothing(content: bytes | None, words: str, site: Site) -> None:
    if content:
        site.files["/page"] = content
        site.headers = {"Content-Type": "application/json"}

    assert words in str(read(site.url("/page")))


def test_says_that_nobody_answers(site: Site) -> None:
    site.statuses = [503] * 99

    assert "503" in str(read(site.url("/simple/")))


def test_says_that_folder_is_not_there(tmp_path: Path) -> None:
    assert read((tmp_path / "nowhere").as_uri()) == "isn't there"
