from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cuwheel.errors import DownloadError, HashMismatchError, UsageError
from cuwheel.system.console import Console
from cuwheel.verify.address import fetch_published, is_address
from cuwheel.verify.published import read_published
from tests.support.published import CONTENT, DIGEST, publish
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = "x-1.0-py3-none-any.whl"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    statement = publish(tmp_path).with_name(f"{_NAME}.provenance.json").read_bytes()
    files = {f"/files/{_NAME}": CONTENT, f"/files/{_NAME}.provenance.json": statement}
    with serving(Site(files=files)) as site:
        yield site


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (_NAME, _NAME),
        (f"{_NAME}#sha256={DIGEST}", _NAME),
        (_NAME.replace("-", "%2D"), _NAME),
        (f"{_NAME}.provenance.json", f"{_NAME}.provenance.json"),
        (f"{_NAME}?token=secret", _NAME),
    ],
)
def test_fetches_both_from_the_address_of_either(
    path: str, named: str, site: Site, tmp_path: Path
) -> None:
    if "?" in path:  # a server that is asked so for each file
        site.files = {f"{name}?token=secret": one for name, one in site.files.items()}
    found = fetch_published(site.url(f"/files/{path}"), tmp_path / "fetched", Console())

    assert found.name == named
    theirs = read_published(found)
    assert (theirs.sha256, theirs.wheel) == (DIGEST, tmp_path / "fetched" / _NAME)


def test_fetches_statement_of_a_wheel_that_is_gone(site: Site, tmp_path: Path) -> None:
    del site.files[f"/files/{_NAME}"]
    address = site.url(f"/files/{_NAME}.provenance.json")

    found = fetch_published(address, tmp_path / "fetched", Console())

    assert read_published(found).wheel is None
    with pytest.raises(DownloadError):
        fetch_published(address.removesuffix(".provenance.json"), tmp_path / "f", Console())


def test_refuses_other_bytes_than_the_address_names(site: Site, tmp_path: Path) -> None:
    with pytest.raises(HashMismatchError):
        fetch_published(site.url(f"/files/{_NAME}#sha256={'0' * 64}"), tmp_path / "f", Console())


def test_wheel_without_statement_is_an_error(site: Site, tmp_path: Path) -> None:
    del site.files[f"/files/{_NAME}.provenance.json"]

    with pytest.raises(DownloadError, match=r"provenance\.json"):
        fetch_published(site.url(f"/files/{_NAME}"), tmp_path / "fetched", Console())


@pytest.mark.parametrize("path", ["/files/", "/files/x.tar.gz", "/files/..%2Fx.json"])
def test_refuses_address_of_something_else(path: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a wheel"):
        fetch_published(f"http://127.0.0.1:9{path}", tmp_path / "fetched", Console())


@pytest.mark.parametrize("name", ["..%2F..%2Fevil.whl", "%2Fetc%2Fevil.whl"])
def test_writes_nowhere_else(name: str, site: Site, tmp_path: Path) -> None:
    for path in ("/files/../../evil.whl", "/files//etc/evil.whl"):
        site.files[path] = site.files[f"{path}.provenance.json"] = CONTENT
    folder = tmp_path / "a" / "b" / "fetched"

    assert fetch_published(site.url(f"/files/{name}"), folder, Console()) == folder / "evil.whl"

    assert {path.parent for path in tmp_path.rglob("evil*")} == {folder}


def test_knows_addresses_from_files() -> None:
    assert is_address("https://example.org/x.whl")
    assert not is_address("dist/x.whl")
