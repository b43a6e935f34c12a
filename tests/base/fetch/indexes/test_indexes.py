"""Searches of indexes on real servers, and their configuration."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pypi_simple
import pytest

from cuwheel.base import limits
from cuwheel.base.errors import DownloadError, HashMismatchError, InstallError
from cuwheel.base.fetch.indexes.indexes import (
    configured_indexes,
    find_releases,
    find_sdist,
    find_wheels,
    joined_indexes,
)
from cuwheel.base.fetch.retry import RetryPolicy
from tests.support.packages.bombs import peak_of
from tests.support.servers.http import Site, serving, slow_server

SHA256 = "ab" * 32


def link(name: str, sha256: str = SHA256) -> str:
    fragment = f"#sha256={sha256}" if sha256 else ""
    return f'<a href="../../files/{name}{fragment}">{name}</a>'


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    page = link("tiny_cuda-1.0-py3-none-any.whl", "cd" * 32) + link("tiny_cuda-1.0.tar.gz")
    with serving(Site(files={"/simple/tiny-cuda/": page.encode()})) as site:
        yield site


def find(*indexes: str, version: str = "1.0", sha256: str = SHA256) -> str:
    return find_sdist("tiny-cuda", version, sha256, indexes=indexes)


@pytest.mark.parametrize("sha256", [SHA256, SHA256.upper(), ""], ids=["small", "capital", "none"])
def test_finds_sdist(sha256: str, site: Site) -> None:
    page = link("tiny_cuda-1.0-py3-none-any.whl", "cd" * 32) + link("tiny_cuda-1.0.tar.gz", sha256)
    site.files["/simple/tiny-cuda/"] = page.encode()

    assert find(site.url("/simple")) == site.url("/files/tiny_cuda-1.0.tar.gz")


def test_searches_next_index(site: Site) -> None:
    for first in (site.url("/other"), "http://nowhere.invalid/simple"):
        url = find(first, site.url("/simple"))

        assert url == site.url("/files/tiny_cuda-1.0.tar.gz")


def test_reads_index_in_folder(tmp_path: Path) -> None:
    (tmp_path / "simple" / "tiny-cuda").mkdir(parents=True)
    page = tmp_path / "simple" / "tiny-cuda" / "index.html"
    page.write_text(link("tiny_cuda-1.0.tar.gz"))

    url = find((tmp_path / "simple").as_uri())

    assert url == (tmp_path / "files" / "tiny_cuda-1.0.tar.gz").as_uri()


def test_names_other_hash_of_same_release(site: Site) -> None:
    with pytest.raises(HashMismatchError) as caught:
        find(site.url("/simple"), sha256="0" * 64)

    assert SHA256 in caught.value.why
    assert "0" * 64 in caught.value.why


def test_names_reason_of_each_index(site: Site) -> None:
    site.files["/text/tiny-cuda/"] = b"no page of an index"

    with pytest.raises(DownloadError) as caught:
        find(site.url("/simple"), site.url("/none"), site.url("/text"), version="2.0")

    assert f"{site.url('/simple')}: has tiny-cuda, but no sdist of 2.0" in caught.value.why
    assert f"{site.url('/none')}: has no tiny-cuda" in caught.value.why


def test_gives_user_and_password_to_own_host_only(site: Site) -> None:
    site.password = "Basic " + base64.b64encode(b"me:geheim").decode()
    site.files["/simple/tiny-cuda/"] = (
        f'<a href="{site.url("/mine/tiny_cuda-1.0.tar.gz")}">tiny_cuda-1.0.tar.gz</a>'
        '<a href="http://other.invalid/tiny_cuda-2.0.tar.gz">tiny_cuda-2.0.tar.gz</a>'
    ).encode()
    index = site.url("/simple", "me:geheim@")

    own, foreign = find(index), find(index, version="2.0")

    assert own == site.url("/mine/tiny_cuda-1.0.tar.gz", "me:geheim@")
    assert foreign == "http://other.invalid/tiny_cuda-2.0.tar.gz"


@pytest.mark.parametrize("version", ["2.0", "1.0"])
def test_never_shows_password(version: str, site: Site) -> None:
    indexes = (site.url("/simple", "me:geheim@"), "http://me:geheim@nowhere.invalid/simple")

    with pytest.raises((DownloadError, HashMismatchError)) as caught:
        find(*indexes, version=version, sha256="0" * 64)

    assert "geheim" not in str(caught.value)


def configure(folder: Path, name: str, text: str) -> dict[str, str]:
    """Write a user's configuration file; return the variables by which it is found."""
    path = folder / name
    path.parent.mkdir()
    path.write_text(text)
    return {"XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}


def test_default_index_is_pypi() -> None:
    assert configured_indexes({"HOME": "/nowhere"}) == (pypi_simple.PYPI_SIMPLE_ENDPOINT,)


def test_prefers_variables_to_files(tmp_path: Path) -> None:
    files = configure(tmp_path, "pip/pip.conf", "[global]\nindex-url = https://file.invalid/\n")
    environ = {
        **files,
        "PIP_INDEX_URL": "https://pip.invalid/",
        "UV_DEFAULT_INDEX": "mine=https://uv.invalid/",
        "PIP_EXTRA_INDEX_URL": "https://one.invalid/ https://two.invalid/",
    }

    indexes = configured_indexes(environ)

    assert indexes == ("https://uv.invalid/", "https://one.invalid/", "https://two.invalid/")


_CONFIGS = {
    "pip/pip.conf": "[global]\nindex-url = https://a.invalid/%20\n"
    "extra-index-url =\n    https://b.invalid/\n    https://c.invalid/\n",
    "uv/uv.toml": '[[index]]\nurl = "https://b.invalid/"\n\n[[index]]\nurl = "https://c.invalid/"\n\n'
    '[[index]]\nurl = "https://a.invalid/%20"\ndefault = true\n',
}


@pytest.mark.parametrize("name", _CONFIGS)
def test_reads_configuration(name: str, tmp_path: Path) -> None:
    indexes = configured_indexes(configure(tmp_path, name, _CONFIGS[name]))

    assert indexes == ("https://a.invalid/%20", "https://b.invalid/", "https://c.invalid/")


@pytest.mark.parametrize(
    ("name", "line", "count"),
    [
        ("pip/pip.conf", "", 3),
        ("uv/uv.toml", "", 0),
        ("uv/uv.toml", 'index-strategy = "unsafe-best-match"\n', 3),
    ],
)
def test_all_indexes_count_as_pip_or_the_setting_says(
    name: str, line: str, count: int, tmp_path: Path
) -> None:
    environ = configure(tmp_path, name, line + _CONFIGS[name])

    assert len(joined_indexes(environ)) == count


def test_gives_up_on_slow_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("cuwheel.base.fetch.retry.RETRY_POLICY", RetryPolicy(limit=1.0))

    with slow_server(0.05) as address, pytest.raises(DownloadError) as caught:
        find_wheels("tiny-cuda", indexes=[address])

    assert "sent no complete page within 1 seconds" in caught.value.why
    assert "CUWHEEL_SLOW_NETWORK=4" in caught.value.why


_ASK = """
import gzip
from cuwheel.base.errors import DownloadError
from cuwheel.base.fetch.indexes.indexes import find_wheels
from tests.support.servers.http import Site, serving
page = gzip.compress(sys.argv[1].encode() * int(sys.argv[2]), 1)
kind = {"Content-Encoding": "gzip", "Content-Type": sys.argv[3]}
with serving(Site(files={"/simple/toy/": page}, headers=kind)) as site:
    try:
        find_wheels("toy", indexes=[site.url("/simple")])
    except DownloadError as error:
        print(error.why)
"""
_JSON = "application/vnd.pypi.simple.v1+json"


@pytest.mark.parametrize(
    ("text", "times", "kind", "fault"),
    [
        ("a" * 64, 1 << 20, "text/html", "sent a page of more than 32.0 MiB"),
        ("<a>x", 1 << 20, "text/html", "more than 400,000 tags or objects"),
        ("<a b c", 1 << 15, "text/html", "a tag of more than 64.0 KiB"),
        ('{"a":1},', 1 << 20, _JSON, "more than 400,000 tags or objects"),
        ("[", 1 << 20, _JSON, "is not a simple index"),
        ('{"meta":1}', 1, _JSON, "is not a simple index"),
    ],
    ids=["large", "tags", "attributes", "objects", "deep", "other"],
)
def test_page_that_unpacks_to_more_costs_bounded_memory(
    text: str, times: int, kind: str, fault: str
) -> None:
    output, memory = peak_of(_ASK, text, str(times), kind)

    assert fault in output
    assert memory < limits.MEMORY / 2


@pytest.mark.parametrize(("config", "is_read"), [("", True), ("/dev/null", False)])
def test_reads_configuration_of_user(config: str, *, is_read: bool, tmp_path: Path) -> None:
    text = "[install]\nindex-url = https://a.invalid/\n"
    environ = configure(tmp_path, "pip/pip.conf", text)

    indexes = configured_indexes({**environ, "PIP_CONFIG_FILE": config})

    assert (indexes[0] == "https://a.invalid/") is is_read


@pytest.mark.parametrize(
    ("name", "text"),
    [("pip/pip.conf", "index-url = x"), ("uv/uv.toml", "index = ["), ("uv/uv.toml", "index = 3")],
)
def test_refuses_malformed_configuration(name: str, text: str, tmp_path: Path) -> None:
    environ = configure(tmp_path, name, text)

    with pytest.raises(InstallError, match=name):
        configured_indexes(environ)


def test_lists_releases_with_what_each_has(site: Site) -> None:
    names = ("tiny_cuda-1.10-py3-none-any.whl", "tiny_cuda-1.9.tar.gz", "tiny_cuda-2.0b1.tar.gz")
    yanked = link("tiny_cuda-3.0.tar.gz").replace("<a ", '<a data-yanked="bad" ')
    site.files["/simple/tiny-cuda/"] = ("".join(map(link, names)) + yanked).encode()

    releases = find_releases("tiny-cuda", indexes=[site.url("/simple")])

    facts = [(str(release.version), bool(release.sdist), release.is_final) for release in releases]
    assert facts == [
        ("1.9", True, True),
        ("1.10", False, True),
        ("2.0b1", True, False),
        ("3.0", True, False),
    ]


def test_unknown_project_differs_from_silent_index(site: Site) -> None:
    known, silent = site.url("/simple"), "http://nowhere.invalid/simple"

    with pytest.raises(DownloadError) as unknown:
        find_releases("other", indexes=[known])
    with pytest.raises(DownloadError) as caught:
        find_releases("other", indexes=[known, silent])

    assert (unknown.value.anchor, unknown.value.is_missing) == ("unknown-project", True)
    assert (caught.value.anchor, caught.value.is_missing) == ("download", False)
