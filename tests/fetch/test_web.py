"""Whom cuwheel trusts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import requests

from cuwheel.fetch.retry import Attempts
from cuwheel.fetch.web import is_lasting, open_session
from cuwheel.system import process
from tests.support.requirements import require
from tests.support.server import Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of nobody's authority for loopback, with its key, in one file."""
    require("openssl", "which certificates a download takes")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=me"
    words = [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    process.run(words, env={"PATH": os.environ["PATH"]}, cwd=folder)
    both = folder / "both.pem"
    both.write_bytes((folder / "cert").read_bytes() + (folder / "key").read_bytes())
    return both


@pytest.fixture
def url(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    with serving(Site(files={"/x": b"content"}), certificate=certificate) as site:
        yield site.url("/x")


def get(url: str) -> bytes:
    with open_session(Attempts()) as session:
        return session.get(url).content


def test_refuses_unknown_certificate_for_good(url: str) -> None:
    with pytest.raises(requests.exceptions.SSLError) as caught:
        get(url)

    assert is_lasting(caught.value)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_trusts_named_certificate(
    variable: str, url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(certificate))

    content = get(url)

    assert content == b"content"


def test_does_not_trust_store_that_requests_brings(
    url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("requests.adapters.DEFAULT_CA_BUNDLE_PATH", str(certificate))

    with pytest.raises(requests.exceptions.SSLError):
        get(url)
