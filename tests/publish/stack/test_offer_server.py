"""The simple index on loopback that uv chooses from."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from packaging.version import Version

from cuwheel.base.fetch.indexes.offers import Offer, read_offers
from cuwheel.base.fetch.retry import Attempts
from cuwheel.publish.stack.offer_server import serving_offers

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
