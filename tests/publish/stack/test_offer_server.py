"""The simple index on loopback that uv chooses from."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from packaging.version import Version

from cuwheel.base.fetch.indexes.offers import Offer, read_offers
from cuwheel.base.fetch.retry import Attempts
from cuwheel.publish.stack.given_indexes import GivenIndexes
from cuwheel.publish.stack.offer_server import serving_offers
from tests.support.factories import write_wheel

OFFER = Offer(
    name="toy-1.0-py3-none-any.whl",
    url="https://user:secret@example.invalid/toy-1.0-py3-none-any.whl",
    sha256="0" * 64,
    size=7,
    index="https://example.invalid/simple/",
    version=Version("1.0"),
    is_wheel=True,
    requires_python=">=3.9",
    has_metadata=True,
)


def nothing(_: str) -> tuple[Offer, ...]:
    return ()


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_offers_what_it_got() -> None:
    with serving_offers({"toy": [OFFER]}, nothing) as index:
        [read] = read_offers(index, "toy", Attempts())

    assert isinstance(read, Offer)
    facts = ("name", "url", "sha256", "size", "requires_python", "has_metadata")
    assert [getattr(read, fact) for fact in facts] == [getattr(OFFER, fact) for fact in facts]


def test_other_users_cannot_read_it() -> None:
    """Addresses of files may hold passwords, and loopback is open to every user."""
    with serving_offers({"toy": [OFFER]}, nothing) as index:
        root = index.rsplit("/", 2)[0]
        for path in ("/", "/toy/", "/simple/toy/"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(root + path)


def test_joins_files_of_all_indexes_where_more_than_the_main_one_has_a_project(
    tmp_path: Path,
) -> None:
    """An index with a release's wheel for one Python doesn't hide those for others."""
    folders = [tmp_path / name for name in ("main", "more")]
    for folder, tag in zip(folders, ("cp314-cp314-any", "cp311-cp311-any"), strict=True):
        write_wheel(folder, {}, name="part", version="1.0", tag=tag)
    write_wheel(folders[0], {}, name="alone", version="1.0", tag="py3-none-any")
    addresses = tuple(folder.as_uri() for folder in folders)
    joined, first = GivenIndexes((), addresses), GivenIndexes(addresses)

    assert len(joined.find("part")) == 2
    assert not joined.find("alone")  # the installer reads the main index itself
    assert [offer.name for offer in first.find("part")] == ["part-1.0-cp314-cp314-any.whl"]
